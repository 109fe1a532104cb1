"""Tools that read or replay a log, and the simulation of a pool in virtual time. `Replay` and `compare` are stable.

>>> from poolbook.replay import Replay
>>> Replay(log).to(1_800_000_060).state.slots["slot1@node1"].state
'Claimed'
"""

from typing import TYPE_CHECKING, Any

if __name__ != "poolbook.replay":
    raise ImportError(f"import this directory as poolbook.replay, not as {__name__}")

if TYPE_CHECKING:
    from .moments.compare_logs import Comparison, compare
    from .moments.replay import LogProjection, Replay, ReplayLog

__all__ = ["Comparison", "LogProjection", "Replay", "ReplayLog", "compare"]

if not TYPE_CHECKING:  # imported on first use: most commands need one module of this package

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .moments import compare_logs, replay

        return getattr(compare_logs, name, None) or getattr(replay, name)
