"""The pass over a log: each event against the rules, and what must hold when all is done that follows from a
stimulus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import define, field

from ...domain import events as e
from ..listing import LETTERS
from . import accounting, claims, evidence, jobs, machines, slots
from .judged_pool import Books, Violation
from .rules import ASKED

RULES_OF: dict[type[e.Event], Callable[[Books, Any], None]] = {
    e.PoolFounded: slots.founded,
    e.PoolConfigured: accounting.configured,
    e.WriterBegan: slots.writer,
    e.RequestAnswered: slots.answered,
    e.EvaluationRecorded: evidence.noted,
    e.MachineJoined: machines.joined,
    e.MachineConfigured: machines.configured,
    e.MachineLeft: machines.left,
    e.BenchmarksRan: machines.benchmarks_ran,
    e.DrainBegan: machines.drain_began,
    e.DrainTransitioned: machines.drain_moved,
    e.DrainFinal: machines.drain_final,
    e.DrainBadputAdded: machines.drain_charged,
    e.ShutdownBegan: machines.shutdown_began,
    e.SlotCreated: slots.born,
    e.SlotTransitioned: slots.moved,
    e.SlotAdChanged: slots.changed,
    e.SlotDestroyed: slots.died,
    e.CpuBusyChanged: slots.busy_began,
    e.ClaimMade: claims.made,
    e.ClaimQueued: claims.waits,
    e.ClaimWithdrawn: claims.withdrawn,
    e.ClaimFlagged: claims.marked,
    e.ClaimActivated: claims.activated,
    e.ClaimDeactivated: claims.deactivated,
    e.StarterSignalled: claims.told,
    e.ClaimHolderSilent: claims.unheard,
    e.ClaimEnded: claims.ended,
    e.CycleHeld: claims.cycle,
    e.MatchVoided: claims.voided,
    e.PrioritiesUpdated: accounting.priorities,
    e.SubmitterSet: accounting.submitter_set,
    e.SubmittersReset: accounting.submitters_reset,
    e.SubmitterDeleted: accounting.submitter_deleted,
    e.ClusterSubmitted: jobs.submitted,
    e.JobsTransitioned: jobs.moved,
    e.JobsEdited: jobs.edited,
    e.JobActivated: jobs.activated,
    e.JobExecuting: jobs.executing,
    e.JobMeasured: jobs.measured,
    e.JobSignalled: jobs.signalled,
    e.JobExited: jobs.exited,
}


@define
class Verdict:
    """What the judge read: how many events, how often each row of the dialect's tables was taken (``slots`` by number,
    0 for one that never was; ``jobs`` by row, a job of a set event each), and what it found."""

    dialect: str = ""
    events: int = 0
    slots: dict[str, int] = field(factory=dict)
    jobs: dict[str, int] = field(factory=dict)
    violations: list[Violation] = field(factory=list)

    @property
    def letters(self) -> dict[str, int]:
        """How often slots took each lettered transition from state to state."""
        found: dict[str, int] = {}
        for number, count in self.slots.items():
            letter = LETTERS.get(number, "")
            if letter:
                found[letter] = found.get(letter, 0) + count
        return dict(sorted(found.items()))

    @property
    def sound(self) -> bool:
        return not self.violations


def judge(events: Iterable[tuple[int, e.Event]], verdict: Verdict | None = None) -> Iterator[Violation]:
    """What in a whole log was not allowed, as it is read; nothing for a sound one.

    ``events`` are all of a log, each with its position. ``verdict``, if given, is filled when the log is read to its
    end, but for its violations, which are yielded. Raises nothing of its own, whatever the events say.
    """
    books = Books()
    stimulus: str | None = None
    at, last = 0, 0
    causes, rules = e.CAUSES, RULES_OF
    for position, event in events:
        begins = event.stimulus != stimulus or type(event) is e.WriterBegan  # each of these is on its own
        if begins:
            yield from _settled(books)
            stimulus = event.stimulus
        if event.at > at:
            jobs.settle_queue(books)
            yield from books.found()
        books.position, books.event = position, event
        if not begins and event.at != at:
            books.blame(event_name(event), "instant", f"{stimulus} is of {at}, but this of {event.at}")
        if position != last + 1:
            books.blame("log", "order", f"position {position} follows on {last}")
        if event.at < at:
            books.blame(event_name(event), "order", f"it is of {event.at}, before the event before it ({at})")
        if event.cause not in causes:
            books.blame(event_name(event), "cause", f"{event.cause!r} is no cause that an event may name")
        elif event.cause in ASKED and not goes_on(event):
            books.asked = event.cause
        rule = rules.get(type(event))
        if rule is None:
            books.event = None
            books.blame("log", "kind", f"{type(event).__name__} is no kind of event")
        else:
            if not books.founded and not isinstance(event, e.PoolFounded | e.WriterBegan):
                books.blame("pool", "founded", "the log does not begin with the founding of its pool")
                books.founded = True
            rule(books, event)
        last, at = position, event.at
        yield from books.found()
    yield from _settled(books)
    jobs.settle_queue(books)
    yield from books.found()
    if verdict is not None:
        _fill(verdict, books, last)


def _settled(books: Books) -> Iterator[Violation]:
    """All is done that follows from a stimulus: what must hold now."""
    for name in books.touched:
        slots.settle_slot(books, name)
    for name in books.drained:
        machines.settle(books, name)
    books.touched, books.drained = {}, {}
    if books.asked and not books.answered:
        books.blame("requests", "answer", f"somebody asked for it ({books.asked}), and no answer is there")
    if books.matched_any and not books.notes:
        books.blame("negotiator", "evidence", "the cycle made matches, and does not say what they rest on")
    books.asked, books.notes = "", {}
    books.answered = books.cycle = books.matched_any = False
    return books.found()


def goes_on(event: e.Event) -> bool:
    """Whether a suspended slot goes on: nobody need have asked for that, its job may have ended."""
    return type(event) is e.SlotTransitioned and event.cause == "continue_command"


def event_name(event: e.Event) -> str:
    """What an event is called by its stream; an event of no kind has none."""
    try:
        return event.stream
    except TypeError:
        return "log"


def _fill(verdict: Verdict, books: Books, last: int) -> None:
    verdict.dialect = books.dialect.name
    verdict.events = last
    verdict.slots = {row.number: 0 for row in books.dialect.slot_rows} | books.moves
    verdict.jobs = {row.number: 0 for row in books.job_table.rows} | books.job_moves


def examine(events: Iterable[tuple[int, e.Event]]) -> Verdict:
    """The whole verdict on a log."""
    verdict = Verdict()
    verdict.violations = list(judge(events, verdict))
    return verdict
