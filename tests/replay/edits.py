"""Edits to a log by a careful forger: positions are renumbered, and so are references to positions: the keys of
activations and of backfill clients, the evidence of transitions, and mails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.replay.validation import Violation, examine, validate

from .. import sampling

_KEYED = e.JobExited | e.BackfillExecuting | e.BackfillSignalled | e.BackfillExited
EditedLog = list[tuple[int | None, e.Event]]
"""An edited log: each event with its original position, or None for a new one."""


def renumbered(edited_log: EditedLog) -> Iterator[tuple[int, e.Event]]:
    """Yield the log with its positions renumbered, as far as it is read."""
    keys = {
        str(original): str(new)
        for new, (original, _) in enumerate(edited_log, 1)
        if original is not None and original != new
    }
    for position, (_, event) in enumerate(edited_log, 1):
        if isinstance(event, _KEYED) and event.key in keys:
            event = replace(event, key=keys[event.key])
        if isinstance(event, e.ClaimDeactivated) and event.starter in keys:
            event = replace(event, starter=keys[event.starter])
        if isinstance(event, e.SlotTransitioned | e.JobsTransitioned | e.JobExited) and str(event.evidence) in keys:
            event = replace(event, evidence=int(keys[str(event.evidence)]))
        if isinstance(event, e.SubmissionRefused) and str(event.evidence) in keys:
            event = replace(event, evidence=int(keys[str(event.evidence)]))
        if isinstance(event, e.JobsTransformed):
            evidence = tuple(int(keys.get(str(place), place)) for place in event.evidence)
            event = replace(event, evidence=evidence)
        if isinstance(event, e.JobsEdited) and event.noted:
            event = replace(event, noted=tuple(int(keys.get(str(place), place)) for place in event.noted))
        if isinstance(event, e.Sent):
            event = replace(event, positions=tuple(int(keys.get(str(place), place)) for place in event.positions))
        if isinstance(event, e.Mailed) and str(event.mail) in keys:
            event = replace(event, mail=int(keys[str(event.mail)]))
        yield position, event


def violations_of(edited_log: EditedLog) -> list[Violation]:
    return examine(renumbered(edited_log)).violations


def is_detected(edited_log: EditedLog) -> bool:
    """Return True if there is any violation; stop at the first one."""
    return next(validate(renumbered(edited_log)), None) is not None


def spread_events(log: Sequence[e.Event], most: int) -> list[tuple[int, e.Event]]:
    """Return at most so many of the log's events of each kind, spread evenly, with their positions."""
    kinds: dict[type[e.Event], list[tuple[int, e.Event]]] = {}
    for index, event in enumerate(log):
        kinds.setdefault(type(event), []).append((index, event))
    return sorted((pair for events in kinds.values() for pair in sampling.spread(events, most)), key=lambda one: one[0])


def undetected_omissions(log: Sequence[e.Event], most: int = sampling.ALL) -> set[type[e.Event]]:
    """Return the kinds of event of which one can be omitted without a violation.

    :param most: how many events of each kind to omit, one at a time
    """
    undetected = set()
    for index, event in spread_events(log, most):
        if type(event) not in undetected and not is_detected(
            [(number, other) for number, other in enumerate(log, 1) if number != index + 1]
        ):
            undetected.add(type(event))
    return undetected


def undetected_repeats(log: Sequence[e.Event], most: int = sampling.ALL) -> set[type[e.Event]]:
    """Return the kinds of event of which one can be repeated without a violation.

    :param most: how many events of each kind to repeat, one at a time
    """
    undetected = set()
    for index, event in spread_events(log, most):
        edited_log: EditedLog = list(enumerate(log, 1))
        edited_log.insert(index + 1, (None, event))
        if type(event) not in undetected and not is_detected(edited_log):
            undetected.add(type(event))
    return undetected


def undetected_changes(
    log: Sequence[e.Event], kinds: Iterable[type[e.Event]], most: int = sampling.ALL
) -> set[tuple[type[e.Event], str]]:
    """Return the fields of these kinds of event that can be changed somewhere without a violation.

    :param most: how many events of each kind to change, the first ones
    """
    wanted_kinds, undetected, tried_counts = set(kinds), set(), Counter[type[e.Event]]()
    for index, event in enumerate(log):
        tried_counts[type(event)] += 1
        if type(event) not in wanted_kinds or tried_counts[type(event)] > most:
            continue
        for name in event.__struct_fields__:
            for value in other_values(getattr(event, name)):
                if (type(event), name) in undetected or getattr(event, name) == value:
                    continue
                edited_log: EditedLog = list(enumerate(log, 1))
                edited_log[index] = (index + 1, replace(event, **{name: value}))
                if not is_detected(edited_log):
                    undetected.add((type(event), name))
    return undetected


def other_values(value: Any) -> Iterator[Any]:
    """Yield other values of the same type."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield value + "x" if value else "x"
    elif isinstance(value, float):
        yield value + 1
    elif isinstance(value, int):
        yield value + 1
        yield value - 1
    elif isinstance(value, dict) and any(isinstance(item, float) for item in value.values()):
        yield {**value, "Other": 1.0}
        yield {name: item + 1 for name, item in value.items()}
    elif isinstance(value, dict):
        yield {**value, "Other": "1"}
        if value:
            yield {name: text + "1" for name, text in value.items()}
    elif isinstance(value, tuple):
        yield ()
    elif value is None:
        yield 1


Edit = Callable[[list[e.Event]], None]


def index_of(log: list[e.Event], kind: type[e.Event], nth: int = 0, **values: object) -> int:
    """Return the position of the nth event of a kind with these values."""
    places = [
        index
        for index, event in enumerate(log)
        if isinstance(event, kind) and all(getattr(event, name) == value for name, value in values.items())
    ]
    return places[nth]


def change(kind: type[e.Event], nth: int = 0, **values: Any) -> Edit:
    def edit(log: list[e.Event]) -> None:
        place = index_of(log, kind, nth)
        log[place] = replace(log[place], **values)

    return edit


def drop(kind: type[e.Event], nth: int = 0, **values: object) -> Edit:
    def edit(log: list[e.Event]) -> None:
        del log[index_of(log, kind, nth, **values)]

    return edit


def swap(kind: type[e.Event], nth: int = 0, **values: object) -> Edit:
    def edit(log: list[e.Event]) -> None:
        place = index_of(log, kind, nth, **values)
        log[place], log[place + 1] = log[place + 1], log[place]

    return edit


def repeat(kind: type[e.Event], nth: int = 0, **values: object) -> Edit:
    def edit(log: list[e.Event]) -> None:
        place = index_of(log, kind, nth, **values)
        log.insert(place + 1, log[place])

    return edit


def violations_after(sound: Sequence[e.Event], edit: Edit) -> list[Violation]:
    """Return the violations in a sound log after an edit."""
    log = list(sound)
    edit(log)
    old_positions = {id(event): position for position, event in enumerate(sound, 1)}
    return violations_of([(old_positions.get(id(event)), event) for event in log])
