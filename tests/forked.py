"""Python processes for tests, forked from one that has imported the package, so that they start quickly.

``start`` and ``run`` take the arguments of ``python``: ``-c CODE``, ``-m MODULE`` or a file, and its arguments. The
process is a real one, with its own pid, signals, descriptors, directory and environment. It is not a fresh one: to test
what is imported when, hashing or the interpreter's options, start one by ``subprocess``.

A supervisor is forked as well, when a process that was forked here starts one with ``run_program``. It is as small as
one that was started.

This file also implements the servers: each worker of the tests starts one for the package and one for supervisors.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import re
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NoReturn, TextIO

DEVNULL, PIPE, STDOUT = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
PATH = Path(__file__).resolve().parent.parent / ".path"
SUPERVISOR = PATH / "poolbook/adapters/machine/execution/supervisor/launch_program.py"
SERVERS: set[int] = set()  #: the servers that this process has started, which stay for all tests
_PR_SET_DUMPABLE = 4  #: see prctl(2)
_NEW_UTS = 0x04000000  #: CLONE_NEWUTS
_NUMBER = struct.Struct("i")
_supervisors: list[socket.socket] = []
"""Of a process of the package, the connection to the worker's server of supervisors."""
_LATE = ("encodings.idna", "grp", "psutil", "pwd", "tempfile")
"""What functions import when they are called: another user may not be able to read it."""


class Process:
    """A started process, with the methods of ``subprocess.Popen`` that tests call."""

    def __init__(self, arguments: Sequence[str], status: int, streams: Sequence[TextIO | None]) -> None:
        self.args = list(arguments)
        self.stdin, self.stdout, self.stderr = streams
        self.returncode: int | None = None
        self._status = status
        self.pid = _read_number(status)

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def _end(self) -> None:
        self.returncode = os.waitstatus_to_exitcode(_read_number(self._status))
        os.close(self._status)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and its status has not arrived yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Return its output on each stream when these are closed; empty for one that is not a pipe."""
        if self.stdin is not None:
            self.stdin.close()
        outputs = ["", ""]

        def read(index: int, stream: TextIO) -> None:
            outputs[index] = stream.read()

        streams = [(index, stream) for index, stream in enumerate((self.stdout, self.stderr)) if stream is not None]
        readers = [threading.Thread(target=read, args=stream, daemon=True) for stream in streams]
        until = None if timeout is None else time.monotonic() + timeout
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(None if until is None else max(0.0, until - time.monotonic()))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        for _, stream in streams:
            stream.close()
        self.wait(None if until is None else max(0.0, until - time.monotonic()))
        return outputs[0], outputs[1]


def start(
    arguments: Sequence[str],
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int = DEVNULL,
    stdout: int = PIPE,
    stderr: int = PIPE,
    start_new_session: bool = False,
    umask: int | None = None,
    groups: Sequence[int] | None = None,
    user: int | None = None,
    ignored: Sequence[int] = (),
    connection: int | None = None,
    server: socket.socket | None = None,
) -> Process:
    """Start a process. A stream is ``PIPE``, ``DEVNULL``, ``STDOUT`` (for stderr) or a descriptor. By default it has
    the server's umask, supplementary groups and user; a user is a number, which is its group's, too. It ignores the
    ``ignored`` signals from the start, like a process that a shell starts with ``&``. With a connection it is the
    process of a session. The server is this worker's server of the package unless another one is given."""
    descriptors: list[int] = []
    to_close: list[TextIO | None] = []
    passing: list[int] = []
    for index, kind in enumerate((stdin, stdout, stderr)):
        ends = os.pipe() if kind == PIPE else None
        if ends is not None:
            own_end, child_end = (ends[1], ends[0]) if index == 0 else ends
            to_close.append(os.fdopen(own_end, "w" if index == 0 else "r", encoding="utf-8", errors="surrogateescape"))
            passing.append(child_end)
        else:
            to_close.append(None)
        if kind == DEVNULL:
            passing.append(os.open(os.devnull, os.O_RDWR))
        descriptors.append(descriptors[1] if kind == STDOUT else kind if kind >= 0 else passing[-1])
    status, status_reader = os.pipe()
    passing.append(status_reader)
    request = {
        "words": list(arguments),
        "cwd": str(cwd or os.getcwd()),
        "env": dict(os.environ if env is None else env),
        "session": start_new_session,
        "umask": umask,
        "groups": groups,
        "user": user,
        "ignored": list(ignored),
    }
    more = [] if connection is None else [connection]
    socket.send_fds(server or _server(None), [json.dumps(request).encode()], [*descriptors, *more, status_reader])
    for end in passing:
        os.close(end)
    return Process(arguments, status, to_close)


def run(
    arguments: Sequence[str],
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = 60,
    check: bool = False,
    typed: str | None = None,
    umask: int | None = None,
    groups: Sequence[int] | None = None,
    user: int | None = None,
    ignored: Sequence[int] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a process until it ends, and return its exit code and output; `typed` is its input."""
    stdin = DEVNULL if typed is None else PIPE
    process = start(arguments, cwd=cwd, env=env, stdin=stdin, umask=umask, groups=groups, user=user, ignored=ignored)
    if process.stdin is not None:
        process.stdin.write(typed or "")
    try:
        out, err = process.communicate(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    completed = subprocess.CompletedProcess(process.args, process.wait(), out, err)
    if check:
        completed.check_returncode()
    return completed


def server() -> int:
    """Return the descriptor of this worker's server of the package, for a shell whose commands it forks."""
    return _server(None).fileno()


class Session:
    """A forked process that calls commands one after another, which costs a quarter of a process for each: loaded and
    compiled code stays for the next command. Each command has its own directory, environment, streams and exit code. If
    the process has ended or become another program, the next command gets a new one. A command that is called while
    another one runs has a separate process. The user is a number, as in ``start``."""

    def __init__(self, user: int | None = None) -> None:
        self._user = user
        self._process: Process | None = None
        self._connection: socket.socket
        self._idle = threading.Lock()

    def run(
        self, arguments: Sequence[str], *, cwd: str | Path, env: Mapping[str, str], timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run what ``python`` does with these arguments until it ends; return its exit code and output."""
        if not self._idle.acquire(blocking=False):
            return run(arguments, cwd=cwd, env=env, timeout=timeout, user=self._user)
        try:
            return self._run(arguments, cwd, env, timeout)
        finally:
            self._idle.release()

    def _run(
        self, arguments: Sequence[str], cwd: str | Path, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        if self._process is not None and select.select([self._connection], [], [], 0)[0]:
            self.close()  # it is closed at the other end
        if self._process is None:
            self._connection, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with child_end:
                self._process = start(
                    [], cwd="/", stdout=DEVNULL, stderr=DEVNULL, user=self._user, connection=child_end.fileno()
                )
        out, err = (os.memfd_create(name) for name in ("stdout", "stderr"))
        try:
            with open(os.devnull) as nothing:
                request = json.dumps({"words": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
                socket.send_fds(self._connection, [request], [nothing.fileno(), out, err])
            if not select.select([self._connection], [], [], timeout)[0]:
                self.close()
                raise subprocess.TimeoutExpired(list(arguments), timeout)
            answer = self._connection.recv(_NUMBER.size)
            if answer:
                code = int(_NUMBER.unpack(answer)[0])
            else:
                code = self._process.wait(timeout)
                self.close()
            return subprocess.CompletedProcess(list(arguments), code, _text_of(out), _text_of(err))
        finally:
            os.close(out)
            os.close(err)

    def close(self) -> None:
        """End the process; a later call starts another one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._connection.close()
            self._process = None


def _text_of(file: int) -> str:
    with open(file, encoding="utf-8", errors="surrogateescape", closefd=False) as stream:
        stream.seek(0)
        return stream.read()


def run_program(arguments: Sequence[str], *, stderr: int, **_: object) -> subprocess.CompletedProcess[bytes]:
    """Replace ``subprocess.run`` when it runs one of the package's own programs in a bare interpreter."""
    called = [word for word in arguments[1:] if not re.fullmatch("-[ISB]", word)]
    mask = os.umask(0)
    os.umask(mask)
    connection = _supervisors[0] if _supervisors else _server(Path(called[0]))
    process = start(called, stderr=stderr, start_new_session=True, umask=mask, server=connection)
    printed_output = process.communicate()[0]
    return subprocess.CompletedProcess(list(arguments), process.wait(), printed_output.encode())


@cache
def _server(program: Path | None) -> socket.socket:
    """Return the connection to this worker's server of the package, or of a program; the server ends with it."""
    own_end, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    passed_descriptors = [server_end.fileno(), *([] if program else [_server(SUPERVISOR).fileno()])]
    numbers = [str(descriptor) for descriptor in passed_descriptors]
    server = subprocess.Popen(
        [sys.executable, __file__, *numbers, *([str(program)] if program else [])],
        pass_fds=passed_descriptors,
        env={**os.environ, "PYTHONPATH": str(PATH)},
        start_new_session=True,
    )
    server_end.close()
    SERVERS.add(server.pid)

    def end() -> None:
        own_end.shutdown(socket.SHUT_RDWR)  # even if other processes have it open
        server.wait(10)

    atexit.register(end)
    return own_end


def _read_number(source: int) -> int:
    data = os.read(source, _NUMBER.size)
    assert data, "the server of processes has ended"
    return int(_NUMBER.unpack(data)[0])


def _import_package() -> None:
    """Import all of the package, and do once what nearly all of its processes do."""
    import poolbook

    for module in pkgutil.walk_packages(poolbook.__path__, "poolbook."):
        if not module.name.startswith("poolbook.docs"):
            importlib.import_module(module.name)
    for name in _LATE:
        importlib.import_module(name)
    _call_commands()
    # Each served pool would use a core for a second to measure its speed; tests/slots does that.
    sensors = importlib.import_module("poolbook.adapters.machine.benchmarks")
    sensors.command = lambda: (["echo", "3000 20000"], dict(os.environ))  # type: ignore[attr-defined]
    run, user = subprocess.run, os.geteuid()

    def run_quickly(arguments: Any, **options: Any) -> Any:
        quickly = str(SUPERVISOR) in arguments and os.geteuid() == user
        return run_program(arguments, **options) if quickly else run(arguments, **options)

    subprocess.run = run_quickly  # type: ignore[assignment]


def _import_program(program: str) -> None:
    """Import what a program needs: run it where it can do nothing."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        sys.argv = [program, "server", "/nonexistent"]
        runpy.run_path(program)["main"]()


def _serve(connection: socket.socket, program: str) -> None:
    """Fork for each request, and send the pid and, in the end, the status to each client. The processes run a
    program, or of the package, with the descriptor of another server, of supervisors."""
    gc.disable()  # imported objects never become garbage
    if program.isdigit():
        _import_package()
        _supervisors.append(socket.socket(fileno=int(program)))
    else:
        _import_program(program)
    gc.enable()
    gc.collect()
    gc.freeze()  # otherwise the first collection of each child would copy all of it
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    askers: dict[int, int] = {}
    while True:
        ready = select.select([connection.fileno(), woken], [], [])[0]
        if connection.fileno() in ready:
            data, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 5)
            if not data:
                return
            *streams, status_writer = descriptors
            pid = os.fork()
            if pid == 0:
                _become(json.loads(data), streams)
            os.write(status_writer, _NUMBER.pack(pid))
            askers[pid] = status_writer
            for stream in streams:
                os.close(stream)
        if woken in ready:
            os.read(woken, 4096)
            for pid in list(askers):
                ended_pid, code = os.waitpid(pid, os.WNOHANG)
                if ended_pid:
                    status_writer = askers.pop(pid)
                    with suppress(BrokenPipeError):  # its client has gone
                        os.write(status_writer, _NUMBER.pack(code))
                    os.close(status_writer)


def _call_commands() -> None:
    """Call the commands that tests call most, so that forked processes have what they read and compile once."""
    main = importlib.import_module("poolbook.adapters.cli.main").main
    home, environment = os.getcwd(), dict(os.environ)
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
        os.chdir(folder)
        os.environ["POOLBOOK_LOG"] = "pool.db"
        Path("job.sub").write_text("executable = /bin/true\nhold = true\nqueue\n")
        with redirect_stdout(nowhere), redirect_stderr(nowhere):
            # No job runs: this process starts no other.
            for command in ("submit job.sub", "resume", "q", "status", "history", "why 1.0", "hold 1", "release 1"):
                main(command.split())
        os.chdir(home)
    os.environ.clear()
    os.environ.update(environment)


def _become(request: dict[str, Any], streams: Sequence[int]) -> None:
    """Become the requested process, in this child, until it ends."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if request["session"]:
            os.setsid()
        if request["groups"] is not None:
            os.setgroups(request["groups"])
        if request["umask"] is not None:
            os.umask(request["umask"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for usual in (signal.SIGHUP, signal.SIGQUIT):  # a shell ignores them before `&`, and `nohup` does
            signal.signal(usual, signal.SIG_DFL)
        for number in request["ignored"]:
            signal.signal(number, signal.SIG_IGN)
        for number, stream in enumerate(streams):
            os.dup2(stream, number, inheritable=number < 3)
        numbers = [connection.fileno() for connection in _supervisors]
        for first, last in pairwise([len(streams) - 1, *numbers, 1 << 16]):
            os.closerange(first + 1, last)
        if len(streams) > 3:
            _run_each(socket.socket(fileno=3), request["user"])
        code = _called(request)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _show(arguments: Sequence[str]) -> None:
    """Make /proc show these arguments as the command line: they overwrite that of the server and its environment."""
    begin, end, _, last = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:49])
    text = " ".join(arguments).encode().ljust(end - begin)[: last - begin - 1]
    ctypes.memmove(begin, text + b"\0", len(text) + 1)


def _called(request: dict[str, Any]) -> int:
    """Do what ``python`` does with the arguments of a request, in its directory and environment; return its exit
    code."""
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.chdir(request["cwd"])
    if request.get("host", os.uname().nodename) != os.uname().nodename:
        ctypes.CDLL(None).unshare(_NEW_UTS)
        socket.sethostname(request["host"])
    if request.get("user") is not None:
        _change_user(request["user"])
    sys.stdin, sys.stdout, sys.stderr = map(_stream, range(3), (sys.stdin, sys.stdout, sys.stderr))
    further_paths = request["env"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in further_paths if path and path not in sys.path]
    if not _supervisors:
        _show(request["words"])
    code = _run(request["words"])
    gc.collect()  # closes objects that are closed only when they are collected
    sys.stdout.flush()
    return code


def _run_each(connection: socket.socket, user: int | None) -> NoReturn:
    """Be a user's session: run each request, and answer with its exit code."""
    if user is not None:
        _change_user(user)
    gc.freeze = lambda: None  # a command does that at its end; here its garbage is collected
    with open(os.devnull, "r+b") as nothing:
        while True:
            data, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
            if not data:
                os._exit(0)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            try:
                code = _called(json.loads(data))
            except Exception:
                traceback.print_exc()
                code = 1
            sys.stderr.flush()
            for number in range(3):
                os.dup2(nothing.fileno(), number)
            os.chdir("/")
            connection.send(_NUMBER.pack(code))


def _change_user(number: int) -> None:
    """Become this user permanently, like a login: such a process may read its own files in /proc."""
    os.setgroups([])
    os.setgid(number)
    os.setuid(number)
    os.umask(0o022)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def _stream(number: int, old: Any) -> Any:
    """Return a standard stream of this number, made like the server's by the interpreter."""
    raw: IO[bytes] = os.fdopen(number, "wb" if number else "rb", closefd=False)
    lines = number == 2 or raw.isatty()
    return io.TextIOWrapper(
        raw, encoding=old.encoding, errors=old.errors, line_buffering=lines, write_through=old.write_through
    )


def _run(arguments: Sequence[str]) -> int:
    """Do what ``python`` does with these arguments, and return its exit code."""
    option, *remaining = arguments
    try:
        if option == "-c":
            sys.argv, sys.path[0] = ["-c", *remaining[1:]], ""
            main = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(remaining[0], "<string>", "exec"), main.__dict__)
        elif option == "-m":
            sys.argv, sys.path[0] = remaining, os.getcwd()
            runpy.run_module(remaining[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv, sys.path[0] = list(arguments), os.path.dirname(os.path.abspath(option))
            runpy.run_path(option, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        traceback.print_exc()
        os.kill(os.getpid(), signal.SIGINT)
    return 0


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
