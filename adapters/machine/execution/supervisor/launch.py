"""Start a job: the environment, the three streams, the process. A failure is a ``StartError``, and ends that job only.

The process is made by posix_spawn, which does not copy this process as fork does, and leads a session of its own.
"""

from __future__ import annotations

import errno
import os
import pwd
import signal
from collections.abc import Callable
from functools import cache
from typing import Any

from .processes import MARK, POOL

Order = dict[str, Any]  #: an activation as the pool sends it: the fields of ``Activation``, by name

# Set to the number of provisioned CPUs unless the job set them: HTCondor's STARTER_NUM_THREADS_ENV_VARS.
CPU_COUNTS = (
    "CUBACORES", "GOMAXPROCS", "JULIA_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS", "PYTHON_CPU_COUNT", "ROOT_MAX_THREADS", "TF_LOOP_PARALLEL_ITERATIONS",
    "TF_NUM_THREADS",
)  # fmt: skip
# Set to the scratch directory, whatever the job set them to.
_SCRATCH_PATHS = ("_CONDOR_SCRATCH_DIR", "APPTAINER_CACHEDIR", "SINGULARITY_CACHEDIR", "TEMP", "TMP", "TMPDIR")

# The streams by descriptor: name, how it is opened, and the field that turns truncation off.
_STREAMS = (
    ("stdin", os.O_RDONLY, None),
    ("stdout", os.O_WRONLY | os.O_CREAT, "append_stdout"),
    ("stderr", os.O_WRONLY | os.O_CREAT, "append_stderr"),
)
# A FIFO is opened without waiting for its other end (this process must not wait), a terminal without becoming ours.
_NEVER_WAIT = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

# Ignored by this process or by Python, to be as usual for a job.
_DEFAULTS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT)

# Explanations that an errno alone would not give.
_ADVICE = {
    errno.E2BIG: (
        "arguments and environment are larger than this system takes (each string 128 KiB, all together a quarter of"
        " the stack limit, 6 MiB at most): pass large data in a file"
    ),
    errno.ENOEXEC: "this is no program of this machine, and as a script it needs a first line such as #!/bin/sh",
    errno.ENXIO: "nobody reads from this FIFO",
}


class StartError(Exception):
    """A job could not be started: the part of the start, errno (0 where no call failed), and a text."""

    def __init__(self, part: str, number: int, reason: str) -> None:
        super().__init__(reason)
        self.part = part
        self.number = number
        self.reason = reason


def failure(part: str, error: OSError, what: str) -> StartError:
    number = error.errno or 0
    words = os.strerror(number)
    if number in _ADVICE:
        words = f"{words}: {_ADVICE[number]}"
    return StartError(part, number, f"{part} {what}: {words}")


def environment(order: Order, execute: str, scratch: str) -> dict[str, str]:
    """Return the job's environment: its own variables, then those of HTCondor's starter. (Manual, "Environment and
    services for a running job"; the starter of version 25.14 for what the job may set itself: the counts of CPUs and
    HOME.)"""
    return {
        **dict.fromkeys(CPU_COUNTS, str(order["cpus"])),
        "HOME": _home(),
        **order["environment"],
        **dict.fromkeys(_SCRATCH_PATHS, scratch),
        "BATCH_SYSTEM": "HTCondor",
        "_CONDOR_JOB_AD": f"{scratch}/.job.ad",
        "_CONDOR_JOB_IWD": order["iwd"],
        "_CONDOR_JOB_PIDS": "",
        "_CONDOR_MACHINE_AD": f"{scratch}/.machine.ad",
        "_CONDOR_SLOT": order["slot"].partition("@")[0],
        MARK: order["key"],
        POOL: execute,
    }


def outputs(order: Order) -> list[str]:
    """Return the paths of the job's output and error, once if both are the same, without those that are no files."""
    paths = {_path(order, order[name]) for name in ("stdout", "stderr") if order[name]}
    return sorted(path for path in paths if not path.startswith("/dev/"))


def open_streams(order: Order) -> list[int]:
    """Open stdin, stdout and stderr, and return their descriptors. Raise `StartError`, which names the stream, if one
    cannot be opened."""
    opened: list[int] = []
    paths: list[str] = []
    for name, flags, append in _STREAMS:
        path = _path(order, order[name])
        if append is not None:
            flags |= os.O_APPEND if order[append] else os.O_TRUNC
        try:
            if name == "stderr" and path == paths[1] and order["stderr"]:
                descriptor = os.dup(opened[1])
            else:
                descriptor = os.open(path, flags | _NEVER_WAIT, 0o666)
                os.set_blocking(descriptor, True)
        except OSError as error:
            close(opened)
            raise failure(name, error, path) from None
        except ValueError as error:
            close(opened)
            raise StartError(name, 0, f"{name} {path!r}: {error}") from None
        opened.append(descriptor)
        paths.append(path)
    return opened


def spawn(order: Order, variables: dict[str, str], scratch: str, streams: list[int]) -> int:
    """Start the job's process; return its pid."""
    where, part = (order["iwd"], "iwd") if order["run_in_iwd"] else (scratch, "scratch")
    program = _path(order, order["executable"])
    moves = [(os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate(streams)]
    try:
        os.chdir(where)
    except OSError as error:
        raise failure(part, error, where) from None
    except ValueError as error:
        raise StartError(part, 0, f"{part} {where!r}: {error}") from None

    def begin() -> int:
        return os.posix_spawn(
            program,
            [order["executable"], *order["arguments"]],
            variables,
            file_actions=moves,
            setsid=True,
            setsigmask=[],
            setsigdef=_DEFAULTS,
        )

    try:
        return _nicer(order["nice"], begin) if order["nice"] else begin()
    except OSError as error:
        raise failure("executable", error, program) from None
    except ValueError as error:  # a NUL in an argument or in the environment, or a '=' in a variable's name
        raise StartError("executable", 0, f"executable {program}: {error} in arguments or environment") from None
    finally:
        os.chdir("/")


def _nicer(increment: int, begin: Callable[[], int]) -> int:
    """Start a process with a higher nice value from its first instant on. A process inherits the nice value of the
    thread that makes it, and only a superuser may lower one again: so a thread is made for it."""
    from concurrent.futures import ThreadPoolExecutor  # takes longer to import than all else here: few are nice

    def begin_nicely() -> int:
        os.nice(increment)
        return begin()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(begin_nicely).result()


def close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _path(order: Order, path: str) -> str:
    return os.path.join(order["iwd"], path) if path else os.devnull


@cache
def _home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"
