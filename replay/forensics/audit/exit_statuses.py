"""Compare the exit statuses of shadows with the job event logs (``ExitStatuses``), and find cycles and shadows in a
daemon's log with an end but no start, or a start but no end (``BeginChecks``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from attrs import define, field

from ....domain import events as e
from ....domain.imported.record_sources import NOT_STARTED
from ....domain.package_data import get_data
from ....domain.units import SECOND
from ...audit_result import AuditFinding
from ...narration.sentence_tables import tables
from ..imported_log import Sources
from .event_log_facts import JobRecord
from .findings import Misfits, finding
from .tolerances import FAR


class StatusRule(NamedTuple):
    """The meaning of a shadow's exit status, the job's state afterwards, and the entries possible for the run's end
    (none: unknown)."""

    meaning: str
    became: str
    entries: frozenset[str] = frozenset()


REQUEUED: Final = "requeued"  #: the value in an entry 004 of a job that exited


def _status_rule(row: str) -> StatusRule:
    text, new_status, entries = (column.strip() for column in row.split("|"))
    return StatusRule(text, new_status, frozenset(entries.split()))


STATUSES: Final = {
    status: _status_rule(row) for status, row in tables(get_data(__package__, "exit_statuses.txt"))["statuses"].items()
}
_ENDS: Final = frozenset({"4", "5"})  #: the entries that show how a run ended


@define
class ExitStatuses:
    """Compares exit statuses with entries: ``take`` every job's records, then ``finish`` yields the exit that its run's
    entries contradict, if it is the only one and others agree. Runs without entries are skipped. The statuses are from
    HTCondor's exit.h."""

    sources: Sources
    _misfits: Misfits = field(factory=Misfits)

    def check_job(self, job: tuple[int, int], records: Sequence[JobRecord]) -> None:
        begin_times: dict[tuple[int, str], int] = {}
        entries = [record for record in records if record.letter in "UE"]
        starts = [record for record in records if record.letter == "D" and record.what == "shadow_began"]
        for record in records:
            if record.letter != "D" or record.what not in ("shadow_began", "shadow_gone"):
                continue
            facts = json.loads(record.body)
            shadow = (record.chain, facts.get("shadow", ""))
            if record.what == "shadow_began":
                begin_times[shadow] = record.at
            elif (began := begin_times.pop(shadow, None)) is not None:
                status = facts.get("status") or facts.get("reason", "")
                # a run that did not start may have ended in the same second as the run before it
                began = max(began + SECOND * (status == NOT_STARTED), record.at - FAR)
                next_starts = [start.at for start in starts if (start.at, start.line) > (record.at, record.line)]
                until = min(next_starts, default=record.at + FAR + 1)
                run = [entry for entry in entries if began <= entry.at <= record.at + FAR and entry.at < until]
                self._judge(job, record, status, run)

    def _judge(self, job: tuple[int, int], record: JobRecord, status: str, run: Sequence[JobRecord]) -> None:
        rule = STATUSES.get(status)
        end_entries = [entry for entry in run if entry.what in _ENDS]
        if rule is None or not rule.entries or not end_entries:
            return
        entries = {entry.what for entry in run}
        if any(entry.what == "4" and REQUEUED in entry.body for entry in end_entries):
            entries.add(REQUEUED)

        def contradicted() -> AuditFinding:
            end, number = end_entries[-1], f"{int(end_entries[-1].what):03}"
            log = self.sources.path(end.source).rpartition("/")[2]
            exit_text = f"its shadow exited with status {status} ({rule.meaning})"
            text = f"{exit_text}, but {log} has entry {number} for the run's end"
            story = [
                (end.at, f"{end.source}:{end.line}", f"the run's end: entry {number}"),
                (record.at, f"{record.source}:{record.line}", f"status {status}"),
            ]
            return finding(self.sources, "{}.{}".format(*job), "status", text, story)

        self._misfits.count_record("exit", bool(entries & rule.entries), contradicted)

    def finish(self) -> Iterator[AuditFinding]:
        return self._misfits.single_misfit()


@define
class BeginChecks:
    """Checks the starts and ends of cycles and shadows: pass the events, then ``finish`` yields a single misfit.

    A negotiator ends each cycle before it begins the next one, and a schedd logs the start and the exit of a job's
    shadow with the same pid. The state is reset when the daemon starts or ends, and where records are missing.
    """

    sources: Sources
    _begun: dict[tuple[int, str], str] = field(factory=dict)
    """The pid of each job's running shadow. For a running cycle, both the job in the key and the pid are ""."""
    _known: set[int] = field(factory=set)  #: the chains without missing records since their daemon started
    _misfits: Misfits = field(factory=Misfits)

    def cycle(self, chain: int, event: e.CycleReported) -> None:
        if event.said == "began":
            if (chain, "") in self._begun:
                self._judge(
                    "cycle", False, "negotiator", "a negotiation cycle began before the previous one ended", event
                )
            self._begun[chain, ""] = ""
        elif event.said == "ended":
            was_begun = self._begun.pop((chain, ""), None) is not None
            if was_begun or chain in self._known:
                self._judge("cycle", was_begun, "negotiator", "a negotiation cycle ended that had not begun", event)
            self._known.add(chain)

    def _judge(self, kind: str, expected: bool, subject: str, text: str, event: e.Event) -> None:
        text = f"{text}: a line was removed or changed"
        record = event.at, event.stimulus, text
        self._misfits.count_record(kind, expected, lambda: finding(self.sources, subject, "begun", text, [record]))

    def shadow(self, chain: int, event: e.JobReported) -> None:
        job, pid = f"{event.cluster}.{event.proc}", event.facts.get("shadow", "")
        if event.said == "shadow_began":
            self._begun[chain, job] = pid
            return
        shadow_name = self._begun.get((chain, job), "")
        if shadow_name or chain in self._known:
            text = f"its shadow {pid} exited, but {shadow_name or 'no shadow'} had been started"
            self._judge("shadow", pid == shadow_name, job, text, event)

    def forget(self, chain: int, is_continued: bool) -> None:
        """Reset the state: the daemon started (`is_continued`) or ended, or records are missing."""
        self._begun = {key: value for key, value in self._begun.items() if key[0] != chain}
        if is_continued:
            self._known.add(chain)
        else:
            self._known.discard(chain)

    def finish(self) -> Iterator[AuditFinding]:
        return self._misfits.single_misfit()
