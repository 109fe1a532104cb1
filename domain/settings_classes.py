"""Define classes whose fields are settings. Each field has the name of its setting and a function that parses it.

@frozen
class Containers:
    images: int = field(default=8, metadata=setting("DOCKER_IMAGE_CACHE_SIZE", int))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import AttrsInstance, fields


def setting(name: str, read: Callable[[str], Any]) -> dict[str, Any]:
    """Return the metadata of a field with the value of a setting. ``read`` parses the setting's text, or is the type of
    the value to read from a Configuration. If the setting is not configured, the field has its default."""
    return {"setting": (name, read)}


def values(kind: type[AttrsInstance], read: Callable[[str, Any, Any], Any]) -> dict[str, Any]:
    """Return the values of a class's settings by field; call ``read`` with each one's name, parser and default."""
    sources = {field: field.metadata.get("setting") for field in fields(kind)}
    return {field.name: read(source[0], source[1], field.default) for field, source in sources.items() if source}
