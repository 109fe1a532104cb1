"""The fields of events, which are structs of msgspec, and of what they are made of, which are classes of attrs."""

from __future__ import annotations

from typing import Any

import attrs
from msgspec import NODEFAULT, Struct, structs


def fields_of(kind: type[Any]) -> dict[str, Any]:
    """Return the default of each field of a class, NODEFAULT where it has none; nothing of a class without fields."""
    if issubclass(kind, Struct):
        fields = structs.fields(kind)
        return {one.name: one.default if one.default_factory is NODEFAULT else one.default_factory() for one in fields}
    if attrs.has(kind):
        return {one.name: NODEFAULT if one.default is attrs.NOTHING else one.default for one in attrs.fields(kind)}
    return {}
