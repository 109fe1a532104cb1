"""Read a log, and check each event, and the state at the end of each stimulus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from attrs import define, field

from ...domain import events as e
from ...domain.ports.log import EventStore
from ...domain.state.peers import EXECUTION_POINT
from ...domain.state_machines import LEFT
from ..audit_result import Audit, AuditFinding, count_transitions
from ..narration.sentence_tables import CAUSES
from . import claim_checks, job_checks, machine_checks, match_checks, peer_checks, slot_checks
from .judged_pool import RULES_OF, JudgedPool, Violation
from .run_checks import LOST
from .submission_checks import settle_submissions
from .transition_rules import ASKED


@define
class ValidationResult:
    """The counts and violations of a validated log. ``slots`` and ``jobs`` count transitions by row (including 0),
    ``steps`` counts slot transitions by source and target, and ``became`` counts jobs by their last status."""

    dialect: str = ""
    events: int = 0
    slots: dict[str, int] = field(factory=dict)
    jobs: dict[str, int] = field(factory=dict)
    steps: Counter[tuple[str, str]] = field(factory=Counter)
    became: Counter[str] = field(factory=Counter)
    lost: list[tuple[int, e.JobExited]] = field(factory=list)
    began: int = 0  #: the time of the first event, in microseconds
    ended: int = 0  #: the time of the last event, in microseconds
    violations: list[Violation] = field(factory=list)

    @property
    def sound(self) -> bool:
        return not self.violations


def validate(events: Iterable[tuple[int, e.Event]], verdict: ValidationResult | None = None) -> Iterator[Violation]:
    """Yield the violations of a whole log while it is read. The function raises no errors, whatever the events contain.

    :param events: all of the log's events, in order, each with its position
    :param verdict: if given, its fields except ``violations`` are set at the end
    """
    pool = JudgedPool()
    stimulus: str | None = None
    at, last = 0, 0
    for position, event in events:
        is_begin = event.stimulus != stimulus or type(event) is e.WriterBegan  # a WriterBegan has its own stimulus
        if is_begin:
            yield from _settle(pool)
            stimulus = event.stimulus
        if event.at > at:
            job_checks.settle_queue(pool)
            yield from pool.take_violations()
        pool.set_current_event(position, event)
        if not is_begin and event.at != at:
            pool.report(event_name(event), "instant", f"its time is {event.at}, but {stimulus} has the time {at}")
        if pool.position != last + 1:
            pool.report("log", "order", f"position {pool.position} follows {last}")
        if event.at < at:
            pool.report(event_name(event), "order", f"its time {event.at} is before the previous event's ({at})")
        if event.cause not in e.CAUSE_CODES:
            pool.report(event_name(event), "cause", f"{event.cause!r} is not a cause that an event may name")
        elif event.cause in ASKED and pool.judges(event):
            # A suspended slot also continues without a request, because its job may have ended.
            is_continued = type(event) is e.SlotTransitioned and event.cause == "continue_command"
            pool.asked = pool.asked if is_continued else event.cause
        rule = RULES_OF.get(type(event))
        if rule is None:
            pool.event = None
            pool.report("log", "kind", f"{type(event).__name__} is not a kind of event")
        else:
            if not pool.founded and not isinstance(event, e.PoolFounded | e.WriterBegan):
                pool.report("pool", "founded", "the log does not begin with the creation of its pool")
                pool.founded = True
            if pool.judges(event):
                rule(pool, event)
            else:
                peer_checks.check_copy(pool, event)
            pool.fold_current_event()
            if not isinstance(event, e.Sent):
                pool.decision.append(event)
        last, at = position, event.at
        yield from pool.take_violations()
    yield from _settle(pool)
    job_checks.settle_queue(pool)
    yield from pool.take_violations()
    if verdict is not None:
        _count_pool(verdict, pool, last)


def _settle(pool: JudgedPool) -> Iterator[Violation]:
    if EXECUTION_POINT in pool.state.roles:
        for name in pool.touched_slots:
            slot_checks.settle_slot(pool, name)
        match_checks.settle_preempted(pool)
    for name in pool.drained_machines:
        machine_checks.settle_machine(pool, name)
    machine_checks.settle_drains(pool)
    claim_checks.settle_reservations(pool)
    claim_checks.settle_ended_runs(pool)
    peer_checks.settle_copies(pool)
    peer_checks.settle_outboxes(pool)
    pool.touched_slots, pool.drained_machines = {}, {}
    settle_submissions(pool)
    if pool.asked and not pool.answered:
        pool.report("requests", "answer", f"the request ({pool.asked}) has no answer")
    if pool.matched_any and not pool.notes:
        pool.report("negotiator", "evidence", "the cycle has matches, but no evidence for them")
    pool.asked, pool.notes = "", {}
    pool.answered = pool.cycle = pool.matched_any = False
    return pool.take_violations()


def event_name(event: e.Event) -> str:
    """Return the stream of an event; "log" if the event has an unknown type."""
    try:
        return event.stream
    except TypeError:
        return "log"


def _count_pool(verdict: ValidationResult, pool: JudgedPool, last: int) -> None:
    verdict.dialect = pool.dialect.name
    verdict.events = last
    verdict.began, verdict.ended, verdict.lost = pool.began, pool.ended, pool.lost
    verdict.slots = {row.number: 0 for row in pool.dialect.slot_rows}
    verdict.jobs = {row.number: 0 for row in pool.job_table.rows}
    for (row, source, target), count in pool.moves.items():
        verdict.slots[row] = verdict.slots.get(row, 0) + count
        verdict.steps[source, target] += count
    for (row, source, target), count in pool.job_moves.items():
        verdict.jobs[row] = verdict.jobs.get(row, 0) + count
        if target != LEFT:  # the outcome is the status before
            verdict.became[source] -= count
            verdict.became[target] += count


def examine(events: Iterable[tuple[int, e.Event]]) -> ValidationResult:
    verdict = ValidationResult()
    verdict.violations = list(validate(events, verdict))
    return verdict


def audit_native_log(log: EventStore, name: str = "") -> Audit:
    """Audit a native log. The stores check its seal. `name` is the file's name in findings."""
    audit = Audit()
    verdict = ValidationResult()
    for v in validate(log.read(), verdict):
        audit.violations.append(AuditFinding(v.thing, v.rule, v.words, v.at, name, v.position, v.story))
    audit.dialect, audit.events, audit.judged = verdict.dialect, verdict.events, verdict.events > 0
    audit.began, audit.ended = verdict.began, verdict.ended
    count_transitions(audit, verdict.steps)
    audit.jobs = {status.lower(): jobs for status, jobs in sorted(verdict.became.items()) if jobs > 0}
    for position, event in verdict.lost:  # no rule is broken
        text = f"{CAUSES[LOST]}, on {event.slot}"
        audit.lost.append(AuditFinding(f"{event.cluster}.{event.proc}", LOST, text, event.at, name, position, ()))
    return audit
