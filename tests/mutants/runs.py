"""Run tests on a fault. Time limits are CPU time, because the machine may be busy."""

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

IDLE_LIMIT = 90.0  #: seconds after which a run that uses no CPU counts as endless
MIN_PROGRESS_CPU = 0.2  #: CPU seconds that count as progress
EXTRA_CPU = 15.0  #: CPU seconds that a run may use beyond the measured time of its tests
MAX_MEMORY = 3 << 30  #: bytes that a process of a run may use
_USAGE_ERROR = 4  # an exit code of pytest
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # see prctl(2)
UNSTEADY = ("tests/pool", "tests/execution", "tests/stores/test_processes", "tests/tools", "tests/front")
"""Tests that start processes. Because the machine may be busy, their failure counts only if it happens twice."""


def become_subreaper() -> None:
    """Become the parent of all processes that runs leave behind, to be able to kill them."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def tree(name: str, work: Path) -> Path:
    """Copy the sources for one worker and return the folder."""
    tree_path = work / f"tree-{name}"
    shutil.rmtree(tree_path, ignore_errors=True)
    leave = shutil.ignore_patterns(".git", ".venv", "build", ".mypy_cache", ".ruff_cache", ".hypothesis", "tree-*")
    shutil.copytree(ROOT, tree_path, symlinks=True, ignore=leave)
    return tree_path


def find_failure(fault: Fault, tree_path: Path, tests: list[str], seconds: float) -> str:
    """Return the first failure with the fault, or "" if all tests pass. `seconds` is their time without the fault."""
    target = tree_path / fault.path
    original, status = target.read_bytes(), target.stat()
    target.write_bytes(fault.planted(original))
    try:
        failure = _failure(tree_path, tests, seconds)
        if failure.startswith(tuple(f"FAILED {prefix}" for prefix in UNSTEADY)):
            failure = _failure(tree_path, [failure.removeprefix("FAILED ").partition("[")[0]], seconds)
            return failure or _failure(tree_path, tests, seconds)
        return failure
    finally:
        target.write_bytes(original)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))  # the bytecode is current again


def _failure(tree_path: Path, tests: list[str], seconds: float) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{tree_path}/.path:{tree_path}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist",
        "-p", "tests.mutants.without_shrinking", "--hypothesis-seed=1", *tests,
    ]  # fmt: skip
    with (tree_path / "output").open("w+") as output:
        process = subprocess.Popen(
            command, cwd=tree_path, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True, preexec_fn=_limit,
        )  # fmt: skip
        try:
            if not _wait_for_end(process, EXTRA_CPU + seconds):
                return "the tests do not end"
        finally:
            process.kill()
            process.wait()
            kill_descendants()
        output.seek(0)
        text = output.read()
    if process.returncode == _USAGE_ERROR:
        raise RuntimeError(f"these tests cannot be run: {text}")
    return _first_failure(text) if process.returncode else ""


def _limit() -> None:
    """Limit memory, which a fault could exhaust, and let the run end with its parent."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))


def _wait_for_end(process: subprocess.Popen[bytes], max_cpu: float) -> bool:
    """Wait for the end of a run; return False if it exceeds a limit."""
    last_cpu, last_progress = 0.0, time.monotonic()
    while process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
            break
        cpu = used_cpu(process.pid)
        if cpu > max_cpu:
            return False
        if cpu > last_cpu + MIN_PROGRESS_CPU:
            last_cpu, last_progress = cpu, time.monotonic()
        elif time.monotonic() > last_progress + IDLE_LIMIT:
            return False
    return True


def used_cpu(pid: int) -> float:
    """Return the CPU seconds that a process and all its descendants have used."""
    seconds = 0.0
    with suppress(psutil.Error):
        for process in (root := psutil.Process(pid), *root.children(recursive=True)):
            with suppress(psutil.Error):
                seconds += sum(process.cpu_times()[:4])
    return seconds


def kill_descendants() -> None:
    """Kill all descendants of this process, which are left from runs."""
    for _ in range(20):
        descendants = psutil.Process().children(recursive=True)
        if not descendants:
            return
        for process in descendants:
            with suppress(psutil.Error):
                process.kill()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.05)


def _first_failure(output: str) -> str:
    for line in output.splitlines():
        if line.startswith(("FAILED", "ERROR")):
            return line.split(" - ")[0]
    return output.strip().splitlines()[-1] if output.strip() else "the tests do not start"
