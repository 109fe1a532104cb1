"""Collect the runs of jobs from HTCondor's records, each run once, although several sources may record it.

A run starts when it is given its slot (or, if this is unknown, when its program starts). If no source records its end,
it ended at the latest when the job's next run started. It was evicted unless its job completed then, according to entry
005, the history, or an ad of the run with an exit and without a vacate reason. The cause is taken from the vacate code,
the slot's log, the entries at the run's end, and the deaths of daemons: the first of them with a specific cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from functools import partial
from typing import Final, NamedTuple, TypeVar

from attrs import define, evolve, field

from ...domain.imported.record_sources import SCHEDD_DIED, RecordPlace
from ...domain.ports.log import EventStore
from ...domain.units import SECOND
from ..forensics.audit.audit_statements import JobAccount, RecordedJob, RecordedRun, Statement, recorded_jobs, runs_of
from ..forensics.audit.audit_statements import StatementSource as Stated
from ..forensics.audit.compared_facts import BELIEVED
from ..forensics.audit.event_log_facts import JobRecord
from ..forensics.audit.job_records import accounts_of
from ..forensics.imported_log import PlaceNames
from ..narration.formatting import EVER
from .daemon_deaths import Deaths
from .job_run import COMPLETED, ENDED, EVICTED, RUNNING, JobRun
from .run_end_causes import CAUSES, Cause, best_cause, cause_of_code, cause_of_reason
from .run_records import LEFT, Job, Records
from .slot_records import SlotRecords, eviction_moves

SOON: Final = 2 * SECOND  #: the maximum time between records of the same end
_BEGINS, _EVICTED, _DONE, _HELD, _LOST, _FOUND = 1, 4, 5, 12, 22, 23
_ENDS: Final = frozenset({4, 5, 7, 24})
_USERS: Final = frozenset({"user", "submitter"})
_REASONS: Final = {4: "reason", 7: "reason", 9: "reason", 12: "reason", 21: "reason", 24: "reason"}
_OF_ENTRIES: Final = {9: CAUSES["removed"], 12: CAUSES["held"], 7: CAUSES["daemon"], 24: CAUSES["disconnected"]}
"""The causes of entries at the end of a run."""
Entry = tuple[int, Stated, dict[str, str]]
V = TypeVar("V")


class Hints(NamedTuple):
    """The causes from the records of a run's end: from a code, and from entries (``entry_causes``). Also whether there
    are ``entries`` at all, and when a shadow reconnected to the run (0: never)."""

    code: Cause | None
    entry_causes: tuple[Cause, ...]
    entries: bool
    attended: int


@define
class UnknownRuns:
    """Runs for which the sources contain only totals: how many jobs had them, and their time on slots (microseconds).
    ``silent``: no record in the log shows any run."""

    jobs: int = 0
    time: int = 0
    silent: bool = False


@define
class ImportedRuns:
    """Finds the runs in an imported log that overlap the time between two instants. After ``runs``, ``unknown``
    contains the totals of further runs that the history counts for these jobs without their times."""

    log: EventStore
    since: int = 0
    until: int = EVER
    zone: tzinfo = UTC
    unknown: UnknownRuns = field(factory=UnknownRuns)

    def runs(self) -> list[JobRun]:
        """Return all runs with their causes, sorted by end."""
        return self.explained_runs(Records(self.since, self.until).fold_records(self.log.read()), None)

    def explained_runs(self, records: Records, at: int | None) -> list[JobRun]:
        deaths = Deaths(self.log, PlaceNames(self.log), SlotRecords(self.log, at), self.zone)
        pairs = self._runs_with_hints(records)
        return [_with_cause(run, hints, deaths) if run.outcome in (EVICTED, ENDED) else run for run, hints in pairs]

    def _runs_with_hints(self, records: Records) -> list[tuple[JobRun, Hints]]:
        jobs = {job: kept for job, kept in records.records_by_job.items() if not self._is_outside(kept)}
        pairs = [pair for job, job_records in jobs.items() for pair in self._runs_of_job(records, job, job_records)]
        self.unknown.silent = not pairs and not records.is_past and len(jobs) == len(records.records_by_job)
        names: dict[str, set[str]] = {}
        for run, _ in pairs:
            if "@" in run.user:
                names.setdefault(run.user.partition("@")[0], set()).add(run.user)
        pairs = [pair for pair in pairs if pair[0].began < self.until and pair[0].ended >= self.since]
        pairs = [(_with_full_user(run, names), hints) for run, hints in pairs]
        return sorted(pairs, key=lambda pair: (pair[0].ended, pair[0].began, pair[0].job))

    def _is_outside(self, records_of_job: list[JobRecord]) -> bool:
        """Return True if a job's log records show that it left the queue before the window or entered it after the
        window. This check is fast, and excludes most jobs of a long log."""
        record_times = [record.at for record in records_of_job if record.letter not in "HPS"]
        if not record_times or any(record.letter == "H" for record in records_of_job):
            return False
        last_entry = next((record.what for record in reversed(records_of_job) if record.letter in "UE"), "")
        return min(record_times) >= self.until or (max(record_times) < self.since and last_entry in LEFT)

    def _runs_of_job(self, records: Records, job: Job, job_records: list[JobRecord]) -> Iterator[tuple[JobRun, Hints]]:
        accounts = accounts_of(job_records, records.gaps)
        for recorded_job in _jobs_of_number(accounts, records.users.get(job[0], "")):
            statements = (statement for account in recorded_job.accounts for statement in account.statements)
            reader = _ImportedJobRuns(job, recorded_job, records, _believed_facts(statements))
            runs = reader.runs()
            yield from runs
            wall = reader.facts.get("wall")
            if wall is None or wall.letter != "H":
                continue
            unknown_time = wall.value - sum(run.duration for run, _ in runs)
            if unknown_time > max(SOON, wall.value // 100):
                self.unknown.jobs += 1
                self.unknown.time += unknown_time


def _jobs_of_number(accounts: Sequence[JobAccount], user: str) -> Iterator[RecordedJob]:
    """Yield the jobs that had one job number. A startd's account with a different user belongs to a job of another
    access point."""
    account_users = [
        (each, [(fact.letter, _short_user(fact.text)) for fact in each.statements if fact.fact in _USERS])
        for each in accounts
    ]
    users = {name for _, names in account_users for letter, name in names if letter != "L"} | {_short_user(user)} - {""}
    others = [account for account, names in account_users if users and any(name not in users for _, name in names)]
    own_accounts = [account for account in accounts if account not in others]
    recorded_jobs_of_user = recorded_jobs(own_accounts)
    placed_accounts = {id(account) for recorded_job in recorded_jobs_of_user for account in recorded_job.accounts}
    running_jobs = [
        recorded_job
        for recorded_job in recorded_jobs_of_user
        if not any(fact.fact == "became" for each in recorded_job.accounts for fact in each.statements)
    ]
    for account in own_accounts:
        if id(account) not in placed_accounts and len(running_jobs) == 1 and running_jobs[0].span[0] <= account.first:
            running_jobs[0].accounts.append(account)  # a later run of a job that has no recorded end
    yield from recorded_jobs_of_user
    yield from (RecordedJob([account]) for account in others)


def _short_user(user: str) -> str:
    """Return a user's name without its domain and accounting group."""
    return user.partition("@")[0].rpartition(".")[2]


def job_runs(log: EventStore, cluster: int, proc: int | None, at: int | None, zone: tzinfo = UTC) -> list[JobRun]:
    """Return the runs of a job, or of all jobs of a cluster, as of an instant (default: now), without reading the
    records of other jobs."""
    records = Records(only=(cluster, proc), at=EVER if at is None else at).read_job(log)
    return ImportedRuns(log, zone=zone).explained_runs(records, at)


@define
class _ImportedJobRuns:
    job: Job
    recorded_job: RecordedJob
    records: Records
    facts: dict[str, Statement]  #: the most reliable statement of each fact of the job

    def _user(self) -> str:
        user, submitter = self.facts.get("user"), self.facts.get("submitter")
        if user is not None and (
            user.letter != "L" or all(each.log.startswith("L") for each in self.recorded_job.accounts)
        ):
            return user.text
        known_user = self.records.users.get(self.job[0], "") or (user.text if user is not None else "")
        return known_user or (submitter.text if submitter is not None else "")

    def _value_of_ads(self, values_by_place: dict[RecordPlace, V], statements: Iterable[Statement]) -> V | None:
        """Return the first value in a table (by the location of ads) for the ads that make these statements."""
        places = (RecordPlace(statement.source, statement.line) for statement in statements)
        return next((values_by_place[place] for place in places if place in values_by_place), None)

    def runs(self) -> list[tuple[JobRun, Hints]]:
        run_ends, orphan_ends = _run_ends(self.recorded_job.accounts)
        statements = [statement for account in self.recorded_job.accounts for statement in account.statements]
        user, group = self._user(), self._value_of_ads(self.records.groups, statements) or ""
        departure = self._value_of_ads(self.records.left, statements)
        name = f"{self.job[0]}.{self.job[1]}"
        runs = [_CombinedRun.from_same_runs(same_runs, run_ends) for same_runs in runs_of(self.recorded_job)]
        runs = [known_run if known_run.entries else known_run.ended_by(orphan_ends) for known_run in runs]
        started_runs = [run for run in runs if run.began is not None]
        runs = _distinct_runs(sorted(started_runs, key=lambda run: run.began or 0))
        run_hints: list[tuple[JobRun, Hints]] = []
        for number, known_run in enumerate(runs, 1):
            end, outcome = self._find_end(known_run, number == len(runs))
            # A completed job has an entry 005.
            if number < len(runs) and (end is None or (known_run.logged and outcome == ENDED)):
                end, outcome = runs[number].began if end is None else end, EVICTED
            if end is None:
                departed = departure if departure is not None and departure >= (known_run.began or 0) else None
                end, outcome = departed or self._first_gap(known_run), ENDED
            slot = known_run.facts.get("slot")
            run = JobRun(
                name, user, group, slot.text if slot is not None else "", known_run.began or 0,
                self.records.last if end is None else end, RUNNING if end is None else outcome,
                reason_text=_entries_reason(known_run.entries), stimulus=known_run.stimulus, begun=known_run.begun,
                ends=known_run.ends,
            )  # fmt: skip
            code = self._value_of_ads(self.records.codes, known_run.facts.values()) if outcome != COMPLETED else ""
            was_held = self._was_held(known_run.began or 0, end)
            run_hints.append((run, _hints(known_run.entries, code or "", known_run.attended, was_held)))
        return run_hints

    def _was_held(self, began: int, ended: int | None) -> bool:
        """Return True if the job event logs show that the job was put on hold during a run or at its end. A shadow may
        outlive the hold."""
        entries = [entry for account in self.recorded_job.accounts for entry in account.entries]
        holds = (place.at for number, place, _ in entries if number == _HELD)
        return not entries or ended is None or any(began <= at <= ended + SOON for at in holds)

    def _first_gap(self, run: _CombinedRun) -> int | None:
        """Return the start of the first gap in a run's logs that may hide the run's end, or None if there is no such
        gap."""
        chains = {self.records.chain_of(statement.source) for statement in run.facts.values()}
        hole_times = (at for chain in chains for at in self.records.holes.get(chain, ()) if at >= (run.began or 0))
        return min(hole_times, default=None)

    def _find_end(self, run: _CombinedRun, is_last: bool) -> tuple[int | None, str]:
        """Return when a run ended (None: no record shows it), and how it ended."""
        end_statement = self.facts.get("ended")
        # A completed job may run again by mistake.
        is_last = is_last and (end_statement is None or end_statement.value + SECOND > (run.began or 0))
        end_time, outcome_statement = run.ended, self.facts.get("became") if is_last else None
        if run.entries:
            return end_time, COMPLETED if any(number == _DONE for number, _, _ in run.entries) else EVICTED
        if outcome_statement is not None:
            if end_time is None and end_statement is not None:
                end_time = max(run.began or 0, end_statement.value)
            return end_time, COMPLETED if outcome_statement.text == COMPLETED else EVICTED
        if self._value_of_ads(self.records.codes, run.facts.values()):
            return end_time, EVICTED
        exits = run.facts.get("exit")
        if exits is None or (exits.letter == "S" and exits.text.startswith("signal")):
            return end_time, ENDED if exits is None else EVICTED
        return end_time, COMPLETED


class ImportedRunEnd(NamedTuple):
    """The end of a run in a job event log: its entries, when its shadow last reconnected and when it last lost the
    connection (0: never), and the locations of all records of the end."""

    entries: tuple[Entry, ...]
    attended: int
    lost: int
    places: tuple[str, ...]

    @staticmethod
    def from_entries(entries: Sequence[Entry]) -> ImportedRunEnd:
        """Return the end of a run according to the entries after its start. A schedd's restart is not a lost
        connection."""
        attended = lost = 0
        for number, place, facts in entries:
            if number == _FOUND:
                attended = place.at
            elif number == _LOST and not facts.get("reason", "").startswith(SCHEDD_DIED):
                lost = place.at
        end = _parse_end(entries)
        places = (f"{entry[1].source}:{entry[1].line}" for entry in entries if entry in end or entry[0] in _ENDS)
        return ImportedRunEnd(end, attended, lost, tuple(places))


class _CombinedRun(NamedTuple):
    """A run combined from all of its sources: the most reliable statement of each fact, its start and end (None: no
    record shows it), the entries at its end, and when its shadow reconnected. ``logged``: whether it is in a job event
    log. ``ends``: the locations of all records of its end."""

    facts: dict[str, Statement]
    began: int | None
    ended: int | None
    entries: tuple[Entry, ...]
    attended: int
    logged: bool
    ends: tuple[str, ...]

    @staticmethod
    def from_same_runs(same_runs: Sequence[RecordedRun], run_ends: dict[int, ImportedRunEnd]) -> _CombinedRun:
        facts = _believed_facts(statement for run in same_runs for statement in run.statements)
        own_ends = [run_ends[id(run)] for run in same_runs if id(run) in run_ends]
        entries = next((run_end.entries for run_end in own_ends if run_end.entries), ())
        stop_times = [run.stopped_at for run in same_runs if run.stopped_at is not None]
        if stop_times:  # a startd that died did not log the broken connections of its jobs
            stop_times += [run_end.lost for run_end in own_ends]
        stop = facts.get("stopped")
        end_time = stop.value if stop is not None else entries[0][1].at if entries else max(stop_times, default=None)
        attended = max((run_end.attended for run_end in own_ends), default=0)
        places = [place for run_end in own_ends for place in run_end.places]
        places += [run.end_place for run in same_runs if run.end_place]
        places += [f"{s.source}:{s.line}" for run in same_runs for s in run.statements if s.fact == "stopped"]
        begin_time, distinct_places = _begin_time(same_runs, facts), tuple(dict.fromkeys(places))
        return _CombinedRun(facts, begin_time, end_time, entries, attended, bool(own_ends), distinct_places)

    def ended_by(self, orphan_ends: Iterable[ImportedRunEnd]) -> _CombinedRun:
        """Return the run with an end from a log without the run's start, which means that its program never started."""
        until = EVER if self.ended is None else self.ended + SOON
        for end in orphan_ends:
            place = end.entries[0][1]
            if (self.began or 0) <= place.at <= until:
                return self._replace(entries=end.entries, ended=place.at, ends=(*end.places, *self.ends))
        return self

    def is_begun_by(self, run: _CombinedRun) -> bool:
        """Return True if this is the shadow or claim of `run`, the next run in a job event log."""
        slots = {slot.text for facts in (self.facts, run.facts) if (slot := facts.get("slot")) is not None}
        has_only_begin = self.ended is None and not self.logged and run.logged and "placed" not in run.facts
        return has_only_begin and len(slots) == 1

    @property
    def begun(self) -> str:
        """Return the location of the record of its start, or an empty string if there is none."""
        statement = self.facts.get("placed") or self.facts.get("began")
        return f"{statement.source}:{statement.line}" if statement is not None else ""

    @property
    def stimulus(self) -> str:
        """Return the location of the record of its end, or else of its first statement."""
        if self.entries:
            place = self.entries[0][1]
            return f"{place.source}:{place.line}"
        statement = self.facts.get("stopped") or next(iter(self.facts.values()), None)
        return f"{statement.source}:{statement.line}" if statement is not None else ""


def _distinct_runs(runs: Iterable[_CombinedRun]) -> list[_CombinedRun]:
    """Return each run once. An end after a gap that belongs to the previous run is left out. A shadow or claim without
    an end becomes the start of the next run on that slot in the job's log."""
    distinct_runs: list[_CombinedRun] = []
    for run in runs:
        previous = distinct_runs[-1] if distinct_runs else None
        previous_end = previous.ended if previous is not None else None
        has_begin = "placed" in run.facts or "began" in run.facts
        if previous is not None and previous.is_begun_by(run):
            distinct_runs[-1] = run._replace(facts=previous.facts | run.facts, began=previous.began)
        elif has_begin or previous_end is None or abs((run.began or 0) - previous_end) > SOON:
            distinct_runs.append(run)
    return distinct_runs


def _believed_facts(statements: Iterable[Statement]) -> dict[str, Statement]:
    believed_facts: dict[str, Statement] = {}
    for statement in statements:
        previous = believed_facts.get(statement.fact)
        if previous is None or BELIEVED[statement.fact, statement.letter] < BELIEVED[previous.fact, previous.letter]:
            believed_facts[statement.fact] = statement
    return believed_facts


def _begin_time(same_runs: Sequence[RecordedRun], facts: dict[str, Statement]) -> int | None:
    """Return when a run was given its slot, or else when its program started, or None if neither is known."""
    begin_statement = facts.get("placed") or facts.get("began")
    if begin_statement is not None:
        return begin_statement.value
    return min((run.span[0] for run in same_runs if run.span is not None), default=None)


def _run_ends(accounts: Iterable[JobAccount]) -> tuple[dict[int, ImportedRunEnd], list[ImportedRunEnd]]:
    run_ends: dict[int, ImportedRunEnd] = {}
    orphan_ends: list[ImportedRunEnd] = []
    for account in accounts:
        begun_runs = iter([run for run in account.runs if run.began_at is not None])
        run: RecordedRun | None = None
        near_entries: list[Entry] = []
        for entry in [*account.entries, None]:
            over_at = next((place.at for number, place, _ in near_entries if number in (_EVICTED, _DONE)), EVER)
            if entry is None or entry[0] == _BEGINS or (entry[0] in (_EVICTED, _DONE) and entry[1].at > over_at + SOON):
                if run is not None:
                    run_ends[id(run)] = ImportedRunEnd.from_entries(near_entries)
                elif any(number in (_EVICTED, _DONE) for number, _, _ in near_entries):
                    orphan_ends.append(ImportedRunEnd.from_entries(near_entries))
                run = next(begun_runs, None) if entry is not None and entry[0] == _BEGINS else None
                near_entries = []
            if entry is not None and entry[0] != _BEGINS:
                near_entries.append(entry)
    return run_ends, orphan_ends


def _parse_end(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries after a run's start that belong to its end: first the end itself, then the entries that led to
    it (a hold, a lost connection) and those written at the same time."""
    end = next((entry for entry in entries if entry[0] in _ENDS), None)
    end = end or next((entry for entry in entries if entry[0] in _OF_ENTRIES), None)
    if end is None:
        return ()
    return (end, *(entry for entry in entries if entry is not end and entry[1].at <= end[1].at + SOON))


def _entries_reason(entries: Sequence[Entry]) -> str:
    reasons = (facts.get(_REASONS[number], "") for number, _, facts in entries if number in _REASONS)
    return next((text for text in reasons if text and not text.startswith("Unspecified")), "")


def _hints(entries: Sequence[Entry], code: str, attended: int, was_held: bool) -> Hints:
    evictions = [facts for number, _, facts in entries if number == _EVICTED]
    codes = [*(facts.get("reason_code", "") for facts in evictions), code]
    requeue_causes = [CAUSES["requeued"] for facts in evictions if facts.get("requeued") == "true"]
    other_causes = tuple(_OF_ENTRIES[number] for number, _, _ in entries if number in _OF_ENTRIES)
    known_cause = next(filter(None, [*requeue_causes, *(cause_of_code(text, was_held) for text in codes)]), None)
    return Hints(known_cause, other_causes, bool(entries), attended)


def _with_full_user(run: JobRun, full_names: dict[str, set[str]]) -> JobRun:
    """Return the run with its user's full name, if the short name belongs to only one user."""
    names = full_names.get(run.user, ())
    return evolve(run, user=next(iter(names))) if len(names) == 1 else run


def _with_cause(run: JobRun, hints: Hints, deaths: Deaths) -> JobRun:
    """Return the run with its cause, and the text of the record that states the cause. A run with an unknown outcome
    counts as evicted if its slot's log states a reason."""
    slot_moves = deaths.slots.run(run.slot, run.job, run.began) if run.slot else []
    leaving_moves = eviction_moves(slot_moves, run.ended)
    reasons = [event.reason for _, event in leaving_moves]
    if slot_moves and not hints.entries:
        run = evolve(run, stimulus=(leaving_moves or slot_moves[-1:])[0][1].stimulus)
    causes = [cause for cause in (hints.code, *map(cause_of_reason, reasons), *hints.entry_causes) if cause is not None]
    cause = best_cause(causes)
    find_death = partial(
        deaths.in_run, run.slot, run.job, run.began, run.ended, slot_moves, hints.attended, is_logged=hints.entries
    )
    death = find_death() if cause.is_weak else None
    if death is not None:
        text, place = death.clause(deaths.zone), death.stimulus
        return evolve(run, outcome=EVICTED, cause=CAUSES["daemon"], reason_text=text, stimulus=place, death=death)
    reason_text = run.reason_text or (next(iter(reasons), "") if cause.is_weak else "")
    return evolve(run, outcome=run.outcome if cause.is_weak else EVICTED, cause=cause, reason_text=reason_text)
