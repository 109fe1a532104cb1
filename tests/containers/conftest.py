"""Runtimes for tests: docker with a server, and apptainer; each a small program that runs what it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..pool.real import Folder

HERE = Path(__file__).parent
CONF = f"""
DOCKER = {HERE}/docker
SINGULARITY = {HERE}/apptainer
DOCKER_NETWORKS = mine
MOUNT_UNDER_SCRATCH = "/scratch"
POLLING_INTERVAL = 1
NEGOTIATOR_INTERVAL = 1
RUNBENCHMARKS = false
NUM_CPUS = 6
MEMORY = 2048
UPDATE_INTERVAL = 1
"""


def image(folder: Path, **files: str) -> Path:
    """An image: a directory with files that a container finds at its root."""
    folder.mkdir(parents=True)
    for name, text in {"name": folder.name, "release": f"this is {folder.name}\n", **files}.items():
        (folder / name).write_text(text)
    return folder


class Machine(Folder):
    """A folder with a pool in it, on a machine with both runtimes."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.docker = path / "docker"
        self.server: subprocess.Popen[bytes] | None = None

    def begin_docker(self) -> None:
        self.docker.mkdir(exist_ok=True)
        (self.docker / "docker.sock").unlink(missing_ok=True)
        words = [sys.executable, "-I", "-S", str(HERE / "docker_server.py"), str(self.docker)]
        self.server = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        self.wait_for(lambda: (self.docker / "docker.sock").exists())

    def containers(self) -> list[str]:
        """The programs that run in docker's containers now."""
        assert self.server is not None
        children = Path(f"/proc/{self.server.pid}/task").glob("*/children")
        pids = [pid for file in children for pid in file.read_text().split()]
        found = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in pids]
        return [state for state in found if state != "Z"]

    def attribute(self, job: str, name: str) -> str:
        """An attribute of a job, in the queue or in the history."""
        return (self.call("q", job, "-af", name) or self.call("history", job, "-af", name)).strip()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    found = Machine(tmp_path)
    found.write("pool.conf", CONF)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{found.docker}/docker.sock")
    found.begin_docker()
    try:
        yield found
    finally:
        found.kill_everything()
        if found.server is not None:
            os.kill(found.server.pid, signal.SIGKILL)
            found.server.wait()
