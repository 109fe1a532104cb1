"""A pool in a program: ``from poolbook import Pool``.

A pool is opened on a log. By default time is virtual: only ``advance`` and ``run`` move it, and a function decides how
long jobs run. With ``execute=True`` jobs are processes of this machine, time is real, and the log is locked as with
``poolbook serve``.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from ...domain.classad import Context
from ...domain.coverage.settings import restriction
from ...domain.decide import Refusal
from ...domain.events import Event
from ...domain.ports import stimuli as s
from ...domain.ports.log import EventStore
from ...domain.ports.world import Launch
from ...domain.startd.public_ad import PublishedSlots
from ...domain.state.caches import Caches, ad_from_attributes
from ...domain.state_machines import DEFAULT_DIALECT
from ...domain.units import SECOND
from ...replay.virtual_world import EPOCH, Behave, Behaviour, VirtualWorld, sleep_behaviour
from ..machine.host import user_name
from ..runtime.engine import Engine
from ..runtime.open_pool import open_pool_log, take_in_turn
from ..runtime.snapshot import Snapshot
from ..stores.location import locate
from ..stores.log_paths import MemoryLock, WriterLock
from .log_base import CallLock, LogQueries, serialized
from .pool_administration import Config, Configured, Submitters
from .python_values import instant_of, plain_ads, seconds_of
from .submissions import Submission, submit_together

if TYPE_CHECKING:
    from ...replay.validation import Violation
    from ..runtime.pool_server import PoolServer


@serialized("close", "advance", "run", "prio", "submit")
class Pool(Submitters, LogQueries):
    """A pool. Open it with `Pool.open`, use it as a context manager or `close` it.

    >>> pool = Pool.open(user="alice", behave=lambda launch: Behaviour(seconds=600))
    >>> pool.add_machine("node1", cpus=4, memory=8192)
    >>> pool.submit({"executable": "/bin/work", "request_memory": "2 GB"}, count=6)
    1
    >>> pool.advance(660)
    >>> [(job["ProcId"], job["JobStatus"]) for job in pool.jobs()]
    [(4, 2), (5, 2)]

    Threads: any thread may call any method; calls are serialized. Between two instants, `advance` and `run` let other
    threads' calls run. `close` waits for the call in progress; later calls raise `LogClosed`. Only one thread at a time
    may use an iterator. `state` is not protected: it changes while other threads call.

    Callbacks: `behave` and subscribers run in the thread whose call caused them, and may call the pool again, except
    that `behave` cannot let time pass. They must not wait for another thread that calls it. A signal handler cannot
    call the pool while it interrupts another call: that raises `RuntimeError`.

    Processes: a log has one writer: an open pool, a server or a command. `open` waits for its turn; no other process
    can take the log from an open pool. A process that was forked after `open` cannot use the pool. See docs/library.md.
    """

    _step: Callable[[int | None], object]  #: lets time pass
    _close: Callable[[], None]
    _views: sqlite3.Connection | None
    _submissions: list[Submission]  #: the calls of `submit` in progress, of all threads

    def __init__(self) -> None:
        raise TypeError("`Pool.open` opens a pool")

    @classmethod
    def _of(
        cls, engine: Engine, user: str, close: Callable[[], None], configured: Configured | None, calls: CallLock
    ) -> Pool:
        pool = cls.__new__(cls)
        pool._set_engine(engine, configured)
        pool._calls, pool._step, pool._user, pool._close, pool._views = calls, engine.step, user, close, None
        pool._submissions = []
        return pool

    @property
    def _log(self) -> EventStore:
        return self._engine.log

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str] = "memory:",
        *,
        execute: bool = False,
        behave: Behave = sleep_behaviour,
        start: float | None = None,
        dialect: str = DEFAULT_DIALECT,
        settings: Mapping[str, object] | None = None,
        config: Config | None = None,
        ignore_unenforced: bool = False,
        name: str = "",
        uid_domain: str = "",
        user: str = "",
        wait: float = 20.0,
    ) -> Pool:
        """Open the pool whose log is at `url`; create the log if there is none.

        >>> pool = Pool.open("new.db", user="alice", config="START = KeyboardIdle > 900")

        :param url: ``memory:``, a file's path, ``sqlite:///x.db`` or ``postgresql://...``
        :param execute: run jobs as processes of this machine, in real time
        :param behave: in virtual time, what a job's processes do
        :param start: in virtual time, the instant (seconds since the epoch) at which the clock of a new log starts
        :param dialect: ``manual`` or ``htcondor-25``; like `settings` and the names, it applies only to a new log
        :param settings: HTCondor settings, such as MATCH_TIMEOUT, in seconds
        :param config: the configuration of added machines, and of the pool's negotiator and submissions: its text, or
            the path of a file (several: each overrides those before it); without one, machines have START true, and the
            pool keeps its configuration
        :param ignore_unenforced: also accept settings and a configuration with a policy that Poolbook does not enforce:
            submit requirements, job transforms, quotas, limits, user maps
        :param uid_domain: the domain of the users of a new log's pool, unless its configuration has a UID_DOMAIN; this
            machine's name by default
        :param user: the user who submits and changes jobs unless a method names another; by default this process's
            user. With `execute`, the jobs of these users run with the privileges of this process; the jobs in the log
            of any other user are held (code 23)
        :param wait: seconds to wait for the log while another process or pool has it open
        :raises LogError: the log cannot be opened, or was imported (`Log.open` reads it)
        :raises AlreadyServed: another process or pool still had it open after `wait`; the error names the process
        :raises SupervisorError: with `execute`, the supervisor of jobs cannot be started
        :raises Refusal: a dialect or setting that does not exist
        :raises ConfigError: the configuration is invalid
        :warns ConfigWarning: a setting has no effect, or not the likely intended one
        """
        if not ignore_unenforced:
            _check_enforced(settings or {})
        configured = None if config is None else Configured(config, ignore_unenforced)
        now = None if execute else (EPOCH if start is None else round(seconds_of(start, "start") * SECOND))
        place, calls = os.fspath(url), CallLock()
        open_log = partial(
            open_pool_log,
            place,
            create=True,
            dialect=dialect,
            settings={key: str(value) for key, value in (settings or {}).items()},
            name=name,
            uid_domain=uid_domain,
            now=now,
        )
        default_user = user or user_name()
        patience = seconds_of(wait, "wait")
        if execute:
            server = _serve_in_process(place, open_log, configured, default_user, patience)
            calls.wake = server.wake
            pool = cls._of(server.engine, default_user, server.close, configured, calls)
            pool._step = server.step
            return pool
        engine, close = _open_virtual(place, open_log, configured, behave, patience, calls)
        return cls._of(engine, default_user, close, configured, calls)

    def close(self) -> None:
        """Close the log; later calls fail. Running processes continue under their supervisor, and the next `open`
        recovers them."""
        if self._closed or self._calls.is_inherited:
            return
        with self._calls:
            if self._views is not None:
                self._views.close()
                self._views = None
            if not self._closed:
                self._closed = True
                self._close()

    def _submit(self, submission: Submission) -> dict[str, Any]:
        self._submissions.append(submission)
        try:
            with self._calls:
                result = submission.result or submit_together(self._engine, submission, self._submissions)
        finally:
            self._submissions.remove(submission)
        if result.refusal:
            raise Refusal(result.refusal)
        return dict(result.value)

    @property
    def now(self) -> float:
        """Return the pool's time, in seconds since the epoch."""
        return self._engine.world.now() / SECOND

    def advance(self, seconds: float) -> None:
        """Let time pass and process all events in it. With real jobs, this waits. Other threads' calls run between two
        instants.

        >>> pool.advance(3600)

        :raises ValueError: `seconds` is not a valid length of time
        """
        until = self._instant_after(seconds, "seconds")
        reached = False
        while not reached:
            with self._calls:
                reached = self._clock.world.now() >= until
                self._step(until)

    def run(self, limit: float | None = None) -> bool:
        """Let time pass until no job runs and none can start; return False if `limit` seconds were not enough. Other
        threads' calls run between two instants.

        >>> pool.run(limit=7200)
        True

        :raises ValueError: `limit` is not a valid length of time
        """
        until = None if limit is None else self._instant_after(limit, "limit")
        with self._calls:
            self._clock.handle([])
        while True:
            with self._calls:
                if not self._clock.busy():
                    return True
                if until is not None and self._engine.world.now() >= until:
                    return False
                self._step(until)

    def _instant_after(self, seconds: float, name: str) -> int:
        with self._calls:
            return self._engine.world.now() + round(seconds_of(seconds, name) * SECOND)

    @property
    def _clock(self) -> Engine:
        """Return the engine, to let time pass. Raise `Refusal` within `behave`, where time cannot pass."""
        if self._engine.performing:
            raise Refusal("time cannot pass during a call of `behave`: return from it, then call `advance` or `run`")
        return self._engine

    def jobs(self, constraint: str = "", *, at: float | None = None) -> list[dict[str, Any]]:
        state, now = self._state_at(at)
        ads = (cluster.attributes(proc) for cluster in state.clusters.values() for proc in cluster.procs())
        return plain_ads(map(ad_from_attributes, ads), constraint, now)

    def slots(self, constraint: str = "", *, at: float | None = None) -> list[dict[str, Any]]:
        state, now = self._state_at(at)
        context = Context(now=now // SECOND, timezone=self._engine.zone, user_maps=state.user_maps)
        published = PublishedSlots(state, Caches(), now, context)
        return plain_ads(map(published.ad, state.slots.values()), constraint, now)

    def history(self, constraint: str = "", *, at: float | None = None) -> list[dict[str, Any]]:
        from ...projections.views import Views
        from ..runtime.queries import Queries
        from ..runtime.views import catch_up, open_tables

        if at is not None:
            instant = instant_of(at, "at")
            with Queries("", self._engine.log, instant) as queries:
                return plain_ads(queries.history(), constraint, instant)
        if self._views is None:
            self._views = open_tables(None)
        catch_up(self._engine.log, self._views)
        return plain_ads(Views(self._views).history_ads(), constraint, self._engine.world.now())

    def usage(self) -> dict[str, float]:
        return {name: amount / 1000 / SECOND for name, amount in self._engine.state.usage.items()}

    def subscribe(self, subscriber: Callable[[int, Event], None]) -> None:
        """Call `subscriber` with every later event and its position, once it is in the log.

        >>> pool.subscribe(lambda position, event: print(position, type(event).__name__))
        """

        def each(first: int, events: Sequence[Event]) -> None:
            with self._calls.callback():
                for offset, event in enumerate(events):
                    subscriber(first + offset, event)

        self._engine.subscribe(each)

    def judge(self) -> list[Violation]:
        """Return the events in the log that violate a rule. The list is empty for a log that a pool wrote.

        >>> pool.judge()
        []
        """
        from ...replay.validation import validate

        return list(validate(self._log.read()))


def _serve_in_process(
    url: str, open_log: Callable[[], EventStore], configured: Configured | None, user: str, wait: float
) -> PoolServer:
    from ..runtime.pool_server import PoolServer

    server = PoolServer(url, open_log, wait=wait)
    server.world.owners.add(user)
    try:
        if configured is not None:
            server.world.configure(configured.read())
            server.world.warm_up()
            _configure(server.engine, configured)
        server.start_serving()
    except BaseException:
        server.close()
        raise
    return server


def _open_virtual(
    url: str,
    open_log: Callable[[], EventStore],
    configured: Configured | None,
    behave: Behave,
    wait: float,
    calls: CallLock,
) -> tuple[Engine, Callable[[], None]]:
    def call_behave(launch: Launch) -> Behaviour:
        with calls.callback():
            return behave(launch)

    location = locate(url)
    lock = MemoryLock(location.place) if location.kind == "memory" else WriterLock(url)
    take_in_turn(lock, url, wait)
    with ExitStack() as opened:
        opened.callback(lock.give_up)
        world = VirtualWorld(call_behave)
        engine = Engine(open_log(), world, snapshot=Snapshot(url))
        opened.callback(engine.close)
        engine.load()
        world.clock = engine.state.at
        if configured is not None:
            _configure(engine, configured)
        engine.recover()
        return engine, opened.pop_all().close


def _check_enforced(settings: Mapping[str, object]) -> None:
    for name in settings:
        if about := restriction(name):
            raise Refusal(f"{name}: Poolbook does not enforce {about}; remove it, or pass ignore_unenforced=True")


def _configure(engine: Engine, configured: Configured) -> None:
    engine.ask(s.ConfigurePool(engine.id("reconfigure"), configured.pool_settings()))
