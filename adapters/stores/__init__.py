"""Where a log is kept: in memory, in an SQLite file, or in a PostgreSQL schema; its seal, and the mark beside it.

``open_log`` opens one by its URL, ``verify_seal`` tells whether one still holds what was appended, and ``head_of``
answers at once how far one goes. Nothing here knows what an event means to a pool: the stores keep, find and seal. The
kinds of store import their libraries when one of them is opened and never each other's. docs/log.md says what they
promise.
"""

if __name__ != "poolbook.adapters.stores":
    raise ImportError(f"import this folder as poolbook.adapters.stores, not as {__name__}")

from typing import TYPE_CHECKING

from .fast_head import head_of

if TYPE_CHECKING:
    from .opening import open_log, verify_seal
    from .verification import Problem

__all__ = ["Problem", "head_of", "open_log", "verify_seal"]

# Events and codec take longer to import than a short command may run: they are loaded when they are asked for.
_LATE = {"open_log": "opening", "verify_seal": "opening", "Problem": "verification"}


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_LATE[name]}", __name__), name)
