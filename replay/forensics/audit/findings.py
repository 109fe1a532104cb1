"""Create the findings of an audit, and report a record that breaks a rule only if many other records follow the rule.

A single record that breaks a rule was changed. Several such records mean that the rule does not apply to this pool.
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

LEAST_OTHERS: Final = 3  #: how many records must follow a rule before one that breaks it is reported


def finding(
    sources: Sources,
    subject: str,
    rule: str,
    text: str,
    story: Sequence[tuple[int, str, str]],
    event_index: int = -1,
    zone: tzinfo = UTC,
) -> AuditFinding:
    """Return a finding. Its story is a list of records (instant, stimulus, text); the record at `event_index` is at
    fault."""
    at, stimulus, _ = story[event_index]
    file, line = sources.location_of(stimulus)
    return AuditFinding(subject, rule, text, at, file, line, tuple(sources.line_of(*record, zone) for record in story))


@define
class Misfits:
    """Counts compared records by kind: the ones that follow a rule, and the misfits. With `at_once`, a finding is
    created when its record is judged, because the state that it shows changes; otherwise at the end, with the latest
    file names."""

    at_once: bool = False
    _fitting: Counter[Hashable] = field(factory=Counter)
    _misfits: dict[Hashable, list[Callable[[], AuditFinding]]] = field(factory=dict)  #: at most two of each kind

    def count_record(self, kind: Hashable, expected: bool, finding: Callable[[], AuditFinding]) -> None:
        """Count a record that is as expected, or store the finding for a misfit."""
        if expected:
            self._fitting[kind] += 1
        elif len(kind_misfits := self._misfits.setdefault(kind, [])) < 2:
            finding_now = finding() if self.at_once else None
            kind_misfits.append(finding if finding_now is None else lambda: finding_now)

    def only_of_each_kind(self) -> Iterator[AuditFinding]:
        """Yield each misfit that is the only one of its kind, if enough records of the kind follow the rule."""
        for kind, kind_misfits in self._misfits.items():
            if len(kind_misfits) == 1 and self._fitting[kind] >= LEAST_OTHERS:
                yield kind_misfits[0]()

    def single_misfit(self) -> Iterator[AuditFinding]:
        """Yield the misfit if it is the only one of all kinds, and enough records of its kind follow the rule."""
        return self.only_of_each_kind() if len([*chain(*self._misfits.values())]) == 1 else iter(())


@define
class LogParts:
    """The parts of a rotated log, oldest first, and the findings of each part. A part may grow after records of its
    successor were read, if its directory was copied while daemons wrote to it."""

    current: int = 0
    _order: list[int] = field(factory=list)
    _findings: dict[int, list[tuple[list[AuditFinding], AuditFinding]]] = field(factory=dict)

    def note_part(self, source: int) -> bool:
        """Set the part of the next record. If it is an earlier part, discard the findings after that part and return
        True."""
        if source == self.current:
            return False
        self.current = source
        if source not in self._order:
            self._order.append(source)
            return False
        for part in self._order[self._order.index(source) + 1 :]:
            self._findings.pop(part, None)
        return True

    def defer_findings(self, findings: list[AuditFinding], *new_findings: AuditFinding) -> None:
        """Store findings of the current part, to be added to a list of the audit."""
        self._findings.setdefault(self.current, []).extend((findings, new_finding) for new_finding in new_findings)

    def report_deferred(self) -> None:
        """Add all stored findings to their lists."""
        for findings in self._findings.values():
            for to, new_finding in findings:
                to.append(new_finding)
