"""Find the match that led to a run. The negotiator names one job for its whole autocluster.

"Matched 1.0 with slot2" may lead to a run of job 1.1: the first run of the cluster that starts soon afterwards on the
slot, or on a dynamic slot created from it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from datetime import tzinfo
from typing import Final, NamedTuple, TypeGuard

from attrs import define

from ...domain import events as e
from ...domain.imported import job_event_log
from ...domain.ports.log import EventStore
from ...domain.units import SECOND
from ..forensics.imported_log import PlaceNames, records_between, single_entries
from ..narration.formatting import counted, instant
from ..runs.slot_records import NEAR, Begun, SlotRecords
from .job_records import APART, ENDS, Record, distinct, record_of

SOON: Final = 600 * SECOND  #: the maximum time from a match to the start of its run

LEFTOVERS: Final = 20 * SECOND  #: how long after a match of a partitionable slot the access point claims its leftovers


def parent_of(slot: str) -> str:
    """Return the name of a dynamic slot's partitionable slot: slot1@host for slot1_3@host."""
    name, at, host = slot.partition("@")
    return f"{name.rpartition('_')[0] or name}{at}{host}"


class Matches:
    """The matches of a cluster's jobs, and the runs to which they led."""

    def __init__(self, events: Sequence[e.LoggedEvent]) -> None:
        self.last_rejected: Record | None = None  #: the negotiator's last rejection of a job of the cluster
        self._of: dict[str, list[Record]] = {}
        self._runs: dict[str, list[int]] = {}
        self._led: dict[tuple[int, str, int], Record] = {}
        """A process, its slot, and the instant when its shadow or run started there -> the match that led to it."""
        self._free: dict[str, int] = {}  #: slot -> when one of the jobs last left it
        matches_by_chain: dict[int, dict[str, list[Record]]] = {}
        for position, event in events:
            if not isinstance(event, e.JobReported):
                continue
            if event.said == "rejected" and (self.last_rejected is None or self.last_rejected.at <= event.at):
                self.last_rejected = record_of(position, event)
            if event.said == "matched":
                match = record_of(position, event)
                source = event.stimulus.partition(":")[0]
                matches_by_chain.setdefault(event.proc, {}).setdefault(source, []).append(match)
        for sources in matches_by_chain.values():  # the negotiator writes a match to two logs
            for match in distinct(list(sources.values())):
                self._of.setdefault(match.facts.get("slot", ""), []).append(match)
        if self._of:
            self._find_matches_of_runs([event for _, event in events])

    def _find_matches_of_runs(self, events: Sequence[e.Event]) -> None:
        job_events = [event for event in events if isinstance(event, e.JobLogged | e.JobReported)]
        previous_events: dict[tuple[int, str], e.Event] = {}
        led_positions: set[int] = set()
        slots_by_run: dict[int, str] = {}
        for event in sorted(job_events, key=lambda event: (event.at, isinstance(event, e.JobLogged))):
            slot = _begun_on(event)
            if not slot:
                if _ends(event) and event.proc in slots_by_run:
                    self._free[slots_by_run.pop(event.proc)] = event.at
                continue
            slots_by_run[event.proc] = slot
            run = event.proc, slot
            for name in {slot, parent_of(slot)}:
                self._runs.setdefault(name, []).append(event.at)
            last, previous_events[run] = previous_events.get(run), event
            began_before = isinstance(last, e.JobReported) and isinstance(event, e.JobLogged)
            if last is not None and (began_before or event.at - last.at <= APART):
                match = self._led.get((*run, last.at))  # its shadow began before, or another log says the same
            else:
                match = self._last_match(slot, event.at, event.proc, led_positions)
            if match is not None:
                led_positions.add(match.position)
                self._led[*run, event.at] = match

    def led_to_run(self, match: Record) -> bool:
        """Return True if the match led to a run of a job of the cluster."""
        runs = self._runs.get(match.facts.get("slot", ""), [])
        at = bisect_left(runs, match.at - APART)
        return at < len(runs) and runs[at] <= match.at + SOON

    def before_run(self, slot: str, since: int, at: int, proc: int) -> Record | None:
        """Return the match of a run that began on a slot at an instant, if it is after `since`, or None if the job
        reused a claim."""
        match = self._led.get((proc, slot, at))
        return match if match is not None and match.at >= since else None

    def _last_match(self, slot: str, at: int, proc: int, led: set[int]) -> Record | None:
        """Return the last match of a slot before a run, preferably one that led to no other run and names the job. Only
        a match that names the job may be slightly later than the run, because the daemons' clocks differ. A match of a
        partitionable slot does not lead to a run on a dynamic slot that already existed."""
        matches = [
            match
            for name in {slot, parent_of(slot)}
            for match in self._of.get(name, ())
            if at - SOON <= match.at <= at + APART
            and (match.position not in led or (match.facts.get("slot") != slot and at - match.at <= LEFTOVERS))
            and (match.facts.get("slot") == slot or self._free.get(slot, 0) <= match.at)
            and (match.event.proc == proc or match.at // SECOND <= at // SECOND)
        ]
        return max(
            matches,
            key=lambda match: (
                match.position not in led,
                match.at // SECOND,
                match.event.proc == proc,
                -match.position,
            ),
            default=None,
        )


def _begun_on(event: e.Event) -> str:
    """Return the slot on which an event starts a job, or an empty string if it starts none."""
    if isinstance(event, e.JobLogged) and event.number == 1:
        return job_event_log.facts(1, event.text).get("slot", "")
    if isinstance(event, e.JobReported) and event.said == "shadow_began":
        return event.facts.get("slot", "")
    return ""


def _ends(event: e.JobLogged | e.JobReported) -> bool:
    return event.number in ENDS if isinstance(event, e.JobLogged) else event.said == "shadow_gone"


@define
class MatchesOfSlots:
    """All matches between two instants, by slot, read on demand. An autocluster may include jobs of several clusters,
    so the match that led to a run may name a job of another cluster."""

    log: EventStore
    places: PlaceNames
    since: int
    until: int
    _of: dict[str, list[Record]] | None = None

    def before(self, slot: str, at: int) -> list[Record]:
        """Return the matches of a slot or its parent shortly before an instant, the last one first."""
        if self._of is None:
            self._of = self._read()
        matches = [match for name in {slot, parent_of(slot)} for match in self._of.get(name, ())]
        matches = [match for match in matches if at - SOON <= match.at <= at + APART]
        return sorted(matches, key=lambda match: (match.at, match.position), reverse=True)

    def _read(self) -> dict[str, list[Record]]:
        chains: list[list[Record]] = []
        for kind in ("matchlog", "negotiatorlog"):  # the negotiator writes of a match in both
            records = records_between(self.log, self.places, kind, self.since - SOON, self.until + APART)
            chains.append([record_of(p, event) for p, event in records if is_match(event)])
        matches_by_slot: dict[str, list[Record]] = {}
        for match in distinct(chains):
            matches_by_slot.setdefault(match.facts.get("slot", ""), []).append(match)
        return matches_by_slot

    def before_run(self, slots: SlotRecords, slot: str, job: str, users: Collection[str], at: int) -> Record | None:
        """Return the match of a run that started on a slot at an instant: the last match of the job's user, unless
        another job has run there since then. Return None if it is unknown."""
        match = next(iter(self.before(slot, at)), None)
        if match is None or not same_user(match.facts.get("user", ""), users):
            return None
        first_job = slots.first_job(slot, match.at - APART, at + NEAR)
        if first_job is not None:
            return match if first_job.job == job else None
        cluster = match.event.cluster  # the slot has no log: check whether the job in the match ran
        if str(cluster) == job.partition(".")[0]:
            return None
        job_matches = Matches(list(single_entries(self.log.read_stream(f"cluster/{cluster}"))))
        return None if job_matches.led_to_run(match) else match


def is_match(event: e.Event) -> TypeGuard[e.JobReported]:
    return isinstance(event, e.JobReported) and event.said == "matched"


def same_user(user: str, users: Collection[str]) -> bool:
    """Return True if a name is one of these users, ignoring domains, or if no user is known."""
    return not users or user.partition("@")[0] in {name.partition("@")[0] for name in users}


def run_after(slots: SlotRecords, facts: dict[str, str], at: int) -> Begun | None:
    """Return the first job that started on a match's slot after the match, according to the slots' logs."""
    return slots.job_after(facts.get("slot", ""), at - APART, at + SOON)


class FruitlessMatches(NamedTuple):
    """Matches that led to no run of the job's cluster: the code and the facts of their sentence, the matches, and the
    first jobs that started on the matched slots."""

    code: str
    facts: dict[str, str]
    records: list[Record]
    begun: list[Begun]


def sort_fruitless_matches(records: Sequence[Record], slots: SlotRecords, zone: tzinfo) -> Iterator[FruitlessMatches]:
    """Group matches that led to no run of the job's cluster by the job that started on the slot instead: another job of
    the same user's autocluster, a job of another user, or none."""
    sorts: dict[str, list[tuple[Record, Begun | None]]] = {"jobs_like_it": [], "others_ran": [], "nothing_ran": []}
    for record in records:
        begun_job, user = run_after(slots, record.facts, record.at), record.facts.get("user", "")
        is_other_user = begun_job is not None and "" not in (user, begun_job.user) and user != begun_job.user
        code = "nothing_ran" if begun_job is None else "others_ran" if is_other_user else "jobs_like_it"
        sorts[code].append((record, begun_job))
    for code, sort in ((code, sort) for code, sort in sorts.items() if sort):
        matches = [record for record, _ in sort]
        runs: dict[str, Begun] = {}
        for _, begun_job in sort:
            if begun_job is not None:
                runs.setdefault(begun_job.job + f" of {begun_job.user}" * (code == "others_ran"), begun_job)
        facts = {
            "slots": _first_names([record.facts.get("slot", "a slot") for record in matches]),
            "times": f"{counted(len(sort), 'time')} until {instant(matches[-1].at, zone)}" if len(sort) > 1 else "",
            "preempted": preempted_submitter(matches[0].facts) if len(matches) == 1 else "",
            "jobs": f"{'job' if len(runs) == 1 else 'jobs'} {_first_names([*runs])}",
        }
        yield FruitlessMatches(code, facts, matches, [*runs.values()][:_MOST])


_MOST: Final = 5


def _first_names(names: Sequence[str]) -> str:
    distinct_names = list(dict.fromkeys(names))
    more_text = f" and {len(distinct_names) - _MOST} more" if len(distinct_names) > _MOST else ""
    return ", ".join(distinct_names[:_MOST]) + more_text


def preempted_submitter(facts: dict[str, str]) -> str:
    """Return the submitter whose job a match preempts, or an empty string if none. The log has the owner, followed by
    the accounting group in parentheses, if there is one."""
    user, _, group = facts.get("preempting", "").removesuffix(")").partition(" (AccountingGroup=")
    return "" if user.lower() == "none" else group or user
