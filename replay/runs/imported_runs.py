"""The runs that the records of a real pool tell of, each once, whoever tells of it.

A run is from when its slot was given to it (else from when its program began) to when it was over; if no source tells
of its end, it ended at the latest when the job's next run began. It was evicted unless its job was done then: by entry
005, by the history, or by an ad of the run that has an exit and no reason of an eviction. Why it was is asked of its
code, of the slot's log, of the entries at its end, and of daemons that died: the first that says more than that it was
over.
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

SOON: Final = 2 * SECOND  #: what is written of one end is no further apart
_BEGINS, _EVICTED, _DONE, _HELD, _LOST, _FOUND = 1, 4, 5, 12, 22, 23
_ENDS: Final = frozenset({4, 5, 7, 24})
_USERS: Final = frozenset({"user", "submitter"})
_REASONS: Final = {4: "reason", 7: "reason", 9: "reason", 12: "reason", 21: "reason", 24: "reason"}
_OF_ENTRIES: Final = {9: CAUSES["removed"], 12: CAUSES["held"], 7: CAUSES["daemon"], 24: CAUSES["disconnected"]}
"""What entries at the end of a run say of why."""
Entry = tuple[int, Stated, dict[str, str]]
V = TypeVar("V")


class Hints(NamedTuple):
    """What the records of a run's end say of its cause: a code, and entries besides; whether there are ``entries`` at
    all; and when its shadow found it again (0: none did)."""

    code: Cause | None
    besides: tuple[Cause, ...]
    entries: bool
    attended: int


@define
class UnknownRuns:
    """What the sources know in total only: of how many jobs, and how much time on slots (microseconds). ``silent``:
    no record tells of any run, whenever it was."""

    jobs: int = 0
    time: int = 0
    silent: bool = False


@define
class ImportedRuns:
    """The runs of an imported log that have a part between two instants. ``unknown`` counts, once all were told, what
    the history knows of such jobs without saying when it was."""

    log: EventStore
    since: int = 0
    until: int = EVER
    zone: tzinfo = UTC
    unknown: UnknownRuns = field(factory=UnknownRuns)

    def runs(self) -> list[JobRun]:
        """Return all of them with their causes, in order of their ends."""
        return self.explained(Records(self.since, self.until).read(self.log.read()), None)

    def explained(self, records: Records, at: int | None) -> list[JobRun]:
        deaths = Deaths(self.log, PlaceNames(self.log), SlotRecords(self.log, at), self.zone)
        return [
            _explained(run, hints, deaths) if run.outcome in (EVICTED, ENDED) else run
            for run, hints in self._told(records)
        ]

    def _told(self, records: Records) -> list[tuple[JobRun, Hints]]:
        jobs = {job: heard for job, heard in records.heard.items() if not self._outside(heard)}
        found = [told for job, heard in jobs.items() for told in self._of_job(records, job, heard)]
        self.unknown.silent = not found and not records.passed and len(jobs) == len(records.heard)
        full: dict[str, set[str]] = {}
        for run, _ in found:
            if "@" in run.user:
                full.setdefault(run.user.partition("@")[0], set()).add(run.user)
        found = [
            (_named(run, full), hints) for run, hints in found if run.began < self.until and run.ended >= self.since
        ]
        return sorted(found, key=lambda told: (told[0].ended, told[0].began, told[0].job))

    def _outside(self, heard: list[JobRecord]) -> bool:
        """Whether a job had left the queue before the window, or came after it, as all that is told of it in logs has
        it: what is cheap to see of most jobs of a long log."""
        instants = [one.at for one in heard if one.letter not in "HPS"]
        if not instants or any(one.letter == "H" for one in heard):
            return False
        last = next((one.what for one in reversed(heard) if one.letter in "UE"), "")
        return min(instants) >= self.until or (max(instants) < self.since and last in LEFT)

    def _of_job(self, records: Records, job: Job, heard: list[JobRecord]) -> Iterator[tuple[JobRun, Hints]]:
        accounts = accounts_of(heard, records.gaps)
        for life in _lives(accounts, records.users.get(job[0], "")):
            reader = _ImportedJobRuns(
                job, life, records, _believed(said for told in life.accounts for said in told.said)
            )
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
    """Yield the jobs of a number. What a startd has of another user's is a job of another access point."""
    said = [(told, [(one.letter, _short(one.text)) for one in told.said if one.fact in _USERS]) for told in accounts]
    users = {name for _, named in said for letter, name in named if letter != "L"} | ({_short(user)} - {""})
    others = [told for told, named in said if users and any(name not in users for letter, name in named)]
    own = [told for told in accounts if told not in others]
    lives = recorded_jobs(own)
    placed = {id(told) for life in lives for told in life.accounts}
    going = [life for life in lives if not any(one.fact == "became" for told in life.accounts for one in told.said)]
    for told in own:
        if id(told) not in placed and len(going) == 1 and going[0].span[0] <= told.first:
            going[0].accounts.append(told)  # of a job that no record ends it is a later run
    yield from lives
    yield from (RecordedJob([told]) for told in others)


def _short(user: str) -> str:
    """Return a user's name without domain and accounting group."""
    return user.partition("@")[0].rpartition(".")[2]


def job_runs(log: EventStore, cluster: int, proc: int | None, at: int | None, zone: tzinfo = UTC) -> list[JobRun]:
    """Return the runs of a job, or of all jobs of a cluster, as they were at an instant (None: now), without reading
    what the log has of others."""
    records = Records(only=(cluster, proc), at=EVER if at is None else at).read_job(log)
    return ImportedRuns(log, zone=zone).explained(records, at)


@define
class _ImportedJobRuns:
    """A job's runs, as all that is told of it has them."""

    job: Job
    life: RecordedJob
    records: Records
    said: dict[str, Statement]  #: what is believed of each fact of the job

    def _user(self) -> str:
        user, submitter = self.said.get("user"), self.said.get("submitter")
        if user is not None and (user.letter != "L" or all(told.log.startswith("L") for told in self.life.accounts)):
            return user.text
        known = self.records.users.get(self.job[0], "") or (user.text if user is not None else "")
        return known or (submitter.text if submitter is not None else "")

    def _of_ads(self, kept: dict[RecordPlace, V], said: Iterable[Statement]) -> V | None:
        """What one of the ads that say something has of what is kept by the ads' places."""
        return next((kept[place] for one in said if (place := RecordPlace(one.source, one.line)) in kept), None)

    def runs(self) -> list[tuple[JobRun, Hints]]:
        told = self.life.accounts
        endings, orphans = _endings(told)
        every = [said for telling in told for said in telling.said]
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
        entries = [entry for told in self.life.accounts for entry in told.entries]
        holds = (place.at for number, place, _ in entries if number == _HELD)
        return not entries or ended is None or any(began <= at <= ended + SOON for at in holds)

    def _hole(self, run: _Known) -> int | None:
        """Where that begins which the logs of a run lack, in which its end may stand."""
        chains = {self.records.chain_of(said.source) for said in run.facts.values()}
        holes = (at for chain in chains for at in self.records.holes.get(chain, ()) if at >= (run.began or 0))
        return min(holes, default=None)

    def _end(self, run: _Known, last: bool) -> tuple[int | None, str]:
        """When a run was over (None: nobody says), and how it ended."""
        left = self.said.get("ended")
        last = last and (left is None or left.value + SECOND > (run.began or 0))  # it may run again by a mistake
        ended, became = run.ended, self.said.get("became") if last else None
        if run.entries:
            return ended, COMPLETED if any(number == _DONE for number, _, _ in run.entries) else EVICTED
        if became is not None:
            if ended is None and left is not None:
                ended = max(run.began or 0, left.value)
            return ended, COMPLETED if became.text == COMPLETED else EVICTED
        if self._of_ads(self.records.codes, run.facts.values()):
            return ended, EVICTED
        exits = run.facts.get("exit")
        if exits is None or (exits.letter == "S" and exits.text.startswith("signal")):
            return ended, ENDED if exits is None else EVICTED
        return ended, COMPLETED


class ImportedRunEnd(NamedTuple):
    """What a job event log has of the end of a run: the entries; when its shadow last found it again, and last lost the
    connection to it (0: never); the places of all that tell of the end."""

    entries: tuple[Entry, ...]
    attended: int
    lost: int
    places: tuple[str, ...]

    @staticmethod
    def of(entries: Sequence[Entry]) -> ImportedRunEnd:
        """What the entries after a run's beginning tell. A schedd that is started anew has lost no connection then."""
        attended = lost = 0
        for number, place, facts in entries:
            if number == _FOUND:
                attended = place.at
            elif number == _LOST and not facts.get("reason", "").startswith(SCHEDD_DIED):
                lost = place.at
        found = _end_of(entries)
        places = (f"{one[1].source}:{one[1].line}" for one in entries if one in found or one[0] in _ENDS)
        return ImportedRunEnd(found, attended, lost, tuple(places))


class _Known(NamedTuple):
    """A run as all of its sources have it: what is believed of each fact, from when to when it was (None: nobody
    says), the entries at its end, and when its shadow found it again. ``logged``: whether a job event log has it;
    ``ends``: the places of all records of its end."""

    facts: dict[str, Statement]
    began: int | None
    ended: int | None
    entries: tuple[Entry, ...]
    attended: int
    logged: bool
    ends: tuple[str, ...]

    @staticmethod
    def of(alike: Sequence[RecordedRun], endings: dict[int, ImportedRunEnd]) -> _Known:
        facts = _believed(said for run in alike for said in run.said)
        own = [endings[id(run)] for run in alike if id(run) in endings]
        entries = next((ending.entries for ending in own if ending.entries), ())
        ends = [run.stopped for run in alike if run.stopped is not None]
        if ends:  # a startd that died told nothing last when its jobs' connections broke
            ends += [ending.lost for ending in own]
        stopped = facts.get("stopped")
        ended = stopped.value if stopped is not None else entries[0][1].at if entries else max(ends, default=None)
        attended = max((ending.attended for ending in own), default=0)
        places = [place for ending in own for place in ending.places]
        places += [run.over for run in alike if run.over]
        places += [f"{said.source}:{said.line}" for run in alike for said in run.said if said.fact == "stopped"]
        return _Known(facts, _began(alike, facts), ended, entries, attended, bool(own), tuple(dict.fromkeys(places)))

    def ended_by(self, orphans: Iterable[ImportedRunEnd]) -> _Known:
        """Return the run with the end that a log has without its beginning: its program was never started."""
        until = EVER if self.ended is None else self.ended + SOON
        for one in orphans:
            place = one.entries[0][1]
            if (self.began or 0) <= place.at <= until:
                return self._replace(entries=one.entries, ended=place.at, ends=(*one.places, *self.ends))
        return self

    def is_begun_by(self, run: _Known) -> bool:
        """Return True if this is the shadow or claim of the run that a job event log has next."""
        slots = {one.text for facts in (self.facts, run.facts) if (one := facts.get("slot")) is not None}
        alone = self.ended is None and not self.logged and run.logged and "placed" not in run.facts
        return alone and len(slots) == 1

    @property
    def begun(self) -> str:
        """The place of the record of its beginning; empty if there is none."""
        said = self.facts.get("placed") or self.facts.get("began")
        return f"{said.source}:{said.line}" if said is not None else ""

    @property
    def stimulus(self) -> str:
        """The place of the record of its end, or else of what is told of it."""
        if self.entries:
            place = self.entries[0][1]
            return f"{place.source}:{place.line}"
        said = self.facts.get("stopped") or next(iter(self.facts.values()), None)
        return f"{said.source}:{said.line}" if said is not None else ""


def _each_once(runs: Iterable[_Known]) -> list[_Known]:
    """Return the runs without those of which a log has the end alone, behind a gap, when it is the end of the run
    before; a shadow or claim that has no end is the beginning of the run that the job's log has next on that slot."""
    found: list[_Known] = []
    for run in runs:
        before = found[-1] if found else None
        ended = before.ended if before is not None else None
        begun = "placed" in run.facts or "began" in run.facts
        if before is not None and before.is_begun_by(run):
            found[-1] = run._replace(facts=before.facts | run.facts, began=before.began)
        elif begun or ended is None or abs((run.began or 0) - ended) > SOON:
            found.append(run)
    return found


def _believed(said: Iterable[Statement]) -> dict[str, Statement]:
    """Of each fact, what the source says that is believed first."""
    found: dict[str, Statement] = {}
    for one in said:
        known = found.get(one.fact)
        if known is None or BELIEVED[one.fact, one.letter] < BELIEVED[known.fact, known.letter]:
            found[one.fact] = one
    return found


def _began(alike: Sequence[RecordedRun], facts: dict[str, Statement]) -> int | None:
    """When a run's slot was given to it; else when its program began."""
    found = facts.get("placed") or facts.get("began")
    if found is not None:
        return found.value
    return min((run.span[0] for run in alike if run.span is not None), default=None)


def _endings(told: Iterable[JobAccount]) -> tuple[dict[int, ImportedRunEnd], list[ImportedRunEnd]]:
    """Return what job event logs have of the end of each run, by the run's identity; and the ends of runs of
    which they do not have the beginning."""
    found: dict[int, ImportedRunEnd] = {}
    orphans: list[ImportedRunEnd] = []
    for telling in told:
        begun = iter([run for run in telling.runs if run.began is not None])
        run: RecordedRun | None = None
        near: list[Entry] = []
        for entry in [*telling.entries, None]:
            over = next((place.at for number, place, _ in near if number in (_EVICTED, _DONE)), EVER)
            if entry is None or entry[0] == _BEGINS or (entry[0] in (_EVICTED, _DONE) and entry[1].at > over + SOON):
                if run is not None:
                    found[id(run)] = ImportedRunEnd.of(near)
                elif any(number in (_EVICTED, _DONE) for number, _, _ in near):
                    orphans.append(ImportedRunEnd.of(near))
                run = next(begun, None) if entry is not None and entry[0] == _BEGINS else None
                near = []
            if entry is not None and entry[0] != _BEGINS:
                near.append(entry)
    return found, orphans


def _end_of(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Those of the entries after a run's beginning that tell of its end, the end itself first: what stands before it
    (the job was put on hold, the connection was lost), and what was written in the same moment."""
    end = next((entry for entry in entries if entry[0] in _ENDS), None)
    end = end or next((entry for entry in entries if entry[0] in _OF_ENTRIES), None)
    if end is None:
        return ()
    return (end, *(entry for entry in entries if entry is not end and entry[1].at <= end[1].at + SOON))


def _words(entries: Sequence[Entry]) -> str:
    """What the entries of an end say in their own words."""
    found = (facts.get(_REASONS[number], "") for number, _, facts in entries if number in _REASONS)
    return next((text for text in found if text and not text.startswith("Unspecified")), "")


def _hints(entries: Sequence[Entry], code: str, attended: int, held: bool) -> Hints:
    evicted = [facts for number, _, facts in entries if number == _EVICTED]
    codes = [*(facts.get("reason_code", "") for facts in evicted), code]
    again = [CAUSES["requeued"] for facts in evicted if facts.get("requeued") == "true"]
    besides = tuple(_OF_ENTRIES[number] for number, _, _ in entries if number in _OF_ENTRIES)
    known = next(filter(None, [*again, *(of_code(one, held) for one in codes)]), None)
    return Hints(known, besides, bool(entries), attended)


def _named(run: JobRun, full: dict[str, set[str]]) -> JobRun:
    """The run with its user's whole name, where there is only one of that name."""
    names = full.get(run.user, ())
    return evolve(run, user=next(iter(names))) if len(names) == 1 else run


def _explained(run: JobRun, hints: Hints, deaths: Deaths) -> JobRun:
    """The run with its cause, and the words of the record that tells of it. One of which nobody tells what came of it
    was evicted if its slot's log tells why."""
    moves = deaths.slots.run(run.slot, run.job, run.began) if run.slot else []
    left = left_for(moves, run.ended)
    reasons = [event.reason for _, event in left]
    if moves and not hints.entries:
        run = evolve(run, stimulus=(left or moves[-1:])[0][1].stimulus)
    named = [cause for cause in (hints.code, *map(of_reason, reasons), *hints.besides) if cause is not None]
    cause = best_cause(named)
    ask = partial(deaths.of_run, run.slot, run.job, run.began, run.ended, moves, hints.attended, told=hints.entries)
    death = ask() if cause.weak else None
    if death is not None:
        words, place = death.words(deaths.zone), death.stimulus
        return evolve(run, outcome=EVICTED, cause=CAUSES["daemon"], said=words, stimulus=place, death=death)
    said = run.said or (next(iter(reasons), "") if cause.weak else "")
    return evolve(run, outcome=run.outcome if cause.weak else EVICTED, cause=cause, said=said)
