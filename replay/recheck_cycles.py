"""Repeat a log's negotiation cycles and defragmentation polls, to check that the log before each leads to the same
result.

The input of a cycle is its instant and the state folded from the events before it. The log is folded once, in order.
Each cycle is repeated on the state before it, and every field is compared. Then the logged cycle is folded, with the
rejection reasons of the repeated cycle, so that one altered cycle does not make all later cycles differ. Cycles without
an event cannot be found. A cycle that only updated priorities does not record its time zone; only values that do not
depend on the zone are compared. For a poll, the evidence recorded before it is compared, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta, timezone
from itertools import groupby
from typing import Any

from attrs import define, field, frozen
from msgspec.structs import replace

from ..domain import events as e
from ..domain.classad import Context
from ..domain.defrag.defrag_settings import policy_in_force
from ..domain.defrag.poll import decide_poll
from ..domain.fold.evolve import fold
from ..domain.negotiator.cycle import (
    OF_GROUPS,
    OF_LIMITS,
    OF_REASONS,
    OF_SEVERAL,
    OF_WHOLE,
    RULES,
    CycleResult,
    hold_cycle,
)
from ..domain.negotiator.negotiator_settings import settings_of
from ..domain.startd.public_ad import PublishedSlots
from ..domain.state.caches import Caches
from ..domain.state.state import State

Difference = tuple[str, str, str]  #: what differs, its value in the log, and its repeated value
MOST = 20  #: the number of differences that are stored; all of them are counted
_NOTHING = "nothing"
_RULES = tuple(
    RULES | limits | whole | several | reasons
    for limits in (0, OF_LIMITS)
    for whole in (0, OF_WHOLE)
    for several in (0, OF_SEVERAL)
    for reasons in (0, OF_REASONS)
)


@frozen
class RecheckDifference:
    """The first difference in the cycle at ``position``: the log records ``logged`` for ``what``, the repetition
    ``again``."""

    position: int
    at: int
    what: str
    logged: str
    again: str


@define
class RecheckedCycles:
    """The result of repeating cycles. ``taken`` counts the repeated cycles, ``others`` the cycles that a version with
    other rules decided, ``polls`` the repeated defragmentation polls, ``differing`` the repeated cycles and polls that
    differ. ``stopped`` says why the rest of the log was not read.
    """

    taken: int = 0
    others: int = 0
    differing: int = 0
    polls: int = 0
    differences: list[RecheckDifference] = field(factory=list)
    stopped: str = ""

    @property
    def sound(self) -> bool:
        return not self.differing and not self.stopped

    def add(self, later: RecheckedCycles) -> None:
        """Add the result of the next part of the log."""
        self.taken, self.others = self.taken + later.taken, self.others + later.others
        self.differing, self.polls = self.differing + later.differing, self.polls + later.polls
        self.differences = [*self.differences, *later.differences][:MOST]
        self.stopped = later.stopped


@define
class LastCycle:
    """The facts about the previous cycles that a repetition needs."""

    offset: int | None = None  #: the UTC offset of the last cycle that records one, in seconds
    rules: int | None = None  #: its rules; None: the rules of the settings in force
    corrected: bool = False  #: whether the state differs from the logged one, because a repeated cycle did

    def note(self, cycle: e.CycleHeld) -> None:
        self.offset, self.rules = cycle.offset, cycle.rules


def recheck(
    events: Iterable[e.LoggedEvent],
    tell: Callable[[int, int], None] | None = None,
    state: State | None = None,
    last_cycle: LastCycle | None = None,
) -> RecheckedCycles:
    """Repeat each cycle of a log, or of a part of it that begins with a stimulus. This never raises an error, whatever
    the events contain.

    :param events: the events, in order, each with its position
    :param tell: called after each cycle with its position and the number of repeated cycles
    :param state: the state before these events (None: they begin the log); it is changed
    :param last_cycle: the last cycle before these events; it is changed
    """
    result, state, last_cycle = RecheckedCycles(), state or State(), last_cycle or LastCycle()
    for _, members in groupby(events, lambda event: event[1].stimulus):
        group = list(members)
        try:
            _repeat_poll(result, state, group)
            begin = _begin_position(group)
            fold(group[:begin], state)
            remaining: Sequence[e.LoggedEvent] = group[begin:]
            if remaining:
                remaining = _repeat_group(result, state, remaining, last_cycle)
                if tell is not None:
                    tell(remaining[0][0], result.taken)
            fold(remaining, state)
        except Exception as error:  # an edited log can say anything
            stop_reason = f"{type(error).__name__}: {error}"
            result.stopped = f"the events from position {group[0][0]} on cannot be folded ({stop_reason})"
            break
    return result


def _repeat_poll(rechecked: RecheckedCycles, state: State, group: Sequence[e.LoggedEvent]) -> None:
    for position, logged in group:
        if isinstance(logged, e.DefragPolled):
            rechecked.polls += 1
            try:
                first_difference = next(_poll_differs(state, group, logged), None)
            except Exception as error:  # an edited log can say anything
                first_difference = "the poll", "was held", _failure_text(error)
            if first_difference is not None:
                _note_difference(rechecked, position, logged.at, first_difference)
            return


def _poll_differs(state: State, group: Sequence[e.LoggedEvent], logged: e.DefragPolled) -> Iterator[Difference]:
    policy = policy_in_force(state.settings, logged.daemon)
    if policy is None:
        yield "the poll", "was held", "the pool does not defragment"
        return
    cause_of, context = (
        (lambda cause: (logged.at, cause, logged.stimulus)),
        cycle_context(state, logged.at, logged.offset),
    )
    repeated = decide_poll(state, Caches(), PublishedSlots, cause_of, context, logged.offset, policy, logged.daemon)
    yield from _field_differences("the poll", logged, repeated.event)
    notes = tuple(event for _, event in group if isinstance(event, e.EvaluationRecorded))[: len(repeated.notes)]
    if notes != repeated.notes:
        yield "the evidence", _value_text(notes), _value_text(repeated.notes)


def _failure_text(error: Exception) -> str:
    return f"cannot be held ({type(error).__name__}: {error})"


def cycle_context(state: State, at: int, offset: int) -> Context:
    """Return the context of a cycle or poll at an instant (microseconds); `offset`: its UTC offset in seconds."""
    second = at // 1_000_000
    return Context(now=second, seed=second, timezone=timezone(timedelta(seconds=offset)), user_maps=state.user_maps)


def repeat_cycle(state: State, at: int, stimulus: str, offset: int, negotiator: str) -> CycleResult:
    """Return the negotiation cycle that a negotiator would hold in a state at an instant (microseconds)."""
    context = cycle_context(state, at, offset)
    return hold_cycle(
        state, Caches(), PublishedSlots, lambda cause: (at, cause, stimulus), context, offset, negotiator=negotiator
    )


def _note_difference(rechecked: RecheckedCycles, position: int, at: int, difference: Difference) -> None:
    rechecked.differing += 1
    if len(rechecked.differences) < MOST:
        rechecked.differences.append(RecheckDifference(position, at, *difference))


def _begin_position(group: Sequence[e.LoggedEvent]) -> int:
    """Return the index of a cycle's first event among the events of one stimulus, or their number if there is no cycle.
    Before a new half-life takes effect, priorities are updated without a cycle."""
    event_types = {type(event) for _, event in group}
    if event_types.isdisjoint((e.PrioritiesUpdated, e.QuotasAssigned, e.CycleHeld)) or e.PoolConfigured in event_types:
        return len(group)
    kinds = (e.PrioritiesUpdated, e.QuotasAssigned, e.EvaluationRecorded, e.CycleHeld)
    return next(place for place, (_, event) in enumerate(group) if isinstance(event, kinds))


def _repeat_group(
    rechecked: RecheckedCycles, state: State, group: Sequence[e.LoggedEvent], last_cycle: LastCycle
) -> Sequence[e.LoggedEvent]:
    """Repeat a cycle on the state before it, and compare the two. Return the events to fold."""
    position, first_event = group[0]
    cycles = [(place, event) for place, event in group if isinstance(event, e.CycleHeld)]
    logged = cycles[0][1] if cycles else None
    if logged is not None:
        position = cycles[0][0]
        last_cycle.note(logged)
    if (
        last_cycle.rules is not None
        and last_cycle.rules - OF_GROUPS * settings_of(state, Caches()).tree.has_groups not in _RULES
    ):
        rechecked.others += logged is not None
        return group
    rechecked.taken += 1
    repeated = None
    try:
        negotiator = _negotiator_of(group)
        repeated = repeat_cycle(state, first_event.at, first_event.stimulus, last_cycle.offset or 0, negotiator)
    except Exception as error:
        differences: Iterator[Difference] = iter([("the cycle", "was held", _failure_text(error))])
    else:
        if logged is not None and repeated.held is not None and logged.rules != repeated.held.rules:
            rechecked.taken, rechecked.others = rechecked.taken - 1, rechecked.others + 1
            return group
        differences = _cycle_differences(
            group, logged, repeated, recorded=logged is not None or last_cycle.offset is not None
        )
    first_difference = next(differences, None)
    if first_difference is not None:
        _note_difference(rechecked, position, first_event.at, first_difference)
    if first_difference is None or logged is None or repeated is None or repeated.held is None:
        return group
    if logged.matches != repeated.held.matches:
        return group
    expected = replace(logged, unmatched=repeated.held.unmatched)
    last_cycle.corrected |= expected != logged
    return [(place, expected if event is logged else event) for place, event in group]


def _negotiator_of(group: Sequence[e.LoggedEvent]) -> str:
    negotiators = (event.negotiator for _, event in group if isinstance(event, e.CycleHeld | e.PrioritiesUpdated))
    return next(negotiators, "")


# -- Differences between two cycles: what differs, and both values


def _cycle_differences(
    group: Sequence[e.LoggedEvent], logged: e.CycleHeld | None, repeated: CycleResult, recorded: bool
) -> Iterator[Difference]:
    updates = [event for _, event in group if isinstance(event, e.PrioritiesUpdated)]
    old_priorities = updates[0].priorities if updates else {}
    new_priorities = repeated.priorities.priorities if repeated.priorities is not None else {}
    yield from _mapping_differences("the priority of", old_priorities, new_priorities)
    if updates[:1] != ([] if repeated.priorities is None else [repeated.priorities]):
        yield "the event of the priorities", _value_text(updates[:1]), _value_text(repeated.priorities)
    assignments = [event for _, event in group if isinstance(event, e.QuotasAssigned)]
    if recorded and assignments[:1] != ([] if repeated.quotas is None else [repeated.quotas]):
        yield "the quotas of groups", _value_text(assignments[:1]), _value_text(repeated.quotas)
    if logged is None:
        if recorded and repeated.held is not None:
            yield "the cycle", _NOTHING, _counts(repeated.held)
        return
    if repeated.held is None:
        yield "the cycle", _counts(logged), _NOTHING
        return
    yield from _sequence_differences("match", logged.matches, repeated.held.matches)
    yield from _sequence_differences("reason", logged.unmatched, repeated.held.unmatched)
    yield from _mapping_differences("the statistic", logged.statistics, repeated.held.statistics)
    if logged != repeated.held:
        yield from _field_differences("the cycle", logged, repeated.held)
    if len(updates) > 1 or sum(isinstance(event, e.CycleHeld) for _, event in group) > 1:
        yield "the cycle", "was held twice", "once"


def _counts(cycle: e.CycleHeld) -> str:
    return f"{len(cycle.matches)} matches and {len(cycle.unmatched)} reasons"


def _mapping_differences(subject: str, logged: Mapping[str, Any], repeated: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys((*logged, *repeated)):
        if logged.get(name) != repeated.get(name):
            yield f"{subject} {name}", _value_text(logged.get(name)), _value_text(repeated.get(name))


def _sequence_differences(subject: str, logged: Sequence[Any], repeated: Sequence[Any]) -> Iterator[Difference]:
    for number in range(max(len(logged), len(repeated))):
        logged_item, right = (sequence[number] if number < len(sequence) else None for sequence in (logged, repeated))
        if logged_item == right:
            continue
        name = f"{subject} {number + 1}"
        if logged_item is None or right is None or logged_item.job != right.job:
            yield name, _short_text(logged_item), _short_text(right)
        else:
            yield from _field_differences(f"{name}, of job {logged_item.job},", logged_item, right)
        return


def _short_text(entry: e.Match | e.Unmatched | None) -> str:
    if entry is None:
        return _NOTHING
    return f"job {entry.job} on {entry.slot}" if isinstance(entry, e.Match) else f"of job {entry.job}"


def _field_differences(subject: str, logged: Any, repeated: Any) -> Iterator[Difference]:
    for name in type(logged).__match_args__:
        logged_value, repeated_value = getattr(logged, name), getattr(repeated, name)
        if logged_value != repeated_value:
            yield f"{subject} {name}", _value_text(logged_value), _value_text(repeated_value)


def _value_text(value: object) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(_value_text(item) for item in value) or _NOTHING
    if isinstance(value, e.DefragDrain | e.DefragCancel):
        rank = f" of rank {value.rank:.12g}" if isinstance(value, e.DefragDrain) else ""
        return f"{value.machine} by {value.slot}{rank}{f', refused: {value.refused}' if value.refused else ''}"
    if isinstance(value, e.EvaluationRecorded):
        return f"{value.name} = {value.value}"
    if isinstance(value, e.Clause):
        return f"{value.text}: {value.alone}, {value.left}"
    if isinstance(value, float):
        return f"{value:.12g}"
    return _NOTHING if value is None or value == "" else str(value)
