"""The signals that stop Poolbook's processes. SIGTERM and SIGQUIT mean the same as for HTCondor's daemons."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Final

PEACEFUL, GRACEFUL, FAST = "Peaceful", "Graceful", "Fast"
STOP_SIGNALS: Final[Mapping[int, str]] = {
    signal.SIGTERM: GRACEFUL, signal.SIGQUIT: FAST, signal.SIGUSR1: PEACEFUL,
}  # fmt: skip
"""How a process stops: when its jobs have ended (Peaceful), after it has vacated or killed them."""
