"""Shared by the commands: which log is meant, and how calls and URLs are printed."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..condor_tools.cells import Setting
    from ..condor_tools.options import Arguments

DEFAULT_LOG = "pool.db"
_ONE_POOL: Final = "a log is one pool, and -log names another"


def called_tool() -> str:
    """Return the name of HTCondor's tool under which this program was called; empty if by its own."""
    name = os.path.basename(sys.argv[0])
    return name if name.startswith("condor_") else ""


def is_this_pool(name: str) -> bool:
    """Tell whether -name or -pool means the pool of the log: this host's, with or without a user or port."""
    from ..machine.host import host_name

    return name.lower().rpartition("@")[2].partition(":")[0] in ("localhost", "127.0.0.1", host_name().lower())


ADDRESSES: Final = frozenset({"addr", "address"})
"""Options that name a pool by a daemon's address."""
ADDRESS: Final = re.compile(r"<[^<>]+>")
NO_ADDRESS: Final = """\
{tool}: "{name}" is not a valid address
Should be of the form <{form}>
For example: <123.456.789.123:6789>"""

_NO_SCHEDD: Final = """
Error: unknown host {name}
Extra Info: The name given with the -name should be the name of a 
condor_schedd process. Normally it is either a hostname, or "name@hostname". 
In either case, the hostname should be the Internet host name, but it appears 
that it wasn't. 
"""


_NO_QUEUE: Final = {
    "condor_history": "Unable to locate remote schedd (name={name}, pool=).",
    "condor_qedit": "condor_qedit: No such schedd named {name} in local pool",
}
"""What tools say of a schedd that there is not, where it is not `unknown host`."""


def log_of(arguments: Arguments, *of_pool: str) -> str:
    """Return the log that a command is about: the option's, POOLBOOK_LOG's, or pool.db in the current folder.

    :param of_pool: the options that name a pool: `Refusal` is raised if they mean another one
    """
    from ..condor_tools.options import Refusal

    for option in of_pool:
        name = arguments.value(option)
        tool = called_tool()
        if name and option in ADDRESSES:
            if not ADDRESS.fullmatch(name):
                form = "ip:port" if option == "address" else "ip.address.here:port"
                raise Refusal(NO_ADDRESS.format(tool=tool or "poolbook", name=name, form=form))
            name = name[1:-1].partition("?")[0]
        if not name or is_this_pool(name):
            continue
        if tool == "condor_q":
            record = "Error: Collector has no record of schedd/submitter"
            raise Refusal(record if "@" in name else _NO_SCHEDD.format(name=name).rstrip("\n"))
        if tool in _NO_QUEUE and option == "name":
            raise Refusal(_NO_QUEUE[tool].format(name=name))
        raise Refusal(f"{tool or 'poolbook'}: unknown host {name}" + ("" if tool else f": {_ONE_POOL}"))
    return arguments.value("log", os.environ.get("POOLBOOK_LOG") or DEFAULT_LOG)


def log_option(url: str) -> str:
    """Return the ``-log`` option that names this log in a call, quoted for a shell; empty for the default log."""
    return "" if url == (os.environ.get("POOLBOOK_LOG") or DEFAULT_LOG) else f" -log {shlex.quote(shown(url))}"


def called() -> str:
    """Return the command as its user may type it again."""
    import shutil  # it brings all that unpacks archives, and most commands print no call

    own = sys.argv[0]
    found = shutil.which("poolbook")
    if found is not None and os.path.realpath(found) == os.path.realpath(own):
        return "poolbook"
    return os.path.relpath(own) if os.path.basename(own) == "poolbook" else "poolbook"


def calls(worth: Sequence[tuple[str, str]], url: str) -> str:
    """Return the calls worth typing next, one to a line, each with its purpose."""
    from ..condor_tools.terminal import columns, width_of

    command, ending = called(), log_option(url)
    return "\n".join(columns([(f"{command} {words}{ending}", purpose) for words, purpose in worth], width_of()))


def shown(url: str) -> str:
    """Return a log's URL without its password."""
    return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1:***@", url)


def setting(name: str = "") -> Setting:
    """Return the setting of the tables in this process: time and zone, user, terminal width."""
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
