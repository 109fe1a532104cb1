"""Load what a package exports when somebody asks for it: a short command must not wait for what it does not use.

A package imports its names under ``TYPE_CHECKING``, for readers and type checkers, and has
``__getattr__ = late_names(__name__, {"NAME": "MODULE"})``. Python calls that for a name that the package does not have.
Where a table names rules or commands by their modules (``domain/decide``, ``adapters/cli``), the reason is the same;
``late_attrs`` puts off the making of classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late_names(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package: `places` has the module of each of its names."""

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f".{places[name]}", package), name)

    return load
