"""The state of a pool while its log is validated, and the reports of violations.

The state is the domain's own, brought forward by the domain's fold. After a violation it follows the event as far as it
can, so that one fault is reported once. What only the rules need is kept beside the state. The last events of each
thing are kept as its story; the events of removed things for a while.
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
from ..listing import Member, line, member_of, members
from .transition_rules import Truth

KEPT = 8  #: the number of events in the story of a slot or an activation
KEPT_OF_CLUSTER = 64
KEPT_GONE = 1024  #: the number of things that are gone and keep their story
MOST_JOBS = 1 << 26  #: the most jobs of a cluster

NUMBERS = HTCONDOR_25.job_status_numbers
NAMES = {number: name for name, number in NUMBERS.items()}

Move = tuple[str, str, str]  #: a row, the source and the target
Thing = str | int | tuple[int, int]  #: a thing with a story: a slot, a cluster, or an activation of a job


@frozen
class Violation:
    """An event that violates one of ``RULES``.

    >>> for violation in pool.judge():
    ...     print(violation.position, violation.thing, violation.rule, violation.words)
    """

    position: int  #: of the event
    thing: str  #: the job, slot or other object
    rule: str
    words: str  #: a description
    story: tuple[str, ...]  #: the last events of the thing, the violating one last
    at: int = 0  #: when, in microseconds


class OneJobEvent(Protocol):
    """An event about one job."""

    @property
    def cluster(self) -> int: ...

    @property
    def proc(self) -> int: ...


@define
class Amounts:
    have: dict[str, int] = field(factory=dict)
    carved: dict[str, int] = field(factory=dict)  #: the part in its dynamic slots
    whole: dict[str, int] = field(factory=dict)
    weight: int | None = None  #: in thousandths; None if it is an expression


class JudgedPool:
    """A pool as its log tells it so far, and the violations of the current event."""

    def __init__(self) -> None:
        self.state = State()
        self.position = self.at = self.began = self.ended = 0
        self.event: e.Event | None = None
        self.folds: e.Event | None = None  #: the event, or what can be folded of it; None: nothing
        self.founded = False
        self.dialect = MANUAL
        self.vacate = 0  #: the pool's own MachineMaxVacateTime, in microseconds
        self.slot_table: StateMachine = slot_machine(MANUAL.name)
        self.job_table: StateMachine = job_machine(MANUAL.name)
        self.claim_table: StateMachine = claim_machine()
        self.match_table: StateMachine = match_machine()
        self.moves = Counter[Move]()  #: of slots
        self.job_moves = Counter[Move]()
        self.lost: list[tuple[int, e.JobExited]] = []  #: the ends of jobs whose processes vanished without a record
        # Beside the state
        self.amounts: dict[str, Amounts] = {}
        self.expected: dict[str, tuple[int, int]] = {}
        """The job that a slot's claim was made for, until it is activated."""
        self.drained_claims: dict[str, dict[str, str]] = {}
        """The claims that a machine had when its drain began, by slot."""
        self.notified: set[str] = set()  #: the slots that a negotiator outside of this pool matched
        self.benchmarking: set[str] = set()  #: the slots with benchmarks that have no result yet
        self.to_drain: set[str] = set()  #: the machines that the defragmentation chose, and whose drains have not begun
        self.to_cancel: set[str] = set()  #: those whose drains it canceled, and that drain still
        self.charged: set[str] = set()  #: the activations that a drain was charged for
        # Checked at the end of a stimulus:
        self.touched_slots: dict[str, None] = {}
        self.drained_machines: dict[str, None] = {}  #: the machines with news of their drain
        self.unsettled_clusters: dict[int, None] = {}  #: the clusters with ended jobs that have not left the queue
        self.notes: dict[int, e.EvaluationRecorded] = {}  #: the recorded evidence, by position
        self.negotiators: set[str] = {""}  #: all that there ever were, as events have them
        self.preempted: dict[str, str] = {}  #: the dynamic slots that are to go for a match, with its job
        self.preempted_for: dict[str, str] = {}  #: the slots to be evicted, with the slots that they were carved from
        self.claimed_parts: set[str] = set()  #: the slots of which a holder outside claimed a part
        self.transformed: dict[int, list[e.JobsTransformed]] = {}
        """What transforms did to submissions that have not come into the queue yet."""
        self.refusals_counted = self.refused_answers = 0  #: submissions refused, and answered so
        self.asked = ""
        self.answered = self.cycle = self.matched_any = False
        self._stories: dict[Thing, deque[e.LoggedEvent]] = {}
        self._ended_subjects: deque[Thing] = deque()
        self._violations: list[Violation] = []

    def read(self, position: int, event: e.Event) -> None:
        self.position, self.event, self.folds, self.at = position, event, event, event.at
        self.began = self.began or event.at
        self.ended = max(self.ended, event.at)

    def fold(self) -> None:
        """Bring the state forward by the current event. If a fold fails, its changes stay: that the event makes no
        sense was reported before, or is now."""
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

    def check_negotiator(self, subject: str, negotiator: str) -> None:
        """Check that there is, or was, a negotiator whose accounting an event names."""
        if negotiator not in self.negotiators:
            self.report(subject, "reference", f"the pool has no negotiator {negotiator}")

    # Reporting

    def report(self, subject: str | Slot | tuple[int, int] | OneJobEvent, rule: str, text: str) -> None:
        """Report a violation: by a slot or a job (also that of an event) with its story, or by what a name says."""
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
        """Report a violation by a slot of this name, which need not be there."""
        story = self._story_lines(self._story(name), None)
        self._violations.append(Violation(self.position, name, rule, text, story, self.at))

    def take_violations(self) -> Iterator[Violation]:
        """Return the violations since the last call."""
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
        """Move the story of an ended activation into its cluster's."""
        self._stories.get(cluster, deque[e.LoggedEvent]()).extend(self._stories.pop((cluster, proc), ()))
        self.add_to_story(cluster)

    def forget(self, subject: Thing) -> None:
        """Drop a thing that is gone, and keep its story for a while."""
        self._ended_subjects.append(subject)
        if len(self._ended_subjects) > KEPT_GONE:
            name = self._ended_subjects.popleft()
            if name not in self._ended_subjects and name not in self.state.slots and name not in self.state.clusters:
                self._stories.pop(name, None)


Kind = TypeVar("Kind", bound=e.Event)
Subject = TypeVar("Subject")
Rule = Callable[[JudgedPool, Any], None]
RULES_OF: dict[type[e.Event], Rule] = {}  #: the checks of each kind of event, made before it is folded


def rule(kind: type[Kind]) -> Callable[[Callable[[JudgedPool, Kind], None]], Callable[[JudgedPool, Kind], None]]:
    """Register a function as a check of a kind of event."""

    def declare(check_event: Callable[[JudgedPool, Kind], None]) -> Callable[[JudgedPool, Kind], None]:
        RULES_OF[kind] = check_event
        return check_event

    return declare


def rule_of(
    kind: type[Kind], find_subject: Callable[[JudgedPool, Kind], Subject | None]
) -> Callable[[Callable[[JudgedPool, Subject, Kind], None]], Callable[[JudgedPool, Kind], None]]:
    """Register a function as a check of a kind of event, asked only where what the event is about is found."""

    def declare(check_event: Callable[[JudgedPool, Subject, Kind], None]) -> Callable[[JudgedPool, Kind], None]:
        @rule(kind)
        def asked(pool: JudgedPool, event: Kind) -> None:
            subject = find_subject(pool, event)
            if subject is not None:
                check_event(pool, subject, event)

        return asked

    return declare


def known_slot(pool: JudgedPool, event: e.SlotEvent) -> Slot | None:
    """Return the slot of an event, and add the event to its story."""
    name = event.slot
    slot = pool.state.slots.get(name)
    if slot is None:
        pool.report_slot(name, "reference", f"the pool has no slot {name}")
        return None
    pool.add_to_story(name)
    pool.touched_slots[name] = None
    return slot


def policy(slot: Slot, name: str) -> str | None:
    """Return the text of a slot's policy expression by its name in small letters; None if it has none."""
    spelling = slot.ad.spelling(name)
    return None if spelling is None else slot.ad[spelling]


_TIMES = ("MaxJobRetirementTime", "JobMaxVacateTime", "KillSigTimeout")


def has_own_times(pool: JudgedPool, run: Starter) -> bool:
    """Return True if a job has its own retirement or vacate time, or that is unknown."""
    if run.job:
        return any(name.lower() == time_name.lower() for name in run.ad for time_name in _TIMES)
    cluster = pool.state.clusters.get(run.cluster)
    return cluster is None or any(
        not cluster.is_uniform(name) or cluster.requested_value(run.proc, name) for name in _TIMES
    )


def job_name(starter: Starter) -> str:
    return starter.job or f"{starter.cluster}.{starter.proc}"


def _member_of(position: int, event: e.Event, proc: int) -> Member | None:
    """Return the part of an event about a job; of another kind of event, its first part."""
    return member_of(position, event, proc) if job_procs(event) else next(members(position, event), None)


def amount(text: str) -> int | None:
    """Return a resource of a slot as a whole number; None if it is none."""
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return None


def job_of(text: str) -> tuple[int, int] | None:
    """Return the cluster and process of a job's id; None if it is none."""
    cluster, point, proc = text.partition(".")
    if point and cluster.isascii() and cluster.isdigit() and proc.isascii() and proc.isdigit() and len(text) < 30:
        return int(cluster), int(proc)
    return None


# What a recorded expression and its recorded value mean.


def normalized_text(text: str) -> str:
    """Return a text as the language writes its meaning; a text that is not an expression is unchanged."""
    meaning = parse_cached(text)
    return text if meaning is None else unparse(meaning)


def truth_of(text: str) -> Truth:
    """Return the truth of a value's text."""
    parsed = parse_cached(text)
    return None if parsed is None else truth(value_or_error(parsed, None, None, None))
