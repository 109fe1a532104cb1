"""Format a simulation: a line for each transition with its evidence, and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from attrs import define, field, frozen

from ...domain import events as e
from ...domain.state_machines import LEFT
from ...domain.state_machines.slot_rows import INITIAL_PAIR
from ...domain.units import SECOND
from ..listing.members import Member, members
from ..narration.formatting import by_row, counted
from .scenario import Scenario, ScenarioStep
from .scenario_times import elapsed, format_time

SHOWN = (
    e.SlotTransitioned, e.SlotDestroyed, e.ClaimQueued, e.ClaimWithdrawn, e.ClaimHolderSilent, e.DrainBegan,
    e.DrainTransitioned, e.DrainFinal, e.DefragPolled, e.ShutdownBegan, e.MachineLeft, e.BenchmarksRan,
    e.BackfillStarted, e.BackfillSignalled, e.BackfillExited,
    e.JobsTransitioned, e.JobActivated, e.JobExited,
)  # fmt: skip
"""The kinds of events in a transcript; the log contains all kinds."""


@frozen
class TranscriptLine:
    """A line of the transcript, at an instant since the start (microseconds)."""

    at: int
    member: Member
    evidence: e.EvaluationRecorded | None = None


DECIDED = (e.SlotTransitioned, e.JobsTransitioned, e.JobExited)  #: the events that may refer to their evidence


def _is_self_evident(event: e.Event) -> bool:
    """Return True if a job only leaves the queue after its end (without evidence, so LeaveJobInQueue did not delay it),
    or if a defragmentation poll changed nothing."""
    if isinstance(event, e.DefragPolled):
        return not (event.drains or event.cancels)
    return isinstance(event, e.JobsTransitioned) and event.target == LEFT and not event.evidence


@define
class Transcript:
    """The transcript of a simulation, with its totals. Pass every append to ``hear``."""

    scenario: Scenario
    rows: Counter[str] = field(factory=Counter)  #: row -> how often it was taken
    spent: Counter[str] = field(factory=Counter)  #: state/activity -> microseconds that slots spent there
    jobs: Counter[str] = field(factory=Counter)  #: the numbers of jobs submitted and started, and of each outcome
    slots: dict[str, tuple[str, int]] = field(factory=dict)  #: slot -> state/activity, and since when
    last_row: dict[str, str] = field(factory=dict)  #: slot -> the row of its last transition
    ended: dict[str, str] = field(factory=dict)  #: job -> the last status that it reached
    events: int = 0
    _noted: dict[int, e.EvaluationRecorded] = field(factory=dict)

    def lines_of_events(self, first_position: int, events: Sequence[e.Event]) -> Iterator[TranscriptLine]:
        """Yield the lines of these events; ``first_position`` is the position of the first of them."""
        self._noted.clear()  # an event's evidence is from the same stimulus, and therefore in the same append
        self.events += len(events)
        for position, event in enumerate(events, first_position):
            if isinstance(event, e.EvaluationRecorded):
                self._noted[position] = event
                continue
            self._count(event)
            if isinstance(event, SHOWN) and not _is_self_evident(event):
                note = self._noted.get(event.evidence) if isinstance(event, DECIDED) else None
                for member in members(position, event):
                    yield TranscriptLine(event.at - self.scenario.calendar.start, member, note)

    def _count(self, event: e.Event) -> None:
        match event:
            case e.SlotCreated():
                self.slots[event.slot] = INITIAL_PAIR, event.at
            case e.SlotTransitioned():
                self._end_activity(event.slot, event.at)
                self.slots[event.slot] = event.target, event.at
                self.rows[event.row] += 1
                self.last_row[event.slot] = event.row
            case e.SlotDestroyed():
                self._end_activity(event.slot, event.at)
            case e.ClusterSubmitted():
                self.jobs["submitted"] += event.count
            case e.JobActivated():
                self.jobs["started"] += 1
            case e.JobExited():
                removed = event.outcome == "evicted" and self.ended.get(f"{event.cluster}.{event.proc}") == "Removed"
                self.jobs["removed" if removed else event.outcome] += 1
                if event.target:
                    self.ended[f"{event.cluster}.{event.proc}"] = event.target
            case e.JobsTransitioned() if event.target != LEFT:
                for proc in (proc for first, last in event.procs for proc in range(first, last + 1)):
                    self.ended[f"{event.cluster}.{proc}"] = event.target

    def _end_activity(self, slot: str, at: int) -> None:
        pair, since = self.slots.pop(slot)
        self.spent[pair] += at - since

    def complete_totals(self) -> None:
        """Complete the totals at the scenario's end."""
        for slot in list(self.slots):
            self._end_activity(slot, self.scenario.calendar.start + self.scenario.end)

    # -- Text

    def time(self, at: int) -> str:
        """Format an instant since the start, as date and time if the scenario's start was given."""
        return format_time(self.scenario.calendar.local_time(at)) if self.scenario.clock else elapsed(at)

    def line(self, entry: TranscriptLine) -> str:
        """Format an entry: time, slot or job, row and letter, source and target, cause."""
        member = entry.member
        move_text = f"{member.source} -> {member.target}".strip() if member.target else ""
        number = f"{member.what} {member.letter}".strip()
        text = member.cause_text
        if entry.evidence is not None:
            text = f"{text}: {_evidence_text(entry.evidence)}"
        elif member.details and not member.stream.startswith("slot/"):
            text = f"{text} ({member.details})"
        subject = f"job {member.thing}" if member.stream.startswith("cluster/") else member.thing
        return f"{self.time(entry.at):>10}  {subject:<12}  {number:<8} {move_text:<42} {text}".rstrip()

    def subject_of(self, step: ScenarioStep) -> str:
        """Return the job, slot or machine of a step."""
        return f"job {step.thing}" if step.thing[:1].isdigit() else step.thing or step.machine

    def step_line(self, step: ScenarioStep) -> str:
        """Format a step of the scenario."""
        text = f"(over: {step.text})" if step.verb == "unread" else step.text
        return f"{self.time(step.at):>10}  > {text}"

    def summary(self) -> list[str]:
        """Return a summary of the simulation as a few lines. Call ``end`` first."""
        move_count = sum(self.rows.values())
        lines = [f"{elapsed(self.scenario.end)} played: {counted(move_count, 'transition')}"]
        if self.rows:
            row_counts = ", ".join(f"{row} x{count}" for row, count in by_row(self.rows))
            lines.append(f"transitions: {row_counts}")
        total = sum(self.spent.values())
        if total:
            shares = [f"{pair} {100 * time / total:.1f} %" for pair, time in self.spent.most_common() if time]
            lines.append(f"slots were in: {', '.join(shares)}")
        if self.jobs:
            lines.append("jobs: " + ", ".join(f"{count:,} {status.lower()}" for status, count in self.jobs.items()))
        return lines

    def as_dict(self) -> dict[str, object]:
        """Return the summary for ``--json``; times are in seconds."""
        return {
            "seconds": self.scenario.end / SECOND,
            "events": self.events,
            "transitions": dict(by_row(self.rows)),
            "spent": {pair: time / SECOND for pair, time in self.spent.most_common()},
            "jobs": dict(self.jobs),
        }


def _evidence_text(note: e.EvaluationRecorded) -> str:
    text = f"{note.name} = {note.expression}"
    if note.value not in ("true", "false", "undefined"):
        text = f"{text} = {note.value}"
    values = ", ".join(f"{name.removeprefix('MY.')} {value}" for name, value in note.read.items())
    return f"{text}; {values}" if values else text


def entry_dict(entry: TranscriptLine) -> dict[str, object]:
    """Return an entry for ``--json``."""
    member = entry.member
    fields: dict[str, object] = {
        "at": entry.at / SECOND, "position": member.position, "thing": member.thing, "what": member.what,
        "letter": member.letter, "source": member.source, "target": member.target, "cause": member.cause,
        "words": member.cause_text, "details": member.details,
    }  # fmt: skip
    if entry.evidence is not None:
        note = entry.evidence
        fields["evidence"] = {
            "name": note.name, "expression": note.expression, "value": note.value, "read": note.read,
        }  # fmt: skip
    return fields
