"""The state of a pool while its log is validated, and the reports of violations.

The state is folded as in a live pool. An event that violates a rule is folded as far as possible, so that one fault is
not reported again for each later event. ``JudgedPool`` also has the data that only rules need, and the last events of
each slot and job, which a violation shows as its story.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from attrs import define, field, frozen

from ...domain import events as e
from ...domain.classad import unparse
from ...domain.classad.analysis import value_or_error
from ...domain.classad.values import truth
from ...domain.fold.evolve import evolve
from ...domain.names import JobId
from ...domain.state.caches import parse_cached
from ...domain.state.job_procs import job_procs
from ...domain.state.records import Slot, Starter
from ...domain.state.state import State
from ...domain.state_machines import (
    HTCONDOR_25,
    MANUAL,
    StateMachine,
    claim_machine,
    job_machine,
    match_machine,
    slot_machine,
)
from ..listing.members import Member, line, member_of, members
from .transition_rules import Truth, owner_of

KEPT = 8  #: the number of events in the story of a slot or an activation
KEPT_OF_CLUSTER = 64
KEPT_GONE = 1024  #: how many removed slots and clusters keep their stories
MOST_JOBS = 1 << 26  #: the maximum number of jobs in a cluster

NUMBERS = HTCONDOR_25.job_status_numbers
NAMES = {number: name for name, number in NUMBERS.items()}

Move = tuple[str, str, str]  #: a row, the source and the target
Thing = str | int | tuple[int, int]  #: the subject of a story: a slot's name, a cluster, or a running job


@frozen
class Violation:
    """An event that violates one of ``RULES`` (rules.txt).

    >>> for violation in pool.judge():
    ...     print(violation.position, violation.thing, violation.rule, violation.words)
    """

    position: int  #: the position of the event
    thing: str  #: the job, slot or other object
    rule: str
    words: str  #: a description
    story: tuple[str, ...]  #: the last events about the subject, ending with the violating one
    at: int = 0  #: the time of the event, in microseconds


class OneJobEvent(Protocol):
    @property
    def cluster(self) -> int: ...

    @property
    def proc(self) -> int: ...


@define
class Amounts:
    """A slot's resources, by name."""

    have: dict[str, int] = field(factory=dict)  #: the amounts in its own ad
    carved: dict[str, int] = field(factory=dict)  #: the amounts of its dynamic slots
    whole: dict[str, int] = field(factory=dict)  #: the expected sum of both
    weight: int | None = None  #: SlotWeight in thousandths, or None if it is an expression


class JudgedPool:
    """The pool's state at the current event, and the violations found since ``take_violations`` was last called."""

    def __init__(self) -> None:
        self.state = State()
        self.position = self.at = self.began = self.ended = 0
        self.event: e.Event | None = None
        self.folds: e.Event | None = None  #: the event to fold, without its impossible parts; None: fold nothing
        self.founded = False
        self.dialect = MANUAL
        self.vacate = 0  #: the pool's own MachineMaxVacateTime, in microseconds
        self.slot_table: StateMachine = slot_machine(MANUAL.name)
        self.job_table: StateMachine = job_machine(MANUAL.name)
        self.claim_table: StateMachine = claim_machine()
        self.match_table: StateMachine = match_machine()
        self.moves = Counter[Move]()  #: the number of slot transitions of each kind
        self.job_moves = Counter[Move]()  #: the number of job transitions of each kind
        self.lost: list[tuple[int, e.JobExited]] = []  #: the ends of jobs whose processes vanished without a record
        # Data that only rules need:
        self.amounts: dict[str, Amounts] = {}
        self.expected: dict[str, tuple[int, int]] = {}  #: by slot: the job for which it was claimed, until it starts
        self.drained_claims: dict[str, dict[str, str]] = {}
        """By machine: the claims that its slots had when its drain began, by slot."""
        self.notified: set[str] = set()  #: the slots that an external negotiator matched
        self.benchmarking: set[str] = set()  #: the slots with benchmarks that have no result yet
        self.defrag_daemon = ""  #: the daemon of the last poll
        self.to_drain: set[str] = set()  #: the machines that a poll chose, until their drains begin
        self.to_cancel: set[str] = set()  #: the machines whose drains a poll canceled, until these end
        self.charged: set[str] = set()  #: the activations whose badput a drain was charged
        # Checked at the end of a stimulus:
        self.decision: list[e.Event] = []  #: the events of the current stimulus, without outbox entries
        self.copies: dict[str, e.Event] = {}
        """The peers whose outboxes the decision read, each with an event that shows it."""
        self.released: set[tuple[str, int]] = set()
        """The withheld changes that the decision may apply: the manager where each was made, and when."""
        self.to_send: dict[str, e.Sent] | None = None
        """The outbox entries that the decision still needs, by peer (None: not determined yet)."""
        self.ended_runs: dict[str, tuple[str, str, str]] = {}
        """By slot: the claim, job and key of a run for an external access point whose end is not reported yet."""
        self.touched_slots: dict[str, None] = {}
        self.drained_machines: dict[str, None] = {}  #: the machines whose drains changed
        self.unsettled_clusters: dict[int, None] = {}  #: the clusters with ended jobs that have not left the queue
        self.notes: dict[int, e.EvaluationRecorded] = {}  #: the recorded evidence, by position
        self.negotiators: set[str] = {""}  #: all negotiators that were ever configured, as events name them
        self.preempted: dict[str, str] = {}  #: by dynamic slot to preempt: the job that was matched
        self.preempted_for: dict[str, str] = {}  #: by dynamic slot being preempted: its partitionable slot
        self.claimed_parts: set[str] = set()  #: the partitionable slots of which an external claim took a part
        self.transformed: dict[int, list[e.JobsTransformed]] = {}
        """By cluster: the transforms applied to a submission that is not in the queue yet."""
        self.refusals_counted = self.refused_answers = 0  #: the rejected submissions, and the answers that say so
        self.asked = ""
        self.answered = self.cycle = self.matched_any = False
        self._stories: dict[Thing, deque[e.LoggedEvent]] = {}
        self._ended_subjects: deque[Thing] = deque()
        self._violations: list[Violation] = []

    def set_current_event(self, position: int, event: e.Event) -> None:
        self.position, self.event, self.folds, self.at = position, event, event, event.at
        self.began = self.began or event.at
        self.ended = max(self.ended, event.at)

    def fold_current_event(self) -> None:
        """Fold the current event into the state. If this fails, report the event, unless a rule already did."""
        if self.folds is None:
            return
        self.state.position = self.position - 1
        try:
            evolve(self.state, self.folds)
        except Exception as error:
            if not self._violations:
                self.report("log", "value", f"the event cannot be folded: {error!r}")
            self.state.position = self.position
        if isinstance(self.folds, e.ClusterEvent) and self.folds.cluster not in self.state.clusters:
            self.forget(self.folds.cluster)

    def judges(self, event: e.Event) -> bool:
        """Return True if an event is judged in this log: the role that decides it acts in the log."""
        return len(self.state.roles) != 1 or owner_of(type(event)) in ("", *self.state.roles)

    def check_negotiator(self, subject: str, negotiator: str) -> None:
        """Report an event that names a negotiator that was never configured."""
        if negotiator not in self.negotiators:
            self.report(subject, "reference", f"the pool has no negotiator {negotiator}")

    # Reporting

    def report(self, subject: str | Slot | tuple[int, int] | OneJobEvent, rule: str, text: str) -> None:
        """Report a violation. If the subject is a slot or a job, the report includes its last events."""
        if isinstance(subject, Slot):
            self.report_slot(subject.name, rule, text)
        elif isinstance(subject, str):
            self._violations.append(Violation(self.position, subject, rule, text, (), self.at))
        else:
            cluster, proc = subject if isinstance(subject, tuple) else (subject.cluster, subject.proc)
            events = {event[0]: event for event in (*self._story(cluster), *self._story((cluster, proc)))}
            story = self._story_lines(events.values(), proc)
            self._violations.append(Violation(self.position, f"{cluster}.{proc}", rule, text, story, self.at))

    def report_slot(self, name: str, rule: str, text: str) -> None:
        """Report a violation by a slot, which need not exist."""
        story = self._story_lines(self._story(name), None)
        self._violations.append(Violation(self.position, name, rule, text, story, self.at))

    def take_violations(self) -> Iterator[Violation]:
        """Return the violations since the last call, and forget them."""
        violations, self._violations = self._violations, []
        return iter(violations)

    def _story_lines(self, events: Iterable[e.LoggedEvent], proc: int | None) -> tuple[str, ...]:
        last_event = () if self.event is None else ((self.position, self.event),)
        story = sorted({event[0]: event for event in (*events, *last_event)}.values(), key=lambda event: event[0])
        lines: list[str] = []
        for position, event in story:
            member = next(members(position, event), None) if proc is None else _member_of(position, event, proc)
            if member is not None:
                lines.append(line(member))
        return tuple(lines[-KEPT:])

    # Stories

    def _story(self, subject: Thing) -> Iterable[e.LoggedEvent]:
        return self._stories.get(subject, ())

    def begin_story(self, subject: Thing, most: int = KEPT) -> None:
        self._stories[subject] = deque(maxlen=most)
        self.add_to_story(subject)

    def add_to_story(self, subject: Thing) -> None:
        story = self._stories.get(subject)
        if story is not None and self.event is not None:
            story.append((self.position, self.event))

    def end_run(self, cluster: int, proc: int) -> None:
        """Append the story of a job's run to the story of its cluster."""
        self._stories.get(cluster, deque[e.LoggedEvent]()).extend(self._stories.pop((cluster, proc), ()))
        self.add_to_story(cluster)

    def forget(self, subject: Thing) -> None:
        """Keep the story of a removed slot or cluster until ``KEPT_GONE`` others have been removed."""
        self._ended_subjects.append(subject)
        if len(self._ended_subjects) > KEPT_GONE:
            name = self._ended_subjects.popleft()
            if name not in self._ended_subjects and name not in self.state.slots and name not in self.state.clusters:
                self._stories.pop(name, None)


Kind = TypeVar("Kind", bound=e.Event)
Subject = TypeVar("Subject")
Rule = Callable[[JudgedPool, Any], None]
RULES_OF: dict[type[e.Event], Rule] = {}  #: by event type: the check to run before the event is folded


def rule(kind: type[Kind]) -> Callable[[Callable[[JudgedPool, Kind], None]], Callable[[JudgedPool, Kind], None]]:
    """Return a decorator that registers the check for a type of event."""

    def declare(check_event: Callable[[JudgedPool, Kind], None]) -> Callable[[JudgedPool, Kind], None]:
        RULES_OF[kind] = check_event
        return check_event

    return declare


def rule_of(
    kind: type[Kind], find_subject: Callable[[JudgedPool, Kind], Subject | None]
) -> Callable[[Callable[[JudgedPool, Subject, Kind], None]], Callable[[JudgedPool, Kind], None]]:
    """Return a decorator like ``rule`` for a check that also receives the event's subject. The check is skipped if
    `find_subject` returns None."""

    def declare(check_event: Callable[[JudgedPool, Subject, Kind], None]) -> Callable[[JudgedPool, Kind], None]:
        @rule(kind)
        def check_subject(pool: JudgedPool, event: Kind) -> None:
            subject = find_subject(pool, event)
            if subject is not None:
                check_event(pool, subject, event)

        return check_subject

    return declare


def known_slot(pool: JudgedPool, event: e.SlotEvent) -> Slot | None:
    """Return the slot of an event, and add the event to the slot's story. Report an unknown slot and return None."""
    name = event.slot
    slot = pool.state.slots.get(name)
    if slot is None:
        pool.report_slot(name, "reference", f"the pool has no slot {name}")
        return None
    pool.add_to_story(name)
    pool.touched_slots[name] = None
    return slot


def policy(slot: Slot, name: str) -> str | None:
    """Return the text of a slot's policy expression with this lower-case name, or None if it has none."""
    spelling = slot.ad.spelling(name)
    return None if spelling is None else slot.ad[spelling]


_TIMES = ("MaxJobRetirementTime", "JobMaxVacateTime", "KillSigTimeout")


def has_own_times(pool: JudgedPool, run: Starter) -> bool:
    """Return True if a job has, or may have, its own retirement or vacate time."""
    if run.job:
        return any(name.lower() == time_name.lower() for name in run.ad for time_name in _TIMES)
    cluster = pool.state.clusters.get(run.cluster)
    return cluster is None or any(
        not cluster.is_uniform(name) or cluster.requested_value(run.proc, name) for name in _TIMES
    )


def job_name(starter: Starter) -> str:
    return starter.job or f"{starter.cluster}.{starter.proc}"


def _member_of(position: int, event: e.Event, proc: int) -> Member | None:
    return member_of(position, event, proc) if job_procs(event) else next(members(position, event), None)


def amount(text: str) -> int | None:
    """Return a resource amount, rounded down, or None if the text is not a number."""
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return None


def job_of(text: str) -> tuple[int, int] | None:
    """Return the cluster and process of a job id, or None if the text is not a job id."""
    return JobId.parse(text) if JobId.is_id(text) else None


def normalized_text(text: str) -> str:
    """Return an expression in normal form, so that equal expressions have equal texts, or an invalid text unchanged."""
    parsed = parse_cached(text)
    return text if parsed is None else unparse(parsed)


def truth_of(text: str) -> Truth:
    """Return the truth value of a literal, or None if it is neither true nor false."""
    parsed = parse_cached(text)
    return None if parsed is None else truth(value_or_error(parsed, None, None, None))
