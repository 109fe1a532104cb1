"""The hold reasons of this machine's jobs, with HTCondor's text where HTCondor has the same hold."""

from __future__ import annotations

import os
import stat

from ..machine.execution import activation as execution
from ..machine.execution.supervisor.rights import UserIds, acting_as
from ..machine.host import host_name, user_name

_LIMITS = {
    "memory": "The job used more memory than the {memory} MiB that it was given",
    "disk": "The job used more disk than the {disk} KiB that it was given",
}
NOT_ROOTS = "jobs of root do not run in a pool for all users: submit it as another user"
FAILED_CHECKPOINT = 36  #: HoldReasonCode FailedToCheckpoint
_SAID_BY_STARTER = frozenset({"image", "container", "singularity", "stdout_stream", "stderr_stream"})
_STREAMS = {"stdin": "standard input", "stdout": "standard output", "stderr": "standard error"}


def held_for_limit(limit: str, memory: int | str, disk: int | str) -> str:
    """Return the hold reason of a job that exceeded a limit, with HTCondor's text if HTCondor has this limit.

    :param memory: what the job was given, in MiB
    :param disk: what the job was given, in KiB
    """
    return _LIMITS.get(limit, "").format(memory=memory, disk=disk)


def held_for_failure(failed: execution.Failed, request: execution.LaunchRequest | None) -> str:
    """Return the hold reason of a job that could not start, with the text of the HTCondor starter, or of its shadow
    if the initial directory is the problem."""
    if failed.failure is not None:
        return held_for_transfer("input", failed.failure, request)
    if request is not None and failed.part in _SAID_BY_STARTER:
        return f"Error from {request.slot}: {failed.reason}"
    if request is None or not failed.errno:
        return failed.reason
    error = os.strerror(failed.errno)
    if failed.part == "iwd":
        return f"Cannot access initial working directory {request.iwd}: {error}"
    advice = failed.reason.partition(error)[2]
    if failed.part in _STREAMS:
        path = os.path.join(request.iwd, getattr(request, failed.part))
        problem = f"Failed to open '{path}' as {_STREAMS[failed.part]}: {error} (errno {failed.errno})"
    elif failed.part == "executable":
        path = os.path.join(request.iwd, request.executable)
        with acting_as(rights_in(request.account)):
            interpreter = _interpreter(path)
        problem = f"Failed to execute '{path}': {interpreter}(errno={failed.errno}: '{error}')"
    else:
        problem, advice = failed.reason, ""
    return f"Error from {request.slot}: {problem}{advice}"


def rights_in(account: execution.UnixAccount | None) -> UserIds | None:
    """Return the rights of an account, or None if they are this process's own rights."""
    return None if account is None else UserIds(account.uid, account.gid, account.groups)


def not_ours(owner: str) -> str:
    """Return the hold reason of a job that belongs to another user."""
    return (
        f"this pool runs its jobs as {user_name()}, and this is a job of {owner}: it can run if {owner} serves the "
        f"log, or in a separate pool"
    )


def _interpreter(path: str) -> str:
    """Return the message about a script whose interpreter does not exist, or an empty string for any other program.
    Only regular files are read, because reading a FIFO could block forever."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            first = file.readline(1024)
    except (OSError, ValueError):
        return ""
    if not first.startswith(b"#!"):
        return ""
    named = os.fsdecode(first[2:]).split()[:1]
    if not named or os.access(named[0], os.X_OK):
        return ""
    return f"invalid interpreter ({named[0]}) specified on first line of script "


def held_for_transfer(
    direction: str, failure: execution.TransferFailure, request: execution.LaunchRequest | None
) -> str:
    """Return the hold reason of a job whose files could not be transferred. HTCondor's shadow gives the same reason.
    For a checkpoint, HTCondor's starter does, which does not name the missing file."""
    if failure.code == FAILED_CHECKPOINT:
        at = request.slot if request else "unknown"
        return f"Error from {at}: Starter failed to upload checkpoint. Details: {failure.words}"
    local, remote = f"access point {host_name()}", f"execution point {request.slot if request else 'unknown'}"
    source, target = (local, remote) if direction == "input" else (remote, local)
    sends = failure.end == "sending"
    at, other = (source, target) if sends else (target, source)
    moved = f"while {failure.end} files {'to' if sends else 'from'} {other}"
    how = f"using protocol {failure.protocol}" if failure.protocol else moved
    return f"Transfer {direction} files failure at {at} {how}. Details: {failure.words}"
