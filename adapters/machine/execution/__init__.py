"""Real execution: jobs as processes of this machine, under a supervisor process that outlives the pool.

``activation`` is the protocol, ``client`` the pool's side, ``supervisor/`` the process itself. Nothing here decides
about a job: the pool says when to start, signal or hold it, and what the violation of a limit means.
"""

from .activation import (
    UNATTENDED,
    VIOLATION_HOLD_CODES,
    Account,
    Activation,
    Chirp,
    Chirped,
    Exited,
    Failed,
    FileTransfer,
    Limits,
    Lost,
    Move,
    Report,
    Running,
    Started,
    TransferFailure,
    Transferring,
    Usage,
    Write,
)
from .client import ReplacedError, Supervisor, SupervisorError

__all__ = [
    "UNATTENDED",
    "VIOLATION_HOLD_CODES",
    "Account",
    "Activation",
    "Chirp",
    "Chirped",
    "Exited",
    "Failed",
    "FileTransfer",
    "Limits",
    "Lost",
    "Move",
    "ReplacedError",
    "Report",
    "Running",
    "Started",
    "Supervisor",
    "SupervisorError",
    "TransferFailure",
    "Transferring",
    "Usage",
    "Write",
]
