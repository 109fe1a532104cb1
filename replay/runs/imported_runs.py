"""Collect the runs of jobs from the records of HTCondor, each run once, though several sources may record it.

A run lasts from when it was given its slot (else from the start of its program) until it was over; if no source records
its end, it ended at the latest when the job's next run began. It was evicted unless its job completed then: by entry
005, by the history, or by an ad of the run that has an exit and no reason of an eviction. The cause comes from its
vacate code, the slot's log, the entries at its end, and the deaths of daemons: the first that gives more than that the
run was over.
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
from .run_end_causes import CAUSES, Cause, best_cause, of_code, of_reason
from .run_records import LEFT, Job, Records
from .slot_records import SlotRecords, left_for

SOON: Final = 2 * SECOND  #: records of one end are at most this far apart
_BEGINS, _EVICTED, _DONE, _HELD, _LOST, _FOUND = 1, 4, 5, 12, 22, 23
_ENDS: Final = frozenset({4, 5, 7, 24})
_USERS: Final = frozenset({"user", "submitter"})
_REASONS: Final = {4: "reason", 7: "reason", 9: "reason", 12: "reason", 21: "reason", 24: "reason"}
_OF_ENTRIES: Final = {9: CAUSES["removed"], 12: CAUSES["held"], 7: CAUSES["daemon"], 24: CAUSES["disconnected"]}
"""The causes that entries at the end of a run give."""
Entry = tuple[int, Stated, dict[str, str]]
V = TypeVar("V")


class Hints(NamedTuple):
    """The causes that the records of a run's end give: by a code, and by entries ``besides``; whether there are
    ``entries`` at all; and when a shadow reconnected to it (0: never)."""

    code: Cause | None
    besides: tuple[Cause, ...]
    entries: bool
    attended: int


@define
class UnknownRuns:
    """Runs that the sources have in total only: how many jobs had them, and their time on slots (microseconds).
    ``silent``: no record shows a run, at any time."""

    jobs: int = 0
    time: int = 0
    silent: bool = False


@define
class ImportedRuns:
    """Finds the runs of an imported log that overlap the time between two instants. ``unknown`` counts, after ``runs``,
    the runs that the history has of such jobs without their times."""

    log: EventStore
    since: int = 0
    until: int = EVER
    zone: tzinfo = UTC
    unknown: UnknownRuns = field(factory=UnknownRuns)

    def runs(self) -> list[JobRun]:
        """Return all runs with their causes, in order of their ends."""
        return self.explained(Records(self.since, self.until).read(self.log.read()), None)

    def explained(self, records: Records, at: int | None) -> list[JobRun]:
        deaths = Deaths(self.log, PlaceNames(self.log), SlotRecords(self.log, at), self.zone)
        return [
            _explained(run, hints, deaths) if run.outcome in (EVICTED, ENDED) else run
            for run, hints in self._pairs(records)
        ]

    def _pairs(self, records: Records) -> list[tuple[JobRun, Hints]]:
        jobs = {job: heard for job, heard in records.heard.items() if not self._outside(heard)}
        pairs = [pair for job, heard in jobs.items() for pair in self._of_job(records, job, heard)]
        self.unknown.silent = not pairs and not records.passed and len(jobs) == len(records.heard)
        full: dict[str, set[str]] = {}
        for run, _ in pairs:
            if "@" in run.user:
                full.setdefault(run.user.partition("@")[0], set()).add(run.user)
        pairs = [
            (_named(run, full), hints) for run, hints in pairs if run.began < self.until and run.ended >= self.since
        ]
        return sorted(pairs, key=lambda pair: (pair[0].ended, pair[0].began, pair[0].job))

    def _outside(self, heard: list[JobRecord]) -> bool:
        """Return True if a job left the queue before the window, or came after it, by its records in logs: this is
        cheap to check for most jobs of a long log."""
        instants = [record.at for record in heard if record.letter not in "HPS"]
        if not instants or any(record.letter == "H" for record in heard):
            return False
        last = next((record.what for record in reversed(heard) if record.letter in "UE"), "")
        return min(instants) >= self.until or (max(instants) < self.since and last in LEFT)

    def _of_job(self, records: Records, job: Job, heard: list[JobRecord]) -> Iterator[tuple[JobRun, Hints]]:
        accounts = accounts_of(heard, records.gaps)
        for life in _lives(accounts, records.users.get(job[0], "")):
            statements = (statement for account in life.accounts for statement in account.said)
            reader = _ImportedJobRuns(job, life, records, _believed(statements))
            runs = reader.runs()
            yield from runs
            wall = reader.said.get("wall")
            if wall is None or wall.letter != "H":
                continue
            rest = wall.value - sum(run.lasted for run, _ in runs)
            if rest > max(SOON, wall.value // 100):
                self.unknown.jobs += 1
                self.unknown.time += rest


def _lives(accounts: Sequence[JobAccount], user: str) -> Iterator[RecordedJob]:
    """Yield the jobs of a number. A startd's account with another user belongs to a job of another access point."""
    named = [(each, [(s.letter, _short(s.text)) for s in each.said if s.fact in _USERS]) for each in accounts]
    users = {name for _, names in named for letter, name in names if letter != "L"} | ({_short(user)} - {""})
    others = [account for account, names in named if users and any(name not in users for _, name in names)]
    own = [account for account in accounts if account not in others]
    lives = recorded_jobs(own)
    placed = {id(account) for life in lives for account in life.accounts}
    going = [life for life in lives if not any(s.fact == "became" for each in life.accounts for s in each.said)]
    for account in own:
        if id(account) not in placed and len(going) == 1 and going[0].span[0] <= account.first:
            going[0].accounts.append(account)  # a later run of a job whose end no record shows
    yield from lives
    yield from (RecordedJob([account]) for account in others)


def _short(user: str) -> str:
    """Return a user's name without domain and accounting group."""
    return user.partition("@")[0].rpartition(".")[2]


def job_runs(log: EventStore, cluster: int, proc: int | None, at: int | None, zone: tzinfo = UTC) -> list[JobRun]:
    """Return the runs of a job, or of all jobs of a cluster, as they were at an instant (None: now), without reading
    the log's records of other jobs."""
    records = Records(only=(cluster, proc), at=EVER if at is None else at).read_job(log)
    return ImportedRuns(log, zone=zone).explained(records, at)


@define
class _ImportedJobRuns:
    """Combines a job's runs from all of its records."""

    job: Job
    life: RecordedJob
    records: Records
    said: dict[str, Statement]  #: the believed statement on each fact of the job

    def _user(self) -> str:
        user, submitter = self.said.get("user"), self.said.get("submitter")
        if user is not None and (user.letter != "L" or all(a.log.startswith("L") for a in self.life.accounts)):
            return user.text
        known = self.records.users.get(self.job[0], "") or (user.text if user is not None else "")
        return known or (submitter.text if submitter is not None else "")

    def _of_ads(self, kept: dict[RecordPlace, V], statements: Iterable[Statement]) -> V | None:
        """Return the first value of a table by ads' places, for the ads that some statements come from."""
        return next((kept[place] for s in statements if (place := RecordPlace(s.source, s.line)) in kept), None)

    def runs(self) -> list[tuple[JobRun, Hints]]:
        endings, orphans = _endings(self.life.accounts)
        every = [statement for account in self.life.accounts for statement in account.said]
        user, group = self._user(), self._of_ads(self.records.groups, every) or ""
        left = self._of_ads(self.records.left, every)
        name = f"{self.job[0]}.{self.job[1]}"
        known = [_Known.of(alike, endings) for alike in runs_of(self.life)]
        known = [one if one.entries else one.ended_by(orphans) for one in known]
        known = _each_once(sorted((one for one in known if one.began is not None), key=lambda one: one.began or 0))
        found: list[tuple[JobRun, Hints]] = []
        for number, one in enumerate(known, 1):
            ended, outcome = self._end(one, number == len(known))
            if number < len(known) and (
                ended is None or (one.logged and outcome == ENDED)
            ):  # a job that is done has 005
                ended, outcome = known[number].began if ended is None else ended, EVICTED
            if ended is None:
                known_left = left if left is not None and left >= (one.began or 0) else None
                ended, outcome = known_left or self._hole(one), ENDED
            slot = one.facts.get("slot")
            run = JobRun(
                name, user, group, slot.text if slot is not None else "", one.began or 0,
                self.records.last if ended is None else ended, RUNNING if ended is None else outcome,
                said=_words(one.entries), stimulus=one.stimulus, begun=one.begun, ends=one.ends,
            )  # fmt: skip
            code = self._of_ads(self.records.codes, one.facts.values()) if outcome != COMPLETED else ""
            found.append((run, _hints(one.entries, code or "", one.attended, self._held(one.began or 0, ended))))
        return found

    def _held(self, began: int, ended: int | None) -> bool:
        """Return True if the job was put on hold in a run or as it ended, as far as its job event logs show. A shadow
        may outlive the hold."""
        entries = [entry for account in self.life.accounts for entry in account.entries]
        holds = (place.at for number, place, _ in entries if number == _HELD)
        return not entries or ended is None or any(began <= at <= ended + SOON for at in holds)

    def _hole(self, run: _Known) -> int | None:
        """Return the start of the first gap in a run's logs that may have its end; None without a gap."""
        chains = {self.records.chain_of(statement.source) for statement in run.facts.values()}
        holes = (at for chain in chains for at in self.records.holes.get(chain, ()) if at >= (run.began or 0))
        return min(holes, default=None)

    def _end(self, run: _Known, last: bool) -> tuple[int | None, str]:
        """Return when a run was over (None: no record shows it), and how it ended."""
        gone = self.said.get("ended")
        last = last and (gone is None or gone.value + SECOND > (run.began or 0))  # a job may run again by mistake
        ended, became = run.ended, self.said.get("became") if last else None
        if run.entries:
            return ended, COMPLETED if any(number == _DONE for number, _, _ in run.entries) else EVICTED
        if became is not None:
            if ended is None and gone is not None:
                ended = max(run.began or 0, gone.value)
            return ended, COMPLETED if became.text == COMPLETED else EVICTED
        if self._of_ads(self.records.codes, run.facts.values()):
            return ended, EVICTED
        exits = run.facts.get("exit")
        if exits is None or (exits.letter == "S" and exits.text.startswith("signal")):
            return ended, ENDED if exits is None else EVICTED
        return ended, COMPLETED


class ImportedRunEnd(NamedTuple):
    """The end of a run in a job event log: its entries; when its shadow last reconnected to it, and last lost the
    connection to it (0: never); the places of all records of the end."""

    entries: tuple[Entry, ...]
    attended: int
    lost: int
    places: tuple[str, ...]

    @staticmethod
    def of(entries: Sequence[Entry]) -> ImportedRunEnd:
        """Return the end that the entries after a run's beginning show. A schedd's restart is not a lost connection."""
        attended = lost = 0
        for number, place, facts in entries:
            if number == _FOUND:
                attended = place.at
            elif number == _LOST and not facts.get("reason", "").startswith(SCHEDD_DIED):
                lost = place.at
        end = _end_of(entries)
        places = (f"{entry[1].source}:{entry[1].line}" for entry in entries if entry in end or entry[0] in _ENDS)
        return ImportedRunEnd(end, attended, lost, tuple(places))


class _Known(NamedTuple):
    """A run combined from all of its sources: the believed statement on each fact, when it began and ended (None: no
    record shows it), the entries at its end, and when its shadow reconnected. ``logged``: whether a job event log has
    it; ``ends``: the places of all records of its end."""

    facts: dict[str, Statement]
    began: int | None
    ended: int | None
    entries: tuple[Entry, ...]
    attended: int
    logged: bool
    ends: tuple[str, ...]

    @staticmethod
    def of(alike: Sequence[RecordedRun], endings: dict[int, ImportedRunEnd]) -> _Known:
        facts = _believed(statement for run in alike for statement in run.said)
        own = [endings[id(run)] for run in alike if id(run) in endings]
        entries = next((ending.entries for ending in own if ending.entries), ())
        ends = [run.stopped for run in alike if run.stopped is not None]
        if ends:  # a startd that died logged nothing when its jobs' connections broke
            ends += [ending.lost for ending in own]
        stopped = facts.get("stopped")
        ended = stopped.value if stopped is not None else entries[0][1].at if entries else max(ends, default=None)
        attended = max((ending.attended for ending in own), default=0)
        places = [place for ending in own for place in ending.places]
        places += [run.over for run in alike if run.over]
        places += [f"{s.source}:{s.line}" for run in alike for s in run.said if s.fact == "stopped"]
        return _Known(facts, _began(alike, facts), ended, entries, attended, bool(own), tuple(dict.fromkeys(places)))

    def ended_by(self, orphans: Iterable[ImportedRunEnd]) -> _Known:
        """Return the run with its end from a log that lacks its beginning: its program was never started."""
        until = EVER if self.ended is None else self.ended + SOON
        for end in orphans:
            place = end.entries[0][1]
            if (self.began or 0) <= place.at <= until:
                return self._replace(entries=end.entries, ended=place.at, ends=(*end.places, *self.ends))
        return self

    def is_begun_by(self, run: _Known) -> bool:
        """Return True if this is the shadow or claim of the run that a job event log has next."""
        slots = {slot.text for facts in (self.facts, run.facts) if (slot := facts.get("slot")) is not None}
        alone = self.ended is None and not self.logged and run.logged and "placed" not in run.facts
        return alone and len(slots) == 1

    @property
    def begun(self) -> str:
        """Return the place of the record of its beginning; empty if there is none."""
        statement = self.facts.get("placed") or self.facts.get("began")
        return f"{statement.source}:{statement.line}" if statement is not None else ""

    @property
    def stimulus(self) -> str:
        """Return the place of the record of its end, else of its first statement."""
        if self.entries:
            place = self.entries[0][1]
            return f"{place.source}:{place.line}"
        statement = self.facts.get("stopped") or next(iter(self.facts.values()), None)
        return f"{statement.source}:{statement.line}" if statement is not None else ""


def _each_once(runs: Iterable[_Known]) -> list[_Known]:
    """Return each run once: an end without a beginning, behind a gap, that is the end of the run before it is left out;
    a shadow or claim without an end is the beginning of the run that the job's log has next on that slot."""
    distinct: list[_Known] = []
    for run in runs:
        before = distinct[-1] if distinct else None
        ended = before.ended if before is not None else None
        begun = "placed" in run.facts or "began" in run.facts
        if before is not None and before.is_begun_by(run):
            distinct[-1] = run._replace(facts=before.facts | run.facts, began=before.began)
        elif begun or ended is None or abs((run.began or 0) - ended) > SOON:
            distinct.append(run)
    return distinct


def _believed(statements: Iterable[Statement]) -> dict[str, Statement]:
    """Return the statement of the most trusted source on each fact."""
    believed: dict[str, Statement] = {}
    for statement in statements:
        known = believed.get(statement.fact)
        if known is None or BELIEVED[statement.fact, statement.letter] < BELIEVED[known.fact, known.letter]:
            believed[statement.fact] = statement
    return believed


def _began(alike: Sequence[RecordedRun], facts: dict[str, Statement]) -> int | None:
    """Return when a run was given its slot, else when its program began; None if neither is known."""
    placed = facts.get("placed") or facts.get("began")
    if placed is not None:
        return placed.value
    return min((run.span[0] for run in alike if run.span is not None), default=None)


def _endings(accounts: Iterable[JobAccount]) -> tuple[dict[int, ImportedRunEnd], list[ImportedRunEnd]]:
    """Return the end of each run in the job event logs, by the run's identity; and the ends of runs whose beginning
    these logs lack."""
    endings: dict[int, ImportedRunEnd] = {}
    orphans: list[ImportedRunEnd] = []
    for account in accounts:
        begun = iter([run for run in account.runs if run.began is not None])
        run: RecordedRun | None = None
        near: list[Entry] = []
        for entry in [*account.entries, None]:
            over = next((place.at for number, place, _ in near if number in (_EVICTED, _DONE)), EVER)
            if entry is None or entry[0] == _BEGINS or (entry[0] in (_EVICTED, _DONE) and entry[1].at > over + SOON):
                if run is not None:
                    endings[id(run)] = ImportedRunEnd.of(near)
                elif any(number in (_EVICTED, _DONE) for number, _, _ in near):
                    orphans.append(ImportedRunEnd.of(near))
                run = next(begun, None) if entry is not None and entry[0] == _BEGINS else None
                near = []
            if entry is not None and entry[0] != _BEGINS:
                near.append(entry)
    return endings, orphans


def _end_of(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries after a run's beginning that are about its end, the end itself first: those before it (the job
    was put on hold, the connection was lost), and the ones written at the same moment."""
    end = next((entry for entry in entries if entry[0] in _ENDS), None)
    end = end or next((entry for entry in entries if entry[0] in _OF_ENTRIES), None)
    if end is None:
        return ()
    return (end, *(entry for entry in entries if entry is not end and entry[1].at <= end[1].at + SOON))


def _words(entries: Sequence[Entry]) -> str:
    """Return the reason that the entries of an end give; empty if they give none."""
    reasons = (facts.get(_REASONS[number], "") for number, _, facts in entries if number in _REASONS)
    return next((text for text in reasons if text and not text.startswith("Unspecified")), "")


def _hints(entries: Sequence[Entry], code: str, attended: int, held: bool) -> Hints:
    evicted = [facts for number, _, facts in entries if number == _EVICTED]
    codes = [*(facts.get("reason_code", "") for facts in evicted), code]
    again = [CAUSES["requeued"] for facts in evicted if facts.get("requeued") == "true"]
    besides = tuple(_OF_ENTRIES[number] for number, _, _ in entries if number in _OF_ENTRIES)
    known = next(filter(None, [*again, *(of_code(text, held) for text in codes)]), None)
    return Hints(known, besides, bool(entries), attended)


def _named(run: JobRun, full: dict[str, set[str]]) -> JobRun:
    """Return the run with its user's full name, if only one user has that name."""
    names = full.get(run.user, ())
    return evolve(run, user=next(iter(names))) if len(names) == 1 else run


def _explained(run: JobRun, hints: Hints, deaths: Deaths) -> JobRun:
    """Return the run with its cause, and the text of the record that gives it. A run of unknown outcome was evicted if
    its slot's log gives a reason."""
    moves = deaths.slots.run(run.slot, run.job, run.began) if run.slot else []
    left = left_for(moves, run.ended)
    reasons = [event.reason for _, event in left]
    if moves and not hints.entries:
        run = evolve(run, stimulus=(left or moves[-1:])[0][1].stimulus)
    named = [cause for cause in (hints.code, *map(of_reason, reasons), *hints.besides) if cause is not None]
    cause = best_cause(named)
    ask = partial(deaths.of_run, run.slot, run.job, run.began, run.ended, moves, hints.attended, logged=hints.entries)
    death = ask() if cause.weak else None
    if death is not None:
        words, place = death.words(deaths.zone), death.stimulus
        return evolve(run, outcome=EVICTED, cause=CAUSES["daemon"], said=words, stimulus=place, death=death)
    said = run.said or (next(iter(reasons), "") if cause.weak else "")
    return evolve(run, outcome=run.outcome if cause.weak else EVICTED, cause=cause, said=said)
