"""Real execution: jobs as processes of this machine, under a supervisor process that outlives the pool.

``activation`` is the protocol, ``client`` the pool's side, ``supervisor/`` the process itself. Nothing here decides
about a job: the pool says when to start, signal or hold it, and what the violation of a limit means.
"""

from .activation import (
    UNATTENDED,
    VIOLATION_HOLD_CODES,
    Chirp,
    Chirped,
    Exited,
    Failed,
    FileTransfer,
    LaunchRequest,
    Lost,
    Move,
    Report,
    ResourceLimits,
    Running,
    Started,
    TransferFailure,
    Transferring,
    UnixAccount,
    Usage,
    Write,
)
from .client import ReplacedError, Supervisor, SupervisorError

__all__ = [
    "UNATTENDED",
    "VIOLATION_HOLD_CODES",
    "Chirp",
    "Chirped",
    "Exited",
    "Failed",
    "FileTransfer",
    "LaunchRequest",
    "Lost",
    "Move",
    "ReplacedError",
    "Report",
    "ResourceLimits",
    "Running",
    "Started",
    "Supervisor",
    "SupervisorError",
    "TransferFailure",
    "Transferring",
    "UnixAccount",
    "Usage",
    "Write",
]
