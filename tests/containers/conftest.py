"""Container runtimes for tests: small programs that replace docker, with a server, and apptainer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ..execution.bench import state
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
    """Create an image: a directory with the files in a container's root."""
    folder.mkdir(parents=True)
    for name, text in {"name": folder.name, "release": f"this is {folder.name}\n", **files}.items():
        (folder / name).write_text(text)
    return folder


class Machine(Folder):
    """A folder with a pool, on a machine with both container runtimes."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.docker = path / "docker"
        self.server: subprocess.Popen[bytes] | None = None

    def start_docker(self) -> None:
        self.docker.mkdir(exist_ok=True)
        (self.docker / "docker.sock").unlink(missing_ok=True)
        command = [sys.executable, "-I", "-S", str(HERE / "docker_server.py"), str(self.docker)]
        self.server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.wait_for(lambda: (self.docker / "docker.sock").exists())

    def containers(self) -> list[str]:
        """Return the process states of the programs in docker's containers."""
        assert self.server is not None
        pids: list[str] = []
        for file in Path(f"/proc/{self.server.pid}/task").glob("*/children"):
            with suppress(OSError):  # the thread has ended
                pids += file.read_text().split()
        return [letter for pid in pids if (letter := state(int(pid))) not in ("", "Z")]

    def attribute(self, job: str, name: str) -> str:
        """Return an attribute of a job, from the queue or the history."""
        return (self.call("q", job, "-af", name) or self.call("history", job, "-af", name)).strip()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    machine.write("pool.conf", CONF)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{machine.docker}/docker.sock")
    machine.start_docker()
    try:
        yield machine
    finally:
        machine.kill_everything()
        if machine.server is not None:
            os.kill(machine.server.pid, signal.SIGKILL)
            machine.server.wait()
