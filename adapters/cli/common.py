"""What several commands share: where the log is, what is printed for whom."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..tools.cells import Setting
    from ..tools.options import Arguments

DEFAULT_LOG = "pool.db"


def log_of(arguments: Arguments) -> str:
    """The log that a command is about: the option's, POOLBOOK_LOG's, or pool.db in the current folder."""
    given = arguments.last("log")
    return given.values[0] if given is not None else os.environ.get("POOLBOOK_LOG") or DEFAULT_LOG


def shown(url: str) -> str:
    """A log's URL as it may be printed: without a password."""
    return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1:***@", url)


def setting(name: str = "") -> Setting:
    """What the tables need of this process: the time and its zone, who asks, how wide the terminal is."""
    from datetime import UTC, datetime

    from ..facts import host_name, user_name
    from ..tools.cells import Setting
    from ..tools.terminal import width_of

    host = name or host_name()
    return Setting(
        now=int(time.time()),
        timezone=datetime.now().astimezone().tzinfo or UTC,
        schedd=host,
        address=f"<{host}>",
        me=f"{user_name()}@{host}",
        width=width_of(),
    )
