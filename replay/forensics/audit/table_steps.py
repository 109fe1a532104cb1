"""Find values that a daemon cannot have written into its table, given the previous and the next value.

The accountant's usage does not decrease, unless an administrator sets or resets it, which the NegotiatorLog records. A
negotiator that restarts lowers the usage by the uncharged time. That time is negative for slots that were matched since
the last update, if the negotiator lost their matches.

The number of a submitter's slots and the schedd's job totals change by one. When the accountant assigns a slot to a
user, it increases that user's number of slots in the same transaction, at a time between two updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from attrs import define, field

from ....domain import events as e
from ....domain.imported.packed_ads import unquoted
from ....domain.imported.record_sources import DESTROY_AD, LOG_SEQUENCE, SET_ATTRIBUTE
from ...audit_result import AuditFinding
from ..imported_log import Sources
from .findings import Misfits, finding

_UNCHARGED: Final = "uncharged_"  #: prefix of a usage's name, for the time not yet charged to it
OF_USAGE: Final = frozenset({"usage", "unweighted", f"{_UNCHARGED}usage", f"{_UNCHARGED}unweighted"})
COUNTED: Final = {"ResourcesUsed": (1, -1), "TotalCompletedJobs": (1,), "TotalRemovedJobs": (1,)}
"""The amounts by which these attributes may change. A count may also restart at 0."""


class _Step(NamedTuple):
    amount: float
    stimulus: str
    at: int


class _GivenSlot(NamedTuple):
    slot: str
    since: int
    updated: int
    stimulus: str
    at: int


@define
class TableSteps:
    """Checks each change from one value in a table to the next."""

    sources: Sources
    set_by_hand: set[str] = field(factory=set)
    _last: dict[tuple[int, str, str], tuple[float, _Step]] = field(factory=dict)
    _uncharged: dict[tuple[int, str, str], float] = field(factory=dict)
    _odd_steps: list[tuple[str, _Step, float, float]] = field(factory=list)
    _counts: dict[tuple[str, str, str], tuple[int, int | None]] = field(factory=dict)
    """The last value of each count, and the previous one if the last is unexpected."""
    _given_slots: dict[str, list[_GivenSlot]] = field(factory=dict)
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
        before, last_step = self._last.get(key, (0.0, _Step(0.0, "", 0)))
        if before <= step.amount < last_step.amount + min(0.0, self._uncharged.get(key, 0.0)) and step.amount:
            self._odd_steps.append((submitter, last_step, before, step.amount))
            last_step = _Step(before, "", 0)
        self._last[key] = last_step.amount, step

    def forget(self, source: str) -> None:
        """Discard a table's values, because it restarts or records are missing."""
        self._counts = {key: value for key, value in self._counts.items() if key[0] != source}
        self._updated.pop(source, None)
        self._given_slots.pop(source, None)

    def check_transaction(self, source: str, event: e.TableWritten) -> None:
        """Check the changes in a transaction."""
        written_values: dict[tuple[str, str], str] = {}
        names = {name for operation, _, name, _ in event.operations if operation == SET_ATTRIBUTE}
        is_destroyed = any(operation == DESTROY_AD for operation, *_ in event.operations)
        is_counted = len(event.operations) > 1 and (is_destroyed or "RemoteUser" in names or event.kind == "queue")
        for operation, key, name, text in event.operations:
            if operation == LOG_SEQUENCE:
                self.forget(source)
            elif operation == SET_ATTRIBUTE:
                written_values[key, name] = text
                if name in COUNTED and text.isdecimal():
                    self._count(source, key, name, int(text), event, is_counted)
        for (key, name), text in written_values.items():
            if name == "RemoteUser" and key.startswith("Resource.") and len(event.operations) > 1:
                slot, user = key.removeprefix("Resource.").partition("@<")[0], unquoted(text)
                was_counted = (f"Customer.{user}", "ResourcesUsed") in written_values
                message = f"it was given to {user}, but not counted for that user"
                self._judge("user", was_counted, slot, message, event.at, event.stimulus)
                start_time = written_values.get((key, "StartTime"), "")
                if start_time.isdecimal() and source in self._updated:
                    given_slot = _GivenSlot(slot, int(start_time), self._updated[source], event.stimulus, event.at)
                    self._given_slots.setdefault(source, []).append(given_slot)
            elif name == "LastUpdateTime" and text.isdecimal() and key.startswith("Accountant"):
                self._update(source, int(text))

    def _count(self, source: str, key: str, name: str, value: int, event: e.TableWritten, is_counted: bool) -> None:
        last_count, count_before = self._counts.get((source, key, name), (0, None))
        steps = COUNTED[name]
        expected = value == 0 or value - last_count in steps or not is_counted
        if count_before is not None and value in {count_before + step + other for step in steps for other in steps}:
            expected = True  # the previous value was unexpected
        text = f"{name} is {value} after {last_count}"
        self._judge("count", expected, key.partition(".")[2], text, event.at, event.stimulus)
        self._counts[source, key, name] = value, None if expected else last_count

    def _update(self, source: str, at: int) -> None:
        for slot, slot_since, updated_at, stimulus, written in self._given_slots.pop(source, ()):
            text = f"it has been in use since {slot_since}, but was given to its user between {updated_at} and {at}"
            self._judge("since", updated_at <= slot_since <= at, slot, text, written, stimulus)
        self._updated[source] = at

    def _judge(self, kind: str, expected: bool, subject: str, text: str, at: int, stimulus: str) -> None:
        text += ": it was changed"
        self._misfits.count_record(
            kind, expected, lambda: finding(self.sources, subject, "table_step", text, [(at, stimulus, text)])
        )

    def finish(self) -> Iterator[AuditFinding]:
        for submitter, step, before, after in self._odd_steps:
            if not self.set_by_hand & {submitter, "*"}:
                text = f"its usage is {step.amount:g} s, but {before:g} s before and {after:g} s after: it was changed"
                yield finding(self.sources, submitter, "usage_falls", text, [(step.at, step.stimulus, text)])
        yield from self._misfits.single_misfit()
