"""The pool's side: a handle on the supervisor of one folder, started on first use.

If the supervisor is killed, the handle starts a new one, asks about each job that it had started, and reports the
answers as usual.

The pool's keys are positions of its log. The supervisor names each activation after its log and position. So another
log in the same place (of a pool that was removed and created again) shares no name with this one.
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

import msgspec
from attrs import asdict, define, evolve

from ....domain.errors import PoolbookError
from ....domain.ports.log import LogPosition
from ....domain.ports.world import How
from ...sockets import JsonLineConnection, connect, make_private
from .activation import REPORTS, Chirped, Exited, Failed, LaunchRequest, Lost, Report, Running, Started, Transferring
from .supervisor.records import claimed_keys

Known: TypeAlias = Literal["unknown"] | Transferring | Running | Exited | Failed | Lost

_VERSION = 4
_HOWS = get_args(How)
PROGRAM = Path(__file__).parent / "supervisor" / "launch_program.py"
_CONNECT_S = 15.0  #: how long to wait for a supervisor: it may be busy killing its predecessor's jobs
_AGAIN_S = 0.01
_SILENCE_S = 120.0  #: how long to wait for the next part of an answer: a slow disk may delay it
_TRIES = 5  #: how often a supervisor may disconnect during the handshake before it counts as broken


class SupervisorError(PoolbookError, RuntimeError):
    """The supervisor of jobs cannot be started. The message says why.

    >>> try:
    ...     pool = Pool.open("pool.db", execute=True)
    ... except SupervisorError as error:
    ...     print(error)
    """


class ReplacedError(SupervisorError):
    """Another process that serves the pool has taken over the supervisor."""


@define
class _OpenActivation:
    """An activation that is not known to have ended."""

    activation: LaunchRequest | None
    started: bool


class Supervisor:
    """The supervisor of ``folder``, which holds claims, records, socket and the jobs' directories. Only one handle, in
    one thread, may use it: a new one replaces the previous one, which from then on raises ReplacedError. ``log`` is the
    id of the pool's log; if it is empty, activations are named by their positions alone."""

    def __init__(self, folder: Path, log: str = "") -> None:
        self._folder = folder.absolute()
        self._log_id = log
        self._lines: JsonLineConnection | None = None
        self._messages: deque[dict[str, Any]] = deque()
        self._reports: deque[Report] = deque()
        self._begun: dict[str, _OpenActivation] = {}
        self._replaced = False
        # What a selector watches must stay the same while connections come and go: a poll set is a descriptor, too.
        # The counter in it is above 0 while there are reports that were read but not handed out.
        self._poll = select.epoll()
        self._ready = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._ready, select.EPOLLIN)

    def start(self, activations: Sequence[LaunchRequest]) -> None:
        """Start these jobs; reports follow for each. A key that was claimed before is not started again, unless it
        waited: its current state is reported instead (Started, or its end). Raise `SupervisorError` if there is no
        supervisor; then none of them starts. If the supervisor dies meanwhile, ``poll`` resumes with a new one."""
        new_activations = [activation for activation in activations if activation.key not in self._begun]
        known = [activation for activation in activations if activation.key in self._begun]
        self._ensure_connected()
        self._begun.update((activation.key, _OpenActivation(activation, False)) for activation in new_activations)
        for activation in known:
            if (begun := self._begun[activation.key]).activation is not None:
                begun.activation = activation
        try:
            self._send([_start(activation, self.name(activation.key)) for activation in [*new_activations, *known]])
        except ReplacedError:
            raise
        except SupervisorError:
            return  # the next supervisor is asked about them

    def signal(self, key: str, how: How) -> None:
        """Signal a job; do nothing if the job has ended. Soft, hold and remove send the kill signal configured for them
        to the job's own process, and first continue the process if it is suspended. Hard sends SIGKILL to all its
        processes, suspend SIGSTOP and continue SIGCONT."""
        if how not in _HOWS:
            raise ValueError(f"unknown signal {how!r}: use one of {', '.join(_HOWS)}")
        self._send([{"do": "signal", "key": self.name(key), "how": how}])

    def set_deadlines(self, deadlines: Mapping[str, int]) -> None:
        """Set when these jobs are killed unless the deadline is set again: in microseconds of CLOCK_BOOTTIME, 0 for
        never. Ignore jobs that have ended. The supervisor kills them also if this process does not exist any more."""
        for key, deadline in deadlines.items():
            begun = self._begun.get(key)
            if begun is not None and begun.activation is not None:
                begun.activation = evolve(begun.activation, deadline=deadline)
        self._send([{"do": "deadline", "deadlines": {self.name(key): until for key, until in deadlines.items()}}])

    def poll(self, timeout: float) -> list[Report]:
        """Return the reports since the last call; wait up to ``timeout`` seconds for the first (below 0: forever)."""
        if not self._reports:
            self._ensure_connected()
            self._poll.poll(None if timeout < 0 else timeout)
        self._receive()
        reports = list(self._reports)
        self._reports.clear()
        self._signal_ready()
        return reports

    def fileno(self) -> int:
        """Return a descriptor for selectors, readable when ``poll`` has something to do. It never changes."""
        return self._poll.fileno()

    def acknowledge(self, keys: Iterable[str]) -> None:
        """Allow the removal of the records, claims and scratch directories of these jobs: the pool's log has their
        end."""
        names = list(map(self.name, keys))
        if names:
            self._send([{"do": "acknowledge", "keys": names}])

    def claimed_keys(self) -> frozenset[str]:
        """Return every activation of the log: running, or ended and not acknowledged."""
        return frozenset(filter(None, map(self._key, claimed_keys(str(self._folder)))))

    def recover(self, keys: Sequence[str]) -> dict[str, Known]:
        """Return the state of these activations; "unknown" means that the activation was never started. The supervisor
        completes the requests of a killed pool first. Later, ``poll`` reports the end of each running one, and nothing
        for the others."""
        known_jobs = self._ask(keys)
        for key, known_job in known_jobs.items():
            if isinstance(known_job, Transferring | Running):
                self._begun[key] = _OpenActivation(None, isinstance(known_job, Running))
            else:
                self._begun.pop(key, None)
        self._reports = deque(report for report in self._reports if report.key not in known_jobs)
        self._hear_all()  # messages after the answer are new reports
        self._signal_ready()
        return known_jobs

    def close(self) -> None:
        """Disconnect. The supervisor keeps running while it has jobs."""
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

    def _ensure_connected(self) -> JsonLineConnection:
        if self._replaced:
            problem = f"another process now uses the supervisor in {self._folder}"
            raise ReplacedError(f"{problem}: only one pool may serve a log")
        for _ in range(_TRIES):
            if self._lines is not None:
                return self._lines
            self._connect()
            try:
                self._resume()
            except ConnectionError:
                self._disconnect()
        if self._lines is None:
            raise SupervisorError(f"the supervisor in {self._folder} disconnects immediately{self._log_tail()}")
        return self._lines

    def _connect(self) -> None:
        deadline = time.monotonic() + _CONNECT_S
        is_launched = False
        while True:
            try:
                connection = connect(self._folder / "socket", (0, os.geteuid()))
                break
            except (FileNotFoundError, ConnectionError) as error:
                if time.monotonic() > deadline:
                    raise SupervisorError(
                        f"no supervisor answers in {self._folder}: {error}{self._log_tail()}"
                    ) from None
            except OSError as error:
                problem = f"no supervisor can be reached in {self._folder}: {error}"
                raise SupervisorError(f"{problem}; you must own this directory") from error
            if is_launched:
                time.sleep(_AGAIN_S)
            self._launch()
            is_launched = True
        self._messages.clear()
        self._lines = JsonLineConnection(connection)
        self._poll.register(connection, select.EPOLLIN)

    def _launch(self) -> None:
        """Start a supervisor unless one runs. It leaves this process's session and closes its descriptors."""
        import subprocess  # imported here because it is needed at most once

        try:
            make_private(self._folder)
            log = self._open_log()
            try:
                options = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
                completed = subprocess.run(
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
        if completed.returncode != 0:
            output = completed.stdout.decode(errors="replace").strip()
            reason = f": {output}" if output else f", which exited with code {completed.returncode}{self._log_tail()}"
            raise SupervisorError(f"no supervisor can be started in {self._folder}{reason}")

    def _open_log(self) -> int:
        """Open the supervisor's own log; use /dev/null if the disk has no room for it."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._folder / "supervisor.log", flags, 0o600)
        except OSError:
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)

    def _log_tail(self) -> str:
        try:
            text = (self._folder / "supervisor.log").read_text(errors="replace").strip()
        except OSError:
            return ""
        return f"; its last message: {text.splitlines()[-1]}" if text else ""

    def _resume(self) -> None:
        """Check the protocol version, and ask about the jobs that were started."""
        self._write([{"do": "hello", "version": _VERSION}])
        hello = self._answer("hello")
        if hello["version"] != _VERSION:
            raise SupervisorError(
                f"the supervisor in {self._folder} (pid {hello['pid']}) uses protocol version {hello['version']}, this"
                f" Poolbook version {_VERSION}: let its jobs end under the Poolbook that started them"
            )
        if not self._begun:
            return
        to_repeat = []
        for key, known_job in self._ask_once(list(self._begun)).items():
            begun_activation = self._begun.get(key)
            if begun_activation is None:
                continue  # the job's end was reported before the answer
            if isinstance(known_job, Running):
                if not begun_activation.started:
                    self._add_report(Started(key, known_job.pid, known_job.at, known_job.moves))
                if known_job.writes:
                    self._add_report(Chirped(key, known_job.writes))
            elif known_job != "unknown":
                self._add_report(known_job)
            elif begun_activation.activation is None or begun_activation.started:
                self._add_report(Lost(key, "another process removed its claim", time.time_ns() // 1000))
            else:
                to_repeat.append(_start(begun_activation.activation, self.name(key)))
        self._write(to_repeat)
        self._hear_all()

    def _disconnect(self) -> None:
        if self._lines is not None:
            self._poll.unregister(self._lines.connection)
            self._lines.connection.close()
            self._lines = None
            self._hear_all()

    def _send(self, messages: list[dict[str, Any]]) -> None:
        while True:
            self._ensure_connected()
            try:
                self._write(messages)
                return
            except ConnectionError:
                # It may have sent the reason before it disconnected.
                self._receive()
                self._disconnect()

    def _write(self, messages: Iterable[dict[str, Any]]) -> None:
        assert self._lines is not None
        self._lines.connection.sendall(b"".join([_line_of(message) for message in messages]))

    def _ask(self, keys: Sequence[str]) -> dict[str, Known]:
        while True:
            self._ensure_connected()
            try:
                return self._ask_once(keys)
            except ConnectionError:
                self._disconnect()

    def _ask_once(self, keys: Sequence[str]) -> dict[str, Known]:
        self._write([{"do": "recover", "keys": list(map(self.name, keys))}])
        jobs: dict[str, dict[str, Any] | None] = self._answer("known")["jobs"]
        answers = ((key, jobs[self.name(key)]) for key in keys)
        return {key: "unknown" if answer is None else _report(answer, key) for key, answer in answers}

    def _answer(self, name: str) -> dict[str, Any]:
        """Wait for the answer of this name. Handle the messages before it; leave those after it queued. Raise
        `SupervisorError` if the supervisor sends nothing for ``_SILENCE_S``."""
        while True:
            while self._messages:
                message = self._messages.popleft()
                if message["say"] == name:
                    return message
                self._handle_message(message)
            assert self._lines is not None
            connection = self._lines.connection
            connection.settimeout(_SILENCE_S)
            try:
                self._read(0)
            except TimeoutError:
                pid = (self._folder / "lock").read_text().strip()
                self._disconnect()  # a late answer would be taken for that of the next request
                raise SupervisorError(
                    f"the supervisor in {self._folder} (pid {pid}) has not answered for {_SILENCE_S:.0f} s: continue it"
                    f" with `kill -CONT {pid}` if it is stopped; `kill -KILL {pid}` ends it and its jobs"
                ) from None
            connection.settimeout(None)

    def _receive(self) -> None:
        """Receive messages without waiting; reconnect if the supervisor has ended."""
        try:
            if self._lines is not None:
                self._read(socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except ConnectionError:
            self._disconnect()
            self._ensure_connected()
        self._hear_all()

    def _hear_all(self) -> None:
        while self._messages:
            self._handle_message(self._messages.popleft())

    def _read(self, flags: int) -> None:
        assert self._lines is not None
        self._messages.extend(map(json.loads, self._lines.receive(flags)))

    def _handle_message(self, message: Mapping[str, Any]) -> None:
        if message["say"] == "replaced":
            self._replaced = True
        elif message["say"] in REPORTS and (key := self._key(message["key"])) is not None:
            self._add_report(_report(message, key))

    def _add_report(self, report: Any) -> None:
        if isinstance(report, Started) and report.key in self._begun:
            self._begun[report.key].started = True
        elif isinstance(report, Exited | Failed | Lost):
            self._begun.pop(report.key, None)
        self._reports.append(report)
        self._signal_ready()

    def _signal_ready(self) -> None:
        """Make the descriptor readable if, and only if, reports wait."""
        if self._reports:
            os.eventfd_write(self._ready, 1)
        else:
            with suppress(BlockingIOError):
                os.eventfd_read(self._ready)

    # Names

    def name(self, key: str) -> str:
        """Return the supervisor's name for an activation of this log."""
        return str(LogPosition(self._log_id, int(key))) if self._log_id else key

    def _key(self, name: str) -> str | None:
        """Return the key of the activation that the supervisor gave this name, or None if the name belongs to another
        log."""
        try:
            log, position = LogPosition.parse(name)
        except ValueError:
            return None if self._log_id else name
        return str(position) if log == self._log_id else None


def _start(activation: LaunchRequest, name: str) -> dict[str, Any]:
    return {"do": "start", "order": {**asdict(activation, recurse=False), "key": name}}


def _line_of(message: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:  # a path or a variable that is not UTF-8
        return json.dumps(message, default=asdict).encode() + b"\n"


def _report(message: Mapping[str, Any], key: str) -> Any:
    return REPORTS[message["say"]](**{name: value for name, value in message.items() if name != "say"} | {"key": key})
