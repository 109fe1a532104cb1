"""Events to put into logs: created from the fields' types, so that the tests cover future kinds of event."""

from __future__ import annotations

import types
from collections.abc import Sequence
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from poolbook.domain.events import TOPICS, Event, SlotAdChanged, WriterBegan

from ..event_fields import fields_of

AT = 1_763_000_000_000_000
"""Microseconds since 1970: an instant in November 2025."""
KINDS: list[type[Event]] = [kind for kind in TOPICS.values() if kind is not WriterBegan]
"""The kinds that `append` accepts: every kind of event but the one that raise_epoch writes."""


def sample(kind: type[Event], number: int) -> Event:
    """Return an event of this kind; the same for the same number."""
    return kind(**{name: _filled(hint, name, number) for name, hint in _fields(kind)})


def samples(count: int, first: int = 0) -> list[Event]:
    """Return so many events, of all kinds in turn."""
    return [sample(KINDS[number % len(KINDS)], number) for number in range(first, first + count)]


def changed(number: int, slot: str = "slot1@host", text: str = "1") -> SlotAdChanged:
    """Return a short event of one stream."""
    return SlotAdChanged(at=AT + number, cause="configured", stimulus=f"s-{number}", slot=slot, changes={"A": text})


# A record separator, the escapes of JSON, an emoji, a letter that is two bytes, and one that sorts oddly.
TEXTS = ("x", 'quote " backslash \\ newline \n', "\U0001f412", "Grüße", "\u2028", "", "\ufffd")


def _filled(hint: Any, name: str, number: int) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is str:
        return f"{name}-{number % 7}-{TEXTS[number % len(TEXTS)]}"
    if hint is bytes:
        return bytes([number % 256, 0, 255])
    if hint in (int, float, bool):
        return hint(AT + number if name == "at" else number % 1000)
    if origin is dict:
        return {f"{name}{i}": _filled(arguments[1], "value", number + i) for i in range(number % 3)}
    if origin is tuple:
        items = arguments[:1] * (number % 3) if arguments[1:] == (Ellipsis,) else arguments
        return tuple(_filled(item, name, number + i) for i, item in enumerate(items))
    if origin in (Union, types.UnionType):
        return _filled(arguments[0], name, number) if number % 2 else None
    return hint(**{name: _filled(field_type, name, number) for name, field_type in _fields(hint)})


@cache
def _fields(kind: type[Any]) -> Sequence[tuple[str, Any]]:
    hints = get_type_hints(kind)
    return [(name, hints[name]) for name in fields_of(kind)]


# Hypothesis: the same, with any value that a field may have.

_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
_int = st.integers(-(2**63), 2**63 - 1)


def _any(hint: Any) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: _text,
        int: _int,
        bytes: st.binary(max_size=12),
        bool: st.booleans(),
        float: st.floats(allow_nan=False, allow_infinity=False),
    }
    if hint in simple:
        return simple[hint]
    if origin is dict:
        return st.dictionaries(_any(arguments[0]), _any(arguments[1]), max_size=3)
    if origin is tuple:
        if arguments[1:] == (Ellipsis,):
            return st.lists(_any(arguments[0]), max_size=3).map(tuple)
        return st.tuples(*map(_any, arguments))
    if origin in (Union, types.UnionType):
        return st.one_of(*(st.none() if member_type is type(None) else _any(member_type) for member_type in arguments))
    return any_of(hint)


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for any object of a class with fields."""
    return st.builds(kind, **{name: _any(hint) for name, hint in _fields(kind)})


any_event: st.SearchStrategy[Event] = st.one_of(*map(any_of, KINDS))
