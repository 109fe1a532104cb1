"""The pool's side: a handle on the supervisor of one folder, started on first use.

A killed supervisor is replaced: the handle connects to a new one, asks about each job that it had started, and reports
the answers as usual.

The pool's keys are positions of its log. The supervisor has each activation under the reference of log and position, so
that another log in the same place (of a pool that was removed and begun again) has nothing under the same name.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from attrs import asdict, define

from ....domain.errors import PoolbookError
from ....domain.ports.log import LogPosition
from ....domain.ports.world import How
from ...sockets import Lines, connect, make_private
from .activation import REPORTS, Chirped, Exited, Failed, LaunchRequest, Lost, Report, Running, Started, Transferring

Known: TypeAlias = Literal["unknown"] | Transferring | Running | Exited | Failed | Lost

_VERSION = 3
_HOWS = get_args(How)
PROGRAM = Path(__file__).parent / "supervisor" / "run.py"
_CONNECT_S = 15.0  #: how long to try for a supervisor: it may be busy ending what a predecessor left
_AGAIN_S = 0.01
_TRIES = 5  #: how often a supervisor may hang up on the first words before it is taken to be broken


class SupervisorError(PoolbookError, RuntimeError):
    """There is no supervisor, and none can be started; the message says why."""


class ReplacedError(SupervisorError):
    """Another process that serves the pool has taken over the supervisor."""


@define
class _Begun:
    """An activation that is not known to have ended."""

    activation: LaunchRequest | None
    started: bool


class Supervisor:
    """The supervisor of ``folder``, which holds claims, records, socket and the jobs' directories. One handle in one
    thread uses it at a time: one that connects replaces the one before, which from then on raises ReplacedError.
    ``log``: the id that was chosen for the pool's log; empty: it has none, and its positions alone are the names."""

    def __init__(self, folder: Path, log: str = "") -> None:
        self._folder = folder.absolute()
        self._log_id = log
        self._lines: Lines | None = None
        self._messages: deque[dict[str, Any]] = deque()
        self._reports: deque[Report] = deque()
        self._begun: dict[str, _Begun] = {}
        self._replaced = False
        # What a selector watches must stay the same while connections come and go: a poll set is a descriptor, too.
        # The counter in it is above 0 while there are reports that were read but not handed out.
        self._poll = select.epoll()
        self._ready = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._ready, select.EPOLLIN)

    def start(self, activations: Sequence[LaunchRequest]) -> None:
        """Start these jobs; reports follow for each. A key that was claimed before is not started again. For such a key
        its present state is reported once more: Started, or its end. Raise `SupervisorError` if there is no supervisor:
        none of them is started. If it is lost on the way, ``poll`` goes on with them."""
        fresh = [activation for activation in activations if activation.key not in self._begun]
        again = [activation for activation in activations if activation.key in self._begun]
        self._connected()
        self._begun.update((activation.key, _Begun(activation, False)) for activation in fresh)
        try:
            self._send([_start(activation, self.name(activation.key)) for activation in [*fresh, *again]])
        except ReplacedError:
            raise
        except SupervisorError:
            return  # a supervisor that comes later is asked about them

    def signal(self, key: str, how: How) -> None:
        """Signal a job; do nothing if it runs no more. Soft, hold and remove send its kill signal for that to the job's
        own process, which is continued first if it is suspended; hard sends SIGKILL, suspend SIGSTOP and continue
        SIGCONT to all its processes."""
        if how not in _HOWS:
            raise ValueError(f"a job cannot be signalled {how!r}: choose one of {', '.join(_HOWS)}")
        self._send([{"do": "signal", "key": self.name(key), "how": how}])

    def poll(self, timeout: float) -> list[Report]:
        """Return the reports since the last call; wait up to ``timeout`` seconds for the first (below 0: forever)."""
        if not self._reports:
            self._connected()
            self._poll.poll(None if timeout < 0 else timeout)
        self._receive()
        reports = list(self._reports)
        self._reports.clear()
        self._signal_ready()
        return reports

    def fileno(self) -> int:
        """Return a descriptor for selectors: readable when ``poll`` has something to do, the same for the handle's
        life."""
        return self._poll.fileno()

    def acknowledge(self, keys: Iterable[str]) -> None:
        """Allow the removal of records, claims and scratch directories of these ends, now durable in the pool's log."""
        names = list(map(self.name, keys))
        if names:
            self._send([{"do": "acknowledge", "keys": names}])

    def claimed(self) -> frozenset[str]:
        """Return every activation of the log: running, or ended and not acknowledged."""
        folder = self._folder / "claims"
        return frozenset(filter(None, map(self._key, os.listdir(folder)))) if folder.is_dir() else frozenset()

    def recover(self, keys: Sequence[str]) -> dict[str, Known]:
        """Return the state of these activations; "unknown" was never begun. Requests of a killed pool are settled
        first. ``poll`` reports the ends of those that run, and nothing more of those that have ended."""
        known = self._ask(keys)
        for key, what in known.items():
            if isinstance(what, Transferring | Running):
                self._begun[key] = _Begun(None, isinstance(what, Running))
            else:
                self._begun.pop(key, None)
        self._reports = deque(report for report in self._reports if report.key not in known)
        self._hear_all()  # what came after the answer is news
        self._signal_ready()
        return known

    def close(self) -> None:
        """Detach. The supervisor stays while it has jobs."""
        self._disconnect()
        if self._ready >= 0:
            self._poll.close()
            os.close(self._ready)
            self._ready = -1

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The connection.

    def _connected(self) -> Lines:
        if self._replaced:
            raise ReplacedError(
                f"the supervisor in {self._folder} is used by another process now: two pools must not serve one log"
            )
        for _ in range(_TRIES):
            if self._lines is not None:
                return self._lines
            self._connect()
            try:
                self._resume()
            except ConnectionError:
                self._disconnect()
        if self._lines is None:
            raise SupervisorError(f"the supervisor in {self._folder} hangs up at once{self._tail()}")
        return self._lines

    def _connect(self) -> None:
        deadline = time.monotonic() + _CONNECT_S
        launched = False
        while True:
            try:
                connection = connect(self._folder / "socket", (0, os.geteuid()))
                break
            except (FileNotFoundError, ConnectionError) as error:
                if time.monotonic() > deadline:
                    raise SupervisorError(f"no supervisor answers in {self._folder}: {error}{self._tail()}") from None
            except OSError as error:
                raise SupervisorError(
                    f"no supervisor can be reached in {self._folder}: {error}; it must be a folder of your own"
                ) from error
            if launched:
                time.sleep(_AGAIN_S)
            self._launch()
            launched = True
        self._messages.clear()
        self._lines = Lines(connection)
        self._poll.register(connection, select.EPOLLIN)

    def _launch(self) -> None:
        """Start a supervisor if there is none; it leaves this process's session and all its descriptors."""
        import subprocess  # needed once, if at all

        try:
            make_private(self._folder)
            log = self._log()
            try:
                options = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
                done = subprocess.run(
                    [sys.executable, *options, str(PROGRAM), "server", str(self._folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                )
            finally:
                os.close(log)
        except OSError as error:
            raise SupervisorError(f"no supervisor can be started in {self._folder}: {error}") from error
        if done.returncode != 0:
            said = done.stdout.decode(errors="replace").strip()
            why = f": {said}" if said else f", which ended with code {done.returncode}{self._tail()}"
            raise SupervisorError(f"no supervisor can be started in {self._folder}{why}")

    def _log(self) -> int:
        """Open the supervisor's own log; on a disk that has no room for it, there is none."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._folder / "supervisor.log", flags, 0o600)
        except OSError:
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)

    def _tail(self) -> str:
        try:
            said = (self._folder / "supervisor.log").read_text(errors="replace").strip()
        except OSError:
            return ""
        return f"; the last that it said: {said.splitlines()[-1]}" if said else ""

    def _resume(self) -> None:
        """Agree on the version, and exchange which jobs were begun."""
        self._write([{"do": "hello", "version": _VERSION}])
        hello = self._answer("hello")
        if hello["version"] != _VERSION:
            raise SupervisorError(
                f"the supervisor in {self._folder} (pid {hello['pid']}) speaks version {hello['version']}, this"
                f" Poolbook version {_VERSION}: let its jobs end with the Poolbook that began them"
            )
        if not self._begun:
            return
        again = []
        for key, what in self._ask_once(list(self._begun)).items():
            begun = self._begun.get(key)
            if begun is None:
                continue  # its end was reported before the answer
            if isinstance(what, Running):
                if not begun.started:
                    self._take(Started(key, what.pid, what.at, what.moves))
                if what.writes:
                    self._take(Chirped(key, what.writes))
            elif what != "unknown":
                self._take(what)
            elif begun.activation is None or begun.started:
                self._take(Lost(key, "its claim was removed by somebody else", time.time_ns() // 1000))
            else:
                again.append(_start(begun.activation, self.name(key)))
        self._write(again)
        self._hear_all()

    def _disconnect(self) -> None:
        if self._lines is not None:
            self._poll.unregister(self._lines.connection)
            self._lines.connection.close()
            self._lines = None
            self._hear_all()

    def _send(self, messages: list[dict[str, Any]]) -> None:
        while True:
            self._connected()
            try:
                self._write(messages)
                return
            except ConnectionError:
                # It may have said why before it hung up.
                self._receive()
                self._disconnect()

    def _write(self, messages: Iterable[dict[str, Any]]) -> None:
        assert self._lines is not None
        self._lines.connection.sendall(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def _ask(self, keys: Sequence[str]) -> dict[str, Known]:
        while True:
            self._connected()
            try:
                return self._ask_once(keys)
            except ConnectionError:
                self._disconnect()

    def _ask_once(self, keys: Sequence[str]) -> dict[str, Known]:
        self._write([{"do": "recover", "keys": list(map(self.name, keys))}])
        jobs: dict[str, dict[str, Any] | None] = self._answer("known")["jobs"]
        answers = ((key, jobs[self.name(key)]) for key in keys)
        return {key: "unknown" if said is None else _report(said, key) for key, said in answers}

    def _answer(self, name: str) -> dict[str, Any]:
        """Wait for the answer of this name. Take in what came before it; leave what came after it."""
        while True:
            while self._messages:
                message = self._messages.popleft()
                if message["say"] == name:
                    return message
                self._hear(message)
            self._read(0)

    def _receive(self) -> None:
        """Take in messages without waiting; connect again if the supervisor is gone."""
        try:
            if self._lines is not None:
                self._read(socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except ConnectionError:
            self._disconnect()
            self._connected()
        self._hear_all()

    def _hear_all(self) -> None:
        while self._messages:
            self._hear(self._messages.popleft())

    def _read(self, flags: int) -> None:
        """Take in some messages. Raise `ConnectionError` if the connection is over."""
        assert self._lines is not None
        self._messages.extend(map(json.loads, self._lines.receive(flags)))

    def _hear(self, message: Mapping[str, Any]) -> None:
        if message["say"] == "replaced":
            self._replaced = True
        elif message["say"] in REPORTS and (key := self._key(message["key"])) is not None:
            self._take(_report(message, key))

    def _take(self, report: Any) -> None:
        """Queue a report for the next poll, and record what it changes."""
        if isinstance(report, Started) and report.key in self._begun:
            self._begun[report.key].started = True
        elif isinstance(report, Exited | Failed | Lost):
            self._begun.pop(report.key, None)
        self._reports.append(report)
        self._signal_ready()

    def _signal_ready(self) -> None:
        """Make the counter tell whether reports wait."""
        if self._reports:
            os.eventfd_write(self._ready, 1)
        else:
            with suppress(BlockingIOError):
                os.eventfd_read(self._ready)

    # Names

    def name(self, key: str) -> str:
        """Return the name under which the supervisor has an activation of this log."""
        return str(LogPosition(self._log_id, int(key))) if self._log_id else key

    def _key(self, name: str) -> str | None:
        """Return the key of the activation that the supervisor has under a name; None if it is another log's."""
        try:
            log, position = LogPosition.parse(name)
        except ValueError:
            return None if self._log_id else name
        return str(position) if log == self._log_id else None


def _start(activation: LaunchRequest, name: str) -> dict[str, Any]:
    """Return the message that has an activation started, under this name."""
    fields = ("limits", "transfer", "account", "files", "chirp", "container")
    parts = {field: getattr(activation, field) for field in fields}
    order = asdict(activation, recurse=False) | {field: part and asdict(part) for field, part in parts.items()}
    return {"do": "start", "order": {**order, "key": name}}


def _report(said: Mapping[str, Any], key: str) -> Any:
    return REPORTS[said["say"]](**{name: value for name, value in said.items() if name != "say"} | {"key": key})
