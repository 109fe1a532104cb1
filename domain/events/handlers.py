"""Find the methods that handle events, from the event types in their signatures."""

from __future__ import annotations

from functools import cache
from types import MethodType
from typing import Any, get_args, get_type_hints

from .base import Event


@cache
def handlers_of(kind: type, prefix: str = "on_") -> dict[type[Event], Any]:
    """Return the methods of a class whose names start with the prefix, by the type of their parameter ``event``.
    Callers do not change the dict."""
    handlers: dict[type[Event], Any] = {}
    for name, method in vars(kind).items():
        if name.startswith(prefix):
            event_type = get_type_hints(method)["event"]
            handlers |= dict.fromkeys(get_args(event_type) or (event_type,), method)
    return handlers


def bound_handlers(owner: object) -> dict[type[Event], Any]:
    """Return the handlers of an object's class, bound to the object."""
    owners_class: type = type(owner)
    return {kind: MethodType(method, owner) for kind, method in handlers_of(owners_class).items()}
