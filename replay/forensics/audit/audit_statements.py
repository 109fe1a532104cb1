"""Sources' statements of facts, and the jobs and runs to which they belong (joined as docs/import.md describes)."""

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
    """A fact as one record states it: a text, or a value with its range."""

    fact: str
    letter: str
    text: str
    value: int
    low: int
    high: int
    source: int
    line: int
    at: int
    number: int = 0  #: distinguishes several facts of one kind, such as a job's holds, or 0 if there is only one

    def contradicts(self, other: Statement) -> bool:
        """Return True if the two statements cannot both be true."""
        if FACTS[self.fact].unit == "text":
            return not _is_same_name(self.text, other.text)
        return self.low > other.high or other.low > self.high

    def story_line(self, zone: tzinfo) -> str:
        unit = FACTS[self.fact].unit
        if self.text or unit == "text":
            return self.text
        if unit == "instant":
            return instant(self.value, zone)
        return interval(self.value) if unit == "time" else str(self.value)


def _is_same_name(first: str, other: str) -> bool:
    """Return True if two names are the same. Daemons may omit or truncate the domain."""
    name, _, domain = first.partition("@")
    other_name, _, other_domain = other.partition("@")
    if name != other_name or not domain or not other_domain:
        return name == other_name
    return f"{domain}.".startswith(f"{other_domain}.") or f"{other_domain}.".startswith(f"{domain}.")


class StatementSource(NamedTuple):
    """The record that makes a statement: the letter of the source's kind, the source, the line, and the instant."""

    letter: str
    source: int
    line: int
    at: int

    def text_statement(self, fact: str, text: str, number: int = 0) -> Statement:
        assert self.letter in FACTS[fact].sources, f"compared_facts.txt does not say how {self.letter} states {fact}"
        return Statement(fact, self.letter, text, 0, 0, 0, self.source, self.line, self.at, number)

    def value_statement(
        self,
        fact: str,
        value: int,
        *,
        below: int | None = None,
        above: int | None = None,
        text: str = "",
        number: int = 0,
        basis: str = "",
    ) -> Statement:
        """Return a statement of an amount or instant, with the given range (default: the range for this kind of
        source). `basis` names the attributes from which it is computed, if one record states the fact in several
        ways."""
        _, default_below, default_above = FACTS[fact].sources[self.letter]
        low = value - (default_below if below is None else below)
        high = value + (default_above if above is None else above)
        if basis:
            text = f"{interval(value) if FACTS[fact].unit == 'time' else value} ({basis})"
        return Statement(fact, self.letter, text, value, low, high, self.source, self.line, self.at, number)

    def known_value(self, fact: str, value: int | None, **options: Any) -> list[Statement]:
        """Return the result of ``value_statement`` in a list; an empty list if the value is unknown."""
        return [] if value is None else [self.value_statement(fact, value, **options)]

    def named_text(self, fact: str, text: str) -> list[Statement]:
        """Return the result of ``text_statement`` in a list; an empty list if the text is empty."""
        return [self.text_statement(fact, text)] if text else []


@define
class RecordedRun:
    """A run according to one record or one log. Unknown instants are None."""

    placed_at: int | None = None
    began_at: int | None = None
    stopped_at: int | None = None
    statements: list[Statement] = field(factory=list)
    end_place: str = ""  #: the location of a daemon's record that states only the run's end
    shadow: int = 0  #: the number of its shadow, from 1, or 0 if unknown

    @property
    def span(self) -> tuple[int, int] | None:
        instants = [at for at in (self.placed_at, self.began_at, self.stopped_at) if at is not None]
        return (min(instants), max(instants)) if instants else None


@define
class JobAccount:
    """A job according to one record or one log, which covers the time from ``first`` to ``last``."""

    submitted: int | None
    first: int
    last: int
    job: str = ""
    statements: list[Statement] = field(factory=list)
    runs: list[RecordedRun] = field(factory=list)
    log: str = ""  #: the log, if other accounts from the same log contain other runs of the job
    address: str = ""
    entries: list[tuple[int, StatementSource, dict[str, str]]] = field(factory=list)
    seamless: bool = False  #: a job event log covers the job since its submission, without a gap
    is_restarted: bool = False  #: a job event log shows the start of a run, but not the end of the run before it
    hides_hold: bool = False  #: a hold during a run may have ended (release or removal) before its shadow exited
    reconnected: bool = False  #: the shadow was replaced or lost for a while, so its counters were restarted or lost

    @property
    def schedd(self) -> str:
        return self.job.partition("#")[0]


@define
class RecordedJob:
    accounts: list[JobAccount] = field(factory=list)

    @property
    def submitted(self) -> int | None:
        submit_times = [account.submitted for account in self.accounts if account.submitted is not None]
        return min(submit_times) if submit_times else None

    @property
    def span(self) -> tuple[int, int]:
        return min(account.first for account in self.accounts), max(account.last for account in self.accounts)

    @property
    def has_reconnected(self) -> bool:
        """Return True if a shadow and its counters were lost. Two logs must agree that a run has no end."""
        logs = [account.is_restarted for account in self.accounts if account.entries]
        return any(account.reconnected for account in self.accounts) or (len(logs) > 1 and all(logs))

    @property
    def jobs(self) -> set[str]:
        return {account.job for account in self.accounts if account.job}

    @property
    def addresses(self) -> set[str]:
        return {account.address for account in self.accounts if account.address}


def recorded_jobs(accounts: Iterable[JobAccount]) -> list[RecordedJob]:
    """Return the jobs that had one job number, unordered. Accounts that match none or several of them are left out."""
    jobs: list[RecordedJob] = []
    accounts_by_submission = sorted(accounts, key=lambda t: (t.submitted is None, not t.job, t.submitted or 0, t.first))
    schedds = {t.schedd for t in accounts_by_submission if t.schedd}
    addresses = {t.address for t in accounts_by_submission if t.address}
    several = len(schedds) > 1 or len(addresses) > 1
    for account in accounts_by_submission:
        matching_jobs = _jobs_of_account(account, jobs, several)
        if len(matching_jobs) == 1:
            matching_jobs[0].accounts.append(account)
        elif not matching_jobs and (account.submitted is not None or not jobs):
            jobs.append(RecordedJob([account]))
    return jobs


def _jobs_of_account(account: JobAccount, jobs: list[RecordedJob], several: bool) -> list[RecordedJob]:
    if account.job:
        jobs_by_id = [job for job in jobs if account.job in job.jobs]
        return jobs_by_id or [job for job in jobs if not job.jobs and _fits_in_time(account, job, several)]
    address_jobs = [job for job in jobs if not account.address or not job.addresses or account.address in job.addresses]
    nearby_jobs = [job for job in address_jobs if _is_near(account, job)]
    return nearby_jobs or [job for job in address_jobs if _fits_in_time(account, job, several)]


def _is_near(account: JobAccount, job: RecordedJob) -> bool:
    submitted = job.submitted
    return account.submitted is not None and submitted is not None and abs(account.submitted - submitted) <= MINUTE


def _fits_in_time(account: JobAccount, job: RecordedJob, several: bool) -> bool:
    """Return True if an account matches a job by time. A number belongs to one job at a time, unless several access
    points use it."""
    first, last = job.span
    submitted = job.submitted
    if account.submitted is not None and submitted is not None:
        return _is_near(account, job) or (not several and account.first < last and first < account.last)
    if submitted is None:
        return True  # nothing contradicts this
    return submitted - MINUTE <= account.first <= last + FAR


_Entry = tuple[object, RecordedRun, tuple[int, int]]  #: a run, the log or record that contains it, and its time span


def statements_by_run(job: RecordedJob) -> list[list[Statement]]:
    """Return the statements about each run of a job, in the order of the runs."""
    return [[statement for run in runs for statement in run.statements] for runs in runs_of(job)]


def runs_of(job: RecordedJob) -> list[list[RecordedRun]]:
    """Return each run of a job as recorded by each source, in order. Runs from different logs that may be the same are
    joined if each log has one of them. If logs have several runs too close to distinguish, the logs that have all of
    these runs are joined in order, and the other logs are left out."""
    runs: list[_Entry] = [
        (t.log or id(t), run, span) for t in job.accounts for run in t.runs if (span := run.span) is not None
    ]
    runs.sort(key=lambda entry: entry[2])
    parents = list(range(len(runs)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = number = parents[parents[number]]
        return number

    for index, second in _mergeable_pairs(runs):
        lower_root, higher_root = sorted((root(index), root(second)))
        parents[higher_root] = lower_root
    groups: dict[int, list[_Entry]] = {}
    for number, entry in enumerate(runs):
        groups.setdefault(root(number), []).append(entry)
    same_runs = (runs for group in groups.values() for runs in _split_near(group))
    return [runs for runs in same_runs if not any(_have_two_shadows(a, b) for a, b in combinations(runs, 2))]


def _mergeable_pairs(runs: list[_Entry]) -> list[tuple[int, int]]:
    """Return the pairs of runs that may be the same run. Of several candidates in one log, the nearest is used."""
    pairs: list[tuple[int, int, int]] = []
    nearest_runs: dict[tuple[int, object], int] = {}
    for number, (log, run, span) in enumerate(runs):
        for second in range(number + 1, len(runs)):
            other_log, other, other_span = runs[second]
            if other_span[0] > span[1] + FAR:
                break
            if log != other_log and (distance := _distance(run, other)) is not None:
                pairs.append((distance, number, second))
                for key in ((number, other_log), (second, log)):
                    nearest_runs[key] = min(distance, nearest_runs.get(key, distance))
    return [
        (index, second)
        for distance, index, second in pairs
        if distance <= NEAR + min(nearest_runs[index, runs[second][0]], nearest_runs[second, runs[index][0]])
    ]


def _split_near(group: list[_Entry]) -> list[list[RecordedRun]]:
    """Split a group of close runs, sorted by time, into the individual runs."""
    logs: dict[object, list[RecordedRun]] = {}
    for log, run, _ in group:
        logs.setdefault(log, []).append(run)
    largest_count = max(len(runs) for runs in logs.values())
    if largest_count == 1:
        return [[run for _, run, _ in group]]
    complete = [runs for runs in logs.values() if len(runs) == largest_count]
    aligned = [runs for runs in complete if all(_are_close(a, b) for a, b in zip(complete[0], runs, strict=True))]
    return [list(column) for column in zip(*aligned, strict=True)]


def _distances(run: RecordedRun, other: RecordedRun) -> list[int]:
    """Return the differences between the instants that are known for both runs, in microseconds."""
    pairs = ((run.placed_at, other.placed_at), (run.began_at, other.began_at), (run.stopped_at, other.stopped_at))
    return [abs(time - other_time) for time, other_time in pairs if time is not None and other_time is not None]


def _are_close(run: RecordedRun, other: RecordedRun) -> bool:
    return all(distance <= NEAR for distance in _distances(run, other))


def _have_two_shadows(run: RecordedRun, other: RecordedRun) -> bool:
    """Return True if the ads of two runs name different shadows. A shadow that reconnects has a new number, but the
    start time of the previous shadow."""
    both_have_shadows = run.shadow and other.shadow and run.placed_at is not None and other.placed_at is not None
    return bool(both_have_shadows) and run.shadow != other.shadow and run.placed_at != other.placed_at


def _distance(run: RecordedRun, other: RecordedRun) -> int | None:
    """Return the time between two runs of different logs, in microseconds, or None if they cannot be the same run."""
    if _have_two_shadows(run, other):
        return None
    smallest_gap = min(_distances(run, other), default=ANY)
    if run.span is None or other.span is None:
        return smallest_gap if smallest_gap <= NEAR else None
    shorter_length = min(run.span[1] - run.span[0], other.span[1] - other.span[0])
    if (
        not shorter_length
        and run.placed_at is not None
        and other.placed_at is not None
        and abs(run.placed_at - other.placed_at) > NEAR
    ):
        return None  # another shadow was started in between: the first was lost
    if smallest_gap <= NEAR:
        return smallest_gap
    overlap = min(run.span[1], other.span[1]) - max(run.span[0], other.span[0])
    if overlap < 0 or overlap * 2 < shorter_length:
        return None
    return FAR + (shorter_length - overlap if shorter_length else abs(run.span[0] - other.span[0]))


def disputed_statements_of(statements: Sequence[Statement]) -> list[list[Statement]]:
    """Return all statements of each disputed fact of a job or run, the believed one first, one per kind and value."""
    facts: dict[tuple[str, int], list[Statement]] = {}
    for statement in statements:
        facts.setdefault((statement.fact, statement.number), []).append(statement)
    groups = []
    for fact_statements in facts.values():
        if any(a.contradicts(b) for a, b in combinations(fact_statements, 2)):
            fact_statements.sort(key=lambda s: (BELIEVED[s.fact, s.letter], s.source, s.line))
            groups.append(list({(s.letter, s.text, s.value): s for s in reversed(fact_statements)}.values())[::-1])
    return groups
