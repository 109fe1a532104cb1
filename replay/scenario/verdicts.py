"""Decide whether a pool's past meets expectations about periods, and say why not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from typing import NamedTuple

from ...domain.ports.log import EventStore
from ...domain.units import SECOND
from ..narration.formatting import counted
from ..narration.sentences import UnknownThingError, dated_line
from ..why.answer import why
from .expectations import Measure, Watch
from .measures import JobTimes, UserShares, job_times, matches_user, user_shares
from .scenario_times import elapsed
from .watching import Breach, PoolHistory, Watched, watch_history

STORY = 12  #: how many of the last steps of a slot or job are shown if an expectation about it fails


class Check(NamedTuple):
    """An expectation about the time from ``since`` up to ``until`` (microseconds since the epoch)."""

    expected: Measure | Watch
    since: int
    until: int


class Verdict(NamedTuple):
    """The result of a check: why it failed (empty: it did not), the slot or job that shows why, and at what instant.
    ``times``: how often its condition was checked, or became due. ``value``: the measured share or time (seconds)."""

    failure: str
    times: int = 1
    thing: str = ""
    at: int = 0
    value: float = 0.0
    is_invalid: bool = False  #: the condition names an unknown attribute

    def story(self, history: PoolHistory) -> tuple[str, ...]:
        """Return the story of the slot or job, as lines."""
        return story(history.log, self.thing, self.at, history.zone) if self.thing else ()


def story(log: EventStore, thing: str, at: int, zone: tzinfo = UTC) -> tuple[str, ...]:
    """Return the answer of `why -verbose` for a slot or job at an instant, with the last steps of its history only."""
    try:
        answer = why(log, thing, at, zone)
    except (UnknownThingError, ValueError):  # there never was one
        return ()
    return (*answer.texts, *(dated_line(sentence, zone) for sentence in answer.life[-STORY:]))


def verdicts(history: PoolHistory, checks: Sequence[Check], time: Callable[[int], str]) -> list[Verdict]:
    """Return the verdict of each check. ``time`` formats an instant."""
    watched = {
        number: Watched(check.expected, check.since, check.until)
        for number, check in enumerate(checks)
        if isinstance(check.expected, Watch)
    }
    watch_history(history, list(watched.values()))
    return [
        _of_watch(watched[number], time) if number in watched else _of_measure(history, check, time)
        for number, check in enumerate(checks)
    ]


def _of_watch(watched: Watched, time: Callable[[int], str]) -> Verdict:
    if watched.unknown:
        return Verdict(watched.unknown, is_invalid=True)
    first = min(watched.breaches.values(), key=lambda breach: breach.at, default=None)
    if first is None:
        return Verdict("", watched.times)
    others = len(watched.breaches) - 1
    more = f" (and {counted(others, 'other')})" if others else ""
    return Verdict(f"{_breach_text(watched.watch, first, time)}{more}", max(1, watched.times), first.thing, first.at)


def _breach_text(watch: Watch, breach: Breach, time: Callable[[int], str]) -> str:
    name = f"job {breach.thing}" if watch.condition.of_jobs else breach.thing
    if breach.is_missing:
        return f"{name} does not exist at {time(breach.at)}"
    return f"it is {'true' if watch.within is None else 'still not true'} for {name} at {time(breach.at)}"


def _of_measure(history: PoolHistory, check: Check, time: Callable[[int], str]) -> Verdict:
    expected = check.expected
    assert isinstance(expected, Measure)
    jobs = [job for job in job_times(history) if matches_user(expected.name, job.user, job.group, job.job)]
    period = f"from {time(check.since)} to {time(check.until)}"
    if expected.kind == "wait":
        return _of_wait(expected, [job for job in jobs if check.since <= job.submitted < check.until], check.until)
    shares = user_shares(history, check.since, check.until)
    value, text = _share(expected, shares) if expected.kind == "share" else _waste(expected, shares)
    if _is_within(expected, value):
        return Verdict("", value=value)
    # The job that waited longest shows why the share is too small, and the one that ran longest why it is too large.
    waits = expected.low is not None and value < expected.low
    shown = max(jobs, key=lambda job: job.wait(check.until) if waits else job.used, default=None)
    thing = shares.worst_run(expected.name) if expected.kind == "waste" else (shown.job if shown else "")
    return Verdict(f"{text} {period}", 1, thing, min(check.until, history.end), value)


def _is_within(expected: Measure, value: float) -> bool:
    return (expected.low is None or value >= expected.low) and (expected.high is None or value <= expected.high)


def _of_wait(expected: Measure, jobs: list[JobTimes], until: int) -> Verdict:
    if not jobs:
        return Verdict("no such job was submitted in this time", 0)
    longest = max(jobs, key=lambda job: job.wait(until))
    waits = [job.wait(until) for job in jobs]
    value = sum(waits) // len(waits) if expected.detail == "average" else longest.wait(until)
    if _is_within(expected, value / SECOND):
        return Verdict("", len(jobs), value=value / SECOND)
    if expected.detail == "average":
        text = f"{counted(len(jobs), 'job')} waited {elapsed(value)} on average, job {longest.job} the longest"
    else:
        text = f"job {longest.job} of {longest.user} waited {elapsed(value)}"
    return Verdict(text, len(jobs), longest.job, until, value / SECOND)


def _share(expected: Measure, shares: UserShares) -> tuple[float, str]:
    used, total = shares.used_by(expected.name), shares.total if expected.detail == "pool" else shares.used
    value = used / total if total else 0.0
    whole = "slot time" if expected.detail == "pool" else "used slot time"
    return value, f"it was {value:.1%}: {_hours(used)} of {_hours(total)} core hours of {whole}"


def _waste(expected: Measure, shares: UserShares) -> tuple[float, str]:
    wasted, used = shares.wasted_by(expected.name), shares.used_by(expected.name)
    share = wasted / used if used else 0.0
    text = f"{_hours(wasted)} of {_hours(used)} core hours were wasted ({share:.1%})"
    return (wasted / SECOND if expected.is_time else share), text


def _hours(amount: float) -> str:
    return f"{amount / SECOND / 3600:.2f}"
