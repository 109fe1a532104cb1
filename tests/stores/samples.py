"""Events to put into logs: made from the fields' types, so that the tests hold for kinds of event to come."""

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
"""What `append` takes: every kind of event but the one that raise_epoch writes."""


def sample(kind: type[Event], number: int) -> Event:
    """An event of this kind; the same for the same number."""
    return kind(**{name: _filled(hint, name, number) for name, hint in _fields(kind)})


def samples(count: int, first: int = 0) -> list[Event]:
    """So many events, of all kinds in turn."""
    return [sample(KINDS[number % len(KINDS)], number) for number in range(first, first + count)]


def changed(number: int, slot: str = "slot1@host", text: str = "1") -> SlotAdChanged:
    """A short event of one stream."""
    return SlotAdChanged(at=AT + number, cause="configured", stimulus=f"s-{number}", slot=slot, changes={"A": text})


# A record separator, the escapes of JSON, an emoji, a letter that is two bytes, and one that sorts oddly.
TEXTS = ("x", 'quote " backslash \\ newline \n', "\U0001f412", "Grüße", "\u2028", "", "\ufffd")


def _filled(hint: Any, name: str, number: int) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is str:
        return f"{name}-{number % 7}-{TEXTS[number % len(TEXTS)]}"
    if hint is bytes:
        return bytes([number % 256, 0, 255])
    if hint in (int, float, bool):
        return hint(AT + number if name == "at" else number % 1000)
    if origin is dict:
        return {f"{name}{i}": _filled(inner[1], "value", number + i) for i in range(number % 3)}
    if origin is tuple:
        items = inner[:1] * (number % 3) if inner[1:] == (Ellipsis,) else inner
        return tuple(_filled(item, name, number + i) for i, item in enumerate(items))
    if origin in (Union, types.UnionType):
        return _filled(inner[0], name, number) if number % 2 else None
    return hint(**{name: _filled(of, name, number) for name, of in _fields(hint)})


@cache
def _fields(kind: type[Any]) -> Sequence[tuple[str, Any]]:
    hints = get_type_hints(kind)
    return [(name, hints[name]) for name in fields_of(kind)]


# Hypothesis: the same, of any value that a field may have.

_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
_int = st.integers(-(2**63), 2**63 - 1)


def _any(hint: Any) -> st.SearchStrategy[Any]:
    origin, inner = get_origin(hint), get_args(hint)
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
        return st.dictionaries(_any(inner[0]), _any(inner[1]), max_size=3)
    if origin is tuple:
        if inner[1:] == (Ellipsis,):
            return st.lists(_any(inner[0]), max_size=3).map(tuple)
        return st.tuples(*map(_any, inner))
    if origin in (Union, types.UnionType):
        return st.one_of(*(st.none() if one is type(None) else _any(one) for one in inner))
    return any_of(hint)


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any object of a class with fields."""
    return st.builds(kind, **{name: _any(hint) for name, hint in _fields(kind)})


any_event: st.SearchStrategy[Event] = st.one_of(*map(any_of, KINDS))
