"""The runs that the records of a real pool tell of, each once, whoever tells of it.

Which records are one job and one run, and which source is believed, is the audit's to say (``audit/statements``,
``audit/facts``). A run is from when its slot was given to it (else from when its program began) to when it was over; if
no source tells of its end, it ended at the latest when the job's next run began. It was evicted unless its job was done
then: by entry 005, by the history, or by an ad of the run that has an exit and no reason of an eviction. Nobody tells
of the end of a run in the startd's log what came of it.

Why a run was evicted is asked of the code of entry 004 or of the epoch's ad, of what the slot's log says, of the other
entries at its end, and of daemons that died then: the first that says more than that it was over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from typing import Final, NamedTuple

from attrs import define, evolve, field

from ...domain.archive import plain
from ...domain.log import Log
from ...domain.reports import Place
from ..audit.facts import BELIEVED
from ..audit.readings import Heard
from ..audit.statements import Life, Run, Stating, Telling, lives, runs_of
from ..audit.tellings import tellings
from ..imports import Places
from ..why.deaths import Deaths
from ..why.runs import Slots, left_for
from .causes import CAUSES, Cause, first, of_code, of_reason
from .records import EVER, SECOND, Job, Records
from .run import COMPLETED, ENDED, EVICTED, RUNNING, JobRun

SOON: Final = 2 * SECOND
"""What is written of one end is no further apart."""
_BEGINS, _DONE = 1, 5
_ENDS: Final = frozenset({4, 5, 7, 24})
_REASONS: Final = {4: "reason", 7: "reason", 9: "reason", 12: "reason", 21: "reason", 24: "reason"}
_OF_ENTRIES: Final = {9: CAUSES["removed"], 12: CAUSES["held"], 7: CAUSES["daemon"], 24: CAUSES["disconnected"]}
"""What entries at the end of a run say of why."""
Entry = tuple[int, Place, dict[str, str]]


class Hints(NamedTuple):
    """What the records of a run's end say of its cause: a code, and entries besides."""

    code: Cause | None
    besides: tuple[Cause, ...]


@define
class Unknown:
    """What the sources know in total only: of how many jobs, and how much time on slots (microseconds)."""

    jobs: int = 0
    time: int = 0


@define
class ImportedRuns:
    """The runs of an imported log that have a part between two instants. ``unknown`` counts, once all were told, what
    the history knows of such jobs without saying when it was."""

    log: Log
    since: int = 0
    until: int = EVER
    unknown: Unknown = field(factory=Unknown)

    def runs(self) -> list[JobRun]:
        """All of them, without their causes, in order of their ends."""
        return [run for run, _ in self._told()]

    def evicted(self) -> list[JobRun]:
        """Those that were evicted between the two instants, with their causes, in order of their ends."""
        places = Places(self.log)
        slots = Slots(self.log)
        deaths = Deaths(self.log, places, slots)
        return [
            _explained(run, hints, slots, deaths)
            for run, hints in self._told()
            if run.outcome == EVICTED and self.since <= run.ended < self.until
        ]

    def _told(self) -> list[tuple[JobRun, Hints]]:
        records = Records(self.since, self.until).read(self.log)
        found = [told for job, heard in records.heard.items() for told in self._of_job(records, job, heard)]
        full: dict[str, set[str]] = {}
        for run, _ in found:
            if "@" in run.user:
                full.setdefault(run.user.partition("@")[0], set()).add(run.user)
        found = [
            (_named(run, full), hints) for run, hints in found if run.began < self.until and run.ended >= self.since
        ]
        return sorted(found, key=lambda told: (told[0].ended, told[0].began, told[0].job))

    def _of_job(self, records: Records, job: Job, heard: list[Heard]) -> Iterator[tuple[JobRun, Hints]]:
        ads = {(one.letter, one.source, one.line): one.body for one in heard if one.letter in "HPS"}
        for life in lives(tellings(heard, records.gaps)):
            reader = _Life(job, life, records, ads)
            runs = reader.runs()
            yield from runs
            wall = reader.told("wall")
            rest = 0 if wall is None or wall.letter != "H" else wall.value - sum(run.lasted for run, _ in runs)
            if rest > max(SOON, wall.value // 100 if wall is not None else 0):
                self.unknown.jobs += 1
                self.unknown.time += rest


@define
class _Life:
    """A job's runs, as all that is told of it has them."""

    job: Job
    life: Life
    records: Records
    ads: dict[tuple[str, int, int], str]
    said: dict[str, Stating] = field(factory=dict)

    def told(self, fact: str) -> Stating | None:
        """What is believed of a fact of the job."""
        return _believed((said for telling in self.life.tellings for said in telling.said), fact)

    def _user(self) -> str:
        user = self.told("user")
        if user is not None and user.letter != "L":
            return user.text
        known = self.records.users.get(self.job[0], "") or (user.text if user is not None else "")
        submitter = self.told("submitter")
        return known or (submitter.text if submitter is not None else "")

    def _group(self) -> str:
        places = {(said.letter, said.source, said.line) for telling in self.life.tellings for said in telling.said}
        found = (plain(json.loads(self.ads[place]).get("AcctGroup", "")) for place in places & self.ads.keys())
        return next(filter(None, found), "")

    def runs(self) -> list[tuple[JobRun, Hints]]:
        endings = _endings(self.life.tellings)
        user, group = self._user(), self._group()
        name = f"{self.job[0]}.{self.job[1]}"
        groups = sorted(
            ((begin, alike) for alike in runs_of(self.life) if (begin := _began(alike)) is not None),
            key=lambda one: one[0],
        )
        became = self.told("became")
        left = self.told("ended")
        found: list[tuple[JobRun, Hints]] = []
        for number, (begin, alike) in enumerate(groups):
            last = number + 1 == len(groups)
            entries = next((endings[id(run)] for run in alike if endings.get(id(run))), ())
            ended, outcome = self._end(alike, entries, last, became)
            if ended is None and not last:
                ended, outcome = groups[number + 1][0], EVICTED
            if ended is None and became is not None and left is not None:
                ended = max(begin, left.value)
                outcome = COMPLETED if became.text == COMPLETED else EVICTED
            slot = _believed((said for run in alike for said in run.said), "slot")
            place = entries[0][1] if entries else None
            run = JobRun(
                name, user, group, slot.text if slot is not None else "", begin,
                self.records.last if ended is None else ended, RUNNING if ended is None else outcome,
                said=_words(entries), stimulus=_stimulus(place, alike),
            )  # fmt: skip
            found.append((run, _hints(entries, self._ads(alike))))
        return found

    def _ads(self, alike: Sequence[Run]) -> list[dict[str, str]]:
        """The ads that tell of a run."""
        places = {(said.letter, said.source, said.line) for run in alike for said in run.said}
        return [json.loads(self.ads[place]) for place in sorted(places & self.ads.keys())]

    def _end(
        self, alike: Sequence[Run], entries: Sequence[Entry], last: bool, became: Stating | None
    ) -> tuple[int | None, str]:
        """When a run was over (None: nobody says), and how it ended."""
        said = [said for run in alike for said in run.said]
        stopped = _believed(said, "stopped")
        ends = [run.stopped for run in alike if run.stopped is not None]
        ended = stopped.value if stopped is not None else entries[0][1].at if entries else max(ends, default=None)
        if entries:
            return ended, COMPLETED if any(number == _DONE for number, _, _ in entries) else EVICTED
        if last and became is not None and ended is not None:
            return ended, COMPLETED if became.text == COMPLETED else EVICTED
        if any("VacateReasonCode" in ad for ad in self._ads(alike)):
            return ended, EVICTED
        exits = _believed(said, "exit")
        if exits is None or (exits.letter == "S" and exits.text.startswith("signal")):
            return ended, ENDED if exits is None else EVICTED
        return ended, COMPLETED


def _believed(said: Iterable[Stating], fact: str) -> Stating | None:
    """What the source that is believed first says of a fact."""
    found = [one for one in said if one.fact == fact]
    return min(found, key=lambda one: BELIEVED[fact, one.letter], default=None)


def _began(alike: Sequence[Run]) -> int | None:
    """When a run's slot was given to it; else when its program began."""
    said = [said for run in alike for said in run.said]
    found = _believed(said, "placed") or _believed(said, "began")
    if found is not None:
        return found.value
    return min((run.span[0] for run in alike if run.span is not None), default=None)


def _endings(told: Iterable[Telling]) -> dict[int, tuple[Entry, ...]]:
    """The entries of job event logs at the end of each run, by the run's identity, users' logs first."""
    found: dict[int, tuple[Entry, ...]] = {}
    for telling in told:
        begun = iter([run for run in telling.runs if run.began is not None])
        run: Run | None = None
        near: list[Entry] = []
        for entry in [*telling.entries, None]:
            if entry is None or entry[0] == _BEGINS:
                if run is not None:
                    found[id(run)] = _end_of(near)
                run, near = (next(begun, None) if entry is not None else None), []
            else:
                near.append(entry)
    return found


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


def _stimulus(place: Place | None, alike: Sequence[Run]) -> str:
    if place is None:
        said = [said for run in alike for said in run.said]
        stopped = _believed(said, "stopped") or (said[0] if said else None)
        return f"{stopped.source}:{stopped.line}" if stopped is not None else ""
    return f"{place.source}:{place.line}"


def _hints(entries: Sequence[Entry], ads: Iterable[dict[str, str]]) -> Hints:
    codes = [facts.get("reason_code", "") for number, _, facts in entries if number == 4]
    codes += [ad.get("VacateReasonCode", "") for ad in ads]
    besides = tuple(_OF_ENTRIES[number] for number, _, _ in entries if number in _OF_ENTRIES)
    return Hints(next(filter(None, map(of_code, codes)), None), besides)


def _named(run: JobRun, full: dict[str, set[str]]) -> JobRun:
    """The run with its user's whole name, where there is only one of that name."""
    names = full.get(run.user, ())
    return evolve(run, user=next(iter(names))) if len(names) == 1 else run


def _explained(run: JobRun, hints: Hints, slots: Slots, deaths: Deaths) -> JobRun:
    """The run with its cause, and the words of the record that tells of it."""
    moves = slots.run(run.slot, run.job, run.began) if run.slot else []
    reasons = [event.reason for _, event in left_for(moves, run.ended)] if moves else []
    cause = first([hints.code, *map(of_reason, reasons), *hints.besides])
    if not cause.weak:
        named = next((reason for reason in reasons if of_reason(reason) is cause), "")
        return evolve(run, cause=cause, said=run.said or named)
    cluster = deaths.log.read_stream(f"cluster/{run.cluster}")
    death = deaths.of_run(run.slot, run.job, run.began, run.ended, cluster, moves)
    if death is None:
        return evolve(run, cause=cause)
    return evolve(run, cause=CAUSES["daemon"], said=death.words(UTC), stimulus=death.stimulus)
