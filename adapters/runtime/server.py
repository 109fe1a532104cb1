"""The pool as a process: it holds a log's lock, runs its jobs, and takes requests on a socket.

Everything that arrived during the last append is decided and appended together; requests are answered after the append.
When an append fails, the requests are answered with the failure. What the world reported is kept and tried again, so
that no job's end is lost to a full disk.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from attrs import define

from ...domain.decide import Refusal
from ...domain.events import WriterBegan
from ...domain.ports import stimuli as s
from ...domain.ports.log import AlreadyServed, Fenced, Log, LogError
from ..machine.host import user_name
from ..stores.log_paths import WriterLock, log_paths
from .command_codec import description_of, stimulus_of
from .commands import is_served, peer_of
from .description_reader import DescriptionReader, left_to_client
from .engine import Engine
from .local_world import LocalWorld
from .log_writer import Answer
from .requests import LONGEST_DESCRIPTION, Terms, view_of_disk
from .startd import ExecutionPoint
from .subscribers import VIEWS_EVERY, Subscribers

PATIENCE = 10.0  #: seconds that a server waits for a short command to release the log
SLOW_CLIENTS = 20_000  #: microseconds between two tries to send to a client that does not read
LONGEST_LINE = 64 << 20
MOST_UNSENT = 64 << 20


@define
class _Asked:
    """A request, and the client that waits for its answer."""

    client: _Client
    stimulus: s.Stimulus
    warnings: list[str] | None = None  #: the warnings of a submit file that was read here

    def reply(self, answer: Answer) -> dict[str, Any]:
        more = {} if self.warnings is None else {"warnings": self.warnings}
        if answer.refusal:
            return {"refusal": answer.refusal, **more}
        return {"answer": {**answer.value, **more} if more else answer.value}


@cache
def _name_of(uid: int) -> str:
    """Return a user's name, cached: it must be known even when no descriptor is left to look it up with."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "root" if uid == 0 else str(uid)


class _Client:
    """A connection: each line of JSON in gets one line of JSON out."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = bytearray()
        self.unsent = bytearray()
        self.uid = peer_of(connection)
        self.user = _name_of(self.uid)

    def lines(self) -> list[bytes] | None:
        """Return the whole lines that have arrived; None if the client is gone or sends a line without an end."""
        try:
            piece = self.connection.recv(1 << 20)
        except BlockingIOError:
            return []
        except OSError:
            return None
        self.received += piece
        if not piece or len(self.received) > LONGEST_LINE:
            return None
        if b"\n" not in piece:
            return []
        *whole, rest = self.received.split(b"\n")
        self.received = bytearray(rest)
        return [bytes(line) for line in whole]

    def answer(self, value: dict[str, Any]) -> None:
        self.unsent += json.dumps(value).encode() + b"\n"
        self.send()

    def send(self) -> bool:
        """Send what can be sent without waiting; return False if the client is gone or has not read for too long. (When
        it asks again with the same id, it gets this answer.)"""
        try:
            del self.unsent[: self.connection.send(self.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.unsent.clear()
            return False
        return len(self.unsent) <= MOST_UNSENT


class Server:
    """Serves one log until told to stop. Made by `serve`; `engine` is the pool."""

    def __init__(self, url: str, open_log: Callable[[], Log], lost: bool = False) -> None:
        """Take the lock, open the log, become its writer. With `lost`, give up the jobs that another machine or folder
        started and this one does not know. Raise `AlreadyServed` if another process has the lock, `LogError` if the log
        cannot be opened."""
        self.paths = log_paths(url)
        for uid in (0, os.geteuid()):
            _name_of(uid)
        self._lock = WriterLock(url)
        self._take_lock(url)
        try:
            self.log = open_log()
            self.world = LocalWorld(self.paths.folder, self.warn)
            self.engine = Engine(self.log, self.world)
            self.engine.load()
            self.found = tuple(self.engine.state.clusters)
            """The clusters in the queue when the log was opened; their jobs may be over by now."""
            self.opened = self.engine.state.position
            here = f"{os.uname().nodename}:{self.paths.folder}"
            self._lost = self._strangers(here, lost)
            self.log.raise_epoch(here, self.engine.now(), "serve")
            self.engine.read_on()
        except BaseException:
            self._lock.give_up()
            raise
        self._subscribers = Subscribers(url, self.log, self.paths.folder / "userlogs", self.warn)
        self.stopping = False
        self._catching = False
        self.point: ExecutionPoint | None = None  #: this machine, if it is a member of the pool
        self._machine_requests: list[tuple[_Client | None, str]] = []
        """Requests to this machine and their clients (None: by SIGHUP)."""
        self._asked: list[_Asked] = []
        self._reader = DescriptionReader(self._wake)
        self._reserved = 0
        self._complained = False
        self._clients: dict[int, _Client] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._wake_in, self._wake_out = socket.socketpair()
        for end in (self._wake_in, self._wake_out):
            end.setblocking(False)
        self.world.watch(self._wake_in.fileno(), self._woken)

    def _take_lock(self, url: str) -> None:
        """Become the writer, after waiting for a short command that holds the lock."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                if self._lock.take():
                    return
            except OSError as error:
                raise LogError(f"{self.paths.lock} cannot be written: {error.strerror}") from None
            if is_served(url) or time.monotonic() > until:
                raise AlreadyServed(
                    f"process {self._lock.holder()} serves the log {url} already; commands find it by themselves, and "
                    "a second pool needs a log of its own (-log)"
                )
            time.sleep(0.02)

    # Sockets

    def _listen(self) -> None:
        # It is renamed once it listens, so that it can be connected to at once. (A killed server's is replaced.)
        unnamed = f"{self.paths.socket}.new"
        with suppress(FileNotFoundError):
            os.unlink(unnamed)
        self._listener.bind(unnamed)
        self._listener.listen(128)
        os.rename(unnamed, self.paths.socket)
        self.world.watch(self._listener.fileno(), self._accept)

    def _wake(self) -> None:
        """Make `step` go on, from any thread."""
        with suppress(OSError):  # closed, or full: then it goes on anyway
            self._wake_out.send(b"\0")

    def _woken(self) -> None:
        self._wake_in.recv(4096)
        for done in self._reader.finished():
            if done.found is None:
                done.client.answer(done.reply)
            else:
                self._asked.append(_Asked(done.client, done.found.request, done.found.warnings))

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # no descriptor is left: close the longest idle client
            if self._clients:
                self._drop(next(iter(self._clients.values())))
            return
        connection.setblocking(False)
        client = _Client(connection)
        self._clients[connection.fileno()] = client
        self.world.watch(connection.fileno(), lambda: self._read(client))

    def _read(self, client: _Client) -> None:
        lines = client.lines()
        if lines is None:
            self._drop(client)
            return
        for line in lines:
            self._request(client, line)

    def _drop(self, client: _Client) -> None:
        fileno = client.connection.fileno()
        if self._clients.pop(fileno, None) is not None:
            self.world.unwatch(fileno)
            client.connection.close()

    def _send_rest(self) -> bool:
        """Send what clients were too slow to take; return True if something is left. A client that does not read is
        dropped."""
        slow = [client for client in self._clients.values() if client.unsent]
        for client in slow:
            if not client.send():
                self._drop(client)
        return any(client.unsent for client in self._clients.values())

    def _request(self, client: _Client, line: bytes) -> None:
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise Refusal("a request is a JSON object")
            handler = _HANDLERS.get(str(request.get("kind")), Server._command)
            handler(self, client, request)
        except (ValueError, RecursionError, Refusal) as error:
            client.answer({"refusal": str(error)})

    def _command(self, client: _Client, request: dict[str, Any]) -> None:
        stimulus = stimulus_of({**request, "user": client.user})
        if isinstance(stimulus, s.Submit):
            self._check_submitter(client)
        self._asked.append(_Asked(client, stimulus))

    def _reserve(self, client: _Client, request: dict[str, Any]) -> None:
        client.answer({"answer": self._terms()._asdict()})

    def _terms(self) -> Terms:
        """Reserve a cluster number."""
        self._reserved = max(self.engine.state.next_cluster, self._reserved + 1)
        return Terms.of(self.engine.state, self._reserved)

    def _reschedule(self, client: _Client, request: dict[str, Any]) -> None:
        self.engine.reschedule()  # with the step that this is part of
        client.answer({"answer": {}})

    def _read_description(self, client: _Client, request: dict[str, Any]) -> None:
        self._check_submitter(client)
        view = request.pop("view", None)
        description = description_of(request)
        known = self.engine.state.answers.get(description.id)
        if known is not None:
            client.answer({"answer": {**json.loads(known), "warnings": []}})
            return
        terms = self._terms()
        ours = len(description.text) <= LONGEST_DESCRIPTION and view == view_of_disk(description.folder)
        if not (ours and self._reader.begin(client, description, terms)):
            client.answer(left_to_client(terms))

    def _queue_for_machine(self, client: _Client, request: dict[str, Any]) -> None:
        self._check_owner(client)
        self._machine_requests.append((client, str(request["kind"])))

    def _check_submitter(self, client: _Client) -> None:
        if client.uid != os.geteuid():
            raise Refusal(
                f"this pool runs its jobs as {user_name()}, and takes jobs of no other user: {client.user} needs a "
                "pool of their own"
            )

    def _check_owner(self, client: _Client) -> None:
        """Refuse requests about this machine unless they come from root or the user who runs the pool."""
        if client.uid not in (0, os.geteuid()):
            raise Refusal(f"only {user_name()}, who runs this pool, may do that")

    # Serving

    def begin(self) -> None:
        """Listen to clients, bring the log's subscribers up to date, recover running jobs, and start idle ones. The
        pool's configuration is in the log by then: a client that reads it finds it there."""
        self._listen()
        self._subscribers.begin(self.world.now())
        self.engine.subscribe(lambda first, events: self._subscribers.follow(first, events, self.world.now()))
        if self._lost:
            now = self.world.now()
            self.engine.handle([s.Ended(f"lost-{key}", key, now, lost=True) for key in self._lost])
        self.engine.recover()

    def _strangers(self, here: str, lost: bool) -> list[str]:
        """Return the activations that another machine or folder started and this one does not know. Raise `LogError` if
        there are some, and `lost` is not set."""
        before = [event.writer for _, event in self.log.read_stream("pool") if isinstance(event, WriterBegan)]
        living = self.engine.state.activations
        if not living or not before or before[-1] == here:
            return []
        strangers = sorted(set(living) - self.world.claimed(), key=int)
        if strangers and not lost:
            raise LogError(
                f"{len(strangers)} jobs of this log were begun at {before[-1]} and may run there still: serve the log "
                "there; or, if they cannot be running any more, -lost lets them be run again"
            )
        return strangers  # none: the log was moved together with the files beside it

    def catch_signals(self) -> None:
        """Make SIGINT and SIGTERM stop the server cleanly (a second one leaves the jobs to their supervisor), and
        SIGHUP re-read the machine's configuration."""
        self._catching = True
        signal.set_wakeup_fd(self._wake_out.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGHUP, self._on_hangup)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: object) -> None:
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = True

    def _on_hangup(self, number: int, frame: object) -> None:
        self._machine_requests.append((None, "reconfigure"))

    def _handle_machine_requests(self) -> None:
        """Execute requests to this machine, and what follows a finished drain."""
        asked, self._machine_requests = self._machine_requests, []
        for client, kind in asked:
            reply = self._ask_machine(kind)
            if client is not None:
                client.answer(reply)
            else:
                self.warn(str(reply.get("refusal") or reply.get("error") or "the configuration was read again"))
        if self.point is not None:
            try:
                self.point.follow_up()
            except Fenced:
                raise
            except LogError as error:  # it is tried again with the next step
                self._refuse([], error)

    def _ask_machine(self, kind: str) -> dict[str, Any]:
        """Execute a request to this machine and return the reply."""
        if self.point is None:
            return {"refusal": "this pool is part of a program, which alone adds machines to it and configures them"}
        try:
            warnings = _MACHINE_REQUESTS[kind](self.point)
        except (Refusal, ValueError) as error:
            return {"refusal": str(error)}
        except Fenced:
            raise
        except LogError as error:
            return {"error": str(error)}
        return {"answer": {"machine": self.point.name, "warnings": warnings}}

    def step(self, until: int | None = None) -> None:
        """Wait for the next event and deal with it; return at `until` (microseconds) at the latest."""
        now = self.world.now()
        soon = [now + VIEWS_EVERY] if self._subscribers.behind else []
        if self._send_rest():
            soon.append(now + SLOW_CLIENTS)
        until = min([*soon, *([] if until is None else [until])], default=None)
        came = self.engine.wait(until)
        asked, self._asked = self._asked, []
        self._subscribers.keep_views(self.world.now(), busy=bool(came or asked))
        try:
            answers = self.engine.handle([*came, *(one.stimulus for one in asked)])
        except Fenced:
            raise
        except LogError as error:
            self._refuse(asked, error)
        except Exception:
            if not asked:
                raise
            self._one_by_one(came, asked)
        else:
            self._complained = False
            for one, answer in zip(asked, answers[len(came) :], strict=True):
                one.client.answer(one.reply(answer))
        self._handle_machine_requests()

    def _refuse(self, asked: Sequence[_Asked], error: LogError) -> None:
        """Answer requests that could not be appended with the error."""
        for one in asked:
            one.client.answer({"error": str(error)})
        if not self._complained and not asked:
            self._complained = True
            self.warn(str(error))

    def _one_by_one(self, came: Sequence[s.Stimulus], asked: Sequence[_Asked]) -> None:
        """Decide requests one by one after a defect in deciding them together: only the one that causes it fails."""
        self.engine.handle([one for one in came if one not in self.engine.unlogged])
        for one in asked:
            try:
                (answer,) = self.engine.handle([one.stimulus])
                one.client.answer(one.reply(answer))
            except Fenced:
                raise
            except LogError as error:
                self._refuse([one], error)
            except Exception as error:
                self.warn(f"a request could not be decided ({type(error).__name__}: {error}): {one.stimulus!r:.300}")
                one.client.answer({"error": f"the pool could not decide this ({type(error).__name__}: {error})"})

    def warn(self, text: str) -> None:
        """Print a warning for the user who runs the server."""
        with suppress(OSError):  # nobody may be reading any more
            print(f"poolbook: {text}", flush=True)

    def shut_down(self, patience: float = 10.0) -> None:
        """Vacate all jobs without regard to their retirement times, wait `patience` seconds until they end, then kill
        the rest."""
        self.engine.executing = False
        self._vacate(fast=False)
        if not self._all_end(patience):
            self._vacate(fast=True)
            self._all_end(5.0)

    def _all_end(self, patience: float) -> bool:
        """Wait until all jobs have ended, `patience` seconds at most; return whether they have."""
        until = self.world.now() + round(patience * 1_000_000)
        while self.engine.state.activations and self.world.now() < until:
            self.step(until)
        return not self.engine.state.activations

    def _vacate(self, fast: bool) -> None:
        slots = [slot.name for slot in self.engine.state.slots.values() if slot.claim is not None]
        self.engine.handle([s.VacateSlot(self.engine.id("stop"), "root", name, fast) for name in slots])
        if not fast:  # jobs that retire now are told to end, too: there is no time to retire in
            everything = s.Selection(everything=True)
            self.engine.handle([s.Act(self.engine.id("stop"), "root", "vacate", everything)])

    def close(self) -> None:
        """Stop serving; running processes are left to the supervisor."""
        if self._catching:
            signal.set_wakeup_fd(-1)
        for client in self._clients.values():
            client.connection.close()
        self._listener.close()
        with suppress(FileNotFoundError):
            os.unlink(self.paths.socket)
        self._subscribers.close(self.world.now())
        self.world.close()
        self.log.close()
        self._lock.give_up()


_MACHINE_REQUESTS = {"reconfigure": ExecutionPoint.reconfigure, "on": ExecutionPoint.come_back}
"""Requests to this machine alone, by their name."""

_HANDLERS: dict[str, Callable[[Server, _Client, dict[str, Any]], None]] = {
    "ReserveCluster": Server._reserve,
    "SubmitDescription": Server._read_description,
    "reschedule": Server._reschedule,
    **dict.fromkeys(_MACHINE_REQUESTS, Server._queue_for_machine),
}
"""Handlers of requests that are no commands of the pool's."""
