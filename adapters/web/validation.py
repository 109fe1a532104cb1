"""Messages about invalid parameters and bodies: the name, the value, the rule and how to fix it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect

_KINDS: Final[Mapping[str, str]] = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "array": "a list",
    "object": "an object", "null": "null",
}  # fmt: skip
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")


class _Place(NamedTuple):
    """A part of a body, or a parameter: its name, its value and its type."""

    name: str
    value: Any
    type: inspect.Type
    description: str


def describe(error: msgspec.MsgspecError, kind: Any, value: Any) -> str:
    """Return a message for an error of msgspec.

    :param kind: the type to which the value was to be converted
    :param value: the value: the parameters, or the body in JSON's types
    """
    if not isinstance(error, msgspec.ValidationError):
        return f"the body is not valid JSON: {error}"
    text, _, path = str(error).partition(" - at `")
    place = _place(path, kind, value)
    if match := re.fullmatch(r"Object missing required field `(\w+)`", text):
        field = _fields(place.type).get(match[1])
        return f"{match[1]} is missing{f' in {place.name}' if path else ''}{_hint(field[1] if field else '')}"
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", text, re.DOTALL):
        names = ", ".join(_fields(place.type)) or "none"
        return f"{match[1][:80]!r} is not a member of {place.name}; the members are: {names}"
    has_pattern = text.startswith("Expected `str` matching regex") and place.description
    rule = "" if has_pattern else f": {_rule(text)}"
    return f"{place.name}: {_shown(place.value)} is not valid{rule}{_hint(place.description)}"


def _rule(text: str) -> str:
    if match := re.fullmatch(r"Expected `(\w+)(?: \| null)?`, got `(\w+)`", text):
        return f"it must be {_KINDS.get(match[1], match[1])}"
    if match := re.fullmatch(r"Expected `(\w+)`( of length)? (>=|<=|<|>) (\S+)", text):
        length = "its length" if match[2] else "it"
        bound = {">=": "at least", "<=": "at most", "<": "below", ">": "above"}[match[3]]
        return f"{length} must be {bound} {match[4]}"
    if match := re.fullmatch(r"Expected `str` matching regex '(.*)'", text, re.DOTALL):
        return f"it must match {match[1]}"
    return text[:1].lower() + text[1:].replace("`", "")


def _hint(description: str) -> str:
    return f"; use {description}" if description else ""


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode(errors="replace")
    return repr(text) if len(text) <= 80 else f"{text[:80]!r}..."


def _place(path: str, kind: Any, value: Any) -> _Place:
    place = _Place("the body", value, inspect.type_info(kind), "")
    for name, index in _STEP.findall(path):
        place = _member(place, name) if name else _item(place, index)
    return place


def _member(place: _Place, name: str) -> _Place:
    kind, description = _fields(place.type).get(name, (getattr(place.type, "value_type", inspect.AnyType()), ""))
    value = place.value.get(name) if isinstance(place.value, dict) else None
    return _Place(name if place.name == "the body" else f"{place.name}.{name}", value, *_plain(kind, description))


def _item(place: _Place, index: str) -> _Place:
    kind = getattr(place.type, "item_type", getattr(place.type, "value_type", inspect.AnyType()))
    known = isinstance(place.value, list) and index.isdecimal() and int(index) < len(place.value)
    name = f"{place.name}[{index}]" if index.isdecimal() else f"a value in {place.name}"
    return _Place(name, place.value[int(index)] if known else place.value, *_plain(kind, ""))


def _fields(kind: inspect.Type) -> dict[str, tuple[inspect.Type, str]]:
    """Return the members of an object's type, with their types and descriptions."""
    return {field.encode_name: _plain(field.type, "") for field in getattr(kind, "fields", ())}


def _plain(kind: inspect.Type, description: str) -> tuple[inspect.Type, str]:
    if isinstance(kind, inspect.Metadata):
        schema = kind.extra_json_schema or {}
        return kind.type, str(schema.get("description", description))
    return kind, description
