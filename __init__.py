"""Poolbook: an HTCondor pool whose only truth is an append-only log of events.

Queue, pool status, accounting and history are views of that log, which can be thrown away and
rebuilt, for now or for any moment of the past. `Pool` is a whole pool in a program of one's own.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adapters.pool import Pool
    from .adapters.values import Expr
    from .domain.config import ConfigError
    from .domain.decide import Refusal
    from .domain.log import LogError
    from .domain.submit import SubmitError
    from .domain.world import Launch
    from .replay.virtual import Behaviour

__version__ = "0.1.0"

__all__ = ["Behaviour", "ConfigError", "Expr", "Launch", "LogError", "Pool", "Refusal", "SubmitError", "__version__"]

# Loaded when asked for: a short command must not wait for the whole of a pool.
_LATE = {
    "Behaviour": ".replay.virtual",
    "ConfigError": ".domain.config",
    "Expr": ".adapters.values",
    "Launch": ".domain.world",
    "LogError": ".domain.log",
    "Pool": ".adapters.pool",
    "Refusal": ".domain.decide",
    "SubmitError": ".domain.submit",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATE[name], __name__), name)
