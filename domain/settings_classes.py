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
    """Return the metadata of a field that has the value of a setting. ``read`` makes it of a text; of a whole
    configuration it is the value's type, and the field's default is the value where nothing is configured."""
    return {"setting": (name, read)}


def values(kind: type[AttrsInstance], read: Callable[[str, Any, Any], Any]) -> dict[str, Any]:
    """Return the values of a class's fields that are settings, by which ``read`` gets name, reader and default."""
    named = ((one, one.metadata.get("setting")) for one in fields(kind))
    return {one.name: read(found[0], found[1], one.default) for one, found in named if found}
