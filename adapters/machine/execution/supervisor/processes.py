"""Read processes from /proc, signal them safely, and fork the supervisor's helper processes.

Pid and start time together identify a process: a pid alone is reused (proc(5), /proc/pid/stat).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

# Variables in each job's environment: its activation, and the supervisor's directory of jobs. Keys are unique only in
# one pool, and a job may run another pool.
MARK = "_POOLBOOK_ACTIVATION"
POOL = "_POOLBOOK_EXECUTE"

FIRST_NUMBER = 10**15  #: the number 0, see ``number``

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 1, 36, 37  # prctl(2)
_prctl = ctypes.CDLL(None, use_errno=True).prctl  #: loaded once, not in each forked process
_TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024
_DEAD = b"ZX"
_STAT_SIZE = 2048  #: the longest line of /proc/pid/stat: 52 numbers of up to 20 digits and a name


class Process(NamedTuple):
    """One process of /proc/pid/stat; ``started`` is in clock ticks since boot."""

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


def read_process(pid: int) -> Process | None:
    """Return the process, or None if it does not exist. A zombie is ``dead`` unless some of its threads live."""
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
    # The name in parentheses may contain blanks and parentheses; after it come the state and numbers.
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


def boot_ticks() -> int:
    """Return the clock ticks since boot, in which /proc counts start times."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // (_TICK_US * 1000)


def start_time(pid: int, earliest: int) -> int:
    """Return the start time of a child that is not reaped, and that was started after ``earliest``, a result of
    ``boot_ticks``. Read /proc, which takes as long as a dozen other calls, only if a tick has ended since then, or if
    this system's /proc was seen to use another clock, as in some sandboxes."""
    global _has_boot_clock
    if _has_boot_clock and boot_ticks() == earliest:
        return earliest
    process = read_process(pid)
    assert process is not None, "a child that is not reaped always exists"
    if _has_boot_clock is None:
        _has_boot_clock = earliest <= process.started <= boot_ticks()
    return process.started


_has_boot_clock: bool | None = None  #: whether start times are counted by the clock of ``boot_ticks``; None: unknown


def all_pids() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def _parts(pid: int, name: str, separator: bytes = b"\n") -> list[bytes]:
    """Return the parts of a process's file in /proc, or an empty list if the process has ended."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return (file.read() or b"").split(separator)
    except OSError:
        return []


def children(pid: int) -> list[int] | None:
    """Return the children that a process's first thread has not reaped, or None if the kernel does not list them. No
    child is missed if only this thread reaps them (proc(5), /proc/pid/task/tid/children)."""
    parts = _parts(pid, f"task/{pid}/children", b" ")
    return [int(part) for part in parts if part] if parts else None


def marked_activation(pid: int, execute: str) -> str | None:
    """Return this pool's activation in a process's environment; it is inherited unless cleared."""
    variables = _parts(pid, "environ", b"\0")
    if f"{POOL}={execute}".encode("utf-8", "surrogateescape") not in variables:
        return None
    prefix = f"{MARK}=".encode()
    return next((os.fsdecode(item[len(prefix) :]) for item in variables if item.startswith(prefix)), None)


def mark_children(number: int) -> None:
    """Mark future children, and all their descendants, with a number: see ``number``."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_RTTIME)
    with contextlib.suppress(ValueError):  # leave a real limit alone
        resource.setrlimit(resource.RLIMIT_RTTIME, (FIRST_NUMBER + number, hard_limit))


def mark_number(pid: int) -> int | None:
    """Return the number that marks a process, alive or not yet reaped, or None if it has no number.

    It is the soft limit on the CPU time of a real-time process, in microseconds: decades, so that it limits no
    process. Unlike the environment, every exec inherits it, and it is readable for every process.
    """
    soft = next((line.split()[3] for line in _parts(pid, "limits") if line.startswith(b"Max realtime timeout")), b"")
    return int(soft) - FIRST_NUMBER if soft.isdigit() else None


def user(pid: int) -> int | None:
    """Return the real user of a process, whatever rights its program has, or None if the process has ended."""
    return next((int(line.split()[1]) for line in _parts(pid, "status") if line.startswith(b"Uid:")), None)


def send_signal(pid: int, started: int, number: int) -> bool:
    """Signal the process with this pid and start time; return False if it has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        process = read_process(pid)
        if process is None or process.started != started:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def boot_id() -> str:
    """Return the kernel's boot id: after a reboot no earlier process lives."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def become_subreaper() -> None:
    """Make every orphaned descendant, in any session, a child of this process (prctl(2))."""
    if _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"this kernel has no subreaper: {os.strerror(number)}")


def has_subreaper() -> bool:
    """Return True if the kernel, and any sandbox, allow this process to become a subreaper."""
    is_enabled = ctypes.c_int()
    has_failed: int = _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(is_enabled), 0, 0, 0)
    return not has_failed


def fork(serve: Callable[[socket.socket], object], *kept: int, outlives: bool = False) -> tuple[int, socket.socket]:
    """Start a process that calls ``serve`` with a packet socket and exits. The process has none of this process's
    descriptors except ``kept``, and none of its signal handlers. It leaves the session last, when it has dropped
    everything else. Unless ``outlives`` is true, it is killed when this process ends. Return its pid and the socket's
    other end. Raise `OSError` if it cannot be started."""
    parent = os.getpid()
    own_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own_end.setblocking(False)
    try:
        pid = os.fork()
    except OSError:
        own_end.close()
        child_end.close()
        raise
    if pid:
        child_end.close()
        return pid, own_end
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        if not outlives:
            end_with(parent)
        close_all_but(child_end.fileno(), *kept)
        os.setsid()
        serve(child_end)
    finally:
        os._exit(1)


def close_all_but(*kept: int) -> None:
    """Close all descriptors except the standard ones and these."""
    lowest = 3
    for descriptor in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        if descriptor >= lowest:  # for an empty range that ends at 0, `closerange` would close everything
            os.closerange(lowest, descriptor)
            lowest = descriptor + 1


def end_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends; exit now if the parent has already ended. Repeat this
    after a change of user: the kernel drops the request then."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
