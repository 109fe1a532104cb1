"""The system calls of the pool and its supervisor, answered by a simulated machine.

Each program has its own ``os``, ``select`` and ``socket``, so that a killed program's calls end it, and its descriptors
are closed. Calls that are not simulated are missing attributes: code that starts to use another call fails, and the
error names it.
"""

from __future__ import annotations

import errno
import os
import posixpath
import selectors
import signal
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from attrs import define

from poolbook.adapters.machine.execution.supervisor import processes as real_processes

from .descriptors import Descriptors, End, Handle, Listener, OpenFile, Pipe, Poll, SocketFile
from .disk import Disk, File, Folder, Link, Path, Stat, os_error
from .machine import SUPERVISOR, Machine, Plan


class OsPath:
    """``os.path``: functions that access the disk use the simulated one."""

    def __getattr__(self, name: str) -> Any:
        if name not in ("join", "dirname", "basename"):
            raise AttributeError(f"os.path.{name} is not simulated")
        return getattr(posixpath, name)

    def lexists(self, path: str) -> bool:
        try:
            Path.disk.find(str(path), follow=False)
        except OSError:
            return False
        return True

    def exists(self, path: str) -> bool:
        return Path(path).exists()


class Os:
    """``os``, for one program."""

    path = OsPath()
    devnull = os.devnull
    environ = os.environ
    DirEntry = os.DirEntry
    stat_result = os.stat_result
    strerror = staticmethod(os.strerror)
    fsencode = staticmethod(os.fsencode)
    fsdecode = staticmethod(os.fsdecode)
    getuid, geteuid = staticmethod(os.getuid), staticmethod(os.geteuid)
    WIFEXITED, WEXITSTATUS = staticmethod(os.WIFEXITED), staticmethod(os.WEXITSTATUS)
    WTERMSIG, WCOREDUMP = staticmethod(os.WTERMSIG), staticmethod(os.WCOREDUMP)

    def __init__(self, machine: Machine, descriptors: Descriptors) -> None:
        self._machine, self._open = machine, descriptors
        for name in dir(os):
            if name.isupper() and isinstance(getattr(os, name), int):  # O_CREAT, P_ALL, WNOHANG...
                setattr(self, name, getattr(os, name))

    @property
    def _disk(self) -> Disk:
        return self._machine.disk

    def _step(self, name: str) -> None:
        self._machine.step(self._open.program, name)

    # Files

    def open(self, path: str, flags: int, mode: int = 0o777, **_: object) -> int:
        self._step(f"open of {path}")
        if str(path) == os.devnull:
            return self._open.add(OpenFile(str(path), File(), flags))
        try:
            node: Any = self._disk.find(str(path), follow=not flags & os.O_NOFOLLOW)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            node = File(mode=mode & 0o666 & ~0o022)
            self._disk.put(str(path), node)
        else:
            if flags & os.O_CREAT and flags & os.O_EXCL:
                raise os_error(errno.EEXIST, str(path))
            if isinstance(node, Link):
                raise os_error(errno.ELOOP, str(path))
            if isinstance(node, Folder) and flags & (os.O_WRONLY | os.O_RDWR):
                raise os_error(errno.EISDIR, str(path))
        if flags & os.O_TRUNC and isinstance(node, File):
            node.data = bytearray()
        return self._open.add(OpenFile(str(path), node, flags))

    def close(self, number: int) -> None:
        self._open.of(number).close()
        del self._open.open[number]

    def dup(self, number: int) -> int:
        return self._open.add(self._open.of(number))

    def dup2(self, number: int, other: int) -> int:
        self._open.open[other] = self._open.of(number)
        return other

    def set_blocking(self, number: int, blocking: bool) -> None:
        self._open.of(number)

    def read(self, number: int, count: int) -> bytes:
        self._step("read")
        handle = self._open.of(number)
        if isinstance(handle, Pipe):
            if not handle.count:
                raise BlockingIOError
            handle.count = 0
            return b"\0"
        data = bytes(handle.node.data[handle.at : handle.at + count])
        handle.at += len(data)
        return data

    def write(self, number: int, data: Any) -> int:
        handle = self._open.of(number)
        self._step(f"write to {handle.path}")
        if handle.flags & os.O_APPEND:
            handle.at = len(handle.node.data)
        written_bytes = self._disk.write(handle.node, bytes(data), handle.at)
        handle.at += written_bytes
        return written_bytes

    def pwrite(self, number: int, data: bytes, at: int) -> int:
        handle = self._open.of(number)
        self._step(f"write to {handle.path}")
        return self._disk.write(handle.node, bytes(data), at)

    def lseek(self, number: int, offset: int, how: int) -> int:
        handle = self._open.of(number)
        base = {os.SEEK_SET: 0, os.SEEK_CUR: handle.at, os.SEEK_END: len(handle.node.data)}[how]
        handle.at = base + offset
        return int(handle.at)

    def fsync(self, number: int) -> None:
        handle = self._open.of(number)
        self._step(f"sync of {handle.path}")
        self._disk.sync(handle.node)

    fdatasync = fsync

    def ftruncate(self, number: int, size: int) -> None:
        handle = self._open.of(number)
        self._step(f"truncation of {handle.path}")
        del handle.node.data[size:]

    def truncate(self, path: Any, size: int) -> None:
        self._step(f"truncation of {path}")
        del self._disk.file(str(path)).data[size:]

    def fstat(self, number: int) -> Stat:
        return self._open.of(number).node.stat()  # type: ignore[no-any-return]

    def stat(self, path: Any) -> Stat:
        return self._disk.find(str(path)).stat()

    def lstat(self, path: Any) -> Stat:
        return self._disk.find(str(path), follow=False).stat()

    def listxattr(self, path: str) -> list[str]:
        return []

    def unlink(self, path: Any) -> None:
        self._step(f"removal of {path}")
        if isinstance(self._disk.find(str(path), follow=False), Folder):
            raise os_error(errno.EISDIR, str(path))
        self._disk.take(str(path))

    def rename(self, old: Any, new: Any) -> None:
        self._step(f"renaming of {old}")
        self._disk.move(str(old), str(new))

    replace = rename

    def link(self, old: str, new: str) -> None:
        self._step(f"link to {old}")
        node = self._disk.file(old)
        if Path(new).exists():
            raise os_error(errno.EEXIST, new)
        self._disk.put(new, node)

    def symlink(self, target: str, path: str) -> None:
        self._step(f"link at {path}")
        self._disk.put(path, Link(target))

    def readlink(self, path: str) -> str:
        node = self._disk.find(path, follow=False)
        if not isinstance(node, Link):
            raise os_error(errno.EINVAL, path)
        return node.target

    def mkdir(self, path: Any, mode: int = 0o777) -> None:
        self._step(f"mkdir of {path}")
        if Path(path).exists():
            raise os_error(errno.EEXIST, str(path))
        self._disk.put(str(path), Folder(mode=mode))

    def makedirs(self, path: Any, mode: int = 0o777, exist_ok: bool = False) -> None:
        self._step(f"mkdir of {path}")
        Path(path).mkdir(mode, parents=True, exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self._step(f"removal of {path}")
        node = self._disk.find(path, follow=False)
        if not isinstance(node, Folder):
            raise os_error(errno.ENOTDIR, path)
        if node.entries:
            raise os_error(errno.ENOTEMPTY, path)
        self._disk.take(path)

    def chmod(self, path: Any, mode: int) -> None:
        node = self._disk.find(str(path))
        assert not isinstance(node, Link)
        node.mode = mode

    def utime(self, path: str, ns: tuple[int, int]) -> None: ...

    def fchmod(self, number: int, mode: int) -> None:
        self._open.of(number).node.mode = mode

    def listdir(self, path: Any) -> list[str]:
        self._step(f"listing of {path}")
        return sorted(self._folder(path).entries)

    @contextmanager
    def scandir(self, path: Any) -> Iterator[Iterator[Any]]:
        entries = self._folder(path).entries
        yield iter([_entry(f"{path}/{name}", name, entries[name]) for name in sorted(entries)])

    def _folder(self, path: Any) -> Folder:
        node = self._disk.find(str(path))
        if not isinstance(node, Folder):
            raise os_error(errno.ENOTDIR, str(path))
        return node

    # Descriptors of other kinds

    def eventfd(self, count: int, flags: int) -> int:
        return self._open.add(Pipe(count))

    def eventfd_write(self, number: int, value: int) -> None:
        self._open.of(number).count += value

    def eventfd_read(self, number: int) -> int:
        return len(self.read(number, 8))

    def pipe2(self, flags: int) -> tuple[int, int]:
        pipe = Pipe()
        return self._open.add(pipe), self._open.add(pipe)

    # Processes

    def getpid(self) -> int:
        supervisor = self._machine.supervisor
        return int(supervisor.pid) if self._open.program == SUPERVISOR and supervisor else 1

    def fork(self) -> int:
        return 0  # the machine continues with the child; the parent's exit is the result of `begin_supervisor`

    def setsid(self) -> None: ...

    def chdir(self, path: str) -> None:
        self._folder(path)

    def waitid(self, kind: int, number: int, options: int) -> Any:
        self._step("waitid")
        ended_pid, any_child = self._machine.ended_children(self.getpid())
        if not any_child:
            raise ChildProcessError
        return SimpleNamespace(si_pid=ended_pid[0].pid) if ended_pid else None

    def wait4(self, pid: int, options: int) -> tuple[int, int, Any]:
        self._step("wait4")
        return pid, self._machine.reap(pid), SimpleNamespace(ru_utime=0.25, ru_stime=0.05, ru_maxrss=2000)

    def posix_spawn(self, program: str, arguments: list[str], variables: dict[str, str], **_: object) -> int:
        self._step("posix_spawn")
        if program != "/bin/job":
            raise os_error(errno.ENOENT, program)
        supervisor = self._machine.at_work()
        key = variables[real_processes.MARK]
        process = self._machine.begin(
            supervisor.pid, Plan.of(arguments[1:]), dict(variables), supervisor.children_number, key
        )
        self._step("return from posix_spawn")
        return process.pid


def _entry(path: str, name: str, node: Any) -> Any:
    return SimpleNamespace(
        path=path, name=name, stat=lambda follow_symlinks=True: node.stat(),
        is_dir=lambda follow_symlinks=True: isinstance(node, Folder),
    )  # fmt: skip


class Opened:
    """The built-in ``open``, for one program."""

    def __init__(self, system: Os) -> None:
        self._os = system

    def __call__(self, path: Any, mode: str = "r", **_: object) -> Any:
        if isinstance(path, int):
            return _Stream(self._os, path, mode, own=False)
        flags = {"r": os.O_RDONLY, "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC, "a": os.O_WRONLY | os.O_CREAT}[mode[0]]
        return _Stream(self._os, self._os.open(path, flags, 0o666), mode, own=True)


@define
class _Stream:
    _os: Os
    _number: int
    _mode: str
    _own: bool

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        if self._own:
            self._os.close(self._number)

    def fileno(self) -> int:
        return self._number

    def seek(self, place: int) -> None:
        self._os.lseek(self._number, place, os.SEEK_SET)

    def read(self, most: int = 1 << 30) -> Any:
        data = self._os.read(self._number, most)
        return data if "b" in self._mode else data.decode()

    def write(self, data: bytes) -> int:
        written_bytes = 0
        while written_bytes < len(data):
            written_bytes += self._os.write(self._number, data[written_bytes:])
        return written_bytes


class Clock:
    """``time``, for one machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def time_ns(self) -> int:
        return self._machine.clock * 1000

    def monotonic_ns(self) -> int:
        return self._machine.monotonic * 1000

    def monotonic(self) -> float:
        return self._machine.monotonic / 1e6

    def strftime(self, form: str) -> str:
        return str(self._machine.clock)

    def sleep(self, seconds: float) -> None:
        self._machine.sleep(seconds)


class Sockets:
    """``socket``, for one program. All connections lead to the machine's own sockets, by a path."""

    AF_UNIX, SOCK_STREAM, MSG_DONTWAIT = 1, 1, 0x40
    SOL_SOCKET, SO_PEERCRED = 1, 17

    def __init__(self, machine: Machine, descriptors: Descriptors) -> None:
        self._machine, self._open = machine, descriptors

    def socket(self, *_: int) -> Socket:
        return Socket(self._machine, self._open, Handle())


class Socket:
    def __init__(self, machine: Machine, descriptors: Descriptors, handle: Handle, blocking: bool = True) -> None:
        self._machine, self._open, self._blocking = machine, descriptors, blocking
        self._number = descriptors.add(handle)

    def _path(self, address: str) -> str:
        """Return the path behind ``/proc/self/fd/N/name``."""
        number, _, name = address.removeprefix("/proc/self/fd/").partition("/")
        return f"{self._open.of(int(number)).path}/{name}"

    def bind(self, address: str) -> None:
        listener = Listener()
        self._open.open[self._number] = listener
        self._machine.disk.put(self._path(address), SocketFile(listener=listener))

    def listen(self, backlog: int) -> None: ...

    def connect(self, address: str) -> None:
        self._machine.step(self._open.program, "connect")
        node = self._machine.disk.find(self._path(address))
        listener = node.listener if isinstance(node, SocketFile) else None
        if listener is None or listener.closed:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        end, its = End(), End()
        end.other, its.other = its, end
        self._open.open[self._number] = end
        listener.waiting.append(its)

    def accept(self) -> tuple[Socket, str]:
        listener = self._open.of(self._number)
        if not listener.waiting:
            raise BlockingIOError
        return Socket(self._machine, self._open, listener.waiting.popleft()), ""

    def setblocking(self, blocking: bool) -> None:
        self._blocking = blocking

    def settimeout(self, seconds: float | None) -> None:
        """Do nothing: the other end always answers or ends."""

    def getsockopt(self, level: int, option: int, size: int = 0) -> bytes:
        return struct.pack("3i", 1, os.getuid(), os.getgid())

    def fileno(self) -> int:
        return self._number

    def recv(self, most: int, flags: int = 0) -> bytes:
        self._machine.step(self._open.program, "recv")
        end = self._open.of(self._number)
        if not end.readable():
            if not self._blocking or flags & Sockets.MSG_DONTWAIT:
                raise BlockingIOError
            self._machine.wait(end.readable, None)
        data = bytes(end.received[:most])
        del end.received[:most]
        return data

    def send(self, data: Any) -> int:
        self._machine.step(self._open.program, "send")
        end = self._open.of(self._number)
        if end.over():
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        if self._open.program == SUPERVISOR:
            self._machine.supervisor_says(bytes(data))
        end.other.received += bytes(data)
        return len(data)

    def sendall(self, data: bytes) -> None:
        self.send(data)

    def close(self) -> None:
        handle = self._open.open.pop(self._number, None)
        if handle is not None:
            handle.close()


class Selects:
    """``select``, for one program."""

    EPOLLIN, EPOLLOUT, EPOLLHUP = 1, 4, 16

    def __init__(self, descriptors: Descriptors, waits: Callable[[Poll, float | None], None]) -> None:
        self._open, self._waits = descriptors, waits

    def epoll(self) -> Epoll:
        return Epoll(self._open, self._waits)


class Epoll:
    def __init__(self, descriptors: Descriptors, waits: Callable[[Poll, float | None], None]) -> None:
        self._open, self._waits = descriptors, waits
        self._handle = Poll()
        self._number = descriptors.add(self._handle)
        self._masks: dict[int, int] = {}

    def register(self, request: Any, mask: int = 1) -> None:
        number = request if isinstance(request, int) else request.fileno()
        self._handle.of[number] = self._open.of(number)
        self._masks[number] = mask

    def modify(self, request: Any, mask: int) -> None:
        self._masks[request.fileno()] = mask

    def unregister(self, request: Any) -> None:
        number = request if isinstance(request, int) else request.fileno()
        del self._handle.of[number], self._masks[number]

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        self._waits(self._handle, timeout)
        ready = []
        for number, handle in self._handle.of.items():
            mask = (1 if handle.readable() else 0) | (self._masks[number] & Selects.EPOLLOUT)
            if mask:
                ready.append((number, mask))
        return ready

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        self._open.open.pop(self._number, None)


class Selectors:
    """``selectors``, for the pool."""

    EVENT_READ = selectors.EVENT_READ

    def __init__(self, machine: Machine, descriptors: Descriptors) -> None:
        self._machine, self._open = machine, descriptors

    def DefaultSelector(self) -> Selector:
        return Selector(self._machine, self._open)


class Selector:
    def __init__(self, machine: Machine, descriptors: Descriptors) -> None:
        self._machine, self._open = machine, descriptors
        self._watched: dict[int, Any] = {}

    def register(self, number: int, events: int, data: Any) -> None:
        self._watched[number] = SimpleNamespace(fd=number, data=data)

    def unregister(self, number: int) -> None:
        del self._watched[number]

    def select(self, timeout: float | None = None) -> list[tuple[Any, int]]:
        until = None if timeout is None else self._machine.monotonic + round(max(0.0, timeout) * 1e6)
        self._machine.wait(lambda: bool(self._ready()), until)
        return [(self._watched[number], selectors.EVENT_READ) for number in self._ready()]

    def _ready(self) -> list[int]:
        return [number for number in self._watched if self._open.of(number).readable()]

    def close(self) -> None:
        self._watched.clear()


class Processes:
    """The supervisor's module of that name, with the simulated table."""

    MARK, POOL, FIRST_NUMBER = real_processes.MARK, real_processes.POOL, real_processes.FIRST_NUMBER
    Process = real_processes.Process

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def read_process(self, pid: int) -> real_processes.Process | None:
        process = self._machine.table.get(pid)
        return None if process is None else self._machine.shown(process)

    def boot_ticks(self) -> int:
        return 0

    def start_time(self, pid: int, earliest: int) -> int:
        return self._machine.table[pid].started

    def all_pids(self) -> set[int]:
        return set(self._machine.table)

    def children(self, pid: int) -> list[int]:
        return [process.pid for process in self._machine.table.values() if process.parent == pid]

    def marked_activation(self, pid: int, execute: str) -> str | None:
        process = self._machine.table.get(pid)
        if process is None or process.environment.get(self.POOL) != execute:
            return None
        return process.environment.get(self.MARK)

    def mark_children(self, number: int) -> None:
        self._machine.at_work().children_number = number

    def mark_number(self, pid: int) -> int | None:
        process = self._machine.table.get(pid)
        return None if process is None else process.number or None

    def user(self, pid: int) -> int | None:
        return os.getuid() if pid in self._machine.table else None

    def send_signal(self, pid: int, started: int, number: int) -> bool:
        self._machine.step(SUPERVISOR, f"signal {signal.Signals(number).name}")
        process = self._machine.table.get(pid)
        if process is None or process.started != started:
            return False
        self._machine.signal(process, number)
        return True

    def boot_id(self) -> str:
        return f"boot-{self._machine.boots}"

    def become_subreaper(self) -> None: ...


class Resources:
    """``resource``, with which a supervisor reads its own size."""

    RUSAGE_SELF = 0

    @staticmethod
    def getrusage(who: int) -> Any:
        return SimpleNamespace(ru_maxrss=10)


class Signals:
    """``signal``, for the supervisor: the same numbers; a child's end wakes it by its pipe."""

    def __init__(self, wakes: Callable[[int], None]) -> None:
        self.set_wakeup_fd = lambda number, warn_on_full_buffer=True: wakes(number)
        for name in dir(signal):
            if name.startswith("SIG") and isinstance(getattr(signal, name), int):
                setattr(self, name, getattr(signal, name))

    def signal(self, number: int, handler: object) -> None: ...
