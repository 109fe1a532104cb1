"""Find an amount of usage that the accountant cannot have written: the next is less, and not less than the one before.

Who sets or resets usage by hand lowers it, too, but for what follows; and the NegotiatorLog tells of it. A negotiator
that starts again lowers it by the time that is not charged yet: that is negative for slots that were matched since the
last update, and whose matches it has forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from attrs import define, field

from ...audit_result import AuditFinding
from ..sources import Sources

_UNCHARGED: Final = "uncharged_"  #: before the name of a usage: what was not charged to it yet
OF_USAGE: Final = frozenset({"usage", "unweighted", f"{_UNCHARGED}usage", f"{_UNCHARGED}unweighted"})


class _Step(NamedTuple):
    amount: float
    stimulus: str
    at: int


@define
class UsageSteps:
    """The usage of each submitter, as each table says it one after another."""

    set_by_hand: set[str] = field(factory=set)
    _last: dict[tuple[int, str, str], tuple[float, _Step]] = field(factory=dict)
    _uncharged: dict[tuple[int, str, str], float] = field(factory=dict)
    _odd: list[tuple[str, _Step, float, float]] = field(factory=list)

    def take(self, source: int, submitter: str, fact: str, body: str, stimulus: str, at: int) -> None:
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

    def finish(self, sources: Sources) -> Iterator[AuditFinding]:
        for submitter, step, before, after in self._odd:
            if not self.set_by_hand & {submitter, "*"}:
                words = f"its usage is {step.amount:g} s, between {before:g} s and {after:g} s: it was changed"
                file, line = sources.place(step.stimulus)
                told = (sources.told(step.at, step.stimulus, words),)
                yield AuditFinding(submitter, "usage_falls", words, step.at, file, line, told)
