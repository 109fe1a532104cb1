"""Find the methods that handle events by the events in their signatures."""

from __future__ import annotations

from types import MethodType
from typing import Any, get_args, get_type_hints

from .base import Event


def handlers_of(kind: type, prefix: str = "on_") -> dict[type[Event], Any]:
    """Return the methods of a class whose names begin so, by the kinds of events that ``event`` may be in each."""
    handlers: dict[type[Event], Any] = {}
    for name, method in vars(kind).items():
        if name.startswith(prefix):
            taken = get_type_hints(method)["event"]
            handlers |= dict.fromkeys(get_args(taken) or (taken,), method)
    return handlers


def bound_handlers(owner: object) -> dict[type[Event], Any]:
    """Return the same of an object, bound to it."""
    return {kind: MethodType(method, owner) for kind, method in handlers_of(type(owner)).items()}
