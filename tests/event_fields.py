"""The fields of events and of their parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from msgspec import NODEFAULT, Struct, structs


def fields_of(kind: Any) -> dict[str, Any]:
    """Return the default of each field of a class, NODEFAULT if it has none; an empty dict for a class without
    fields."""
    return {name: default() for name, default in _defaults(kind).items()}


@cache
def _defaults(kind: type[Any]) -> dict[str, Callable[[], Any]]:
    """Return the factory of each field's default."""
    if issubclass(kind, Struct):
        fields = structs.fields(kind)
        return {
            field.name: field.default_factory
            if field.default_factory is not NODEFAULT
            else partial(_same, field.default)
            for field in fields
        }
    return {}


def _same(value: Any) -> Any:
    return value
