"""Editing a log as somebody might who is careful: positions are counted anew, and what names a position follows: the
keys of activations and of backfill clients, the evidence of transitions, and mails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.replay.validation import Violation, examine, validate

from .. import sampling

_KEYED = e.JobExited | e.BackfillExecuting | e.BackfillSignalled | e.BackfillExited
After = list[tuple[int | None, e.Event]]
"""The log that is left: each event with the position that it had, or None for one that is new."""


def edited(after: After) -> Iterator[tuple[int, e.Event]]:
    """The log with its positions counted anew, as far as it is read."""
    keys = {str(old): str(new) for new, (old, _) in enumerate(after, 1) if old is not None and old != new}
    for position, (_, event) in enumerate(after, 1):
        if isinstance(event, _KEYED) and event.key in keys:
            event = replace(event, key=keys[event.key])
        if isinstance(event, e.SlotTransitioned | e.JobsTransitioned | e.JobExited) and str(event.evidence) in keys:
            event = replace(event, evidence=int(keys[str(event.evidence)]))
        if isinstance(event, e.SubmissionRefused) and str(event.evidence) in keys:
            event = replace(event, evidence=int(keys[str(event.evidence)]))
        if isinstance(event, e.JobsTransformed):
            moved = tuple(int(keys.get(str(place), place)) for place in event.evidence)
            event = replace(event, evidence=moved)
        if isinstance(event, e.JobsEdited) and event.noted:
            event = replace(event, noted=tuple(int(keys.get(str(place), place)) for place in event.noted))
        if isinstance(event, e.Mailed) and str(event.mail) in keys:
            event = replace(event, mail=int(keys[str(event.mail)]))
        yield position, event


def found(after: After) -> list[Violation]:
    return examine(edited(after)).violations


def noticed(after: After) -> bool:
    """Whether anything is found: what comes after the first is not asked for."""
    return next(validate(edited(after)), None) is not None


def spread(log: Sequence[e.Event], most: int) -> list[tuple[int, e.Event]]:
    """Of each kind so many of the log's events, spread evenly, with their places."""
    kinds: dict[type[e.Event], list[tuple[int, e.Event]]] = {}
    for index, event in enumerate(log):
        kinds.setdefault(type(event), []).append((index, event))
    return sorted((one for found in kinds.values() for one in sampling.spread(found, most)), key=lambda one: one[0])


def unseen_without(log: Sequence[e.Event], most: int = sampling.ALL) -> set[type[e.Event]]:
    """The kinds of event of which some can be left out, one by one, so that nothing is found.

    :param most: of each kind so many events are left out
    """
    unseen = set()
    for index, event in spread(log, most):
        if type(event) not in unseen and not noticed([(n, other) for n, other in enumerate(log, 1) if n != index + 1]):
            unseen.add(type(event))
    return unseen


def unseen_twice(log: Sequence[e.Event], most: int = sampling.ALL) -> set[type[e.Event]]:
    """The kinds of event of which some can stand there twice, so that nothing is found.

    :param most: of each kind so many events are doubled
    """
    unseen = set()
    for index, event in spread(log, most):
        more: After = list(enumerate(log, 1))
        more.insert(index + 1, (None, event))
        if type(event) not in unseen and not noticed(more):
            unseen.add(type(event))
    return unseen


def unseen_changes(
    log: Sequence[e.Event], kinds: Iterable[type[e.Event]], most: int = sampling.ALL
) -> set[tuple[type[e.Event], str]]:
    """The fields of these kinds of event that can be changed somewhere, so that nothing is found.

    :param most: of each kind so many events are changed, the first ones
    """
    wanted, unseen, tried = set(kinds), set(), Counter[type[e.Event]]()
    for index, event in enumerate(log):
        tried[type(event)] += 1
        if type(event) not in wanted or tried[type(event)] > most:
            continue
        for name in event.__struct_fields__:
            for value in others(getattr(event, name)):
                if (type(event), name) in unseen or getattr(event, name) == value:
                    continue
                after: After = list(enumerate(log, 1))
                after[index] = (index + 1, replace(event, **{name: value}))
                if not noticed(after):
                    unseen.add((type(event), name))
    return unseen


def others(value: Any) -> Iterator[Any]:
    """Other values of the same kind."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield value + "x" if value else "x"
    elif isinstance(value, float):
        yield value + 1
    elif isinstance(value, int):
        yield value + 1
        yield value - 1
    elif isinstance(value, dict) and any(isinstance(one, float) for one in value.values()):
        yield {**value, "Other": 1.0}
        yield {name: one + 1 for name, one in value.items()}
    elif isinstance(value, dict):
        yield {**value, "Other": "1"}
        if value:
            yield {name: text + "1" for name, text in value.items()}
    elif isinstance(value, tuple):
        yield ()
    elif value is None:
        yield 1


Edit = Callable[[list[e.Event]], None]


def the(log: list[e.Event], kind: type[e.Event], nth: int = 0, **values: object) -> int:
    """Where the nth event of a kind with these values stands."""
    places = [
        index
        for index, event in enumerate(log)
        if isinstance(event, kind) and all(getattr(event, name) == value for name, value in values.items())
    ]
    return places[nth]


def change(kind: type[e.Event], nth: int = 0, **values: Any) -> Edit:
    def edit(log: list[e.Event]) -> None:
        place = the(log, kind, nth)
        log[place] = replace(log[place], **values)

    return edit


def drop(kind: type[e.Event], nth: int = 0, **values: object) -> Edit:
    def edit(log: list[e.Event]) -> None:
        del log[the(log, kind, nth, **values)]

    return edit


def swap(kind: type[e.Event], nth: int = 0, **values: object) -> Edit:
    def edit(log: list[e.Event]) -> None:
        place = the(log, kind, nth, **values)
        log[place], log[place + 1] = log[place + 1], log[place]

    return edit


def repeat(kind: type[e.Event], nth: int = 0, **values: object) -> Edit:
    def edit(log: list[e.Event]) -> None:
        place = the(log, kind, nth, **values)
        log.insert(place + 1, log[place])

    return edit


def broken(sound: Sequence[e.Event], edit: Edit) -> list[Violation]:
    """What is found in a sound log that was edited."""
    log = list(sound)
    edit(log)
    old = {id(event): position for position, event in enumerate(sound, 1)}
    return found([(old.get(id(event)), event) for event in log])
