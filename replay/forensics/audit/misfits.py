"""Collect the records that do not fit, and report one only if it is alone among many that fit.

A single record that breaks a rule was changed. Several mean that the rule does not hold in this pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from attrs import define, field

from ...audit_result import AuditFinding
from ..imported_sources import Sources
from .expected_lines import LEAST_OTHERS


class _Misfit(NamedTuple):
    kind: str
    thing: str
    words: str
    stimulus: str
    at: int


@define
class Misfits:
    """The records of several kinds that were compared: how many fit, and those that do not."""

    _fitting: Counter[str] = field(factory=Counter)
    _misfits: list[_Misfit] = field(factory=list)

    def judge(self, kind: str, fits: bool, thing: str, words: str, stimulus: str, at: int) -> None:
        """Count a record that fits, or keep one that does not, with what an audit says of it."""
        if fits:
            self._fitting[kind] += 1
        else:
            self._misfits.append(_Misfit(kind, thing, words, stimulus, at))

    def only(self, sources: Sources, rule: str, verdict: str) -> Iterator[AuditFinding]:
        """Yield the misfit if it is the only one, and enough records of its kind fit."""
        if len(self._misfits) == 1 and self._fitting[self._misfits[0].kind] >= LEAST_OTHERS:
            _, thing, words, stimulus, at = self._misfits[0]
            yield finding_of_record(sources, thing, rule, f"{words}: {verdict}", stimulus, at)


def finding_of_record(sources: Sources, thing: str, rule: str, words: str, stimulus: str, at: int) -> AuditFinding:
    """Return a finding whose story is one record."""
    file, line = sources.place(stimulus)
    return AuditFinding(thing, rule, words, at, file, line, (sources.told(at, stimulus, words),))
