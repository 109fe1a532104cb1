"""Poolbook: an HTCondor pool whose only truth is an append-only log of events.

Queue, pool status, accounting and history are views of that log, which can be thrown away and
rebuilt, for now or for any moment of the past. `Pool` is a whole pool in a program of one's own,
`Log` reads the log of one at rest or of an import, `AsyncPool` and `AsyncLog` are theirs for
asyncio; `poolbook.events` has what stands in a log.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import events
    from .adapters.aio import AsyncLog, AsyncPool
    from .adapters.execution.client import SupervisorError
    from .adapters.importing.driver import ImportResult
    from .adapters.importing.session import follow_pool, import_pool
    from .adapters.log import Log
    from .adapters.pool import Pool
    from .adapters.values import Expr
    from .adapters.verdicts import Verification
    from .domain.accounting import Standing
    from .domain.classad import ClassAdSyntaxError, EvaluationError
    from .domain.config import ConfigError, ConfigWarning
    from .domain.decide import Refusal
    from .domain.errors import PoolbookError
    from .domain.lifecycle import UnknownDialectError
    from .domain.log import AlreadyServed, Fenced, LogClosed, LogDamaged, LogError, LogNewer, LogUnavailable
    from .domain.policy.slot_types import SlotTypeError
    from .domain.submit import SubmitError, SubmitWarning
    from .domain.world import Launch
    from .projections.archive import Spent
    from .replay.audit.verdict import Audit
    from .replay.legality import Violation
    from .replay.tables import NotKnown
    from .replay.virtual import Behaviour
    from .replay.why import UnknownThingError

__version__ = "0.1.0"

# Loaded when asked for: a short command must not wait for the whole of a pool.
_LATE = {
    "AlreadyServed": ".domain.log",
    "AsyncLog": ".adapters.aio",
    "AsyncPool": ".adapters.aio",
    "Audit": ".replay.audit.verdict",
    "Behaviour": ".replay.virtual",
    "ClassAdSyntaxError": ".domain.classad",
    "ConfigError": ".domain.config",
    "ConfigWarning": ".domain.config",
    "EvaluationError": ".domain.classad",
    "Expr": ".adapters.values",
    "Fenced": ".domain.log",
    "ImportResult": ".adapters.importing.driver",
    "Launch": ".domain.world",
    "Log": ".adapters.log",
    "LogClosed": ".domain.log",
    "LogDamaged": ".domain.log",
    "LogError": ".domain.log",
    "LogNewer": ".domain.log",
    "LogUnavailable": ".domain.log",
    "NotKnown": ".replay.tables",
    "Pool": ".adapters.pool",
    "PoolbookError": ".domain.errors",
    "Refusal": ".domain.decide",
    "SlotTypeError": ".domain.policy.slot_types",
    "Spent": ".projections.archive",
    "Standing": ".domain.accounting",
    "SubmitError": ".domain.submit",
    "SubmitWarning": ".domain.submit",
    "SupervisorError": ".adapters.execution.client",
    "UnknownDialectError": ".domain.lifecycle",
    "UnknownThingError": ".replay.why",
    "Verification": ".adapters.verdicts",
    "Violation": ".replay.legality",
    "follow_pool": ".adapters.importing.session",
    "import_pool": ".adapters.importing.session",
}

__all__ = [
    "AlreadyServed",
    "AsyncLog",
    "AsyncPool",
    "Audit",
    "Behaviour",
    "ClassAdSyntaxError",
    "ConfigError",
    "ConfigWarning",
    "EvaluationError",
    "Expr",
    "Fenced",
    "ImportResult",
    "Launch",
    "Log",
    "LogClosed",
    "LogDamaged",
    "LogError",
    "LogNewer",
    "LogUnavailable",
    "NotKnown",
    "Pool",
    "PoolbookError",
    "Refusal",
    "SlotTypeError",
    "Spent",
    "Standing",
    "SubmitError",
    "SubmitWarning",
    "SupervisorError",
    "UnknownDialectError",
    "UnknownThingError",
    "Verification",
    "Violation",
    "__version__",
    "events",
    "follow_pool",
    "import_pool",
]


if not TYPE_CHECKING:  # a type checker reads the names above, and tells of one that is not there

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name == "events":
            return import_module(".events", __name__)
        if name not in _LATE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LATE[name], __name__), name)
