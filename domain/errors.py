"""The base class of Poolbook's errors."""

from __future__ import annotations

_PUBLIC = {
    "AlreadyServed", "ClassAdSyntaxError", "ConfigError", "EvaluationError", "Fenced", "JobFailed", "LogBeginsLater",
    "LogClosed", "LogDamaged", "LogError", "LogNewer", "LogUnavailable", "NotKnown", "ParallelReplayError",
    "PoolbookError", "Refusal",
    "SlotTypeError", "SubmitError", "SupervisorError", "UnknownDialectError", "UnknownThingError",
}  # fmt: skip
"""The errors that `poolbook` exports: a traceback names them as a program does, ``poolbook.Refusal``."""


class PoolbookError(Exception):
    """Base class of Poolbook's errors. The message names the problem, the rule and the fix.

    Invalid arguments raise Python's `ValueError` and `TypeError` instead.

    >>> try:
    ...     pool.run_now("1.4", "9.9")
    ... except PoolbookError as error:
    ...     print(type(error).__name__)
    Refusal
    """

    code = ""  #: the kind of error, for programs
    tool = ""  #: the message that HTCondor's tool prints, if it differs

    def __init_subclass__(cls) -> None:
        if cls.__name__ in _PUBLIC:
            cls.__module__ = "poolbook"


PoolbookError.__module__ = "poolbook"
