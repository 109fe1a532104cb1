"""Start a job: the environment, the three streams, the process. A failure raises a ``StartError``, and affects only
that job.

The process leads its own session. It is created with posix_spawn, which does not copy this process as fork does. A
process that runs as another user is forked instead, and becomes that user before it accesses any of the job's files.
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

_SCRATCH = "#CoNdOrScRaTcHdIr#"  #: its placeholder in a variable, the value of $$(CondorScratchDir)

# The streams by descriptor: name, open flags, and the field that disables truncation.
_STREAMS = (
    ("stdin", os.O_RDONLY, None),
    ("stdout", os.O_WRONLY | os.O_CREAT, "append_stdout"),
    ("stderr", os.O_WRONLY | os.O_CREAT, "append_stderr"),
)
NULL = 0  #: the descriptor of /dev/null that jobs share: the supervisor's standard input
NULL_LAST = (2, 1, 0)  #: the order in which a job's process replaces its streams
# Don't wait for the other end of a FIFO (this process must not block), and don't make a terminal ours.
_NEVER_WAIT = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


# The process that started the pool may have ignored any signal (as ``nohup`` and a shell's ``&`` do), and Python
# ignores two. Reset them all for a job.
@cache
def _changed_signals() -> list[int]:
    """Return the signals that this process ignores or handles; a job's process needs a system call for each."""
    return [number for number in signal.valid_signals() if signal.getsignal(number) != signal.SIG_DFL]


# Failures that are not the job's fault: no descriptors, memory or processes are left, or a disk is full or failing. For
# a job's own outputs, a disk counts only if it also has the scratch directories. A full quota (EDQUOT) is the user's.
_NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
_DISK = frozenset({errno.ENOSPC, errno.EIO, errno.EROFS})
_OF_THE_MACHINE = frozenset({"claim", "scratch"})

_PATIENCE_S = 0.25  #: how long to wait for a process to start, while all other jobs wait

# Explanations that an errno alone does not give.
_ADVICE = {
    errno.E2BIG: (
        "arguments and environment are larger than this system takes (each string 128 KiB, all together a quarter of"
        " the stack limit, 6 MiB at most): pass large data in a file"
    ),
    errno.ENOEXEC: "this machine cannot execute it; a script needs a first line such as #!/bin/sh",
    errno.ENXIO: "no process reads from this FIFO",
}


class StartError(Exception):
    """A job could not be started: the part of the start, errno (0 if no call failed), a text, and whether the machine
    is the cause: then it can be tried again later."""

    def __init__(self, part: str, number: int, reason: str, machine: bool = False) -> None:
        super().__init__(reason)
        self.part = part
        self.number = number
        self.reason = reason
        self.machine = machine


def failure(part: str, error: OSError, what: str, machines_disk: bool = False) -> StartError:
    """Return the error for a failed start. With ``machines_disk``, the path that failed is on the machine's disk, as
    claims and scratch directories always are."""
    number = error.errno or 0
    disk = machines_disk or part in _OF_THE_MACHINE
    reason = os.strerror(number)
    if number in _ADVICE:
        reason = f"{reason}: {_ADVICE[number]}"
    return StartError(part, number, f"{part} {what}: {reason}", number in _NO_RESOURCES or (disk and number in _DISK))


def environment(order: Order, execute: str, scratch: str) -> dict[str, str]:
    """Return the job's environment: its own variables, then the starter's. (Manual, "Environment and
    services for a running job"; the starter of version 25.14 for the CPU counts, which the job may set.)"""
    account, own_variables = order.get("account"), order["environment"]
    in_scratch = not (account and order["attended"])  # a user's helper process has no scratch directory
    variables = {
        **order["inherited"],
        **own_variables,
        **({"HOME": account["home"] if account else _home()} if order["sets_home"] else {}),
        **_counts(order),
        **order["added"],
        **(dict.fromkeys(_SCRATCH_PATHS, scratch) if in_scratch else {}),
        "BATCH_SYSTEM": "HTCondor",
        "_CONDOR_JOB_AD": f"{scratch}/.job.ad",
        **({"_CONDOR_CHIRP_CONFIG": f"{scratch}/.chirp.config"} if order.get("chirp") else {}),
        **({"_CONDOR_WRAPPER_ERROR_FILE": f"{scratch}/.job_wrapper_failure"} if order.get("wrapper") else {}),
        "_CONDOR_JOB_IWD": os.path.join(order["iwd"], order["remote_iwd"]) if order.get("remote_iwd") else order["iwd"],
        "_CONDOR_JOB_PIDS": "",
        "_CONDOR_MACHINE_AD": f"{scratch}/.machine.ad",
        "_CONDOR_SLOT": order["slot"].partition("@")[0],
        MARK: order["key"],
        POOL: execute,
    }
    return {name: text.replace(_SCRATCH, scratch) for name, text in variables.items()}


def _counts(order: Order) -> dict[str, str]:
    """Return the variables set to the number of cores. Skip a variable that the job sets, and all later ones in the
    list up to the next variable that the job sets to an empty value. This imitates a bug of the starter, which is meant
    to check each variable separately."""
    counts, seen_name = {}, ""
    for name in order["counts"]:
        seen_name = order["environment"].get(name, seen_name)
        if not seen_name:
            counts[name] = str(order["cpus"])
    return counts


def outputs(order: Order, must_append: bool = False) -> list[str]:
    """Return the paths of the job's output and error, once if both are the same, without devices. ``must_append``: only
    files that are not truncated first."""
    names = [name for name in ("stdout", "stderr") if order[name] and (order[f"append_{name}"] or not must_append)]
    paths = {_path(order, order[name]) for name in names}
    return sorted(path for path in paths if not path.startswith("/dev/"))


def open_streams(order: Order, scratch: str) -> list[int]:
    """Open stdin, stdout and stderr, and return their descriptors. Raise `StartError`, which names the stream, if that
    fails. Open each with the rights of the user that the job runs as; open one that is streamed to where the job was
    submitted with the rights of the files' owner."""
    own_rights, owners = rights.ids_of_account(order.get("account")), rights.ids_of_account(order.get("files"))
    streamed_names = () if order.get("access_point") else (order.get("transfer") or {}).get("streamed", ())
    open_files: list[int] = []
    paths: list[str] = []
    for name, flags, append in _STREAMS:
        path = _path(order, order[name])
        if append is not None:
            flags |= os.O_APPEND if order[append] else os.O_TRUNC
        try:
            if path == os.devnull:
                descriptor = NULL
            elif name == "stderr" and path == paths[1]:
                descriptor = os.dup(open_files[1])
            else:
                with rights.acting_as(owners if name in streamed_names else own_rights):
                    descriptor = os.open(path, flags | _NEVER_WAIT, 0o666)
                os.set_blocking(descriptor, True)
        except OSError as error:
            close(open_files)
            stream_failure = failure(name, error, path, _on_one_disk(os.path.dirname(path), scratch))
            raise _stream_error(stream_failure, path, error) if name in streamed_names else stream_failure from None
        except ValueError as error:
            close(open_files)
            raise StartError(name, 0, f"{name} {path!r}: {error}") from None
        open_files.append(descriptor)
        paths.append(path)
    return open_files


def _stream_error(stream_failure: StartError, path: str, error: OSError) -> StartError:
    """Return the error of a start whose output is streamed to where it was submitted; like HTCondor's, without
    errno."""
    reason = f"unable to establish standard {_STREAM_NAMES[stream_failure.part]} stream ({path}: {error.strerror})"
    return StartError(f"{stream_failure.part}_stream", 0, reason, stream_failure.machine)


_STREAM_NAMES = {"stdout": "output", "stderr": "error"}


def command_line(order: Order, command: list[str]) -> list[str]:
    """Return the program to execute and its arguments: the command, or the wrapper with the command as arguments."""
    return [order["wrapper"], *command] if order.get("wrapper") else command


def working_directory(order: Order, scratch: str) -> str:
    """Return the directory in which the job runs."""
    directory: str = order["iwd"] if order["run_in_iwd"] else scratch
    remote = order.get("remote_iwd")
    return os.path.join(directory, remote) if remote else directory


def _own_command(order: Order) -> tuple[str, list[str]]:
    """Return the program to execute and its argument list, for a job without a container."""
    program = _path(order, os.path.join(order.get("remote_iwd", ""), order["executable"]))
    argv = command_line(order, [program if order.get("wrapper") else order["executable"], *order["arguments"]])
    return order.get("wrapper") or program, argv


def spawn(order: Order, variables: dict[str, str], scratch: str, streams: list[int]) -> int:
    """Start the job's process; return its pid."""
    program, argv = _own_command(order)
    file_actions = [(os.POSIX_SPAWN_DUP2, streams[number], number) for number in NULL_LAST]
    _enter(order, scratch)

    def started() -> int:
        return os.posix_spawn(
            program,
            argv,
            variables,
            file_actions=file_actions,
            setsid=True,
            setsigmask=[],
            setsigdef=_changed_signals(),
        )

    try:
        with limits_of_children(order):
            return _start_nice(order["nice"], started) if order["nice"] else started()
    except (OSError, ValueError) as error:
        raise _execution_error(order, program, error) from None
    finally:
        os.chdir("/")


def start_as(account: UserIds, order: Order, scratch: str, execute: str) -> tuple[int, int]:
    """Start a job's own process as another user, which posix_spawn(3) cannot do; return its pid. The new process opens
    and executes everything with that user's privileges. Raise `StartError` if the process cannot be started. Because a
    user's file system may be slow, also return, for a process that takes longer, the descriptor from which
    ``read_start_reply`` reads the result later (else -1)."""
    reply, write_end = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
    except OSError as error:
        os.close(reply)
        os.close(write_end)
        raise failure("executable", error, order["executable"]) from None
    if not pid:
        try:
            _become_job(account, order, scratch, execute)
        except StartError as error:
            os.write(write_end, json.dumps([error.part, error.number, error.reason, error.machine]).encode())
        except BaseException as error:
            os.write(write_end, json.dumps(["executable", 0, f"{type(error).__name__}: {error}"]).encode())
        finally:
            os._exit(127)
    os.close(write_end)
    if not select.select([reply], [], [], _PATIENCE_S)[0]:
        return pid, reply
    try:
        read_start_reply(reply)
    except StartError:
        os.waitpid(pid, 0)
        raise
    return pid, -1


def read_start_reply(reply: int) -> None:
    """Read the reply of a process that `start_as` started: empty if it executed its program. Raise `StartError` if the
    reply reports a failure."""
    with open(reply, "rb") as file:
        failure_text = file.read()
    if failure_text:
        raise StartError(*json.loads(failure_text))


def _become_job(account: UserIds, order: Order, scratch: str, execute: str) -> None:
    """Turn this process into a job's own process. Raise `StartError` if that fails."""
    program, argv = _own_command(order)
    signal.set_wakeup_fd(-1)
    os.setsid()
    os.nice(order["nice"])
    apply_limits(order)
    os.umask(rights.MASK)
    streams = open_streams(order, scratch)
    try:
        rights.become(account)
    except OSError as error:
        raise failure("executable", error, f"as the user with number {account.uid}") from None
    _enter(order, scratch)
    if not order["attended"]:
        check_scratch(scratch)
    for number in NULL_LAST:
        os.dup2(streams[number], number)
    for number in _changed_signals():
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    try:
        os.execve(program, argv, environment(order, execute, scratch))
    except (OSError, ValueError) as error:
        failed = _execution_error(order, program, error)
        failed.machine = failed.machine and failed.number != errno.EAGAIN  # the user has too many processes
        raise failed from None


def _enter(order: Order, scratch: str) -> None:
    """Enter the directory where the job runs. Raise `StartError` if that fails."""
    where, part = working_directory(order, scratch), "iwd" if order["run_in_iwd"] else "scratch"
    try:
        os.chdir(where)
    except OSError as error:
        if order.get("remote_iwd"):
            raise failure("executable", error, f"{order['executable']} in the remote_initialdir {where}") from None
        raise failure(part, error, where) from None
    except ValueError as error:
        raise StartError(part, 0, f"{part} {where!r}: {error}") from None


def check_scratch(scratch: str) -> None:
    """Raise `StartError` if this process's user cannot access the scratch directory."""
    try:
        os.stat(f"{scratch}/")
    except OSError as error:
        advice = "its user may not search a parent directory; set EXECUTE to a directory that all users can reach"
        raise failure("scratch", error, f"{scratch} ({advice})") from None


def _execution_error(order: Order, program: str, error: OSError | ValueError) -> StartError:
    if isinstance(error, OSError):
        failed = failure("executable", error, program)
        failed.machine = failed.machine or bool(order.get("wrapper"))  # the machine's configuration names the wrapper
        return failed
    # a NUL in an argument or in the environment, or a '=' in a variable's name
    return StartError("executable", 0, f"executable {program}: {error} in arguments or environment")


def _start_nice(increment: int, begin: Callable[[], int]) -> int:
    """Start a process that has a higher nice value from its first instant. A process inherits the nice value of the
    thread that creates it, and only root may lower one again: so use a separate thread."""
    from concurrent.futures import ThreadPoolExecutor  # slow to import, and few jobs are nice

    def start_nicely() -> int:
        os.nice(increment)
        return begin()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(start_nicely).result()


def check_iwd(order: Order) -> None:
    """Raise `StartError` if a job's initial directory is missing, even though the job runs elsewhere."""
    try:
        with rights.acting_as(rights.ids_of_account(order.get("files"))):
            os.stat(f"{order['iwd']}/")
    except OSError as error:
        raise failure("iwd", error, order["iwd"]) from None


def close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        if descriptor != NULL:
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


# The resource limits of a job's processes, as in HTCondor's starter: the job sets the sizes of stack and core file;
# else, and for CPU time, data and files, the supervisor's hard limits apply.
# Source: HTCondor's sysapi_set_resource_limits (resource_limits.cpp) and OsProc::StartJob.

_UNBOUNDED = (resource.RLIMIT_STACK, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_DATA)
_core: int | None = None  #: the size of core files that was set last


def apply_limits(order: dict[str, Any]) -> None:
    """Apply the job's limits to this process, which becomes the job's."""
    for limit_name in _UNBOUNDED:
        _set_soft_limit(limit_name, 0)
    core = order.get("core_bytes", 0)
    resource.setrlimit(resource.RLIMIT_CORE, (core, core) if core >= 0 else (resource.RLIM_INFINITY,) * 2)
    _set_soft_limit(resource.RLIMIT_STACK, order.get("stack_bytes", 0))


@contextlib.contextmanager
def limits_of_children(order: dict[str, Any]) -> Iterator[None]:
    """Apply the job's limits to the processes that are started in this context. Child processes inherit the limits of
    this process, so different limits are changed here. A smaller stack limit is restored immediately."""
    global _core
    if _core is None:
        for limit_name in _UNBOUNDED:
            _set_soft_limit(limit_name, 0)
    core, stack = order.get("core_bytes", 0), order.get("stack_bytes", 0)
    if core != _core:
        _set_soft_limit(resource.RLIMIT_CORE, core, is_bounded=True)
        _core = core
    if stack <= 0:
        yield
        return
    _set_soft_limit(resource.RLIMIT_STACK, stack)
    try:
        yield
    finally:
        _set_soft_limit(resource.RLIMIT_STACK, 0)


def _set_soft_limit(limit_name: int, limit: int, is_bounded: bool = False) -> None:
    """Set a soft limit, up to the hard one. A negative limit, or 0 unless ``is_bounded``, means the hard one."""
    soft_limit, hard_limit = resource.getrlimit(limit_name)
    is_unlimited = limit < 0 or (limit == 0 and not is_bounded)
    new_limit = hard_limit if is_unlimited or (hard_limit != resource.RLIM_INFINITY and limit > hard_limit) else limit
    if new_limit != soft_limit:
        resource.setrlimit(limit_name, (new_limit, hard_limit))
