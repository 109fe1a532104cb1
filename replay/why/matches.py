"""Which match led to which run: the negotiator names one job of a cluster for all that are alike.

"Matched 1.0 with slot2" may have started job 1.1: a match belongs to the run of the cluster that began on its slot, or
on a slot that was carved from it, soon afterwards.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Final

from ...domain import events as e
from ...domain import joblog
from ..wording import counted, instant
from .records import APART, SECOND, Record, once, record_of
from .runs import Slots
from .sentences import Told

SOON: Final = 600 * SECOND
"""A match is no older than this when the run begins to which it led."""

LEFTOVERS: Final = 20 * SECOND
"""So long after a match of a partitionable slot the access point goes on to claim what is left of it."""


def parent_of(slot: str) -> str:
    """The slot from which a dynamic slot is carved, by its name: slot1@host of slot1_3@host."""
    name, at, host = slot.partition("@")
    return f"{name.rpartition('_')[0] or name}{at}{host}"


class Matches:
    """The matches of a cluster's jobs, and the runs that they led to."""

    def __init__(self, told: Sequence[Told]) -> None:
        self.user = ""
        """Whose jobs they are, as the negotiator calls the user."""
        self.last_rejected: Record | None = None
        """The last time that the negotiator had nothing for one of them."""
        self._of: dict[str, list[Record]] = {}
        self._runs: dict[str, list[int]] = {}
        self._led: dict[tuple[int, str, int], Record] = {}
        """A process, its slot and the instant at which its shadow or run began there -> the match that led to it."""
        matched: dict[int, dict[str, list[Record]]] = {}
        for position, event in told:
            if not isinstance(event, e.JobReported):
                continue
            if event.said == "rejected" and (self.last_rejected is None or self.last_rejected.at <= event.at):
                self.last_rejected = record_of(position, event)
            if event.said == "matched":
                match = record_of(position, event)
                self.user = self.user or match.facts.get("user", "")
                source = event.stimulus.partition(":")[0]
                matched.setdefault(event.proc, {}).setdefault(source, []).append(match)
        for sources in matched.values():  # the negotiator writes of a match in two logs
            for match in once(list(sources.values())):
                self._of.setdefault(match.facts.get("slot", ""), []).append(match)
        if self._of:
            self._join([event for _, event in told])

    def _join(self, told: Sequence[e.Event]) -> None:
        """Find for each run its match: each leads to one run, or those that the leftovers of its slot give."""
        begun = [(event, slot) for event in told if (slot := _begun_on(event))]
        begun.sort(key=lambda one: (one[0].at, isinstance(one[0], e.JobLogged)))
        before: dict[tuple[int, str], e.Event] = {}
        led: set[int] = set()
        for event, slot in begun:
            assert isinstance(event, e.JobLogged | e.JobReported)
            run = event.proc, slot
            for name in {slot, parent_of(slot)}:
                self._runs.setdefault(name, []).append(event.at)
            last, before[run] = before.get(run), event
            if last is not None and (isinstance(last, e.JobReported) or event.at - last.at <= APART):
                match = self._led.get((*run, last.at))  # its shadow began before, or another log says the same
            else:
                match = self._last(slot, event.at, event.proc, led)
            if match is not None:
                led.add(match.position)
                self._led[*run, event.at] = match

    def led_to_run(self, match: Record) -> bool:
        """Whether some job of the cluster began to run by it."""
        runs = self._runs.get(match.facts.get("slot", ""), [])
        at = bisect_left(runs, match.at - APART)
        return at < len(runs) and runs[at] <= match.at + SOON

    def before_run(self, slot: str, since: int, at: int, proc: int) -> Record | None:
        """The match by which a run began on a slot at an instant, if it is of after `since`. None where the job went on
        a claim that there was already."""
        match = self._led.get((proc, slot, at))
        return match if match is not None and match.at >= since else None

    def _last(self, slot: str, at: int, proc: int, led: set[int]) -> Record | None:
        """The last match of a slot, rather one that led to no other run, and rather one that names the job itself,
        which alone may be a little later, by another clock."""
        found = [
            match
            for name in {slot, parent_of(slot)}
            for match in self._of.get(name, ())
            if at - SOON <= match.at <= at + APART
            and (match.position not in led or (match.facts.get("slot") != slot and at - match.at <= LEFTOVERS))
            and (match.event.proc == proc or match.at // SECOND <= at // SECOND)
        ]
        return max(
            found,
            key=lambda match: (
                match.position not in led,
                match.at // SECOND,
                match.event.proc == proc,
                -match.position,
            ),
            default=None,
        )


def _begun_on(event: e.Event) -> str:
    """The slot on which a job begins to run by this event; empty if none does."""
    if isinstance(event, e.JobLogged) and event.number == 1:
        return joblog.facts(1, event.text).get("slot", "")
    if isinstance(event, e.JobReported) and event.said == "shadow_began":
        return event.facts.get("slot", "")
    return ""


def unled_words(records: Sequence[Record], slots: Slots, zone: tzinfo) -> Iterator[tuple[str, list[Record]]]:
    """What is said of matches of a job that led to no run of its cluster: the negotiator names one job for all that are
    alike, and another of them may have been given the slot."""
    ran: list[tuple[Record, str]] = []
    for record in records:
        ran.append((record, slots.job_after(record.facts.get("slot", ""), record.at - APART, record.at + SOON)))
    for known in (True, False):
        told = [one for one in ran if bool(one[1]) == known]
        if not told:
            continue
        given = [record for record, _ in told]
        names = _some([record.facts.get("slot", "a slot") for record in given])
        times = f", {counted(len(given), 'time')} until {instant(given[-1].at, zone)}" if len(given) > 1 else ""
        if known:
            jobs = list(dict.fromkeys(job for _, job in told))
            which = f"{'job' if len(jobs) == 1 else 'jobs'} {_some(jobs)}"
            yield f"The negotiator gave {names} for jobs like this one{times}; {which} ran there", given
            continue
        preempted = given[0].facts.get("preempting", "") if len(given) == 1 else ""
        instead = f", preempting {preempted}" if preempted and preempted.lower() != "none" else ""
        yield f"The negotiator matched it with {names}{instead}{times}; no record tells of a run that followed", given


_MOST = 5


def _some(names: Sequence[str]) -> str:
    """Names, each once, and of many the first."""
    each = list(dict.fromkeys(names))
    more = f" and {len(each) - _MOST} more" if len(each) > _MOST else ""
    return ", ".join(each[:_MOST]) + more
