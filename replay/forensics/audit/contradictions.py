"""Compare the statements of several sources about the same fact.

The auditor stores the statements of all events (``scratch_db``) and compares them at the end of the log: jobs first
(``job_records``, ``audit_statements``), then slots and submitters (``slot_facts``), then repetitions in one source
(``duplicates``). ``compared_facts`` lists the facts, and the sources in order of reliability.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from functools import partial
from pathlib import PurePath
from typing import Any, Final

from attrs import Factory, define, evolve, field

from ....domain import events as e
from ....domain.events.handlers import handlers_of
from ....domain.imported.packed_ads import select, unquoted
from ....domain.imported.record_sources import KINDS, place_of
from ...audit_result import Audit, AuditFinding, Contradiction, SourceValue
from ..imported_log import Sources, job_of
from .audit_statements import (
    RecordedJob,
    Statement,
    StatementSource,
    disputed_statements_of,
    recorded_jobs,
    statements_by_run,
)
from .compared_facts import COUNTED_BY_SHADOWS, FACTS, LETTERS, NUMBERED
from .copied_ads import CopiedAds
from .doubted_records import DOUBTS
from .duplicates import find_duplicates
from .event_log_facts import ENTRIES, JobRecord, differing_entries
from .event_log_rules import ENDED_AGAIN
from .exit_statuses import BeginChecks, ExitStatuses
from .job_ad_facts import ATTRIBUTES, STATUSES, Ad, date, int_of, text_of
from .job_records import OF_PROCESSES, accounts_of
from .scratch_db import ScratchDatabase
from .slot_facts import NONE, disputed_facts
from .table_folds import OF_SUBMITTERS, AccountantFold, JobQueueFold, submitter_facts
from .table_steps import OF_USAGE, TableSteps
from .tolerances import AFTERWARDS, NEAR, UNSAVED
from .unpaired_records import Deaths, FileSpan, UnpairedRecords

_OF_SLOTS: Final = ("Activity", "JobId", "MyCurrentTime", "Name", "RemoteOwner", "RemoteUser", "State")
_OF_JOBS: Final = frozenset({"shadow_began", "shadow_gone", "matched", "rejected", *OF_PROCESSES})
"""The daemons' reports about jobs that are compared."""
_OF_DAEMONS: Final = frozenset("DELNMU")  #: the letters of the logs whose individual times are compared
OF_LOGS: Final = {"schedd": "D", "startd": "L", "negotiator": "N"}
"""The daemons whose deaths a master may log, and the letters of their logs."""
REPEATABLE_RULES: Final = frozenset({"after_end", "ended_twice", "gone_twice", "held", "history_twice", "not_held"})
"""The rules that are broken when a schedd repeats an action."""
KEPT_BY_SCHEDDS: Final = frozenset({"became", "ended", "hold", "holds", "submitted"})
"""The facts that differ if a schedd died and lost them."""
TIMED_BY_SCHEDDS: Final = frozenset({"ended", "run_wall", "stopped", "wall", "wall_runs"})
"""The facts on which sources differ if a schedd stalled: the shadow waits for it between writing the ad and the log
entry, and the schedd learns of a run's end late."""
ENDS: Final = frozenset({4, 5})
LOSS_TEXT: Final = ": the schedd had died, and lost the end of its job_queue.log"
CLAIMED: Final = "Claimed"
UNKNOWN_STATUS: Final = "of unknown status"


@define
class FactAuditor:
    """Finds contradictions: call ``take`` with every event in log order, then ``finish``. Findings print times in
    `zone`."""

    sources: Sources
    audit: Audit
    zone: tzinfo = UTC
    scratch: ScratchDatabase = field(factory=ScratchDatabase)
    _queues: dict[int, JobQueueFold] = field(factory=dict)
    _accountants: dict[int, AccountantFold] = field(factory=dict)
    _owners: dict[str, str] = field(factory=dict)
    _jobs: dict[str, tuple[int, int]] = field(factory=dict)
    _requested_jobs: dict[str, str] = field(factory=dict)  #: the claim that was last requested for each slot
    _claims: dict[str, str] = field(factory=dict)  #: the claim of each slot's current holder
    _slots: dict[int, set[str]] = field(factory=dict)
    _order: int = 0
    _gaps: dict[int, list[int]] = field(factory=dict)  #: the positions at which records are missing from each chain
    _steps: TableSteps = field(default=Factory(lambda self: TableSteps(self.sources), takes_self=True))
    _begun: BeginChecks = field(default=Factory(lambda self: BeginChecks(self.sources), takes_self=True))
    _spans: dict[int, FileSpan] = field(factory=dict)
    _deaths: Deaths = field(factory=dict)
    _absences: Deaths = field(factory=dict)  #: of daemons that were shut down: shadows may outlive a schedd

    # -- Reading -------------------------------------------------------------------------------------------------------

    def process_event(self, position: int, event: e.Event) -> None:
        step, place = _STEPS.get(type(event)), place_of(event.stimulus)
        if step is None or place is None:
            return
        self._order = position
        letter, chain = self.sources.letter(place.source)
        is_doubted = isinstance(event, e.SourceEvent) or (type(event) is e.DaemonReported and event.said in DOUBTS)
        if event.at and letter in _OF_DAEMONS and not is_doubted:
            self._note_span(letter, chain, event)
        step(self, event, StatementSource(letter, place.source, place.line, event.at), chain)

    def _note_span(self, letter: str, chain: int, event: e.Event) -> None:
        span = self._spans.get(chain)
        daemon_began = isinstance(event, e.DaemonReported) and event.said == "began"
        if span is None:
            span = self._spans[chain] = FileSpan(letter, event.at, event.at)
        elif daemon_began:
            deaths = self._absences if span.over else self._deaths
            deaths.setdefault(letter, []).append((span.last, event.at))
        span.note_silence(event.at)
        span.over = isinstance(event, e.DaemonReported) and event.said == "ended"
        span.last = max(span.last, event.at)

    def _add_job_record(
        self, job: tuple[int, int], origin: StatementSource, chain: int, what_happened: str, body: str
    ) -> None:
        letter, source, line, at = origin
        self.scratch.add_record(*job, JobRecord(self._order, letter, chain, source, line, at, what_happened, body))

    def on_logged(self, event: e.JobLogged, origin: StatementSource, chain: int) -> None:
        if event.number in ENTRIES and event.proc >= 0:
            self._add_job_record((event.cluster, event.proc), origin, chain, str(event.number), event.text)

    def on_kept(self, event: e.AdsKept, origin: StatementSource, chain: int) -> None:
        if origin.letter in ("H", "P", "S", "A"):
            self.scratch.add_ads(self._order, origin.letter, origin.source, origin.line, event)
        elif origin.letter == "C":
            for ad in select(event, _OF_SLOTS):
                self._record_slot_ad(ad, origin)
        elif origin.letter == "V":
            for ad in select(event, OF_SUBMITTERS):
                at = date(ad, "LastUpdate")
                if at is not None and "Name" in ad:
                    for fact, value in submitter_facts(ad):
                        self.scratch.add_fact(unquoted(ad["Name"]), fact, origin._replace(at=at), value)

    def _record_slot_ad(self, ad: Ad, origin: StatementSource) -> None:
        slot, state, activity = (text_of(ad, name) for name in ("Name", "State", "Activity"))
        at = date(ad, "MyCurrentTime")
        if not slot or not state or not activity or at is None:
            return
        origin = origin._replace(at=at)
        self.scratch.add_fact(slot, "state", origin, f"{state}/{activity}")
        for fact, name in (("holder", "RemoteUser"), ("holder", "RemoteOwner"), ("job", "JobId")):
            if value := text_of(ad, name):
                self.scratch.add_fact(slot, fact, origin, value)

    def on_written(self, event: e.TableWritten, origin: StatementSource, chain: int) -> None:
        source = origin.source
        self._steps.check_transaction(str(source), event)
        if event.kind == "queue":
            if source not in self._queues:
                self._queues[source] = JobQueueFold(
                    partial(self._record_departure, source), partial(self._record_repeated_departure, source)
                )
            self._queues[source].fold_line(event, origin.line)
        else:
            if source not in self._accountants:
                self._accountants[source] = AccountantFold(partial(self._record_submitter_fact, source))
            self._accountants[source].fold_line(event, origin.line)

    def _record_departure(
        self, source: int, cluster: int, proc: int, at: int, line: int, ad: Mapping[str, Any], final: bool
    ) -> None:
        origin = StatementSource("Q", source, line, at)
        self._add_job_record((cluster, proc), origin, source, "final" if final else "ad", json.dumps(ad))

    def _record_repeated_departure(self, source: int, key: str, at: int, line: int) -> None:
        self.scratch.add_end(key, "Q", source, "", at, source, line)

    def _record_submitter_fact(self, source: int, subject: str, fact: str, at: int, body: str, line: int) -> None:
        if fact in OF_USAGE:
            self._steps.usage(source, subject, fact, body, f"{source}:{line}", at)
        if fact in FACTS:
            self.scratch.add_fact(subject, fact, StatementSource("K", source, line, at), body)

    def on_job(self, event: e.JobReported, origin: StatementSource, chain: int) -> None:
        if event.said not in _OF_JOBS:
            return
        facts = event.facts
        if event.said in ("shadow_began", "shadow_gone") and origin.letter == "D":
            self._begun.shadow(chain, event)
        if event.said == "matched" and "slot" in facts and "user" in facts:
            job = f"{event.cluster}.{event.proc}"
            self.scratch.add_fact(facts["slot"], "matched", origin, facts["user"])
            self.scratch.add_fact(facts["slot"], "matched_job", origin, job)
            self.scratch.add_fact(job, "matched_slot", origin, facts["slot"])
        self._add_job_record((event.cluster, event.proc), origin, chain, event.said, json.dumps(facts))

    def on_slot(self, event: e.SlotReported, origin: StatementSource, chain: int) -> None:
        if origin.letter != "L":
            return
        slot, facts = event.slot, event.facts
        if event.said == "requested":
            self._requested_jobs[slot] = facts.get("claim", "")
        elif event.said == "owner" and "user" in facts:
            self._owners[slot] = facts["user"]
            self._claims[slot] = self._requested_jobs.pop(slot, "")
            self.scratch.add_fact(slot, "holder", origin, facts["user"])
        elif event.said == "activated" and (job := job_of(facts.get("job", ""))) is not None:
            self._jobs[slot] = job
            self.scratch.add_fact(slot, "job", origin, facts["job"])
            body = json.dumps({"slot": slot, "user": self._owners.get(slot, ""), "claim": self._claims.get(slot, "")})
            self._add_job_record(job, origin, chain, "activated", body)
        elif event.said in ("job_over", "starter_gone") and (job := self._jobs.pop(slot, None)) is not None:
            self.scratch.add_fact(slot, "job", origin, NONE)
            self._add_job_record(job, origin, chain, "over", json.dumps({"slot": slot}))

    def on_moved(self, event: e.SlotTransitioned, origin: StatementSource, chain: int) -> None:
        self._slots.setdefault(chain, set()).add(event.slot)
        self.scratch.add_fact(event.slot, "state", origin, event.target)
        if event.target.startswith(CLAIMED) and event.slot not in self._owners:
            self.scratch.add_fact(event.slot, "holder", origin, "")
        if event.source.startswith((CLAIMED, "Preempting")) and not event.target.startswith((CLAIMED, "Preempting")):
            self._forget(event.slot, origin, NONE)

    def _forget(self, slot: str, origin: StatementSource, body: str) -> None:
        """Record that a slot has no job and no holder, or that they are unknown ("")."""
        self._claims.pop(slot, None)
        for fact, known_place in (("holder", self._owners.pop(slot, None)), ("job", self._jobs.pop(slot, None))):
            if known_place is not None or not body:
                self.scratch.add_fact(slot, fact, origin._replace(letter="L"), body)

    def on_born(self, event: e.SlotCreated, origin: StatementSource, chain: int) -> None:
        self._slots.setdefault(chain, set()).add(event.slot)
        self._forget(event.slot, origin, NONE)
        self._requested_jobs[event.slot] = self._requested_jobs.pop(event.parent, "")
        self.scratch.add_fact(event.slot, "state", origin, "Owner/Idle")

    def on_daemon(self, event: e.DaemonReported, origin: StatementSource, chain: int) -> None:
        if event.said == "died" and event.daemon in OF_LOGS:  # logged by its master: its own log may not be imported
            self._deaths.setdefault(OF_LOGS[event.daemon], []).append((event.at, event.at))
        if event.said in ("began", "ended"):
            self._begun.forget(chain, event.said == "began")
            if origin.letter == "L":
                self._record_unknown_slots(chain, origin)

    def on_cycle(self, event: e.CycleReported, origin: StatementSource, chain: int) -> None:
        self._begun.cycle(chain, event)

    def _record_unknown_slots(self, chain: int, origin: StatementSource) -> None:
        for slot in sorted(self._slots.pop(chain, ())):
            self._forget(slot, origin, "")
            self.scratch.add_fact(slot, "state", origin._replace(letter="L"), "")

    def on_submitter(self, event: e.SubmitterReported, origin: StatementSource, chain: int) -> None:
        if event.said == "set":
            self._steps.set_by_hand.add(event.submitter)

    def on_gap(self, event: e.SourceGap | e.SourceRefused, origin: StatementSource, chain: int) -> None:
        self._gaps.setdefault(chain, []).append(self._order)
        self._begun.forget(chain, False)
        self._steps.forget(str(origin.source))
        for fold in (self._queues.get(origin.source), self._accountants.get(origin.source)):
            if fold is not None:
                fold.finish()
        since = event.since if isinstance(event, e.SourceGap) else 0
        span = self._spans.get(chain)  # a line without a time has the time of the import
        self._record_unknown_slots(chain, origin._replace(at=since or (event.at if span is None else span.last)))

    def _covered_until(self, source: int) -> int:
        """Return the end of the time that a source's log covers, or 0 if its daemon ended."""
        span = self._spans.get(self.sources.chain(source))
        return 0 if span is None or span.over else span.last

    # -- Judging -------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        folds: list[JobQueueFold | AccountantFold] = [*self._queues.values(), *self._accountants.values()]
        for fold in folds:
            fold.finish()
        end_of_log = max((self.audit.ended, *(span.last for span in self._spans.values())))
        statuses, copied_ads = ExitStatuses(self.sources), CopiedAds(self.sources, self._deaths.get("D", []))
        absences = {letter: [*self._deaths.get(letter, ()), *self._absences.get(letter, ())] for letter in _OF_DAEMONS}
        unpaired = UnpairedRecords(self.sources, self._spans, absences, self._gaps, end_of_log)
        shown_counts = Counter[str]()
        for cluster, proc, records in self.scratch.records_by_job(ATTRIBUTES):
            shown_counts.update(_listed_status(records))
            if len({violation.letter for violation in records}) == 1 and not _lacks_own_number(
                f"#{cluster}.{proc}#", records
            ):
                continue
            jobs = list(recorded_jobs(accounts_of(records, self._gaps)))
            unpaired.check_job((cluster, proc), records)
            statuses.check_job((cluster, proc), records)
            copied_ads.check_job((cluster, proc), records)
            for job in jobs:
                self._judge(f"{cluster}.{proc}", job)
        self.audit.jobs = dict(sorted((shown_counts + Counter(self.audit.jobs)).items()))
        spans = {source: accountant.spans for source, accountant in self._accountants.items()}
        for subject, fact, rows in self.scratch.facts_by_subject():
            for statements in disputed_facts(fact, rows, spans, self._covered_until):
                self._add_contradiction(subject, statements, 0)
        disputed_jobs = {dispute.thing for dispute in self.audit.contradictions if dispute.fact in ("starts", "holds")}
        self.audit.violations += (violation for violation in unpaired.finish() if violation.thing not in disputed_jobs)
        self.audit.violations += (*statuses.finish(), *copied_ads.finish())
        self.audit.noted += unpaired.noted
        self.audit.violations += (*self._steps.finish(), *self._begun.finish())
        self.audit.violations += find_duplicates(self.scratch, self.sources, self.zone)
        self._excuse_repetitions()
        self.scratch.close()

    def _judge(self, job: str, job_record: RecordedJob) -> None:
        ignored = COUNTED_BY_SHADOWS if job_record.has_reconnected else frozenset()
        if was_forgotten := self._may_be_forgotten(job_record):
            ignored |= COUNTED_BY_SHADOWS | KEPT_BY_SCHEDDS
        if self._may_have_stalled(job_record):
            ignored |= TIMED_BY_SCHEDDS
        hidden_holds = [account.hides_hold for account in job_record.accounts if account.entries]
        if hidden_holds and all(hidden_holds):
            ignored |= {"hold", "holds"}
        statements = [statements for account in job_record.accounts for statements in account.statements]
        for disputed_statements in disputed_statements_of([s for s in statements if s.fact not in ignored]):
            self._add_contradiction(job, disputed_statements, 0)
        for pair in differing_entries(job_record.accounts):
            self._add_contradiction(job, list(pair), 0)
        for number, run_statements in enumerate(statements_by_run(job_record), 1):
            groups = disputed_statements_of([s for s in run_statements if s.fact not in ignored])
            if was_forgotten and any(disputed_statements[0].fact == "placed" for disputed_statements in groups):
                continue  # two shadows with the same number: the schedd had lost the first one
            for disputed_statements in groups:
                self._add_contradiction(job, disputed_statements, number)

    def _may_be_forgotten(self, job: RecordedJob) -> bool:
        """Return True if a schedd died soon after a change to a job, and so may have lost the change."""
        deaths = self._deaths.get("D", [])
        entry_times = [origin.at for account in job.accounts for _, origin, _ in account.entries] if deaths else ()
        return any(since - UNSAVED <= at <= until for at in entry_times for since, until in deaths)

    def _may_have_stalled(self, job: RecordedJob) -> bool:
        """Return True if a schedd wrote nothing while a run of a job ended: it may have stalled, or its log does not
        cover that time."""
        spans = [span for span in self._spans.values() if span.letter == "D"]
        end_times = {origin.at for account in job.accounts for number, origin, _ in account.entries if number in ENDS}
        return any(not span.covers(at) for span in spans for at in end_times)

    def _excuse_repetitions(self) -> None:
        """Move legal repetitions from the violations to the repeated records: an end that a shadow wrote again, and
        actions that a killed schedd repeated because it had lost the end of its job_queue.log."""
        deaths, audit = self._deaths.get("D", []), self.audit

        def lost(entry: AuditFinding) -> bool:
            is_repetition = entry.rule in REPEATABLE_RULES or entry.words == ENDED_AGAIN
            return is_repetition and any(until - NEAR <= entry.at <= until + AFTERWARDS for _, until in deaths)

        def legal(entry: AuditFinding) -> bool:
            return entry.rule == "repeated" or lost(entry)

        repeated_findings = [*audit.repeated, *filter(legal, audit.violations)]
        audit.repeated[:] = [
            evolve(item, rule="repeated", words=item.words + LOSS_TEXT * lost(item)) for item in repeated_findings
        ]
        audit.violations[:] = [item for item in audit.violations if not legal(item)]

    def _add_contradiction(self, subject: str, statements: list[Statement], run: int) -> None:
        first = statements[0]
        values = tuple(
            SourceValue(
                LETTERS[statement.letter],
                statement.story_line(self.zone),
                *self.sources.location_of(f"{statement.source}:{statement.line}"),
            )
            for statement in statements
        )
        sources_by_value: dict[str, list[str]] = {}
        for value in values:
            name = PurePath(value.file).name if value.kind == "userlog" else KINDS[value.kind].name
            names = sources_by_value.setdefault(value.value, [])
            if name not in names:
                names.append(name)
        claims_text = "; ".join(f"{text} in {' and '.join(names)}" for text, names in sources_by_value.items())
        number_text = f" ({NUMBERED[first.fact]} {first.number})" if first.number else ""
        text = f"{FACTS[first.fact].description}{number_text}: {claims_text}"
        self.audit.contradictions.append(Contradiction(subject, first.fact, text, first.at, run, values))


def _listed_status(records: Sequence[JobRecord]) -> Iterator[str]:
    """Yield the last status in the queue's ads of a job that is in no job event log and no history."""
    if not any(record.letter in "UEH" for record in records):
        ads = [json.loads(record.body) for record in records if record.letter in "QA"]
        yield STATUSES.get(int_of(ads[-1], "JobStatus") or 0, UNKNOWN_STATUS) if ads else UNKNOWN_STATUS


def _lacks_own_number(number: str, records: Sequence[JobRecord]) -> bool:
    bodies = [record.body for record in records if record.letter in "HPSA"]
    return any("GlobalJobId" in body and number not in body for body in bodies)


_STEPS: Final = handlers_of(FactAuditor)
