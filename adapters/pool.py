"""A pool in a program of one's own: ``from poolbook import Pool``.

A pool is opened on a log. By default time is virtual: it stands still until ``advance`` or ``run`` moves it, and jobs
run for as long as a function says. With ``execute=True`` jobs are processes of this machine, time is real, and the log
is locked as ``poolbook serve`` would lock it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..domain.classad import EvaluationError, Exceptional, ListValue
from ..domain.decide import Refusal
from ..domain.decide import stimuli as s
from ..domain.dialects import DEFAULT_DIALECT
from ..domain.events import Ad, Event
from ..domain.job_ad import quoted
from ..domain.log import Log
from ..domain.policy.published import shown, with_unsaid
from ..domain.state import Slot
from ..domain.texts import ad_of
from ..replay.virtual import EPOCH, SECOND, Behave, VirtualWorld, sleeps
from .engine import Engine
from .facts import user_name
from .founding import open_pool_log
from .pool_machines import Config, Configured
from .pool_submitters import Submitters
from .values import text_of

JobId = str | int | tuple[int, int]
"""A job ("12.3" or (12, 3)), a whole cluster ("12" or 12), or a user's name."""


class Pool(Submitters):
    """One pool. Open it with `Pool.open`, use it as a context manager or `close` it."""

    def __init__(
        self, engine: Engine, user: str, close: Callable[[], None], configured: Configured | None = None
    ) -> None:
        super().__init__(engine, configured)
        self._user, self._close = user, close
        self._views: sqlite3.Connection | None = None

    @classmethod
    def open(
        cls,
        url: str = "memory:",
        *,
        execute: bool = False,
        behave: Behave = sleeps,
        start: float | None = None,
        dialect: str = DEFAULT_DIALECT,
        settings: Mapping[str, object] | None = None,
        config: Config | None = None,
        name: str = "",
        uid_domain: str = "",
        user: str = "",
    ) -> Pool:
        """Open the pool whose log is at `url`, and begin the log if there is none.

        :param url: ``memory:``, a file's path, ``sqlite:///x.db`` or ``postgresql://...``
        :param execute: run jobs as processes of this machine, in real time
        :param behave: in virtual time, what a job's processes do
        :param start: in virtual time, the instant (seconds since the epoch) at which the clock of a new log begins
        :param dialect: ``manual`` or ``htcondor-25``; with `settings` and names it counts for a new log only
        :param settings: HTCondor's names, such as MATCH_TIMEOUT, with seconds
        :param config: under which the machines that are added offer their slots, and which the pool's negotiator and
            submissions follow: a configuration's text, or the path of a file (several: each laid over those before it);
            without one, machines take whatever comes, and the pool goes on under the configuration that it had
        :param uid_domain: the domain of the users of a new log's pool, unless its configuration has a UID_DOMAIN;
            the name of this machine, if not given
        :param user: on whose behalf jobs are submitted and changed unless a method is told otherwise; who runs this
            program, if not given
        :raises LogError: the log cannot be opened, or another process serves it
        :raises Refusal: a dialect or setting that does not exist
        :raises ConfigError: the configuration cannot be taken
        """
        configured = None if config is None else Configured(config)
        given = {key: str(value) for key, value in (settings or {}).items()}
        who = user or user_name()
        now = None if execute else (EPOCH if start is None else round(start * SECOND))

        def open_log() -> Log:
            return open_pool_log(
                url, create=True, dialect=dialect, settings=given, name=name, uid_domain=uid_domain, now=now
            )

        if execute:
            from .server import Server

            server = Server(url, open_log)
            try:
                if configured is not None:
                    server.world.configure(configured.read())
                    server.world.warm_up()
                    _configure(server.engine, configured)
                server.begin()
            except BaseException:
                server.close()
                raise
            return cls(server.engine, who, server.close, configured)
        log = open_log()
        world = VirtualWorld(behave)
        engine = Engine(log, world)
        engine.load()
        world.clock = engine.state.at
        if configured is not None:
            _configure(engine, configured)
        engine.recover()
        return cls(engine, who, log.close, configured)

    def close(self) -> None:
        """Close the log. Processes that run go on under their supervisor, and are found again by the next `open`."""
        if self._views is not None:
            self._views.close()
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    # Changing

    def submit(
        self, description: str | Mapping[str, object], *, count: int = 1, user: str = "", folder: str | Path = "."
    ) -> int:
        """Submit jobs and return their cluster's number.

        :param description: a submit description's text, with its queue statement; or its commands as a mapping, which
            is queued `count` times
        :param folder: what relative paths in it are relative to
        :raises SubmitError: the description is wrong; the error names the line
        :raises Refusal: the pool does not take it
        """
        from .requests import Terms
        from .submission import submission_of, submit_request

        if not isinstance(description, str | Mapping):
            raise TypeError("a submission is a submit description's text, or a mapping of its commands")
        who = user or self._user
        number = self.state.next_cluster
        parsed = submission_of(
            description, count=count, user=who, folder=Path(folder), terms=Terms.of(self.state, number),
            now=self._engine.world.now() // SECOND,
        )  # fmt: skip
        request = submit_request(parsed, self._engine.id("submit"), who, number)
        return int(self._ask(request)["cluster"])

    def _act(
        self, action: str, jobs: Sequence[JobId], user: str, reason: str, constraint: str, fast: bool
    ) -> list[dict[str, Any]]:
        selected = selection(jobs, constraint)
        command = s.Act(self._engine.id(action), user or self._user, action, selected, reason, fast=fast)
        return list(self._ask(command))

    def hold(self, *jobs: JobId, reason: str = "", constraint: str = "", user: str = "") -> list[dict[str, Any]]:
        """Hold jobs; returns what became of each range of them."""
        return self._act("hold", jobs, user, reason, constraint, False)

    def release(self, *jobs: JobId, reason: str = "", constraint: str = "", user: str = "") -> list[dict[str, Any]]:
        """Release held jobs."""
        return self._act("release", jobs, user, reason, constraint, False)

    def remove(self, *jobs: JobId, reason: str = "", constraint: str = "", user: str = "") -> list[dict[str, Any]]:
        """Remove jobs from the queue; what runs of them is ended."""
        return self._act("remove", jobs, user, reason, constraint, False)

    def vacate(self, *jobs: JobId, fast: bool = False, constraint: str = "", user: str = "") -> list[dict[str, Any]]:
        """End running jobs, softly unless `fast`; they wait for another slot."""
        return self._act("vacate", jobs, user, "", constraint, fast)

    def suspend(self, *jobs: JobId, constraint: str = "", user: str = "") -> list[dict[str, Any]]:
        """Stop running jobs where they are."""
        return self._act("suspend", jobs, user, "", constraint, False)

    def resume(self, *jobs: JobId, constraint: str = "", user: str = "") -> list[dict[str, Any]]:
        """Let suspended jobs go on."""
        return self._act("continue", jobs, user, "", constraint, False)

    def edit(self, *jobs: JobId, user: str = "", constraint: str = "", **attributes: object) -> list[dict[str, Any]]:
        """Set attributes of jobs: Python values, or ``Expression`` texts made with `expr`."""
        changes = {name: text_of(value) for name, value in attributes.items()}
        return list(
            self._ask(s.Edit(self._engine.id("edit"), user or self._user, selection(jobs, constraint), changes))
        )

    def prio(self, *jobs: JobId, value: int, user: str = "") -> list[dict[str, Any]]:
        """Set the JobPrio of jobs: higher is served first."""
        return self.edit(*jobs, user=user, JobPrio=value)

    # Time

    @property
    def now(self) -> float:
        """The pool's time, in seconds since the epoch."""
        return self._engine.world.now() / SECOND

    def advance(self, seconds: float) -> None:
        """Let time pass, and all happen that happens in it. With real jobs, this waits."""
        until = self._engine.world.now() + round(seconds * SECOND)
        while self._engine.world.now() < until:
            self._engine.step(until)
        self._engine.step(until)

    def run(self, limit: float | None = None) -> bool:
        """Let time pass until no job runs and none can be started; False if `limit` seconds were not enough."""
        until = None if limit is None else self._engine.world.now() + round(limit * SECOND)
        engine = self._engine
        engine.handle([])
        while engine.busy():
            if until is not None and engine.world.now() >= until:
                return False
            engine.step(until)
        return True

    # Looking

    def jobs(self, constraint: str = "") -> list[dict[str, Any]]:
        """The ads of the jobs in the queue, as plain values; what is undefined is left out."""
        ads = (cluster.attributes(proc) for cluster in self.state.clusters.values() for proc in cluster.procs())
        return list(_plain(ads, constraint, self._engine.world.now()))

    def slots(self, constraint: str = "") -> list[dict[str, Any]]:
        """The ads of the slots, with their state and activity."""
        ads = (_slot_ad(slot, self.state.user(slot)) for slot in self.state.slots.values())
        return list(_plain(ads, constraint, self._engine.world.now()))

    def history(self, constraint: str = "") -> list[dict[str, Any]]:
        """The ads of the jobs that have left the queue, the latest first."""
        from ..projections.views import Views
        from .views import catch_up, open_tables

        if self._views is None:
            self._views = open_tables(None)
        catch_up(self._engine.log, self._views)
        found = [dict(values(ad)) for ad in Views(self._views).history_ads()]
        if not constraint:
            return found
        return [ad for ad in found if next(_plain([{k: text_of(v) for k, v in ad.items()}], constraint, 0), None)]

    def usage(self) -> dict[str, float]:
        """Weighted usage by submitter, in seconds of a slot of weight 1, of the claims that have ended."""
        return {name: amount / 1000 / SECOND for name, amount in self.state.usage.items()}

    def events(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        """The events of the log behind a position, each with its own."""
        return self._engine.log.read(after)

    def subscribe(self, subscriber: Callable[[int, Event], None]) -> None:
        """Call `subscriber` with every event from now on and its position, once it is in the log."""

        def each(first: int, events: Sequence[Event]) -> None:
            for offset, event in enumerate(events):
                subscriber(first + offset, event)

        self._engine.subscribe(each)

    def why(self, thing: JobId) -> list[str]:
        """Why a job or slot is where it is: the chain of causes, in sentences."""
        from ..replay.why.answer import why

        name = f"{thing[0]}.{thing[1]}" if isinstance(thing, tuple) else str(thing)
        return [sentence.text for sentence in why(self._engine.log, name)]

    def judge(self) -> list[Any]:
        """What in the log no rule allows; nothing, for a log that a pool wrote."""
        from ..replay.legality import judge

        return list(judge(self.events()))


def _configure(engine: Engine, configured: Configured) -> None:
    """Let the pool follow the configuration."""
    (answer,) = engine.handle([s.ConfigurePool(engine.id("reconfigure"), configured.followed())])
    if answer.refusal:
        raise Refusal(answer.refusal)


_JOB = re.compile(r"([1-9][0-9]*)(?:\.([0-9]+))?|([A-Za-z_][^\s.]*)", re.ASCII)


def selection(jobs: Sequence[JobId], constraint: str = "") -> s.Selection:
    """Which jobs a call means. Nothing named and no constraint: none, and an error says so."""
    clusters: list[int] = []
    single: list[tuple[int, int]] = []
    owners: list[str] = []
    for job in jobs:
        if isinstance(job, tuple) and len(job) == 2 and all(type(part) is int and part >= 0 for part in job):
            single.append(job)
        elif type(job) is int and job > 0:
            clusters.append(job)
        elif isinstance(job, str) and (found := _JOB.fullmatch(job)):
            cluster, proc, owner = found.groups()
            if owner:
                owners.append(owner)
            elif proc is None:
                clusters.append(int(cluster))
            else:
                single.append((int(cluster), int(proc)))
        else:
            raise ValueError(f"{job!r} is no job: give '12.3' or (12, 3), a cluster (12 or '12'), or a user's name")
    if not (jobs or constraint):
        raise ValueError("which jobs? Name jobs, clusters or users, or give a constraint (constraint='true' for all)")
    return s.Selection(tuple(clusters), tuple(single), tuple(owners), False, constraint)


def _slot_ad(slot: Slot, user: str) -> Ad:
    claim = {"RemoteOwner": quoted(user)} if slot.claim else {}
    job = {"JobId": quoted(f"{slot.activation.cluster}.{slot.activation.proc}")} if slot.activation else {}
    return {
        **with_unsaid({name: text for name, text in slot.ad.items() if shown(name)}),
        "Name": quoted(slot.name),
        "State": quoted(slot.state),
        "Activity": quoted(slot.activity),
        "EnteredCurrentState": str(slot.entered_state // SECOND),
        "EnteredCurrentActivity": str(slot.entered_activity // SECOND),
        **claim,
        **job,
    }


def values(ad: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an ad with their values; an expression that needs another ad stays a text."""
    for name in ad:
        try:
            value = ad.eval(name)
        except EvaluationError:
            value = None
        if isinstance(value, Exceptional) or value is None:
            text = str(ad[name])
            if text not in ("undefined", "error"):
                yield name, text
        elif isinstance(value, ListValue):
            yield name, list(value)
        else:
            yield name, value


def _plain(ads: Iterator[Ad] | Sequence[Ad] | Any, constraint: str, now: int) -> Iterator[dict[str, Any]]:
    from ..domain.classad import Context, parse
    from ..domain.classad.match import accepts

    wanted = parse(constraint) if constraint else None
    context = Context(now=now // SECOND)
    for texts in ads:
        ad = ad_of(texts)
        if wanted is None or accepts(wanted.evaluate(ad, None, context)):
            yield dict(values(ad))
