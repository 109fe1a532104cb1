"""Audit the records that the readers doubted: a line with a wrong time, or an ad that is not at its recorded offset.

A file with many displaced ads was rewritten, for example by a tool that changes line endings; it is not audited.
"""

from __future__ import annotations

from typing import Final

from attrs import define, field

from ....domain import events as e
from ....domain.imported.record_sources import LEAST_AD, place_of
from ...audit_result import Audit, AuditFinding
from ..imported_log import Sources
from .findings import finding

DOUBTS: Final = ("aside", "displaced")
MOST: Final = 2  #: the number of displaced ads that one or two changes in a file explain
ONE_AD: Final = 20_000  #: a history whose first offset (in bytes) exceeds this is the end of a longer history


@define
class DoubtAuditor:
    """Audits doubted records: call ``take`` with every event, in any order, then ``finish``."""

    sources: Sources
    audit: Audit
    _displaced_ads: dict[int, list[e.DaemonReported]] = field(factory=dict)

    def process_event(self, position: int, event: e.Event) -> None:
        if not isinstance(event, e.DaemonReported) or event.said not in DOUBTS:
            return
        place = place_of(event.stimulus)
        if place is None:
            return
        if event.said == "displaced":
            self._displaced_ads.setdefault(place.source, []).append(event)
        elif self.sources.kind(place.source) != "startlog" or not event.facts["seconds"].startswith("-"):
            self._note_moved_record(event, place.source)  # StartLogs' early records are reported by their own audit

    def _note_moved_record(self, event: e.DaemonReported, source: int) -> None:
        seconds, text = event.facts["seconds"], event.facts["text"]
        offset_text = f"{seconds.removeprefix('-')} s {'before' if seconds.startswith('-') else 'after'}"
        message = f"its time was changed: it is {offset_text} the lines above and below it: {text}"
        name = self.sources.path(source).rpartition("/")[2]
        self.audit.violations.append(self._finding(event, name, "aside", message))

    def _finding(self, event: e.DaemonReported, subject: str, rule: str, text: str) -> AuditFinding:
        return finding(self.sources, subject, rule, text, [(event.at, event.stimulus, text)])

    def finish(self) -> None:
        for events in self._displaced_ads.values():
            for event in events if len(events) <= MOST else ():
                shift, job, above = (int(event.facts["bytes"]), event.facts["job"], event.facts.get("above", ""))
                text = _displacement_text(shift, job, above)
                if above:
                    self.audit.violations.append(self._finding(event, above, "displaced", text))
                elif abs(shift) < ONE_AD:
                    self.audit.noted.append(
                        self._finding(event, job, "displaced", f"{text}, unless the file's beginning was cut")
                    )


def _displacement_text(shift: int, job: str, above: str) -> str:
    position_text = f"between the ads of jobs {above} and {job}" if above else f"above the ad of job {job}"
    if shift >= LEAST_AD:
        return f"{shift} bytes {position_text} are missing: an ad was removed"
    if shift <= -LEAST_AD:
        return f"there are {-shift} extra bytes {position_text}: an ad was inserted"
    comparative = "shorter" if shift > 0 else "longer"
    return f"the text {position_text} is {abs(shift)} bytes {comparative} than it was written: a value was changed"
