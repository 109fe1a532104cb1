"""Run tests on a fault, on a machine that may be busy: a run is ended by its CPU time, not by the clock."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from .faults import ROOT, Fault

WITHOUT_PROGRESS = 90.0  #: seconds in which a run that uses no CPU is one that does not end
LEAST_CPU = 0.2  #: seconds of CPU in that time: less is none
MOST_CPU = 15.0  #: seconds of CPU that a run may use beside what its tests took, when they were measured
MOST_MEMORY = 3 << 30  #: bytes that a process of a run may use
_USAGE = 4  # pytest's exit code where it was called wrongly
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # see prctl(2)
UNSTEADY = ("tests/pool", "tests/execution", "tests/stores/test_processes", "tests/tools", "tests/front")
"""Tests with processes of their own: on a busy machine they count where they fail twice."""


def adopt() -> None:
    """Be the parent of all processes that runs leave behind, so that they can be ended."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def tree(name: str, work: Path) -> Path:
    """Return a copy of the sources for one worker."""
    place = work / f"tree-{name}"
    shutil.rmtree(place, ignore_errors=True)
    leave = shutil.ignore_patterns(".git", ".venv", "build", ".mypy_cache", ".ruff_cache", ".hypothesis", "tree-*")
    shutil.copytree(ROOT, place, symlinks=True, ignore=leave)
    return place


def noticed(fault: Fault, place: Path, tests: list[str], seconds: float) -> str:
    """Return how the tests notice the fault; empty if they do not. `seconds` is how long they took without it."""
    target = place / fault.path
    original, kept = target.read_bytes(), target.stat()
    target.write_bytes(fault.planted(original))
    try:
        said = _failure(place, tests, seconds)
        if said.startswith(tuple(f"FAILED {some}" for some in UNSTEADY)):
            said = _failure(place, [said.removeprefix("FAILED ").partition("[")[0]], seconds)
            return said or _failure(place, tests, seconds)
        return said
    finally:
        target.write_bytes(original)
        os.utime(target, ns=(kept.st_atime_ns, kept.st_mtime_ns))  # its bytecode is up to date again


def _failure(place: Path, tests: list[str], seconds: float) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{place}/.path:{place}", "PYTHONDONTWRITEBYTECODE": "1"}
    words = [
        sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist",
        "-p", "tests.mutants.without_shrinking", "--hypothesis-seed=1", *tests,
    ]  # fmt: skip
    with (place / "said").open("w+") as output:
        process = subprocess.Popen(
            words, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True, preexec_fn=_limit,
        )  # fmt: skip
        try:
            if not _ends(process, MOST_CPU + seconds):
                return "the tests do not end"
        finally:
            process.kill()
            process.wait()
            end_all()
        output.seek(0)
        said = output.read()
    if process.returncode == _USAGE:
        raise RuntimeError(f"these tests cannot be run: {said}")
    return _first_failure(said) if process.returncode else ""


def _limit() -> None:
    """A fault may have a process use whatever there is; and no run outlives who began it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def _ends(process: subprocess.Popen[bytes], most: float) -> bool:
    """Wait for a run's end; False if it does not come."""
    used, since = 0.0, time.monotonic()
    while process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
            break
        now = used_cpu(process.pid)
        if now > most:
            return False
        if now > used + LEAST_CPU:
            used, since = now, time.monotonic()
        elif time.monotonic() > since + WITHOUT_PROGRESS:
            return False
    return True


def used_cpu(pid: int) -> float:
    """Return the seconds of CPU that a process and all its descendants have used."""
    found = 0.0
    with suppress(psutil.Error):
        for one in (root := psutil.Process(pid), *root.children(recursive=True)):
            with suppress(psutil.Error):
                found += sum(one.cpu_times()[:4])
    return found


def end_all() -> None:
    """End whatever runs have left behind: all descendants of this process, which runs nothing else."""
    for _ in range(20):
        found = psutil.Process().children(recursive=True)
        if not found:
            return
        for one in found:
            with suppress(psutil.Error):
                one.kill()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.05)


def _first_failure(said: str) -> str:
    for line in said.splitlines():
        if line.startswith(("FAILED", "ERROR")):
            return line.split(" - ")[0]
    return said.strip().splitlines()[-1] if said.strip() else "the tests do not begin"
