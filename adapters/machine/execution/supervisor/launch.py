"""Start a job: the environment, the three streams, the process. A failure is a ``StartError``, and ends that job only.

The process is made by posix_spawn, which does not copy this process as fork does, and leads a session of its own. One
that runs as another user is forked, and becomes that user before anything of the job is touched.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import resource
import select
import signal
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from . import rights
from .processes import MARK, POOL
from .rights import UserIds

Order = dict[str, Any]  #: an activation as the pool sends it: the fields of ``Activation``, by name

# Set to the scratch directory, whatever the job set them to.
_SCRATCH_PATHS = ("_CONDOR_SCRATCH_DIR", "APPTAINER_CACHEDIR", "SINGULARITY_CACHEDIR", "TEMP", "TMP", "TMPDIR")

_SCRATCH = "#CoNdOrScRaTcHdIr#"  #: stands for it in a variable: $$(CondorScratchDir) becomes that

# The streams by descriptor: name, how it is opened, and the field that turns truncation off.
_STREAMS = (
    ("stdin", os.O_RDONLY, None),
    ("stdout", os.O_WRONLY | os.O_CREAT, "append_stdout"),
    ("stderr", os.O_WRONLY | os.O_CREAT, "append_stderr"),
)
# A FIFO is opened without waiting for its other end (this process must not wait), a terminal without becoming ours.
_NEVER_WAIT = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

# Whoever started the pool may have had any of the signals ignored (as ``nohup`` and a shell's ``&`` do), and Python
# ignores two: for a job they all are as usual.
_DEFAULTS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})

# What a start lacks through no fault of the job: descriptors, memory, processes. And what a disk refuses that is full
# or failing: of a job's own outputs it counts where they are on the disk of the scratch directories. A full quota
# (EDQUOT) is the user's own.
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
_DISK = frozenset({errno.ENOSPC, errno.EIO, errno.EROFS})
_OF_THE_MACHINE = frozenset({"claim", "scratch"})

_PATIENCE_S = 0.25  #: how long it is waited for a process to begin, while all other jobs wait

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
    """A job could not be started: the part of the start, errno (0 where no call failed), a text, and whether the fault
    is the machine's: then it may be started when that has passed."""

    def __init__(self, part: str, number: int, reason: str, machine: bool = False) -> None:
        super().__init__(reason)
        self.part = part
        self.number = number
        self.reason = reason
        self.machine = machine


def failure(part: str, error: OSError, what: str, machines_disk: bool = False) -> StartError:
    """Return what became of a start. ``machines_disk``: what failed was on the machine's disk, as claims and scratch
    directories always are."""
    number = error.errno or 0
    disk = machines_disk or part in _OF_THE_MACHINE
    words = os.strerror(number)
    if number in _ADVICE:
        words = f"{words}: {_ADVICE[number]}"
    return StartError(part, number, f"{part} {what}: {words}", number in _SCARCE or (disk and number in _DISK))


def environment(order: Order, execute: str, scratch: str) -> dict[str, str]:
    """Return the job's environment: its own variables, then those of HTCondor's starter. (Manual, "Environment and
    services for a running job"; the starter of version 25.14 for what the job may set itself: the counts of CPUs.)"""
    account, own = order.get("account"), order["environment"]
    entered = not (account and order["attended"])  # what is no job of the user's has no scratch directory of its own
    variables = {
        **order["inherited"],
        **own,
        **({"HOME": account["home"] if account else _home()} if order["sets_home"] else {}),
        **_counts(order),
        **order["added"],
        **(dict.fromkeys(_SCRATCH_PATHS, scratch) if entered else {}),
        "BATCH_SYSTEM": "HTCondor",
        "_CONDOR_JOB_AD": f"{scratch}/.job.ad",
        **({"_CONDOR_CHIRP_CONFIG": f"{scratch}/.chirp.config"} if order.get("chirp") else {}),
        "_CONDOR_JOB_IWD": order["iwd"],
        "_CONDOR_JOB_PIDS": "",
        "_CONDOR_MACHINE_AD": f"{scratch}/.machine.ad",
        "_CONDOR_SLOT": order["slot"].partition("@")[0],
        MARK: order["key"],
        POOL: execute,
    }
    return {name: text.replace(_SCRATCH, scratch) for name, text in variables.items()}


def _counts(order: Order) -> dict[str, str]:
    """Return the variables that are the number of cores. One that the job sets stands, and so do those behind it in
    the list, up to the next that the job sets to nothing: the starter means to ask each for itself, and does not."""
    found, seen = {}, ""
    for name in order["counts"]:
        seen = order["environment"].get(name, seen)
        if not seen:
            found[name] = str(order["cpus"])
    return found


def outputs(order: Order, kept: bool = False) -> list[str]:
    """Return the paths of the job's output and error, once if both are the same, without those that are no files.
    ``kept``: only those that are not emptied first."""
    names = [name for name in ("stdout", "stderr") if order[name] and (order[f"append_{name}"] or not kept)]
    paths = {_path(order, order[name]) for name in names}
    return sorted(path for path in paths if not path.startswith("/dev/"))


def open_streams(order: Order, scratch: str) -> list[int]:
    """Open stdin, stdout and stderr, and return their descriptors. Raise `StartError`, which names the stream, if one
    cannot be opened. Each is opened with the rights of the user that the job runs as; one that is streamed to where it
    was submitted, of the user whose files are there."""
    own, owners = rights.of(order.get("account")), rights.of(order.get("files"))
    streamed = (order.get("transfer") or {}).get("streamed", ())
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
                with rights.acting(owners if name in streamed else own):
                    descriptor = os.open(path, flags | _NEVER_WAIT, 0o666)
                os.set_blocking(descriptor, True)
        except OSError as error:
            close(opened)
            failed = failure(name, error, path, _on_one_disk(os.path.dirname(path), scratch))
            raise _not_streamed(failed, path, error) if name in streamed else failed from None
        except ValueError as error:
            close(opened)
            raise StartError(name, 0, f"{name} {path!r}: {error}") from None
        opened.append(descriptor)
        paths.append(path)
    return opened


def _not_streamed(failed: StartError, path: str, error: OSError) -> StartError:
    """Return what became of a start whose output is streamed to where it was submitted; there it has no errno."""
    words = f"unable to establish standard {_SAID[failed.part]} stream ({path}: {error.strerror})"
    return StartError(f"{failed.part}_stream", 0, words, failed.machine)


_SAID = {"stdout": "output", "stderr": "error"}


def spawn(order: Order, variables: dict[str, str], scratch: str, streams: list[int]) -> int:
    """Start the job's process; return its pid."""
    program = _path(order, order["executable"])
    moves = [(os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate(streams)]
    _enter(order, scratch)

    def started() -> int:
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
        with limits_of_children(order):
            return _nicer(order["nice"], started) if order["nice"] else started()
    except (OSError, ValueError) as error:
        raise _not_executed(program, error) from None
    finally:
        os.chdir("/")


def begin_as(account: UserIds, order: Order, scratch: str, execute: str) -> tuple[int, int]:
    """Start a job's own process as another user, which posix_spawn(3) cannot do; return its pid. All that it needs is
    opened, entered and executed with that user's rights, in the new process. Raise `StartError`. Users have file
    systems that answer when these users want: of a process that takes longer, the descriptor is returned, too, from
    which ``read_start_reply`` reads when it has ended what became of it (else -1)."""
    said, tell = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
    except OSError as error:
        os.close(said)
        os.close(tell)
        raise failure("executable", error, order["executable"]) from None
    if not pid:
        try:
            _become_job(account, order, scratch, execute)
        except StartError as error:
            os.write(tell, json.dumps([error.part, error.number, error.reason, error.machine]).encode())
        except BaseException as error:
            os.write(tell, json.dumps(["executable", 0, f"{type(error).__name__}: {error}"]).encode())
        finally:
            os._exit(127)
    os.close(tell)
    if not select.select([said], [], [], _PATIENCE_S)[0]:
        return pid, said
    try:
        read_start_reply(said)
    except StartError:
        os.waitpid(pid, 0)
        raise
    return pid, -1


def read_start_reply(said: int) -> None:
    """Read what a process of `begin_as` said before it executed its program, or ended. Raise `StartError`."""
    with open(said, "rb") as file:
        failed = file.read()
    if failed:
        raise StartError(*json.loads(failed))


def _become_job(account: UserIds, order: Order, scratch: str, execute: str) -> None:
    """Be a job's own process. Raise `StartError`."""
    program = _path(order, order["executable"])
    signal.set_wakeup_fd(-1)
    os.setsid()
    os.nice(order["nice"])
    take_limits(order)
    os.umask(rights.MASK)
    streams = open_streams(order, scratch)
    try:
        rights.become(account)
    except OSError as error:
        raise failure("executable", error, f"as the user with number {account.uid}") from None
    _enter(order, scratch)
    if not order["attended"]:
        check_scratch(scratch)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for number in _DEFAULTS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    try:
        os.execve(program, [order["executable"], *order["arguments"]], environment(order, execute, scratch))
    except (OSError, ValueError) as error:
        failed = _not_executed(program, error)
        failed.machine = failed.machine and failed.number != errno.EAGAIN  # it is the user that has too many processes
        raise failed from None


def _enter(order: Order, scratch: str) -> None:
    """Be in the directory where the job runs. Raise `StartError`."""
    where, part = (order["iwd"], "iwd") if order["run_in_iwd"] else (scratch, "scratch")
    try:
        os.chdir(where)
    except OSError as error:
        raise failure(part, error, where) from None
    except ValueError as error:
        raise StartError(part, 0, f"{part} {where!r}: {error}") from None


def check_scratch(scratch: str) -> None:
    """Raise `StartError` if this process's user cannot reach the scratch directory."""
    try:
        os.stat(f"{scratch}/")
    except OSError as error:
        way_out = "its user may not go through the directories above it; EXECUTE names a directory where all users may"
        raise failure("scratch", error, f"{scratch} ({way_out})") from None


def _not_executed(program: str, error: OSError | ValueError) -> StartError:
    if isinstance(error, OSError):
        return failure("executable", error, program)
    # a NUL in an argument or in the environment, or a '=' in a variable's name
    return StartError("executable", 0, f"executable {program}: {error} in arguments or environment")


def _nicer(increment: int, begin: Callable[[], int]) -> int:
    """Start a process with a higher nice value from its first instant on. A process inherits the nice value of the
    thread that makes it, and only a superuser may lower one again: so a thread is made for it."""
    from concurrent.futures import ThreadPoolExecutor  # takes longer to import than all else here: few are nice

    def begin_nicely() -> int:
        os.nice(increment)
        return begin()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(begin_nicely).result()


def check_iwd(order: Order) -> None:
    """Raise `StartError` if a job's initial directory is not there, although it is to run elsewhere."""
    try:
        with rights.acting(rights.of(order.get("files"))):
            os.stat(f"{order['iwd']}/")
    except OSError as error:
        raise failure("iwd", error, order["iwd"]) from None


def close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _on_one_disk(folder: str, other: str) -> bool:
    try:
        return os.stat(folder).st_dev == os.stat(other).st_dev
    except OSError:
        return False


def _path(order: Order, path: str) -> str:
    return os.path.join(order["iwd"], path) if path else os.devnull


@cache
def _home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


# How much of the machine a job's processes may use, as the reference's starter lets them: as large a stack and as large
# core files as the job says; else, and of CPU time, data and files, as much as the supervisor's hard limits allow.
# Source: sysapi_set_resource_limits (resource_limits.cpp) and OsProc::StartJob of the reference.

_UNBOUNDED = (resource.RLIMIT_STACK, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_DATA)
_core: int | None = None  #: the size of core files that was asked for last


def take_limits(order: dict[str, Any]) -> None:
    """Give this process, which becomes the job's, its limits."""
    for which in _UNBOUNDED:
        _soften(which, 0)
    core = order.get("core_bytes", 0)
    resource.setrlimit(resource.RLIMIT_CORE, (core, core) if core >= 0 else (resource.RLIM_INFINITY,) * 2)
    _soften(resource.RLIMIT_STACK, order.get("stack_bytes", 0))


@contextlib.contextmanager
def limits_of_children(order: dict[str, Any]) -> Iterator[None]:
    """Let the processes that are made meanwhile have the job's limits, which children inherit. What this process itself
    may use follows; it is asked for only where it changes. A stack that the job wants smaller is given back at once."""
    global _core
    if _core is None:
        for which in _UNBOUNDED:
            _soften(which, 0)
    core, stack = order.get("core_bytes", 0), order.get("stack_bytes", 0)
    if core != _core:
        _soften(resource.RLIMIT_CORE, core, bounded=True)
        _core = core
    if stack <= 0:
        yield
        return
    _soften(resource.RLIMIT_STACK, stack)
    try:
        yield
    finally:
        _soften(resource.RLIMIT_STACK, 0)


def _soften(which: int, wanted: int, bounded: bool = False) -> None:
    """Set a soft limit, at most to the hard one; 0, unless it is ``bounded``, and below: to that."""
    soft, hard = resource.getrlimit(which)
    unlimited = wanted < 0 or (wanted == 0 and not bounded)
    most = hard if unlimited or (hard != resource.RLIM_INFINITY and wanted > hard) else wanted
    if most != soft:
        resource.setrlimit(which, (most, hard))
