"""Shared by the commands: which log and job are meant, and how calls and URLs are printed."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ..condor_tools.cells import CellContext
    from ..condor_tools.options import Arguments
    from ..runtime.queries import RunningProcess

DEFAULT_LOG = "pool.db"
_ONE_POOL: Final = "a log is one pool, and -log names another"


def default_log() -> str:
    """Return the log of a command that names none: POOLBOOK_LOG's, or pool.db in the current folder."""
    return os.environ.get("POOLBOOK_LOG") or DEFAULT_LOG


class CommandOutput(NamedTuple):
    """A command's standard output, standard error and exit code."""

    out: str
    err: str
    exit_code: int

    def printed(self) -> int:
        """Print the answer and return the exit code."""
        sys.stdout.write(self.out)
        sys.stderr.write(self.err)
        return self.exit_code


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

_UNKNOWN: Final = "{tool}: unknown host {name}\n"
_NO_SCHEDD: Final = """\
Error: unknown host {name}
Extra Info: The name given with the -name should be the name of a 
condor_schedd process. Normally it is either a hostname, or "name@hostname". 
In either case, the hostname should be the Internet host name, but it appears 
that it wasn't. 
"""
_NO_COLLECTOR: Final = """\
Error: unknown host {name}
Extra Info: You specified a hostname for a pool (the -pool argument). That 
should be the Internet host name for the central manager of the pool, but it 
does not seem to be a valid hostname. (The DNS lookup failed.) 
"""
_NO_DAEMON: Final = """\
Can't find address for {daemon} {name}
Can't find address for {name}
Perhaps you need to query another pool.
"""
NO_RECORD: Final = "Error: Collector has no record of schedd/submitter\n"
_DAEMONS: Final = {"condor_vacate": "startd"} | dict.fromkeys(("condor_off", "condor_on", "condor_reconfig"), "master")
_NO_SUCH: Final = {
    "condor_q -name": (_NO_SCHEDD, NO_RECORD),
    "condor_q -pool": (_NO_COLLECTOR,) * 2,
    "condor_q -addr": (NO_RECORD,) * 2,
    "condor_status -pool": (_NO_COLLECTOR,) * 2,
    "condor_status -direct": (
        "Error: Failed to locate startd {name}\nunknown host {name}\n",
        "Error: Failed to locate startd {name}\nCan't find address for startd {name}\n",
    ),
    "condor_history -name": ("Unable to locate remote schedd (name={name}, pool={pool}).\n",) * 2,
    "condor_prio -name": ("{tool}: No such schedd named {name} in local pool\n",) * 2,
    "condor_qedit -name": ("{tool}: No such schedd named {name} in local pool\n",) * 2,
    "condor_userprio -pool": ("{tool}: Can't locate negotiator 'default' in {name}\n",) * 2,
    "condor_submit -name": (_UNKNOWN, "\nERROR: Can't find address of schedd {name}\n"),
    "condor_drain": ("ERROR: unknown host {name}\n", "ERROR: Can't find address for startd {name}\n"),
}
"""The text that a tool prints of an unknown host, and of a name with a dot or an @, which it looks up in the pool."""


def tools_words(name: str, option: str = "", pool: str = "") -> str:
    """Return what the tool that was called prints of a name that is not of this pool, given by `option`."""
    tool = called_tool()
    far = _NO_DAEMON if tool in _DAEMONS else "Error: cannot get address of schedd {host}\n"
    plain, far = _NO_SUCH.get(
        f"{tool} -{option}" if option else tool, (_UNKNOWN, _UNKNOWN if option == "pool" else far)
    )
    daemon, host = _DAEMONS.get(tool, ""), name.rpartition("@")[2]
    template = far if "." in name or "@" in name else plain
    return template.format(tool=tool, name=name, pool=pool, daemon=daemon, host=host)


def log_of(arguments: Arguments, *of_pool: str) -> str:
    """Return the log that a command is about: the option's, POOLBOOK_LOG's, or pool.db in the current folder.

    :param of_pool: the options that name a pool: `ToolError` is raised if they mean another one
    """
    from ..condor_tools.options import NotHere, ToolError
    from ..condor_tools.tool_options import ToolEnded

    pool = arguments.value("pool")
    for option in sorted(of_pool, reverse=True):  # as the tools do, the pool before the name
        name = arguments.value(option)
        if name and option in ADDRESSES:
            if not ADDRESS.fullmatch(name):
                form = "ip:port" if option == "address" else "ip.address.here:port"
                raise ToolError(NO_ADDRESS.format(tool=called_tool() or "poolbook", name=name, form=form))
            name = name[1:-1].partition("?")[0]
        if not arguments.has(option) or is_this_pool(name):
            continue
        words = tools_words(name, option, pool)
        if "Extra Info" in words:
            raise ToolEnded(1, words, "\n")
        raise NotHere(f"poolbook: unknown host {name}: {_ONE_POOL}", words)
    return arguments.value("log", default_log())


def log_option(url: str) -> str:
    """Return the ``-log`` option that names this log in a call, quoted for a shell; empty for the default log."""
    return "" if url == (default_log()) else f" -log {shlex.quote(shown(url))}"


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


def setting(name: str = "") -> CellContext:
    """Return the setting of the tables in this process: time and zone, user, terminal width."""
    from datetime import UTC, datetime

    from ..condor_tools.cells import CellContext
    from ..condor_tools.terminal import width_of
    from ..machine.host import host_name, user_name

    host = name or host_name()
    return CellContext(
        now=int(time.time()),
        timezone=datetime.now().astimezone().tzinfo or UTC,
        schedd=host,
        address=f"<{host}>",
        me=f"{user_name()}@{host}",
        width=width_of(),
    )


def pool_log(arguments: Arguments, unknown: str = "", no_pool: str = "", code: int = 1) -> str:
    """Return the log of the pool that is meant. Raise ``ToolEnded`` if -name or -pool names another one: ``unknown``,
    of a pool ``no_pool``, in which ``{name}`` is that name; or if -addr is no address."""
    from ..condor_tools.tool_options import ToolEnded

    for given in arguments.every("addr"):
        if not ADDRESS.fullmatch(given.values[0]):
            told = NO_ADDRESS.format(tool=called_tool(), name=given.values[0], form="ip.address.here:port")
            raise ToolEnded(1, f"{told}\n")
    for given in arguments.every("name", "pool"):
        if not is_this_pool(given.values[0]):
            no_such = no_pool if no_pool and given.name == "pool" else unknown
            raise ToolEnded(code, no_such.format(name=given.values[0]))
    return default_log()


def job_id(word: str) -> tuple[int, int] | None:
    """Return the cluster and the process of an id such as 12.3, or 12, which means 12.0; None for any other word."""
    found = re.fullmatch(r"([0-9]+)(?:\.([0-9]+))?", word)
    return None if found is None else (int(found[1]), int(found[2] or 0))


def looked_up(url: str, job: tuple[int, int]) -> tuple[ClassAd | None, RunningProcess | None]:
    """Return the ad of a job in the queue, and its run; None for what there is not."""
    from ..runtime.queries import Queries

    with Queries(url) as queries:
        ad = queries.job(*job)
        return ad, None if ad is None else queries.run(*job)
