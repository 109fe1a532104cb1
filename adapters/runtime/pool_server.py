"""Serve a pool: lock its log, run its jobs, and accept requests on a socket.

Requests that arrive during an append are then decided and appended together, and answered after their append. If it
fails, the answer is the error. Reports from the world are stored and retried, so that no job's end is lost when the
disk is full.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import define

from ...domain.decide import Refusal
from ...domain.events import WriterBegan
from ...domain.ports import stimuli as s
from ...domain.ports.log import EventStore, Fenced, LogError
from ...domain.schedd.constraints import EvaluationBudget
from ...domain.state.peers import ACCESS_POINT, MANAGER
from ..machine.host import user_name
from ..machine.local_time import local_time
from ..machine.stop_signals import GRACEFUL, STOP_SIGNALS
from ..sockets import listen, make_private
from ..stores.fast_head import head_of
from ..stores.location import safe_url
from ..stores.log_id import chosen_id
from ..stores.log_paths import WriterLock, log_paths
from ..stores.sqlite_files import mode_of_files_beside
from .command_codec import ComeBack, ReadConfiguration, Reschedule, ReserveCluster, request_of
from .connections import Connections, JsonConnection, name_of
from .engine import Engine
from .job_users import rights_of
from .local_world import LocalWorld
from .log_writer import StimulusResult
from .open_pool import take_in_turn
from .pool_client import is_served
from .requests import LONGEST_DESCRIPTION, RequestRefused, SubmitDescription, SubmitTerms, view_of_disk
from .slow_requests import MAX_JOBS, DescriptionReader, EvaluationQueue, WaitingRequest, left_to_client
from .snapshot import Snapshot
from .startd import ExecutionPoint
from .stop_jobs import is_faster, stop_jobs
from .subscribers import VIEWS_EVERY, Subscribers

if TYPE_CHECKING:
    from ..fabric.carrier import Carrier
    from .role_links import RoleLinks

PATIENCE = 10.0  #: seconds that a server waits for a short command to release the log
RENEWAL = 5.0  #: seconds between two renewals of a lock on a log's server
SLOW_CLIENTS = 20_000  #: microseconds between attempts to send to a client that does not read
AT_ONCE = 64  #: maximum number of connections accepted before the pool continues


@define
class _PendingRequest:
    """A request, and the client that waits for the answer."""

    client: JsonConnection
    stimulus: s.Stimulus
    warnings: list[str] | None = None  #: the warnings about a submit file that this server read

    def reply(self, answer: StimulusResult) -> None:
        extra = {} if self.warnings is None else {"warnings": self.warnings}
        if answer.refusal:
            self.client.answer(RequestRefused(answer.refusal, (), answer.code, answer.tool).as_answer() | extra)
        elif extra:
            self.client.answer({"answer": {**answer.value, **extra}})
        else:
            self.client.answer_text(answer.text)


class ServedUsers(Enum):
    """The users whose jobs a pool runs."""

    OWN = auto()  #: only jobs of the serving user
    EACH = auto()  #: served by root: each user's jobs with that user's privileges, root's jobs with root's privileges
    ALL = auto()  #: like EACH, but without root's jobs; all users may submit


class PoolServer:
    """Serves one log until it is stopped. Created by `serve`; `engine` is the pool."""

    def __init__(
        self,
        url: str,
        open_log: Callable[[], EventStore],
        lost: bool = False,
        served_users: ServedUsers = ServedUsers.OWN,
        wait: float | None = None,
        lock: WriterLock | None = None,
    ) -> None:
        """Take the lock, open the log, and become its writer. With `lost`, give up unknown jobs that were started on
        another machine or in another directory. The jobs of `served_users` run. `wait` is how many seconds a program's
        pool waits for the lock; with None, it waits only for a short command. `lock` is the lock if this process
        already has it. Raise `AlreadyServed` if another process holds the lock, `LogError` if the log cannot be
        opened."""
        self.url, self.paths = url, log_paths(url)
        self.before_warning: Callable[[], None] = lambda: None
        self._served_users = served_users if os.geteuid() == 0 else ServedUsers.OWN
        for uid in (0, os.geteuid()):
            name_of(uid)
        self._in_program = wait is not None  # a program receives the errors that `serve` prints
        self._lock = lock or WriterLock(url)
        self._renewed = float("-inf")  # when it last renewed the lock
        if lock is None:
            hopeless = (lambda: is_served(url)) if wait is None else (lambda: False)
            take_in_turn(self._lock, url, PATIENCE if wait is None else wait, hopeless)
        try:
            try:
                make_private(self.paths.folder)  # before anything is stored there
            except OSError as error:
                raise LogError(f"{self.paths.folder} cannot be used: {error.strerror or error}") from None
            self.log = open_log()
            self.world = LocalWorld(self.paths.folder, self.warn, chosen_id(self.log))
            if self._served_users is not ServedUsers.OWN:
                self.world.serve_users(refuses_root=self._served_users is ServedUsers.ALL)
            self.engine = Engine(self.log, self.world, snapshot=Snapshot(url), zone=local_time())
            self.engine.load()
            gc.freeze()  # the state is long-lived: with a million clusters, each garbage collection would take seconds
            self.found = tuple(self.engine.state.clusters)
            """The clusters in the queue when the log was opened; their jobs may have ended since then."""
            self.opened = self.engine.state.position
            place = f"{os.uname().nodename}:{self.paths.folder}"
            self._lost = self._foreign_activations(place, lost)
            self.log.raise_epoch(place, self.engine.now(), "serve")
            self.engine.read_on()
        except BaseException:
            self._lock.give_up()
            raise
        rights = None if self._served_users is ServedUsers.OWN else rights_of
        is_access_point = ACCESS_POINT in self.engine.state.roles
        folder = self.paths.folder / "userlogs"
        self._subscribers = Subscribers(url, self.log, folder, self.warn, rights, writes_user_logs=is_access_point)
        self.stopping = False
        self.stop_speed = GRACEFUL  #: how it stops
        self._handlers: dict[int, Any] = {}  # the previous handlers of the signals that it catches
        self.point: ExecutionPoint | None = None  #: this machine, if it is a member of the pool
        self._machine_requests: list[tuple[JsonConnection | None, ReadConfiguration | ComeBack]] = []
        """Requests to this machine and their clients (None: SIGHUP)."""
        self._pending: list[_PendingRequest] = []
        self._evaluations = EvaluationQueue[_PendingRequest]()
        self._reader = DescriptionReader(self.wake)
        self._links: RoleLinks | None = None
        self._rejected: deque[s.RejectedRequests] = deque()
        self._reserved = 0
        self._warned = False
        self._connections = Connections(lambda client: self.world.unwatch(client.connection.fileno()))
        self._listener: socket.socket | None = None
        self._wake_in, self._wake_out = socket.socketpair()
        for end in (self._wake_in, self._wake_out):
            end.setblocking(False)
        self.world.watch(self._wake_in.fileno(), self._on_wake)

    def connect(self, carrier: Carrier, managers: Callable[[], Iterable[str]] = lambda: (MANAGER,)) -> RoleLinks:
        """Connect the log's role, the only one that acts in it, to its peers. ``managers`` returns the managers that it
        has joined."""
        from .role_links import RoleLinks

        self._links = RoleLinks(carrier, self.engine, self.world, self.warn, managers, self.url)
        return self._links

    def report(self, rejected: s.RejectedRequests) -> None:
        """Record rejected requests in the next step, from any thread."""
        self._rejected.append(rejected)
        self.wake()

    def _reported(self) -> list[s.Stimulus]:
        """Return the stimulus to record what was reported."""
        rejected = [self._rejected.popleft() for _ in range(len(self._rejected))]
        return [s.RejectRequests(self.engine.id("rejected"), tuple(rejected))] if rejected else []

    def _listen(self) -> None:
        try:
            mode = 0o666 if self._served_users is ServedUsers.ALL else mode_of_files_beside(str(self.paths.base))
            listener = self._listener = listen(self.paths.socket_path, 128, mode)
        except OSError as error:
            raise LogError(f"{self.paths.socket_path} cannot be created: {error.strerror}; you must own it") from None
        self.world.watch(listener.fileno(), lambda: self._accept(listener))

    def wake(self) -> None:
        """Make `step` return early, from any thread."""
        with suppress(OSError):  # the pipe is closed, or full, so that `step` returns anyway
            self._wake_out.send(b"\0")

    def _on_wake(self) -> None:
        self._wake_in.recv(4096)
        for done in self._reader.finished():
            if done.description is None:
                done.client.answer(done.reply)
            else:
                self._pending.append(_PendingRequest(done.client, done.description.request, done.description.warnings))

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError:  # no file descriptors are left
                self._connections.drop_idlest()
                return
            client = self._connections.add(connection)
            self.world.watch(connection.fileno(), partial(self._connections.receive, client))

    def _send_rest(self) -> bool:
        """Send the remaining data to slow clients; return True if some is left. Drop clients that do not read."""
        for client in self._connections:
            if client.unsent and not client.send():
                self._connections.drop(client)
        return any(client.unsent for client in self._connections)

    def _request(self, client: JsonConnection, line: bytes) -> None:
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise Refusal("a request must be a JSON object")
            if (user := request.pop("on_behalf", None)) is not None:
                client.user = self._user_elsewhere(client, user)
            command = request_of({**request, "user": client.user})
            handler = _HANDLERS.get(type(command), PoolServer._decide)
            handler(self, client, command)
        except (ValueError, RecursionError, Refusal) as error:
            client.answer({"refusal": str(error)})
        except LogError as error:
            client.answer({"error": str(error)})

    def _user_elsewhere(self, client: JsonConnection, user: object) -> str:
        """Return the user on another machine for whom this pool's HTTPS service has sent a request."""
        if client.uid != os.geteuid() or not isinstance(user, str):
            raise Refusal(f"only {user_name()}, who runs this pool, may send requests for other users")
        return user

    def _decide(self, client: JsonConnection, command: s.Command) -> None:
        if isinstance(command, s.Submit):
            self._check_submitter(client)
        self._pending.append(_PendingRequest(client, command))

    def _reserve(self, client: JsonConnection, _: ReserveCluster) -> None:
        self._check_submitter(client)
        client.answer({"answer": self._terms()._asdict()})

    def _terms(self) -> SubmitTerms:
        """Reserve a cluster number."""
        self._reserved = max(self.engine.state.next_cluster, self._reserved + 1)
        return SubmitTerms.from_state(self.engine.state, self._reserved)

    def _reschedule(self, client: JsonConnection, request: Reschedule) -> None:
        self.engine.reschedule(request.name)  # together with the current step
        client.answer({"answer": {}})

    def _read_description(self, client: JsonConnection, description: SubmitDescription) -> None:
        self._check_submitter(client)
        earlier_answer = self.engine.state.answers.get(description.id)
        if earlier_answer is not None:
            answer = json.loads(earlier_answer)
            client.answer(answer if "refusal" in answer else {"answer": {**answer, "warnings": []}})
            return
        terms = self._terms()
        # A submit file's files are read with the submitter's rights; other users' processes read their own.
        is_own_user = client.uid == os.geteuid()
        ours = is_own_user and len(description.text) <= LONGEST_DESCRIPTION
        ours = ours and description.view == view_of_disk(description.folder)
        if not (ours and self._reader.start_reading(client, description, terms)):
            client.answer(left_to_client(terms))

    def _queue_for_machine(self, client: JsonConnection, request: ReadConfiguration | ComeBack) -> None:
        if client.user not in (name_of(0), name_of(os.geteuid())):
            raise Refusal(f"only {user_name()}, who runs this pool, may do that")
        self._machine_requests.append((client, request))

    def _check_submitter(self, client: JsonConnection) -> None:
        if self._served_users is ServedUsers.ALL and client.user == name_of(0):
            raise Refusal(
                "The given user is not allowed to own jobs: this pool rejects root's jobs; submit as another user"
            )
        if client.user != name_of(os.geteuid()) and self._served_users is ServedUsers.OWN:
            raise Refusal(
                f"this pool runs its jobs as {user_name()}, and accepts no other user's jobs: {client.user} needs a "
                f"separate pool"
            )

    def start_serving(self) -> None:
        """Update the log's subscribers, recover running jobs, start idle jobs, and then listen for clients, so that
        each is answered immediately. The pool's configuration is in the log before the first client reads it."""
        self._configure_daemon_logs()
        self._subscribers.catch_up(self.world.now())
        self.engine.subscribe(lambda first, events: self._subscribers.process_events(first, events, self.world.now()))
        self.engine.subscribe(lambda first, events: self._evaluations.discard_changed(events))
        self.world.watch_cleanup()
        self.engine.subscribe(self.world.spool.follow)
        self.world.spool.sweep(lambda cluster, proc: proc in self.engine.state.clusters.get(cluster, ()))
        if self._lost:
            now = self.world.now()
            self.engine.handle([s.ActivationEnded(f"lost-{key}", key, now, lost=True) for key in self._lost])
        self.engine.recover()
        self._listen()

    def _foreign_activations(self, place: str, lost: bool) -> list[str]:
        """Return the activations that were started on another machine or in another directory, and that are not known
        to this server. Raise `LogError` if there are any and `lost` is not set."""
        before = [event.writer for _, event in self.log.read_stream("pool") if isinstance(event, WriterBegan)]
        living = self.engine.state.running_keys
        if not living or not before or before[-1] == place:
            return []
        strangers = sorted(set(living) - self.world.claimed_keys(), key=int)
        if strangers and not lost:
            raise LogError(
                f"{len(strangers)} jobs of this log were started on {before[-1]} and may still run there: serve the "
                f"log there, or use -lost to run them again if they cannot be running any more"
            )
        return strangers  # none: the log was moved together with the files next to it

    def _configure_daemon_logs(self) -> None:
        """Write the daemons' logs that the configuration names."""
        from .daemon_logs.log_settings import log_settings

        settings = None if self.point is None or self.point.load is None else log_settings(self.point.load)
        for warning in settings.warnings if settings is not None else ():
            self.warn(f"warning: {warning}")
        self._subscribers.daemon_logs.configure(settings)

    def catch_signals(self) -> None:
        """Make SIGINT and SIGTERM stop the server cleanly (a second signal leaves the jobs to their supervisor),
        SIGQUIT fast, SIGUSR1 when its jobs have ended, and SIGHUP reread the machine's configuration, until the server
        is closed."""
        signal.set_wakeup_fd(self._wake_out.fileno(), warn_on_full_buffer=False)
        numbers = (signal.SIGINT, *STOP_SIGNALS)
        self._handlers = {number: signal.signal(number, self._on_signal) for number in numbers}
        self._handlers[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._on_hangup)

    def _on_signal(self, number: int, frame: object) -> None:
        speed = STOP_SIGNALS.get(number, GRACEFUL)
        if self.stopping and speed == self.stop_speed == GRACEFUL:
            raise KeyboardInterrupt
        if not self.stopping or is_faster(speed, self.stop_speed):
            self.stop_speed = speed
        self.stopping = True

    def _on_hangup(self, number: int, frame: object) -> None:
        self._machine_requests.append((None, ReadConfiguration()))

    def _handle_machine_requests(self) -> None:
        """Execute requests to this machine, and the next step after a finished drain or shutdown."""
        requests, self._machine_requests = self._machine_requests, []
        for client, request in requests:
            reply = self._ask_machine(request)
            if client is not None:
                client.answer(reply)
            else:
                self.warn(str(reply.get("refusal") or reply.get("error") or "the configuration was read again"))
        if self.point is not None and not self.stopping:
            self._attempt(self.point.follow_up)

    def _ask_machine(self, request: ReadConfiguration | ComeBack) -> dict[str, Any]:
        if self.point is None:
            return {"refusal": "this pool is part of a program: only the program can add machines and configure them"}
        try:
            warnings = self.point.come_back() if isinstance(request, ComeBack) else self.point.reconfigure()
            self._configure_daemon_logs()
        except (Refusal, ValueError) as error:
            return {"refusal": str(error)}
        except Fenced:
            raise
        except LogError as error:
            return {"error": str(error)}
        return {"answer": {"machine": self.point.name, "warnings": warnings}}

    def step(self, until: int | None = None) -> None:
        """Wait for the next event and handle it; return at `until` (microseconds) at the latest. If the log cannot be
        read or written, warn, answer the waiting requests with the error, and try again in a later step."""
        stimuli: list[s.Stimulus] = []
        try:
            stimuli = self.engine.wait(self._time_to_wake(until))
            stimuli += self._reported()
        except LogError as error:
            self._refuse([], error)
        self._attempt(self._renew_lock)
        for client, line in self._connections.requests_of_round():
            self._request(client, line)
        requests, self._pending = self._pending, []
        self._subscribers.views.update_if_due(self.world.now(), busy=bool(stimuli or requests))
        try:
            commands = [request.stimulus for request in requests]
            answers = self.engine.handle([*stimuli, *commands], EvaluationBudget(MAX_JOBS))
        except LogError as error:
            self._refuse(requests, error)
        except Exception:
            if not requests:
                raise
            self._decide_one_by_one(stimuli, requests)
        else:
            self._warned = False
            for request, answer in zip(requests, answers[len(stimuli) :], strict=True):
                self._answer(request, answer)
        if self._links is not None:
            self._attempt(self._links.exchange)
        self._evaluations.evaluate_next()
        ready = self._evaluations.next_ready()
        if ready is not None:
            self._decide_alone(ready.request, ready.budget, ready)
        self._handle_machine_requests()

    def _time_to_wake(self, until: int | None) -> int | None:
        """Return when `step` must return even if nothing happens, at `until` at the latest."""
        now = self.world.now()
        soon = [] if until is None else [until]
        if self._subscribers.views.is_behind:
            soon.append(now + VIEWS_EVERY)
        if self._send_rest():
            soon.append(now + SLOW_CLIENTS)
        slowest = self._connections.drop_disconnected()
        if slowest is not None:
            soon.append(now + round(slowest * 1_000_000))
        if self._connections.has_waiting_request or self._evaluations:
            soon.append(now)
        if self._links is not None:
            soon.append(now + self._links.until_due())
        if self._lock.needs_renewal:
            soon.append(now + round(max(0.0, self._renewed + RENEWAL - time.monotonic()) * 1_000_000))
        return min(soon, default=None)

    def _attempt(self, work: Callable[[], object]) -> None:
        """Do what the next step repeats if the log cannot be read or written now."""
        try:
            work()
        except LogError as error:
            self._refuse([], error)

    def _refuse(self, requests: Sequence[_PendingRequest], error: LogError) -> None:
        """Answer requests with an error of the log. Raise an error that no later step can make up for, and in a program
        the errors that are no client's."""
        if isinstance(error, Fenced):
            for request in requests:
                request.client.answer({"error": str(error)})
            raise error if self._in_program else Fenced(self._fence_reason(error)) from error
        if self._in_program and not requests:
            raise error
        for request in requests:
            request.client.answer({"error": str(error)})
        if not self._warned and not requests:
            self._warned = True
            self.warn(str(error))

    def _renew_lock(self) -> None:
        if not self._lock.needs_renewal or time.monotonic() < self._renewed + RENEWAL:
            return
        self._renewed = time.monotonic()
        if not self._lock.renew() and (head := head_of(self.url)) and head[0] != self.log.head.epoch:
            raise Fenced(f"process {self._lock.holder()} has taken the lock of {safe_url(self.url)}")

    def _fence_reason(self, error: Fenced) -> str:
        """Return why this process can no longer write the log, for its administrator."""
        before = self.log.head.position
        with suppress(LogError):
            self.log.refresh()
            for _, event in self.log.read_stream("pool", before):
                if isinstance(event, WriterBegan):
                    return (
                        f"{safe_url(self.url)} has a new writer since epoch {event.epoch}: {event.writer}. This "
                        "process wrote nothing after that, and ends; its running jobs continue. To wait for the log "
                        "again, use `poolbook serve -standby`"
                    )
        return f"{error}. This process ends; start it again"

    def _decide_one_by_one(self, stimuli: Sequence[s.Stimulus], requests: Sequence[_PendingRequest]) -> None:
        """If deciding the requests together raised an exception, decide them one by one, so that only the request at
        fault fails."""
        self.engine.handle([stimulus for stimulus in stimuli if stimulus not in self.engine.unlogged])
        for request in requests:
            self._decide_alone(request, EvaluationBudget(MAX_JOBS))

    def _decide_alone(
        self, request: _PendingRequest, budget: EvaluationBudget, before: WaitingRequest[_PendingRequest] | None = None
    ) -> None:
        """Decide a single request. If its jobs were evaluated in advance, `before` contains the results."""
        try:
            (answer,) = self.engine.handle([request.stimulus], budget)
        except LogError as error:
            self._refuse([request], error)
        except Exception as error:
            self.warn(f"a request could not be decided ({type(error).__name__}: {error}): {request.stimulus!r:.300}")
            request.client.answer({"error": f"the pool could not decide this ({type(error).__name__}: {error})"})
        else:
            self._answer(request, answer, before)

    def _answer(
        self, request: _PendingRequest, answer: StimulusResult, before: WaitingRequest[_PendingRequest] | None = None
    ) -> None:
        """Send a request's answer, or make the request wait until its jobs have been evaluated."""
        if answer.first is None:
            request.reply(answer)
        else:
            self._evaluations.put(request, answer.first, before)

    def warn(self, text: str) -> None:
        """Print a warning for the user who runs the server."""
        with suppress(OSError):  # the reader may have exited
            self.before_warning()
            print(f"poolbook: {text}", flush=True)

    def shut_down(self, patience: float = 10.0) -> None:
        """Stop the running jobs, as the signal demands. Jobs that are vacated have `patience` seconds to end."""
        stop_jobs(self, patience)

    def close(self) -> None:
        """Stop serving. Running processes continue under the supervisor."""
        if self._handlers:
            signal.set_wakeup_fd(-1)
        for client in self._connections:
            client.connection.close()
        if self._links is not None:
            self._links.close()
        if self._listener is not None:
            self._listener.close()
            with suppress(FileNotFoundError):
                os.unlink(self.paths.socket_path)
        self._subscribers.close()
        self.world.close()
        self.engine.close()
        self._lock.give_up()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)


_HANDLERS: dict[type, Callable[[PoolServer, JsonConnection, Any], None]] = {
    ReserveCluster: PoolServer._reserve,
    SubmitDescription: PoolServer._read_description,
    Reschedule: PoolServer._reschedule,
    ReadConfiguration: PoolServer._queue_for_machine,
    ComeBack: PoolServer._queue_for_machine,
}
"""The handler for each kind of request to the server; all others are the pool's commands, handled by
`PoolServer._decide`."""
