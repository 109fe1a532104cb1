"""Define the base of all errors that Poolbook raises on purpose."""

from __future__ import annotations

_PUBLIC = {
    "AlreadyServed", "ClassAdSyntaxError", "ConfigError", "EvaluationError", "Fenced", "LogClosed",
    "LogDamaged", "LogError", "LogNewer", "LogUnavailable", "NotKnown", "PoolbookError", "Refusal",
    "SlotTypeError", "SubmitError", "SupervisorError", "UnknownDialectError", "UnknownThingError",
}  # fmt: skip
"""The errors that `poolbook` exports: a traceback names them as a program does, ``poolbook.Refusal``."""


class PoolbookError(Exception):
    """A request is refused, unreadable or unknown; the message names the thing, the rule that it breaks, the way out.

    Wrong arguments of a call raise Python's `ValueError` and `TypeError` instead.
    """

    code = ""  #: which kind of error it is, for programs
    tool = ""  #: what HTCondor's tool prints, where its words differ

    def __init_subclass__(cls) -> None:
        if cls.__name__ in _PUBLIC:
            cls.__module__ = "poolbook"


PoolbookError.__module__ = "poolbook"
