"""Audit job event logs: check whether the entries of each job are possible in this order.

A log is audited by chain (a file with its rotated parts) and by job, with the table ``ENTRY_RULES``. Everything that
real daemons do is legal: docs/import.md lists it under "Job event logs". The auditor tracks every condition that a job
may be in. If the log begins after the job's submission, or records are missing, every condition is possible. An entry
is a finding if it is not allowed in any possible condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from struct import Struct
from typing import Final, NamedTuple

from attrs import define, field

from ....domain import events as e
from ....domain.imported.job_event_log import OF_EXECUTION_POINTS, facts, words_of
from ....domain.imported.record_sources import place_of
from ....domain.package_data import get_data
from ...audit_result import Audit, AuditFinding
from ...narration.sentence_tables import tables
from ..imported_log import Sources
from .findings import LogParts, finding
from .lost_ends import HistoryAds, LogCoverage, LoggedJob, count_outcomes, find_lost_ends
from .tolerances import LEASE, LINGERING, MINUTE

# The table of entries (``entry_rules.txt``): the conditions in which each is allowed, and the job's condition after it


class EntryRule(NamedTuple):
    number: int
    sources: str  #: the conditions in which it is allowed; blank: any, and the condition is unchanged
    target: str  #: the job's condition after it; with a ``rule``, the condition assumed after the violation
    rule: str = ""  #: the rule that the entry breaks, or empty if it is legal
    repeats: bool = False


def _entry_rule(number: int, sources: str, words: str) -> EntryRule:
    target, _, rule = words.removesuffix(" again").partition(" ! ")
    return EntryRule(number, sources, target, rule, words.endswith(" again"))


_TABLES: Final = tables(get_data(__package__, "entry_rules.txt"))
_CONDITIONS: Final = {name: words.split(", ", 1) for name, words in _TABLES.pop("conditions").items()}
OUTCOMES: Final = {name: outcome for name, (outcome, _) in _CONDITIONS.items()}
DESCRIPTIONS: Final = {name: words for name, (_, words) in _CONDITIONS.items()}
_ENTRIES: Final = {heading.partition(" "): rows for heading, rows in _TABLES.items()}
ENTRY_RULES: Final = tuple(_entry_rule(int(key[0]), *row) for key, rows in _ENTRIES.items() for row in rows.items())
TARGETS: Final = {int(number): target for number, _, target in _ENTRIES}
"""The condition after each entry if the condition before it is not certain."""
_BY_CONDITION: Final = {(step.number, source): step for step in ENTRY_RULES for source in step.sources.split(", ")}
ANY_CONDITION: Final = frozenset(source for _, source in _BY_CONDITION)
OVER: Final = frozenset({"Completed", "Skipped", "Removed", "Aborting"})
NOT_BEGUN: Final = frozenset({"Submitted", "Idle"})
ON_A_SLOT: Final = frozenset({"Running", "Suspended"})
ELSEWHERE: Final = frozenset({17, 18, 19, 20, 25, 26, 27, 29, 30})
"""The entries of jobs that do not run on a slot of the pool."""


class EntryEffect(NamedTuple):
    conditions: frozenset[str]  #: the conditions in which the job may be afterwards
    rules: tuple[str, ...]  #: the rules broken, if the entry is not allowed in any possible condition
    repeats: bool


@cache
def effect_of(number: int, conditions: frozenset[str]) -> EntryEffect:
    steps = [
        _BY_CONDITION.get((number, condition), EntryRule(number, "", condition)) for condition in sorted(conditions)
    ]
    legal_steps = [step for step in steps if not step.rule]
    rules = () if legal_steps else tuple(step.rule for step in steps)
    return EntryEffect(
        frozenset(step.target for step in legal_steps or steps),
        rules,
        bool(legal_steps) and all(step.repeats for step in legal_steps),
    )


OVERLAP: Final = 2_000_000
"""How long two jobs may appear to share a slot, in microseconds, because their shadows write with a delay."""
RUN_ENDS: Final = (4, 7, 24)  #: the entries after which a shadow may continue for a while
ASIDE: Final = 30_000_000
"""How much earlier than the job's previous entry an entry may be, in microseconds: its writer may have to wait."""
_STORY_LENGTH: Final = 6  #: the number of entries of a job that are kept for its story
_TOLD_OF_ENDED: Final = 3  #: the same for a job that has ended


_Job = tuple[int, int]
_PACKED_ENTRY = Struct("<qIIh")


@define
class _JobHistory:
    job: _Job
    conditions: frozenset[str]  #: all conditions in which the job may be
    condition: str  #: the condition after its last entry, or empty if it had none
    epoch: int  #: the chain's epoch at the job's last entry
    submitted: int = 0  #: an instant, or 0 if unknown
    host: str = ""
    last: tuple[int, int, int] = (0, 0, 0)
    """The last entry that changed the job's condition: number, instant, and a hash of its text."""
    free: bool = False  #: the job is not audited
    slot: str = ""
    begun: str = ""  #: the location of the entry for its start on that slot
    aside: tuple[int, AuditFinding] | None = None
    """For an entry that is earlier than the entry above it: the other's instant, and the finding if only one is
    early."""
    rival: tuple[_Job, int, str] | None = None  #: another job that started on its slot: the job, instant, location
    unreleased: AuditFinding | None = None  #: the finding to report if its release is not logged next
    trail: bytes = b""


@define
class _EventLog:
    lives: dict[_Job, _JobHistory] = field(factory=dict)
    slots: dict[str, _Job] = field(factory=dict)
    epoch: int = 0  #: incremented at each gap, which invalidates earlier states
    reached: dict[int, int] = field(factory=dict)
    first: int = 0
    last: int = 0
    aside: _JobHistory | None = None  #: the job whose entry is earlier than the entry above it
    parts: LogParts = field(factory=LogParts)
    became: list[tuple[_Job, int, int, str]] = field(factory=list)
    """The jobs whose number was reused by another job: job, submission, last entry's time, outcome."""


@define
class EventLogAuditor:
    """Audits the entries of job event logs: call ``take`` with every event in log order, then ``finish``."""

    sources: Sources
    audit: Audit
    _chains: dict[int, _EventLog] = field(factory=dict)
    _chain_of: dict[int, _EventLog] = field(factory=dict)
    _ads: HistoryAds = field(factory=lambda: HistoryAds(bytearray()))

    def process_event(self, position: int, event: e.Event) -> None:
        kind = type(event)
        if kind is e.JobLogged:
            assert isinstance(event, e.JobLogged)
            place = place_of(event.stimulus)
            if place is not None and event.number < OF_EXECUTION_POINTS and event.cluster > 0 and event.proc >= 0:
                log = self._log_of(place.source)
                if log.parts.note_part(place.source):
                    _reset_coverage(log)
                    log.reached = dict.fromkeys(range(log.epoch), 0)
                self._follow_entry(log, event)
        elif kind is e.AdsKept:
            assert isinstance(event, e.AdsKept)
            self._ads.add_ads(event)
        elif kind is e.SourceGap or kind is e.SourceRefused:
            assert isinstance(event, e.SourceGap | e.SourceRefused)
            _reset_coverage(self._log_of(event.source))
        elif kind is e.SourceFound:
            self._chain_of.clear()

    def finish(self) -> None:
        for log in self._chains.values():
            for history in log.lives.values():
                self._report_unreleased(log, history)
                self._look_for_lost_entries(log, history)
            log.parts.report_deferred()
        self._compare_ends()
        outcomes = [outcome for log in self._chains.values() for outcome in _job_outcomes(log)]
        self.audit.jobs = count_outcomes((*outcomes, *self._ads.outcomes({job for job, *_ in outcomes})))

    def _log_of(self, source: int) -> _EventLog:
        if source not in self._chain_of:
            self._chain_of[source] = self._chains.setdefault(self.sources.chain(source), _EventLog())
        return self._chain_of[source]

    def _follow_entry(self, log: _EventLog, event: e.JobLogged) -> None:
        job, number = (event.cluster, event.proc), event.number
        log.first = log.first or event.at
        is_late = event.at < log.last - ASIDE or log.aside is not None
        log.last = max(log.last, event.at)
        history = log.lives.get(job)
        if number == 0:
            history = self._begin_history(log, job, history, event)
        elif history is None:
            history = log.lives[job] = _JobHistory(job, ANY_CONDITION, "", log.epoch)
        if history.epoch != log.epoch:
            history.epoch, history.conditions, history.last = log.epoch, ANY_CONDITION, (0, 0, 0)
            history.slot, history.rival, history.aside, history.unreleased = "", None, None, None
        if is_late or history.aside is not None:
            self._check_moved_entry(log, history, event)
        self._remember(history, event)
        if number in ELSEWHERE:
            history.free = True
        elif number in TARGETS and number:
            self._judge(log, history, event)

    def _check_moved_entry(self, log: _EventLog, history: _JobHistory, event: e.JobLogged) -> None:
        """Report an entry that is earlier than the job's previous entry, if the job's next entry is not."""
        if log.aside is not None:
            previous_history, log.aside = log.aside, None
            if previous_history.aside is not None and event.at < previous_history.aside[0]:
                previous_history.aside = None
        if history.aside is not None:
            before, moved_finding = history.aside
            history.aside = None
            if event.at >= before:
                log.parts.defer_findings(self.audit.violations, moved_finding)
            return
        above = _last_time(history)
        if event.at < above - ASIDE and not history.free and event.number:
            lead = _seconds_text(above - event.at)
            text = f"it is {lead} earlier than the job's entry above it, but the next one is not"
            history.aside = above, self._finding(history, event, "backwards", text)
            log.aside = history

    def _remember(self, history: _JobHistory, event: e.JobLogged) -> None:
        place = place_of(event.stimulus)
        assert place is not None
        numbers = _TOLD_OF_ENDED if history.condition in OVER else _STORY_LENGTH
        packed_entry = _PACKED_ENTRY.pack(event.at, place.source, place.line, event.number)
        history.trail = (history.trail + packed_entry)[-numbers * _PACKED_ENTRY.size :]

    def _begin_history(self, log: _EventLog, job: _Job, history: _JobHistory | None, event: e.JobLogged) -> _JobHistory:
        """Return the job's history, which an entry 000 begins or repeats."""
        host = facts(0, event.text).get("host", "")
        if history is not None and history.epoch == log.epoch and history.submitted:
            if history.submitted == event.at:
                self._add_finding(log, self.audit.repeated, history, event, "repeated", "it was already submitted")
                return history
            if history.condition not in OVER and history.host and host and history.host != host:
                history.free = True  # two access points write to the same file
                return history
        if history is not None:
            if history.epoch == log.epoch and not history.free and history.condition in ON_A_SLOT | {"Disconnected"}:
                text = "its id was given to another job, but no record shows that it had ended"
                self._add_finding(log, self.audit.lost, history, event, "lost", text)
            log.became.append((job, history.submitted, _last_time(history), history.condition))
            if log.slots.get(history.slot) == job:
                del log.slots[history.slot]
        initial_conditions, entry = frozenset({"Submitted"}), (0, event.at, hash(event.text))
        log.lives[job] = history = _JobHistory(job, initial_conditions, "Submitted", log.epoch, event.at, host, entry)
        return history

    def _judge(self, log: _EventLog, history: _JobHistory, event: e.JobLogged) -> None:
        number, before = event.number, history.condition
        self._report_unreleased(log, history, number)
        entry_key = (number, event.at, hash(event.text))
        effect = effect_of(number, history.conditions)
        # A shadow that did not receive the job's end logs it from the job's ad, without the resource table.
        ended_again = number == 5 and bool(effect.rules) and before == "Completed" and "Resources" not in event.text
        # For a job that is held and released before its shadow exits, the schedd logs no hold.
        ended_again |= (
            effect.rules == ("not_held",) and history.last[0] in RUN_ENDS and event.at - history.last[1] <= MINUTE
        )
        if entry_key == history.last and number not in (5, 9):
            self._add_finding(
                log, self.audit.repeated, history, event, "repeated", "the same entry is in the log again"
            )
            return
        if effect.rules == ("not_running",) and history.last[0] in RUN_ENDS and event.at - history.last[1] <= MINUTE:
            # The starter reported the change as the run ended, and the shadow logs it before it exits.
            self._add_finding(log, self.audit.repeated, history, event, "repeated", _entry_words(number, before))
            return
        if history.free:
            effect = effect_of(number, ANY_CONDITION)
        elif effect.repeats or ended_again:
            self._add_finding(log, self.audit.repeated, history, event, "repeated", _entry_words(number, before))
        elif number == 1 and effect.rules == ("held",):
            history.unreleased = self._finding(history, event, "held", _entry_words(number, before))
        elif effect.rules:
            self._add_finding(log, self.audit.violations, history, event, effect.rules[0], _entry_words(number, before))
        elif number == 5 and history.conditions <= NOT_BEGUN and "TimeExecute" in event.text:
            text = "it ended after a run, but no entry shows its start"
            self._add_finding(log, self.audit.violations, history, event, "unbegun", text)
        history.conditions = effect.conditions
        history.condition = TARGETS[number] if TARGETS[number] in effect.conditions else min(effect.conditions)
        history.last = entry_key
        self._follow_slot(log, history, event)
        if history.condition in OVER:
            history.trail = history.trail[-_TOLD_OF_ENDED * _PACKED_ENTRY.size :]

    def _report_unreleased(self, log: _EventLog, history: _JobHistory, number: int = 0) -> None:
        """Report a job that started while it was held, unless its release follows: a schedd may log the release
        late."""
        if (
            (unreleased_finding := history.unreleased) is not None
            and number != 13
            and (number or unreleased_finding.at + MINUTE < log.last)
        ):
            log.parts.defer_findings(self.audit.violations, unreleased_finding)
        history.unreleased = None

    def _follow_slot(self, log: _EventLog, history: _JobHistory, event: e.JobLogged) -> None:
        if event.number in (10, 11):
            return
        if event.number in (4, 5) and history.rival is not None and event.at - history.rival[1] > OVERLAP:
            rival_job, rival_time, stimulus = history.rival
            self._report_two_jobs(log, history, rival_job, rival_time, stimulus, event)
        if history.slot and log.slots.get(history.slot) == history.job:
            del log.slots[history.slot]
        history.slot, history.rival = "", None
        if event.number != 1 or history.free:
            return
        slot = facts(1, event.text).get("slot", "")
        holder_job = log.slots.get(slot)
        if holder_job is not None:
            log.lives[holder_job].rival = (history.job, event.at, event.stimulus)
        if slot:
            history.slot, history.begun = slot, event.stimulus
            log.slots[slot] = history.job

    def _report_two_jobs(
        self, log: _EventLog, history: _JobHistory, other_job: _Job, at: int, stimulus: str, event: e.JobLogged
    ) -> None:
        """Report two jobs on one slot. It is not known which of them has a wrong slot or time."""
        if log.lives[other_job].free:
            return
        (file, line), (other_file, other_line) = (
            self.sources.location_of(stimulus),
            self.sources.location_of(history.begun),
        )
        name, other = _name(history.job), _name(other_job)
        text = (
            f"jobs {name} and {other} ran on it at the same time: {name} started at {other_file}:{other_line} "
            f"and ended {_seconds_text(event.at - at)} after {other} started at {file}:{line}"
        )
        story = [*_story(history), (at, stimulus, f"{other}: {words_of(1)}")]
        slot_twice_finding = finding(self.sources, history.slot, "slot_twice", text, story)
        # A stalled shadow logs the end late; until then, the job appears to run at the same time as the slot's next
        # job.
        log.parts.defer_findings(
            self.audit.violations if event.at - at > LINGERING else self.audit.noted, slot_twice_finding
        )

    def _compare_ends(self) -> None:
        logged_jobs: list[LoggedJob] = []
        spans: list[LogCoverage] = []
        for number, log in self._chains.items():
            for history in log.lives.values():
                if not history.trail or history.free:
                    continue
                at, stimulus, _ = _last_entries(history)[-1]
                covered_until = log.reached.get(history.epoch, log.last)
                has_ended = history.condition in OVER
                logged_jobs.append(
                    LoggedJob(
                        number,
                        history.job,
                        history.submitted,
                        _access_point(history),
                        has_ended,
                        at,
                        stimulus,
                        covered_until,
                    )
                )
            if self.sources.kind(number) == "eventlog" and not log.epoch:
                hosts = frozenset(_access_point(history) for history in log.lives.values()) - {""}
                spans.append(LogCoverage(number, log.first, log.last, hosts))
        for lost_job, end, at, absent_records in find_lost_ends(logged_jobs, spans, self._ads):
            place_text = "{}:{}".format(*self.sources.location_of(end))
            text = f"it ended ({place_text}), but this log, which continues, does not show it"
            if absent_records:
                text = f"it ended, but {self.sources.path(absent_records)}, which covers that time, does not show it"
            log = self._chains[lost_job.chain]
            story = [*_story(log.lives[lost_job.job]), (at, end, "its end")]
            self.audit.lost.append(finding(self.sources, _name(lost_job.job), "lost", text, story, event_index=-2))

    def _look_for_lost_entries(self, log: _EventLog, history: _JobHistory) -> None:
        if history.free or history.epoch != log.epoch:
            return
        text, searched_since = "", 0
        if history.condition in ON_A_SLOT and history.rival is not None:
            text = "its slot was given to another job, but no record shows that it had ended"
            searched_since = history.rival[1]
        elif history.condition == "Disconnected":
            text = "its shadow lost the connection to it, and no record shows what happened then"
            searched_since = _last_time(history)
        if text and log.last - searched_since > LEASE:
            self.audit.lost.append(finding(self.sources, _name(history.job), "lost", text, _story(history)))

    def _add_finding(
        self,
        log: _EventLog,
        findings: list[AuditFinding],
        history: _JobHistory,
        event: e.JobLogged,
        rule: str,
        text: str,
    ) -> None:
        log.parts.defer_findings(findings, self._finding(history, event, rule, text))

    def _finding(self, history: _JobHistory, event: e.JobLogged, rule: str, text: str) -> AuditFinding:
        story = _story(history)
        if not story or story[-1][1] != event.stimulus:
            story.append((event.at, event.stimulus, words_of(event.number)))
        return finding(self.sources, _name(history.job), rule, text, story)


def _reset_coverage(log: _EventLog) -> None:
    log.reached[log.epoch] = log.last
    log.epoch += 1
    log.slots.clear()
    log.aside = None


def _name(job: _Job) -> str:
    return f"{job[0]}.{job[1]}"


def _access_point(history: _JobHistory) -> str:
    """Return the access point's address, without the part that changes at each restart."""
    return history.host.partition("?")[0].strip("<>")


def _last_entries(history: _JobHistory) -> list[tuple[int, str, int]]:
    return [(at, f"{source}:{line}", number) for at, source, line, number in _PACKED_ENTRY.iter_unpack(history.trail)]


def _story(history: _JobHistory) -> list[tuple[int, str, str]]:
    return [(at, stimulus, words_of(number)) for at, stimulus, number in _last_entries(history)]


def _last_time(history: _JobHistory) -> int:
    trail = _last_entries(history)
    return trail[-1][0] if trail else 0


def _entry_words(number: int, before: str) -> str:
    return f"{words_of(number)}, although it was {DESCRIPTIONS[before]}"


ENDED_AGAIN: Final = _entry_words(5, "Completed")


def _seconds_text(span: int) -> str:
    return f"{span / 1e6:g} s"


def _job_outcomes(log: _EventLog) -> Iterator[tuple[_Job, int, int, bool, str]]:
    """Yield the outcome of each job of a chain: job, submission, last entry's time, ended, outcome."""
    outcomes = [(life.job, life.submitted, _last_time(life), life.condition) for life in log.lives.values()]
    for job, submitted, at, condition in (*log.became, *outcomes):
        yield job, submitted, at, condition in OVER, OUTCOMES[condition]
