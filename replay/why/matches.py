"""Which match led to which run: the negotiator names one job of a cluster for all that are alike.

"Matched 1.0 with slot2" may have started job 1.1: a match belongs to the run of the cluster that began on its slot, or
on a slot that was carved from it, soon afterwards.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from ...domain import events as e
from ...domain import joblog
from .records import APART, SECOND, Record, record_of
from .sentences import Told

SOON: Final = 600 * SECOND
"""A match is no older than this when the run begins to which it led."""


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
        for position, event in told:
            if not isinstance(event, e.JobReported):
                continue
            if event.said == "rejected" and (self.last_rejected is None or self.last_rejected.at <= event.at):
                self.last_rejected = record_of(position, event)
            if event.said == "matched":
                match = record_of(position, event)
                self.user = self.user or match.facts.get("user", "")
                self._of.setdefault(match.facts.get("slot", ""), []).append(match)
        if not self._of:
            return
        for _, event in told:
            slot = _begun_on(event)
            if slot:
                for name in {slot, parent_of(slot)}:
                    self._runs.setdefault(name, []).append(event.at)
        for runs in self._runs.values():
            runs.sort()

    def led_to_run(self, match: Record) -> bool:
        """Whether some job of the cluster began to run by it."""
        runs = self._runs.get(match.facts.get("slot", ""), [])
        at = bisect_left(runs, match.at - APART)
        return at < len(runs) and runs[at] <= match.at + SOON

    def before_run(self, slot: str, since: int, at: int, proc: int) -> Record | None:
        """The match by which a run began on a slot at an instant: the last one behind `since`, and rather one that
        names the job itself. None where the job went on a claim that there was already."""
        found = [
            match
            for name in {slot, parent_of(slot)}
            for match in self._of.get(name, ())
            if max(at - SOON, since) <= match.at <= at + APART
        ]
        return max(
            found, key=lambda match: (match.at // SECOND, match.event.proc == proc, -match.position), default=None
        )


def _begun_on(event: e.Event) -> str:
    """The slot on which a job begins to run by this event; empty if none does."""
    if isinstance(event, e.JobLogged) and event.number == 1:
        return joblog.facts(1, event.text).get("slot", "")
    if isinstance(event, e.JobReported) and event.said == "shadow_began":
        return event.facts.get("slot", "")
    return ""
