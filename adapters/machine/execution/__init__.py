"""Real execution: jobs as processes of this machine, held by a supervisor process which outlives the pool.

``activation`` is what the two sides say to each other, ``client`` the pool's side, ``supervisor/`` the process itself.
Nothing here decides anything about a job: when to start, signal or hold it is the pool's to say, and what a limit's
violation means for the job's life as well.
"""

if __name__ != "poolbook.adapters.machine.execution":
    raise ImportError(f"import this folder as poolbook.adapters.machine.execution, not as {__name__}")

from .activation import (
    FAILURE_HOLD_CODES,
    VIOLATION_HOLD_CODES,
    Activation,
    Exited,
    Failed,
    Limits,
    Lost,
    Report,
    Running,
    Started,
    Usage,
)
from .client import ReplacedError, Supervisor, SupervisorError

__all__ = [
    "FAILURE_HOLD_CODES",
    "VIOLATION_HOLD_CODES",
    "Activation",
    "Exited",
    "Failed",
    "Limits",
    "Lost",
    "ReplacedError",
    "Report",
    "Running",
    "Started",
    "Supervisor",
    "SupervisorError",
    "Usage",
]
