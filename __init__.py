"""Poolbook: an HTCondor pool whose only source of truth is an append-only event log.

`Pool` runs a pool in your program, `Client` uses a pool that another process runs, and `Log` reads the log of a pool or
of an import. `AsyncPool`, `AsyncClient` and `AsyncLog` do the same for asyncio. `poolbook.events` has the classes of
events, and `poolbook.testing` is the test kit. docs/library.md describes the interface.

>>> from poolbook import Behaviour, Log, Pool, events
>>> pool = Pool.open("my.db", user="alice", behave=lambda launch: Behaviour(seconds=600))
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import events, results
    from .adapters.condor_files.importing.driver import ImportResult
    from .adapters.condor_files.importing.session import follow_pool, import_pool
    from .adapters.library.aio import AsyncClient, AsyncLog, AsyncPool
    from .adapters.library.client import Client
    from .adapters.library.embedded_pool import Pool
    from .adapters.library.executor import Executor, JobFailed
    from .adapters.library.pool_commands import Outcome
    from .adapters.library.python_values import Expr
    from .adapters.library.read_only_log import Log
    from .adapters.machine.execution.client import SupervisorError
    from .adapters.runtime.log_verification import Verification
    from .adapters.runtime.queries import LogBeginsLater
    from .adapters.runtime.segments import ParallelReplayError
    from .domain.classad import ClassAdSyntaxError, EvaluationError
    from .domain.config import ConfigError, ConfigWarning
    from .domain.decision.draft import Refusal
    from .domain.errors import PoolbookError
    from .domain.negotiator.accounting import Standing
    from .domain.ports.log import AlreadyServed, Fenced, LogClosed, LogDamaged, LogError, LogNewer, LogUnavailable
    from .domain.ports.world import Launch
    from .domain.startd.slot_types import SlotTypeError
    from .domain.state.state import State
    from .domain.state_machines import UnknownDialectError
    from .domain.submit import SubmitError, SubmitWarning
    from .projections.imported_ads import Spent
    from .replay.audit_result import Audit
    from .replay.forensics.daemon_tables import NotKnown
    from .replay.narration.sentences import UnknownThingError
    from .replay.validation import Violation
    from .replay.virtual_world import Behaviour

__version__ = "0.2.0"

# Imported on first use, so that short commands do not load a whole pool.
_LAZY = {
    "AlreadyServed": ".domain.ports.log",
    "AsyncClient": ".adapters.library.aio",
    "AsyncLog": ".adapters.library.aio",
    "AsyncPool": ".adapters.library.aio",
    "Audit": ".replay.audit_result",
    "Behaviour": ".replay.virtual_world",
    "ClassAdSyntaxError": ".domain.classad",
    "Client": ".adapters.library.client",
    "ConfigError": ".domain.config",
    "ConfigWarning": ".domain.config",
    "EvaluationError": ".domain.classad",
    "Executor": ".adapters.library.executor",
    "Expr": ".adapters.library.python_values",
    "Fenced": ".domain.ports.log",
    "ImportResult": ".adapters.condor_files.importing.driver",
    "JobFailed": ".adapters.library.executor",
    "Launch": ".domain.ports.world",
    "Log": ".adapters.library.read_only_log",
    "LogBeginsLater": ".adapters.runtime.queries",
    "LogClosed": ".domain.ports.log",
    "LogDamaged": ".domain.ports.log",
    "LogError": ".domain.ports.log",
    "LogNewer": ".domain.ports.log",
    "LogUnavailable": ".domain.ports.log",
    "NotKnown": ".replay.forensics.daemon_tables",
    "Outcome": ".adapters.library.pool_commands",
    "ParallelReplayError": ".adapters.runtime.segments",
    "Pool": ".adapters.library.embedded_pool",
    "PoolbookError": ".domain.errors",
    "Refusal": ".domain.decision.draft",
    "SlotTypeError": ".domain.startd.slot_types",
    "Spent": ".projections.imported_ads",
    "Standing": ".domain.negotiator.accounting",
    "State": ".domain.state.state",
    "SubmitError": ".domain.submit",
    "SubmitWarning": ".domain.submit",
    "SupervisorError": ".adapters.machine.execution.client",
    "UnknownDialectError": ".domain.state_machines",
    "UnknownThingError": ".replay.narration.sentences",
    "Verification": ".adapters.runtime.log_verification",
    "Violation": ".replay.validation",
    "follow_pool": ".adapters.condor_files.importing.session",
    "import_pool": ".adapters.condor_files.importing.session",
}

__all__ = [
    "AlreadyServed",
    "AsyncClient",
    "AsyncLog",
    "AsyncPool",
    "Audit",
    "Behaviour",
    "ClassAdSyntaxError",
    "Client",
    "ConfigError",
    "ConfigWarning",
    "EvaluationError",
    "Executor",
    "Expr",
    "Fenced",
    "ImportResult",
    "JobFailed",
    "Launch",
    "Log",
    "LogBeginsLater",
    "LogClosed",
    "LogDamaged",
    "LogError",
    "LogNewer",
    "LogUnavailable",
    "NotKnown",
    "Outcome",
    "ParallelReplayError",
    "Pool",
    "PoolbookError",
    "Refusal",
    "SlotTypeError",
    "Spent",
    "Standing",
    "State",
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
    "results",
]


if not TYPE_CHECKING:  # type checkers use the imports above, and report unknown names

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in ("events", "results"):
            return import_module(f".{name}", __name__)
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LAZY[name], __name__), name)
