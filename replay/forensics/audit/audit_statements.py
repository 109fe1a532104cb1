"""Statements of sources on facts, and the jobs and runs to which they belong (joined as docs/import.md says)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import tzinfo
from itertools import combinations
from typing import Any, NamedTuple

from attrs import define, field

from ...narration.formatting import instant, interval
from .compared_facts import BELIEVED, FACTS
from .tolerances import ANY, FAR, MINUTE, NEAR


class Statement(NamedTuple):
    """One record's statement of a fact: a text, or a value with its range."""

    fact: str
    letter: str
    text: str
    value: int
    low: int
    high: int
    source: int
    line: int
    at: int
    number: int = 0  #: tells facts of one kind apart, as the holds of a job; 0 if there is one only

    def denies(self, other: Statement) -> bool:
        """Return True if both cannot be true."""
        if FACTS[self.fact].unit == "text":
            return not _same(self.text, other.text)
        return self.low > other.high or other.low > self.high

    def told(self, zone: tzinfo) -> str:
        unit = FACTS[self.fact].unit
        if self.text or unit == "text":
            return self.text
        if unit == "instant":
            return instant(self.value, zone)
        return interval(self.value) if unit == "time" else str(self.value)


def _same(first: str, other: str) -> bool:
    """Return True if two names are the same; a domain may be missing or cut short, since daemons write both."""
    name, _, domain = first.partition("@")
    its_name, _, its_domain = other.partition("@")
    if name != its_name or not domain or not its_domain:
        return name == its_name
    return f"{domain}.".startswith(f"{its_domain}.") or f"{its_domain}.".startswith(f"{domain}.")


class StatementSource(NamedTuple):
    """The record of a statement: the kind's letter, the source, the line, the instant."""

    letter: str
    source: int
    line: int
    at: int

    def says(self, fact: str, text: str, number: int = 0) -> Statement:
        assert self.letter in FACTS[fact].sayings, f"compared_facts.txt does not say how {self.letter} states {fact}"
        return Statement(fact, self.letter, text, 0, 0, 0, self.source, self.line, self.at, number)

    def measures(
        self,
        fact: str,
        value: int,
        *,
        less: int | None = None,
        more: int | None = None,
        text: str = "",
        number: int = 0,
        by: str = "",
    ) -> Statement:
        """Return an amount or an instant, with the range of its kind unless another is given. `by` names the source of
        the value where one record has the fact in several ways."""
        _, usual_less, usual_more = FACTS[fact].sayings[self.letter]
        low = value - (usual_less if less is None else less)
        high = value + (usual_more if more is None else more)
        if by:
            text = f"{interval(value) if FACTS[fact].unit == 'time' else value} ({by})"
        return Statement(fact, self.letter, text, value, low, high, self.source, self.line, self.at, number)

    def known(self, fact: str, value: int | None, **how: Any) -> list[Statement]:
        """Return what ``measures`` returns, alone in a list; nothing for an unknown value."""
        return [] if value is None else [self.measures(fact, value, **how)]

    def named(self, fact: str, text: str) -> list[Statement]:
        """Return what ``says`` returns, alone in a list; nothing for an empty text."""
        return [self.says(fact, text)] if text else []


@define
class RecordedRun:
    """A run as one record or one log tells it; unknown instants are None."""

    placed: int | None = None
    began: int | None = None
    stopped: int | None = None
    said: list[Statement] = field(factory=list)
    over: str = ""  #: the place of a daemon's record of its end, in which it states nothing else
    shadow: int = 0  #: the number of its shadow, from 1; 0 if unknown

    @property
    def span(self) -> tuple[int, int] | None:
        instants = [at for at in (self.placed, self.began, self.stopped) if at is not None]
        return (min(instants), max(instants)) if instants else None


@define
class JobAccount:
    """One record's or one log's account of a job. ``first`` and ``last`` are the instants between which it tells."""

    submitted: int | None
    first: int
    last: int
    job: str = ""
    said: list[Statement] = field(factory=list)
    runs: list[RecordedRun] = field(factory=list)
    log: str = ""  #: the log it belongs to, if other accounts of that log have other runs of the job
    address: str = ""
    entries: list[tuple[int, StatementSource, dict[str, str]]] = field(factory=list)
    seamless: bool = False  #: a job event log covers the job from its submission on without a gap
    begun_anew: bool = False  #: a job event log has a run's beginning, and before it no end of the run that went on
    hold_hidden: bool = False  #: it may have been held while it ran, and released or removed before its shadow exited
    reconnected: bool = False  #: the shadow was replaced, or gone for a while: its counters started again, or were lost

    @property
    def schedd(self) -> str:
        return self.job.partition("#")[0]


@define
class RecordedJob:
    accounts: list[JobAccount] = field(factory=list)

    @property
    def submitted(self) -> int | None:
        known = [account.submitted for account in self.accounts if account.submitted is not None]
        return min(known) if known else None

    @property
    def span(self) -> tuple[int, int]:
        return min(account.first for account in self.accounts), max(account.last for account in self.accounts)

    @property
    def reconnected(self) -> bool:
        """Return True if a shadow was lost with what it had counted. Two logs have to agree that runs had no end."""
        logs = [account.begun_anew for account in self.accounts if account.entries]
        return any(account.reconnected for account in self.accounts) or (len(logs) > 1 and all(logs))

    @property
    def jobs(self) -> set[str]:
        return {account.job for account in self.accounts if account.job}

    @property
    def addresses(self) -> set[str]:
        return {account.address for account in self.accounts if account.address}


def recorded_jobs(accounts: Iterable[JobAccount]) -> list[RecordedJob]:
    """Return the jobs that had a number, in no order. Accounts that fit none or several are left out."""
    lives: list[RecordedJob] = []
    ordered = sorted(accounts, key=lambda t: (t.submitted is None, not t.job, t.submitted or 0, t.first))
    schedds, addresses = {t.schedd for t in ordered if t.schedd}, {t.address for t in ordered if t.address}
    several = len(schedds) > 1 or len(addresses) > 1
    for account in ordered:
        own = _of(account, lives, several)
        if len(own) == 1:
            own[0].accounts.append(account)
        elif not own and (account.submitted is not None or not lives):
            lives.append(RecordedJob([account]))
    return lives


def _of(account: JobAccount, lives: list[RecordedJob], several: bool) -> list[RecordedJob]:
    if account.job:
        named = [life for life in lives if account.job in life.jobs]
        return named or [life for life in lives if not life.jobs and _fits(account, life, several)]
    its = [life for life in lives if not account.address or not life.addresses or account.address in life.addresses]
    near = [life for life in its if _near(account, life)]
    return near or [life for life in its if _fits(account, life, several)]


def _near(account: JobAccount, life: RecordedJob) -> bool:
    submitted = life.submitted
    return account.submitted is not None and submitted is not None and abs(account.submitted - submitted) <= MINUTE


def _fits(account: JobAccount, life: RecordedJob, several: bool) -> bool:
    """Return True if an account fits a job by time: a number is one job at a time, unless several access points have
    it."""
    first, last = life.span
    submitted = life.submitted
    if account.submitted is not None and submitted is not None:
        return _near(account, life) or (not several and account.first < last and first < account.last)
    if submitted is None:
        return True  # nothing tells against it
    return submitted - MINUTE <= account.first <= last + FAR


_Entry = tuple[object, RecordedRun, tuple[int, int]]  #: a run, the log or record that has it, and its span


def statements_by_run(life: RecordedJob) -> list[list[Statement]]:
    """Return the statements on each run of a job, in the order of the runs."""
    return [[statement for run in alike for statement in run.said] for alike in runs_of(life)]


def runs_of(life: RecordedJob) -> list[list[RecordedRun]]:
    """Return each run of a job as its sources have it, in order. Runs of different logs that may be one are joined if
    each log has one of them. If some logs have several that are too near to distinguish, the logs that have all of them
    are joined in order, and the others left out."""
    runs: list[_Entry] = [
        (t.log or id(t), run, span) for t in life.accounts for run in t.runs if (span := run.span) is not None
    ]
    runs.sort(key=lambda entry: entry[2])
    parents = list(range(len(runs)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = number = parents[parents[number]]
        return number

    for this, other in _pairs(runs):
        first, second = sorted((root(this), root(other)))
        parents[second] = first
    groups: dict[int, list[_Entry]] = {}
    for number, entry in enumerate(runs):
        groups.setdefault(root(number), []).append(entry)
    split = (alike for group in groups.values() for alike in _split_near(group))
    return [alike for alike in split if not any(_of_two_shadows(this, other) for this, other in combinations(alike, 2))]


def _pairs(runs: list[_Entry]) -> list[tuple[int, int]]:
    """Return the pairs of runs that may be one. Of several runs of one log, the nearest stays."""
    pairs: list[tuple[int, int, int]] = []
    nearest: dict[tuple[int, object], int] = {}
    for number, (log, run, span) in enumerate(runs):
        for other in range(number + 1, len(runs)):
            its_log, its_run, its_span = runs[other]
            if its_span[0] > span[1] + FAR:
                break
            if log != its_log and (distance := _apart(run, its_run)) is not None:
                pairs.append((distance, number, other))
                for key in ((number, its_log), (other, log)):
                    nearest[key] = min(distance, nearest.get(key, distance))
    return [
        (first, other)
        for distance, first, other in pairs
        if distance <= NEAR + min(nearest[first, runs[other][0]], nearest[other, runs[first][0]])
    ]


def _split_near(group: list[_Entry]) -> list[list[RecordedRun]]:
    """Split a group of runs, sorted by time, into the single runs."""
    logs: dict[object, list[RecordedRun]] = {}
    for log, run, _ in group:
        logs.setdefault(log, []).append(run)
    most = max(len(runs) for runs in logs.values())
    if most == 1:
        return [[run for _, run, _ in group]]
    complete = [runs for runs in logs.values() if len(runs) == most]
    alike = [runs for runs in complete if all(_agree(a, b) for a, b in zip(complete[0], runs, strict=True))]
    return [list(column) for column in zip(*alike, strict=True)]


def _instants(run: RecordedRun, other: RecordedRun) -> list[int]:
    """Return the distances of the instants that both runs have, in microseconds."""
    pairs = ((run.placed, other.placed), (run.began, other.began), (run.stopped, other.stopped))
    return [abs(a - b) for a, b in pairs if a is not None and b is not None]


def _agree(run: RecordedRun, other: RecordedRun) -> bool:
    return all(apart <= NEAR for apart in _instants(run, other))


def _of_two_shadows(run: RecordedRun, other: RecordedRun) -> bool:
    """Return True if the ads of two runs name two shadows. A shadow that reconnects counts as another one, but keeps
    the start of the one before."""
    both = run.shadow and other.shadow and run.placed is not None and other.placed is not None
    return bool(both) and run.shadow != other.shadow and run.placed != other.placed


def _apart(run: RecordedRun, other: RecordedRun) -> int | None:
    """Return how far two runs of different logs lie apart, in microseconds; None if they are not one."""
    if _of_two_shadows(run, other):
        return None
    nearest = min(_instants(run, other), default=ANY)
    if run.span is None or other.span is None:
        return nearest if nearest <= NEAR else None
    shorter = min(run.span[1] - run.span[0], other.span[1] - other.span[0])
    if not shorter and run.placed is not None and other.placed is not None and abs(run.placed - other.placed) > NEAR:
        return None  # another shadow was started meanwhile: the first was lost
    if nearest <= NEAR:
        return nearest
    shared = min(run.span[1], other.span[1]) - max(run.span[0], other.span[0])
    if shared < 0 or shared * 2 < shorter:
        return None
    return FAR + (shorter - shared if shorter else abs(run.span[0] - other.span[0]))


def disputed(statements: Sequence[Statement]) -> list[list[Statement]]:
    """Return the contradicted facts of a thing: all statements on each, believed first, one per kind and value."""
    facts: dict[tuple[str, int], list[Statement]] = {}
    for statement in statements:
        facts.setdefault((statement.fact, statement.number), []).append(statement)
    groups = []
    for stated in facts.values():
        if len(stated) > 1 and any(first.denies(second) for first, second in combinations(stated, 2)):
            stated.sort(key=lambda s: (BELIEVED[s.fact, s.letter], s.source, s.line))
            groups.append(list({(s.letter, s.text, s.value): s for s in reversed(stated)}.values())[::-1])
    return groups
