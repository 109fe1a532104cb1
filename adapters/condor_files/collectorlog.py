"""Read the CollectorLog: the collector's beginning and end."""

from __future__ import annotations

from .daemon_log import DAEMON_LIFE, DaemonLog, table


class CollectorLogReader(DaemonLog):
    """Reads a CollectorLog."""

    PATTERNS = table(DAEMON_LIFE)
    DAEMON = "collector"
