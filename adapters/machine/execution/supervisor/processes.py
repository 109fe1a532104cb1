"""Read processes from /proc, signal exactly the process that is meant, and fork those of the supervisor's own.

A process is known by pid and start time together: a pid alone is reused (proc(5), /proc/pid/stat).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
from collections.abc import Callable
from typing import NamedTuple

# In each job's environment: its activation, and the supervisor's directory of jobs. Keys are unique in one pool only,
# and a job may run a pool of its own.
MARK = "_POOLBOOK_ACTIVATION"
POOL = "_POOLBOOK_EXECUTE"

FIRST_NUMBER = 10**15  #: the number 0, see ``number``

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 1, 36, 37  # prctl(2)
_prctl = ctypes.CDLL(None, use_errno=True).prctl  #: found once, and not by each process that is forked
_TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024
_DEAD = b"ZX"
_STAT_SIZE = 2048  #: the longest line of /proc/pid/stat: 52 numbers of up to 20 digits and a name


class Process(NamedTuple):
    """One process of /proc/pid/stat; ``started`` in clock ticks since boot."""

    pid: int
    dead: bool
    parent: int
    group: int
    session: int
    started: int
    user_us: int
    system_us: int
    image_kb: int
    rss_kb: int


def read(pid: int) -> Process | None:
    """Return the process, or None if there is none. A zombie is ``dead`` unless threads of it live on."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        line = os.read(descriptor, _STAT_SIZE)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    # The name in parentheses may hold blanks and parentheses itself; all after it are numbers but the state.
    fields = line[line.rindex(b")") + 2 :].split()
    return Process(
        pid,
        fields[0] in _DEAD and int(fields[17]) <= 1,
        int(fields[1]),
        int(fields[2]),
        int(fields[3]),
        int(fields[19]),
        (int(fields[11]) + int(fields[13])) * _TICK_US,
        (int(fields[12]) + int(fields[14])) * _TICK_US,
        int(fields[20]) // 1024,
        int(fields[21]) * _PAGE_KB,
    )


def pids() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def _parts(pid: int, name: str, between: bytes = b"\n") -> list[bytes]:
    """Return the parts of a file of a process; none if it is gone."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return (file.read() or b"").split(between)
    except OSError:
        return []


def mark(pid: int, execute: str) -> str | None:
    """Return this pool's activation in a process's environment; it is inherited unless cleared."""
    variables = _parts(pid, "environ", b"\0")
    if f"{POOL}={execute}".encode("utf-8", "surrogateescape") not in variables:
        return None
    prefix = f"{MARK}=".encode()
    return next((os.fsdecode(item[len(prefix) :]) for item in variables if item.startswith(prefix)), None)


def bequeath(number: int) -> None:
    """Mark the children made from now on, and all their descendants, with a number: see ``number``."""
    _, hard = resource.getrlimit(resource.RLIMIT_RTTIME)
    with contextlib.suppress(ValueError):  # where that limit is in earnest, it is left alone
        resource.setrlimit(resource.RLIMIT_RTTIME, (FIRST_NUMBER + number, hard))


def number(pid: int) -> int | None:
    """Return the number that a process bears, alive or not yet reaped; None if it bears none.

    It is the soft limit on the CPU time of a real-time process, in microseconds: some decades, so that it limits
    nobody. Unlike an environment it is inherited by every exec, and readable for every process.
    """
    soft = next((line.split()[3] for line in _parts(pid, "limits") if line.startswith(b"Max realtime timeout")), b"")
    return int(soft) - FIRST_NUMBER if soft.isdigit() else None


def user(pid: int) -> int | None:
    """Return as whom a process runs: its real user, whatever rights a program has given it; None if it is gone."""
    return next((int(line.split()[1]) for line in _parts(pid, "status") if line.startswith(b"Uid:")), None)


def send(pid: int, started: int, number: int) -> bool:
    """Signal the process that has this pid and start time, and no other; return False if it is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        process = read(pid)
        if process is None or process.started != started:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def boot() -> str:
    """Return the kernel's boot id: after a reboot no earlier process lives."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def become_subreaper() -> None:
    """Make every orphaned descendant a child of this process, whatever session it is in (prctl(2))."""
    if _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"this kernel has no subreaper: {os.strerror(number)}")


def has_subreaper() -> bool:
    """Tell whether the kernel, and any sandbox, let this process become a subreaper."""
    found = ctypes.c_int()
    failed: int = _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(found), 0, 0, 0)
    return not failed


def fork(serve: Callable[[socket.socket], object], *kept: int, outlives: bool = False) -> tuple[int, socket.socket]:
    """Start a process of its own, which calls ``serve`` with a socket of packets, and ends. It has none of this one's
    descriptors but ``kept``, none of its signals' handlers, and leaves its session last, when nothing else of it is
    left. It is killed when this one ends, unless it ``outlives`` that. Return its pid, and the socket's other end.
    Raise `OSError` if there can be none."""
    parent = os.getpid()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    try:
        pid = os.fork()
    except OSError:
        ours.close()
        theirs.close()
        raise
    if pid:
        theirs.close()
        return pid, ours
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        if not outlives:
            end_with(parent)
        close_all_but(theirs.fileno(), *kept)
        os.setsid()
        serve(theirs)
    finally:
        os._exit(1)


def close_all_but(*kept: int) -> None:
    """Close all descriptors but the standard ones and these."""
    low = 3
    for descriptor in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(low, descriptor)
        low = descriptor + 1


def end_with(parent: int) -> None:
    """Have this process killed when its parent ends, or end now if that is over. Who becomes another user asks again:
    the kernel forgets it then."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
