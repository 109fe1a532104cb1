"""Find a value that a daemon cannot have written into its table, by the values above and below it.

The accountant's usage does not fall; who sets or resets it by hand lowers it, too, but for what follows, and the
NegotiatorLog tells of it. A negotiator that starts again lowers it by the time that is not charged yet: that is
negative for slots that were matched since the last update, and whose matches it has forgotten.

The number of a submitter's slots, and the schedd's totals of jobs, change by one. The accountant gives a slot to the
user whose slots it counts up in the same transaction, at a time between its updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from attrs import define, field

from ....domain import events as e
from ....domain.imported.packed_ads import plain
from ....domain.imported.record_sources import DESTROY_AD, LOG_SEQUENCE, SET_ATTRIBUTE
from ...audit_result import AuditFinding
from ..imported_log import Sources
from .findings import Misfits, finding

_UNCHARGED: Final = "uncharged_"  #: before the name of a usage: what was not charged to it yet
OF_USAGE: Final = frozenset({"usage", "unweighted", f"{_UNCHARGED}usage", f"{_UNCHARGED}unweighted"})
COUNTED: Final = {"ResourcesUsed": (1, -1), "TotalCompletedJobs": (1,), "TotalRemovedJobs": (1,)}
"""By how much these attributes change each time. A count may also begin again with 0."""


class _Step(NamedTuple):
    amount: float
    stimulus: str
    at: int


class _Given(NamedTuple):
    """A slot that was given to a user in a transaction."""

    slot: str
    since: int
    updated: int
    stimulus: str
    at: int


@define
class TableSteps:
    """The steps from each value of the tables to the next one."""

    sources: Sources
    set_by_hand: set[str] = field(factory=set)
    _last: dict[tuple[int, str, str], tuple[float, _Step]] = field(factory=dict)
    _uncharged: dict[tuple[int, str, str], float] = field(factory=dict)
    _odd: list[tuple[str, _Step, float, float]] = field(factory=list)
    _counts: dict[tuple[str, str, str], tuple[int, int | None]] = field(factory=dict)
    """The last value of each count, and the one before it if the last is odd."""
    _given: dict[str, list[_Given]] = field(factory=dict)
    _updated: dict[str, int] = field(factory=dict)
    _misfits: Misfits = field(factory=Misfits)

    def usage(self, source: int, submitter: str, fact: str, body: str, stimulus: str, at: int) -> None:
        try:
            step = _Step(float(body), stimulus, at)
        except ValueError:
            return
        key = (source, submitter, fact.removeprefix(_UNCHARGED))
        if fact.startswith(_UNCHARGED):
            self._uncharged[key] = step.amount
            return
        before, last = self._last.get(key, (0.0, _Step(0.0, "", 0)))
        if before <= step.amount < last.amount + min(0.0, self._uncharged.get(key, 0.0)) and step.amount:
            self._odd.append((submitter, last, before, step.amount))
            last = _Step(before, "", 0)
        self._last[key] = last.amount, step

    def forget(self, source: str) -> None:
        """Forget a table's values: it begins again, or records are missing."""
        self._counts = {key: value for key, value in self._counts.items() if key[0] != source}
        self._updated.pop(source, None)
        self._given.pop(source, None)

    def take(self, source: str, event: e.TableWritten) -> None:
        """Take a transaction."""
        written: dict[tuple[str, str], str] = {}
        names = {name for operation, _, name, _ in event.operations if operation == SET_ATTRIBUTE}
        gone = any(operation == DESTROY_AD for operation, *_ in event.operations)
        counted = len(event.operations) > 1 and (gone or "RemoteUser" in names or event.kind == "queue")
        for operation, key, name, text in event.operations:
            if operation == LOG_SEQUENCE:
                self.forget(source)
            elif operation == SET_ATTRIBUTE:
                written[key, name] = text
                if name in COUNTED and text.isdecimal():
                    self._count(source, key, name, int(text), event, counted)
        for (key, name), text in written.items():
            if name == "RemoteUser" and key.startswith("Resource.") and len(event.operations) > 1:
                slot, user = key.removeprefix("Resource.").partition("@<")[0], plain(text)
                fits = (f"Customer.{user}", "ResourcesUsed") in written
                words = f"it is given to {user}, but not counted for that user"
                self._judge("user", fits, slot, words, event.at, event.stimulus)
                since = written.get((key, "StartTime"), "")
                if since.isdecimal() and source in self._updated:
                    given = _Given(slot, int(since), self._updated[source], event.stimulus, event.at)
                    self._given.setdefault(source, []).append(given)
            elif name == "LastUpdateTime" and text.isdecimal() and key.startswith("Accountant"):
                self._update(source, int(text))

    def _count(self, source: str, key: str, name: str, value: int, event: e.TableWritten, counted: bool) -> None:
        """Compare a count with the one before; without `counted`, the negotiator may have counted again."""
        last, before = self._counts.get((source, key, name), (0, None))
        steps = COUNTED[name]
        fits = value == 0 or value - last in steps or not counted
        if before is not None and value in {before + step + step_ for step in steps for step_ in steps}:
            fits = True  # the one above it was odd
        words = f"{name} is {value} after {last}"
        self._judge("count", fits, key.partition(".")[2], words, event.at, event.stimulus)
        self._counts[source, key, name] = value, None if fits else last

    def _update(self, source: str, at: int) -> None:
        for slot, since, updated, stimulus, when in self._given.pop(source, ()):
            words = f"it is in use since {since}, but was given to its user between {updated} and {at}"
            self._judge("since", updated <= since <= at, slot, words, when, stimulus)
        self._updated[source] = at

    def _judge(self, kind: str, fits: bool, thing: str, words: str, at: int, stimulus: str) -> None:
        words += ": it was changed"
        self._misfits.judge(
            kind, fits, lambda: finding(self.sources, thing, "table_step", words, [(at, stimulus, words)])
        )

    def finish(self) -> Iterator[AuditFinding]:
        for submitter, step, before, after in self._odd:
            if not self.set_by_hand & {submitter, "*"}:
                words = f"its usage is {step.amount:g} s, between {before:g} s and {after:g} s: it was changed"
                yield finding(self.sources, submitter, "usage_falls", words, [(step.at, step.stimulus, words)])
        yield from self._misfits.only()
