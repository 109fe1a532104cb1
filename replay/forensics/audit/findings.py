"""Make findings of an audit, and report a record that does not fit only if it is alone among many that fit.

A single record that breaks a rule was changed. Several mean that the rule does not hold in this pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import UTC, tzinfo
from itertools import chain
from typing import Final

from attrs import define, field

from ...audit_result import AuditFinding
from ..imported_log import Sources

LEAST_OTHERS: Final = 3  #: how many others have to fit before one that does not counts


def finding(
    sources: Sources,
    subject: str,
    rule: str,
    text: str,
    story: Sequence[tuple[int, str, str]],
    event_index: int = -1,
    zone: tzinfo = UTC,
) -> AuditFinding:
    """Return a finding. Its story is records (instant, stimulus, words); the one at `event_index` is at fault."""
    at, stimulus, _ = story[event_index]
    file, line = sources.place(stimulus)
    return AuditFinding(subject, rule, text, at, file, line, tuple(sources.line_of(*record, zone) for record in story))


@define
class Misfits:
    """The records of several kinds that were compared: how many fit, and the others. With `at_once` a finding is
    made when its record is judged, since the state that it shows changes; else at the end, by the latest names."""

    at_once: bool = False
    _fitting: Counter[Hashable] = field(factory=Counter)
    _misfits: dict[Hashable, list[Callable[[], AuditFinding]]] = field(factory=dict)  #: two at most of each kind

    def judge(self, kind: Hashable, expected: bool, finding: Callable[[], AuditFinding]) -> None:
        """Count a record that fits, or keep the finding of one that does not."""
        if expected:
            self._fitting[kind] += 1
        elif len(kind_misfits := self._misfits.setdefault(kind, [])) < 2:
            finding_now = finding() if self.at_once else None
            kind_misfits.append(finding if finding_now is None else lambda: finding_now)

    def only_of_each_kind(self) -> Iterator[AuditFinding]:
        """Yield each misfit that is the only one of its kind, of which enough records fit."""
        for kind, kind_misfits in self._misfits.items():
            if len(kind_misfits) == 1 and self._fitting[kind] >= LEAST_OTHERS:
                yield kind_misfits[0]()

    def single_misfit(self) -> Iterator[AuditFinding]:
        """Yield the misfit if it is the only one of all kinds, and enough records of its kind fit."""
        return self.only_of_each_kind() if len([*chain(*self._misfits.values())]) == 1 else iter(())


@define
class LogParts:
    """The parts of a rotated log, oldest first, as their records come, and the findings of each. A part may grow after
    records of its successor were read, if a folder was copied while it was written."""

    current: int = 0
    _order: list[int] = field(factory=list)
    _findings: dict[int, list[tuple[list[AuditFinding], AuditFinding]]] = field(factory=dict)

    def note_part(self, source: int) -> bool:
        """Take the next record's part. Return True if it is an earlier one: the findings behind it are withdrawn."""
        if source == self.current:
            return False
        self.current = source
        if source not in self._order:
            self._order.append(source)
            return False
        for part in self._order[self._order.index(source) + 1 :]:
            self._findings.pop(part, None)
        return True

    def add(self, findings: list[AuditFinding], *new_findings: AuditFinding) -> None:
        """Keep findings of the current part for a list of the audit."""
        self._findings.setdefault(self.current, []).extend((findings, new_finding) for new_finding in new_findings)

    def report(self) -> None:
        """Add all findings to the lists for which they were kept."""
        for findings in self._findings.values():
            for to, new_finding in findings:
                to.append(new_finding)
