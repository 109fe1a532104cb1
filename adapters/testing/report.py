"""Play a scenario, and check its result: ``from poolbook.testing import play``."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from attrs import frozen

from ...domain.config import ConfigError
from ...domain.events import Event
from ...domain.units import SECOND
from ...replay.accounts.intervals import slot_intervals
from ...replay.scenario import PlayError, parse_scenario
from ...replay.scenario.expectations import ALL, Measure, Watch, make_watch, parse_condition
from ...replay.scenario.measures import job_times, user_shares
from ...replay.scenario.scenario_times import length
from ...replay.scenario.verdicts import Check, Verdict, verdicts
from ...replay.why.answer import why
from ..simulation import FailedExpectation, PlayEvent, RefusedStep, ScenarioMachines, Simulation, StepWarning
from ..simulation import play as run_scenario
from ..simulation.runner import failure_text
from ..stores.opening import open_log

Time = float | str
"""A time of a scenario: seconds since its start, or text as in a scenario ("8:30:00", "2d 3:00", "Mon 08:30")."""


class ExpectationError(AssertionError):
    """An expectation is not met. The text ends with the story of the job or slot that shows it."""


@frozen
class JobResult:
    """A job of a scenario. Times are in seconds since the scenario's start.

    >>> report.jobs["1.0"].status, report.jobs["1.0"].wait
    ('Completed', 0.0)
    """

    id: str
    user: str
    group: str  #: the accounting group, or empty
    status: str  #: the last status: Idle, Running, Completed, ...
    submitted: float
    started: float | None  #: when it first ran
    ended: float | None  #: when it left the queue
    wait: float  #: how long it was idle before it first ran
    runs: int
    used: float  #: how long it had slots
    code: int | None  #: the exit code of its last run


@frozen
class UserResult:
    """The slot time of a user in a scenario, in seconds times cores.

    >>> report.users["alice@example.org"].jobs
    1
    """

    name: str
    jobs: int
    used: float  #: of all claims
    share: float  #: the part of the used slot time of all users
    wasted: float  #: of runs that were lost


@frozen
class SlotResult:
    """A slot of a scenario: how long, in seconds, it was in each state and activity.

    >>> sorted(report.slots["slot1@desk"].times)
    ['Claimed/Busy', 'Unclaimed/Idle']
    """

    name: str
    machine: str
    last: str  #: the last state and activity
    times: Mapping[str, float]


@frozen
class Failure:
    """An expectation of a scenario that is not met."""

    line: int
    at: str  #: the time of the expectation
    text: str  #: what was expected, and what happened
    story: tuple[str, ...]  #: the story of the slot or job that shows why, as in `why -verbose`

    def __str__(self) -> str:
        return "\n".join([f"line {self.line}, at {self.at}: {self.text}", *self.story])


class Report:
    """The result of a scenario. `play` returns it.

    >>> report.expect_share("alice", at_least=0.4)
    1.0
    >>> checks = report.never('slot.State == "Owner"')
    """

    failures: tuple[Failure, ...]  #: the scenario's expectations that are not met
    refused: tuple[str, ...]  #: the lines that the pool refused, with its reasons
    warnings: tuple[str, ...]

    def __init__(self) -> None:
        raise TypeError("`poolbook.testing.play` returns a report")

    @classmethod
    def _of(cls, simulation: Simulation, happened: Sequence[PlayEvent]) -> Report:
        report = cls.__new__(cls)
        report._simulation = simulation
        transcript = simulation.transcript
        report.failures = tuple(
            Failure(each.step.line, transcript.time(each.step.at), failure_text(transcript, each), each.story)
            for each in happened
            if isinstance(each, FailedExpectation)
        )
        report.refused = tuple(
            f"line {each.step.line}: {each.why}" for each in happened if isinstance(each, RefusedStep)
        )
        report.warnings = tuple(
            f"line {each.step.line}: {each.text}" for each in happened if isinstance(each, StepWarning)
        )
        return report

    _simulation: Simulation
    _folder: tempfile.TemporaryDirectory[str]

    # -- Results

    @cached_property
    def jobs(self) -> dict[str, JobResult]:
        """The jobs by id, in the order of their submission."""
        history = self._simulation.history()
        return {
            job.job: JobResult(
                job.job, job.user, job.group, job.status, self._seconds(job.submitted),
                self._seconds(job.started) if job.started else None, self._seconds(job.ended) if job.ended else None,
                job.wait(history.end) / SECOND, job.runs, job.used / SECOND, job.code,
            )
            for job in job_times(history)
        }  # fmt: skip

    @cached_property
    def users(self) -> dict[str, UserResult]:
        """The users by name."""
        history, counts = self._simulation.history(), defaultdict[str, int](int)
        shares = user_shares(history, self._simulation.start, history.end)
        for job in self.jobs.values():
            counts[job.user] += 1
        names = sorted({*counts, *(user for user, _ in shares.claimed)})
        whole = shares.used or 1.0
        return {
            name: UserResult(
                name, counts[name], shares.used_by(name) / SECOND, shares.used_by(name) / whole,
                shares.wasted_by(name) / SECOND,
            )
            for name in names
        }  # fmt: skip

    @cached_property
    def slots(self) -> dict[str, SlotResult]:
        """The slots by name, including dynamic slots that no longer exist."""
        history = self._simulation.history()
        times: dict[str, dict[str, float]] = {}
        results: dict[str, SlotResult] = {}
        for each in slot_intervals(history.log, self._simulation.start, history.end, known_until=history.end):
            pair = f"{each.state}/{each.activity}"
            of_slot = times.setdefault(each.slot, defaultdict(float))
            of_slot[pair] += (each.end - each.begin) / SECOND
            results[each.slot] = SlotResult(each.slot, each.machine, pair, of_slot)
        return results

    @property
    def events(self) -> list[tuple[int, Event]]:
        """The events of the pool's log, each with its position."""
        return list(self._simulation.log.read())

    @cached_property
    def log(self) -> Path:
        """The path of the pool's log, for `poolbook why -log PATH` and `poolbook.Log.open`. It is a temporary file,
        which is deleted with the report."""
        self._folder = tempfile.TemporaryDirectory(prefix="poolbook-")
        path = Path(self._folder.name, "pool.db")
        copy = open_log(str(path), create=True)
        copy.append([event for _, event in self._simulation.log.read()])
        copy.close()
        return path

    def why(self, thing: str, at: Time | None = None, *, verbose: bool = False) -> list[str]:
        """Explain why a job or slot is in its state, as `Pool.why`; `at` is a time of the scenario.

        >>> report.why("1.0")[0]
        'Job 1.0 completed at 2026-11-02 08:10:00, with code 0.'
        """
        simulation = self._simulation
        instant = None if at is None else simulation.start + self._instant(at)
        answer = why(simulation.log, thing, instant, simulation.scenario.calendar.zone)
        return answer.texts + [sentence.full for sentence in answer.life if verbose]

    # -- Expectations

    def expect_share(
        self,
        name: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        of_pool: bool = False,
        between: tuple[Time, Time] | None = None,
    ) -> float:
        """Expect the share of a user or accounting group of the used slot time; return the share.

        >>> report.expect_share("alice", at_most=1.0, of_pool=True, between=(0, "30:00"))
        0.33...

        :param of_pool: the share of all slot time, also that of unused slots
        :raises ExpectationError: the share is not within these bounds
        """
        return self._measure(Measure("share", name, at_least, at_most, "pool" if of_pool else ""), between)

    def expect_wait(
        self,
        name: str = ALL,
        *,
        at_most: Time | None = None,
        at_least: Time | None = None,
        average: bool = False,
        between: tuple[Time, Time] | None = None,
    ) -> float:
        """Expect that each job of a user or group (or a job, or all) waited at most so long before it first ran; return
        the longest wait, in seconds. With `average`, expect and return the average wait.

        >>> report.expect_wait("alice", at_most="10:00")
        0.0

        :param between: only jobs that were submitted then
        :raises ExpectationError: the wait is not within these bounds, or there are no such jobs
        """
        low, high = (None if bound is None else self._length(bound) / SECOND for bound in (at_least, at_most))
        return self._measure(Measure("wait", name, low, high, "average" if average else "", True), between)

    def expect_waste(
        self,
        name: str = ALL,
        *,
        at_most: float | None = None,
        at_most_time: Time | None = None,
        between: tuple[Time, Time] | None = None,
    ) -> float:
        """Expect that at most this share of the used slot time (of a user or group, or of all) was lost, because jobs
        were evicted, held or removed; return the share. With `at_most_time`, expect and return the lost slot time, in
        seconds times cores.

        >>> report.expect_waste(at_most=0.1)
        0.0

        :raises ExpectationError: more was lost
        """
        if at_most_time is not None:
            return self._measure(Measure("waste", name, None, self._length(at_most_time) / SECOND, "", True), between)
        return self._measure(Measure("waste", name, None, at_most), between)

    def never(self, condition: str, *, of: str = "", between: tuple[Time, Time] | None = None) -> int:
        """Expect that a condition never holds for a slot or job; return the number of times it was evaluated.

        >>> checks = report.never("job.JobStatus == 5")

        :param condition: a ClassAd expression: `slot.NAME` (or NAME) is an attribute of a slot, and `job.NAME` one of
            its job; an expression that names only attributes of jobs is about each job in the queue
        :param of: only this slot (or pattern) or job
        :raises ExpectationError: it held
        :raises ValueError: it is not a valid expression, or names an attribute that no slot or job has
        """
        watch = Watch(parse_condition(condition, of), of)
        return self._check(watch, self._period(between), f"never {condition}").times

    def within(
        self,
        time: Time,
        condition: str,
        *,
        after: str = "",
        of: str = "",
        at: Time = 0,
        between: tuple[Time, Time] | None = None,
    ) -> int:
        """Expect that, whenever the condition `after` becomes true for a slot or job, another condition holds within
        this time. Without `after`, expect it once, after the time `at`. Return the number of times it was due.

        >>> report.within(600, 'slot.Activity == "Busy"', after='slot.State == "Claimed"')
        1

        :param between: count only the times `after` became true within this period
        :raises ExpectationError: it did not hold in time
        :raises ValueError: as for `never`
        """
        after_condition = parse_condition(after, of) if after else None
        watch = make_watch(parse_condition(condition, of), of, self._length(time), after_condition)
        start = self._simulation.start + self._instant(at)
        period = self._period(between) if after else (start, start)
        text = f"within {time} {condition}{f' after {after}' if after else ''}"
        return self._check(watch, period, text).times

    def _measure(self, measure: Measure, between: tuple[Time, Time] | None) -> float:
        bounds = [
            f"{sign} {value:g}" for sign, value in ((">=", measure.low), ("<=", measure.high)) if value is not None
        ]
        if not bounds:
            raise ValueError("an expectation needs a bound: at_least=, at_most= ...")
        text = " ".join([measure.kind, measure.name, *bounds])
        return self._check(measure, self._period(between), text).value

    def _check(self, expected: Measure | Watch, period: tuple[int, int], text: str) -> Verdict:
        simulation = self._simulation
        history, transcript = simulation.history(), simulation.transcript
        (verdict,) = verdicts(history, [Check(expected, *period)], lambda at: transcript.time(at - simulation.start))
        if verdict.is_invalid:
            raise ValueError(f"{text}: {verdict.failure}")
        if verdict.failure:
            raise ExpectationError("\n".join([f"expected {text}, but {verdict.failure}", *verdict.story(history)]))
        return verdict

    # -- Times

    def _instant(self, time: Time) -> int:
        if isinstance(time, str):
            return self._simulation.scenario.calendar.instant(time.split())
        return round(time * SECOND)

    def _length(self, time: Time) -> int:
        return length(time) if isinstance(time, str) else round(time * SECOND)

    def _period(self, between: tuple[Time, Time] | None) -> tuple[int, int]:
        start = self._simulation.start
        since, until = (0, self._simulation.scenario.end) if between is None else map(self._instant, between)
        return start + since, start + until

    def _seconds(self, instant: int) -> float:
        return (instant - self._simulation.start) / SECOND


def play(
    scenario: str | Path,
    *,
    config: str | Path | Sequence[str | Path] = (),
    until: str = "",
    dialect: str = "",
    seed: int = 0,
    folder: str | Path = ".",
    check: bool = True,
) -> Report:
    """Play a scenario, and return a report of what happened.

    >>> report = play("at 0:20 submit alice run=10:00\\nat 1:00 expect 1.0 Running")
    >>> report.jobs["1.0"].status
    'Completed'

    :param scenario: its text, or the path of its file
    :param config: a configuration for all machines, which the scenario's own overrides: its text, the path of a file,
        or that of a directory of files; or several of these, each of which overrides those before it
    :param until: when it ends, instead of its `until` line: "7d"
    :param dialect: ``manual`` or ``htcondor-25``, instead of the scenario's
    :param folder: the directory to which file names in a text are relative
    :param check: raise an error if an expectation of the scenario is not met; otherwise, see `Report.failures`
    :raises ExpectationError: an expectation of the scenario is not met
    :raises PlayError: the scenario or its configuration is invalid; `line` is the line number
    """
    if isinstance(scenario, Path):
        text, name, folder = scenario.read_text(encoding="utf-8"), str(scenario), scenario.parent
    else:
        text, name = scenario, "the scenario"
    before = [config] if isinstance(config, str | Path) else list(config)
    happened: list[PlayEvent] = []
    try:
        parsed = parse_scenario(text, until)
        machines = ScenarioMachines(parsed, name, Path(folder).absolute(), before, seed)
        simulation = Simulation(parsed, machines, open_log("memory:", create=True), happened.append, dialect)
        run_scenario(simulation)
    except ConfigError as error:
        raise PlayError(str(error)) from None
    report = Report._of(simulation, happened)
    if check and report.failures:
        raise ExpectationError("\n".join(map(str, report.failures)))
    return report
