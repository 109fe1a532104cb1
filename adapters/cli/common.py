"""What several commands share: where the log is, what is printed for whom."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..condor_tools.cells import Setting
    from ..condor_tools.options import Arguments

DEFAULT_LOG = "pool.db"


def log_of(arguments: Arguments) -> str:
    """The log that a command is about: the option's, POOLBOOK_LOG's, or pool.db in the current folder."""
    given = arguments.last("log")
    return given.values[0] if given is not None else os.environ.get("POOLBOOK_LOG") or DEFAULT_LOG


def log_option(url: str) -> str:
    """What a call needs behind it to be about this log, as a user may type it: nothing for the one that is meant
    anyway."""
    return "" if url == (os.environ.get("POOLBOOK_LOG") or DEFAULT_LOG) else f" -log {shlex.quote(shown(url))}"


def called() -> str:
    """The command as its user may type it again."""
    own = sys.argv[0]
    found = shutil.which("poolbook")
    if found is not None and os.path.realpath(found) == os.path.realpath(own):
        return "poolbook"
    return os.path.relpath(own) if os.path.basename(own) == "poolbook" else "poolbook"


def calls(worth: Sequence[tuple[str, str]], url: str) -> str:
    """Calls that are worth typing next, one to a line, each with what it is for."""
    from ..condor_tools.terminal import columns, width_of

    command, ending = called(), log_option(url)
    return "\n".join(columns([(f"{command} {words}{ending}", purpose) for words, purpose in worth], width_of()))


def shown(url: str) -> str:
    """A log's URL as it may be printed: without a password."""
    return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1:***@", url)


def setting(name: str = "") -> Setting:
    """What the tables need of this process: the time and its zone, who asks, how wide the terminal is."""
    from datetime import UTC, datetime

    from ..condor_tools.cells import Setting
    from ..condor_tools.terminal import width_of
    from ..machine.host import host_name, user_name

    host = name or host_name()
    return Setting(
        now=int(time.time()),
        timezone=datetime.now().astimezone().tzinfo or UTC,
        schedd=host,
        address=f"<{host}>",
        me=f"{user_name()}@{host}",
        width=width_of(),
    )
