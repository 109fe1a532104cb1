"""Pass each event of a log to every auditor and collect their findings in one audit.

Imported records are audited by chain (a log with its rotated parts, oldest first), so the order in which files were
imported does not matter.
"""

from __future__ import annotations

from typing import Protocol

from ....domain import events as e
from ....domain.ports.log import EventStore
from ....domain.state_machines import HTCONDOR_25
from ...audit_result import Audit, MissingRecords, UnreadRecord
from ..imported_log import Sources, single_entries
from .contradictions import FactAuditor
from .doubted_records import DoubtAuditor
from .event_log_rules import EventLogAuditor
from .startd_log_rules import StartdLogAuditor

_OF_THE_IMPORT = (e.SourceFound, e.SourceRead, e.SourceRefused, e.SourceGap, e.PoolFounded)


class _Auditor(Protocol):
    def process_event(self, position: int, event: e.Event) -> None: ...

    def finish(self) -> None: ...


def examine(log: EventStore) -> Audit:
    """Audit the log of an import. The log's seal is checked by the stores, not here."""
    audit = Audit(HTCONDOR_25.name, imported=True)
    sources = Sources()
    judges: tuple[_Auditor, ...] = (
        StartdLogAuditor(sources, audit),
        EventLogAuditor(sources, audit),
        FactAuditor(sources, audit),
        DoubtAuditor(sources, audit),
    )
    for position, event in single_entries(log.read()):
        audit.events = position
        sources.fold_event(event)
        _count_import_event(audit, sources, event)
        for judge in judges:
            judge.process_event(position, event)
    for judge in judges:
        judge.finish()
    for number, source in sources.found_events.items():
        read = sources.read_events.get(number)
        audit.sources.append((sources.path(number), source.kind, 0 if read is None else read.lines))
        if read is not None and read.left:
            audit.torn.append((read.path, read.left))
    _sort_findings(audit)
    return audit


def _count_import_event(audit: Audit, sources: Sources, event: e.Event) -> None:
    if isinstance(event, e.SourceRefused):
        audit.quarantined.append(UnreadRecord(sources.path(event.source), event.line, event.words, event.text))
    elif isinstance(event, e.SourceGap):
        audit.gaps.append(MissingRecords(sources.path(event.source), event.line, event.words, event.since, event.until))
    elif not isinstance(event, _OF_THE_IMPORT):
        audit.judged = True
        if event.at:
            audit.began = min(audit.began or event.at, event.at)
            audit.ended = max(audit.ended, event.at)


def _sort_findings(audit: Audit) -> None:
    """Sort the findings, so that they do not depend on the order of the import."""
    audit.sources.sort()
    audit.torn.sort()
    audit.quarantined.sort(key=lambda r: (r.file, r.line))
    audit.gaps.sort(key=lambda g: (g.file, g.line))
    audit.unaccounted.sort(key=lambda u: (u.since, u.slot))
    for findings in (audit.violations, audit.noted, audit.lost, audit.repeated):
        findings.sort(key=lambda f: (f.at, f.file, f.line, f.thing, f.rule))
    audit.contradictions.sort(key=lambda c: (c.at, c.thing, c.fact, c.run))
