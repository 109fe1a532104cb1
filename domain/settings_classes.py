"""Classes whose fields are settings: each names its own, and says how it is read.

@frozen
class Containers:
    images: int = field(default=8, metadata=setting("DOCKER_IMAGE_CACHE_SIZE", int))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import AttrsInstance, fields


def setting(name: str, read: Callable[[str], Any]) -> dict[str, Any]:
    """Return the metadata of a field with the value of a setting. ``read`` parses the value, or is its type in a
    configuration, where the field's default is the default of the setting."""
    return {"setting": (name, read)}


def values(kind: type[AttrsInstance], read: Callable[[str, Any, Any], Any]) -> dict[str, Any]:
    """Return the values of a class's fields that are settings: ``read`` gets the name, reader and default of each."""
    sources = {field: field.metadata.get("setting") for field in fields(kind)}
    return {field.name: read(source[0], source[1], field.default) for field, source in sources.items() if source}
