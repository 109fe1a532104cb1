"""Functions that several commands share: select the log and the job, and print command lines and URLs."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ..condor_tools.options import Arguments, NotHere, ToolError, sections, texts_by_name
from ..condor_tools.terminal import columns, width_of
from ..condor_tools.tool_options import ToolEnded
from ..runtime.elsewhere import ON_BEHALF, address_of, is_elsewhere
from ..stores.location import safe_url

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ..condor_tools.cells import CellContext
    from ..runtime.queries import RunningProcess

DEFAULT_LOG = "pool.db"
_COLLECTOR_PORT: Final = "9618"
_CONNECTION_S: Final = 5  #: seconds that a manager may take to accept a connection
_ONE_POOL_TEXT: Final = "a log is one pool; use -log for another"


def default_log() -> str:
    """Return the default log: POOLBOOK_LOG, or pool.db in the current directory."""
    return os.environ.get("POOLBOOK_LOG") or DEFAULT_LOG


class CommandOutput(NamedTuple):
    out: str
    err: str
    exit_code: int

    def print_all(self) -> int:
        sys.stdout.write(self.out)
        sys.stderr.write(self.err)
        return self.exit_code


def called_tool() -> str:
    """Return the name of the HTCondor tool under which this program was called, or an empty string for ``poolbook``."""
    name = os.path.basename(sys.argv[0])
    return name if name.startswith("condor_") else ""


def is_this_pool(name: str) -> bool:
    """Check whether -name or -pool names this log's pool: this host, with or without a user or port."""
    from ..machine.host import host_name

    return name.lower().rpartition("@")[2].partition(":")[0] in ("localhost", "127.0.0.1", host_name().lower())


ADDRESS_OPTIONS: Final = frozenset({"addr", "address"})
"""Options that name a pool by the address of a daemon."""
NO_SCHEDD_RECORD: Final = "Error: Collector has no record of schedd/submitter\n"
_DAEMONS: Final = {"condor_vacate": "startd"} | dict.fromkeys(("condor_off", "condor_on", "condor_reconfig"), "master")


def _address_error(tool: str, option: str, name: str) -> str:
    if re.fullmatch(r"<[^<>]+>", name):
        return ""
    form = "ip:port" if option == "address" else "ip.address.here:port"
    text = f'{tool}: "{name}" is not a valid address\nShould be of the form <{form}>\n'
    return f"{text}For example: <123.456.789.123:6789>"


def unknown_host(name: str, option: str = "", pool: str = "") -> tuple[str, bool]:
    """Return the tool's message for a `name` that is not in this pool, and whether the message explains the error."""
    hosts, tool = {heading: texts_by_name(rows) for heading, rows in sections("unknown_hosts").items()}, called_tool()
    key, daemon, is_remote = f"{tool} -{option}" if option else tool, _DAEMONS.get(tool, ""), "." in name or "@" in name
    headings = (*(["looked up:"] if is_remote else []), "explained:", "unknown host:")
    heading = next((heading for heading in headings if key in hosts[heading]), "")
    if not heading:
        heading = "looked up:" if is_remote and option != "pool" else "unknown host:"
        key = "a daemon" if daemon and heading == "looked up:" else "other"
    text = hosts[heading][key].encode().decode("unicode_escape")
    host = name.rpartition("@")[2]
    return text.format(tool=tool, name=name, pool=pool, daemon=daemon, host=host), heading == "explained:"


def check_collector(pool: str) -> None:
    """Raise `NotHere` if -pool names a port of this host at which no collector listens. The ports of this pool need not
    be open, because commands on this host read the log."""
    pool = first_reachable(pool)
    host, _, port = pool.rpartition(":")
    if not port.isdecimal() or not is_this_pool(pool) or port == _COLLECTOR_PORT or _listens(host, int(port)):
        return
    from textwrap import fill

    from ..runtime.configuration import load

    if load().get("COLLECTOR_HOST").endswith(f":{port}"):
        return
    text = (
        texts_by_name(sections("unknown_hosts")["unreachable:"])["condor_status -pool"]
        .encode()
        .decode("unicode_escape")
        .format(address=f"<{pool}>")
    )
    filled = (fill(part, 77, break_on_hyphens=False, break_long_words=False) for part in text.split("\n"))
    explained = "\n\n".join(part.replace("\n", " \n") + " " for part in filled)
    refused = f"Error: communication error\nCEDAR:6001:Failed to connect to <{pool}>\n{explained}\n"
    raise NotHere(f"poolbook: no manager listens at {pool}; {_ONE_POOL_TEXT}", refused)


def _listens(host: str, port: int) -> bool:
    from socket import create_connection

    try:
        create_connection((host, port), timeout=_CONNECTION_S).close()
    except (OSError, OverflowError):
        return False
    return True


def first_reachable(pools: str) -> str:
    """Return the first pool in a list, separated by commas, whose manager can be reached; the last, if none can."""
    names = [name.strip() for name in pools.split(",") if name.strip()]
    for name in names[:-1]:
        address = name.removeprefix("https://").partition("#")[0].partition("/")[0]
        host, _, port = address.rpartition(":") if ":" in address else (address, "", _COLLECTOR_PORT)
        if port.isdecimal() and _listens(host.strip("[]"), int(port)):
            return name
    return names[-1] if names else pools


def selected_log(arguments: Arguments, *of_pool: str) -> str:
    """Return the command's log: the value of -log, POOLBOOK_LOG, or pool.db in the current directory.

    :param of_pool: the options that name a pool: `ToolError` is raised if they name another pool
    """
    if elsewhere := _pool_elsewhere(arguments, of_pool):
        return elsewhere
    pool = arguments.value("pool")
    for option in sorted(of_pool, reverse=True):  # like HTCondor's tools, check the pool before the name
        name = first_reachable(arguments.value(option)) if option == "pool" else arguments.value(option)
        if name and option in ADDRESS_OPTIONS:
            if error_text := _address_error(called_tool() or "poolbook", option, name):
                raise ToolError(error_text)
            name = name[1:-1].partition("?")[0]
        if not arguments.has(option) or is_this_pool(name):
            continue
        message, is_explained = unknown_host(name, option, pool)
        if is_explained:
            raise ToolEnded(1, message, "\n")
        raise NotHere(f"poolbook: unknown host {name}: {_ONE_POOL_TEXT}", message)
    return arguments.value("log", default_log())


def _pool_elsewhere(arguments: Arguments, of_pool: Collection[str]) -> str:
    """Return the URL of the pool on another machine that -pool names; empty if it names none. The name of a host that
    does not exist names no pool. A query that another machine has sent is about the default log."""
    if ON_BEHALF in os.environ:
        return default_log()
    pool = first_reachable(arguments.value("pool")) if "pool" in of_pool else ""
    if not pool or not (is_elsewhere(pool) or not is_this_pool(pool)):
        return ""
    if not is_elsewhere(pool):
        from socket import getaddrinfo

        try:
            getaddrinfo(pool.partition("#")[0].rpartition(":")[0] or pool, None)
        except (OSError, UnicodeError):
            return ""
    names = [name for name in ("name", "remote") if name in of_pool]
    name = next((arguments.value(name) for name in names if arguments.has(name)), "" if names else None)
    return address_of(pool, name)


def log_option(url: str) -> str:
    """Return the ``-log`` option that selects this log, quoted for a shell, or an empty string for the default log."""
    import shlex

    if is_elsewhere(url):
        base, _, name = url.partition("#")[0].removeprefix("https://").partition("/")
        return f" -pool https://{base}" + (f" -name {shlex.quote(name)}" if name else "")
    return "" if url == default_log() else f" -log {shlex.quote(safe_url(url))}"


def poolbook_command() -> str:
    """Return the command as the user would type it."""
    import shutil  # slow to import, and most commands print no command line

    program = sys.argv[0]
    path = shutil.which("poolbook")
    if path is not None and os.path.realpath(path) == os.path.realpath(program):
        return "poolbook"
    return os.path.relpath(program) if os.path.basename(program) == "poolbook" else "poolbook"


def suggested_commands(useful_calls: Sequence[tuple[str, str]], url: str) -> str:
    """Return suggested commands, one per line, each with its purpose."""
    command, suffix = poolbook_command(), log_option(url)
    return "\n".join(columns([(f"{command} {call}{suffix}", purpose) for call, purpose in useful_calls], width_of()))


def display_context() -> CellContext:
    """Return the context for tables in this process: the time and time zone, the user, and the terminal width."""
    from ..condor_tools.cells import CellContext
    from ..machine.host import host_name, user_name
    from ..machine.local_time import local_time

    host = host_name()
    return CellContext(
        now=int(time.time()),
        timezone=local_time(),
        schedd=host,
        address=f"<{host}>",
        me=f"{os.environ.get(ON_BEHALF) or user_name()}@{host}",
        width=width_of(),
    )


def pool_log(
    arguments: Arguments, unknown: str = "", no_pool_text: str = "", *, at_manager: bool = False
) -> str:  # fmt: skip
    """Return the log of the named pool. Raise ``ToolEnded`` if -addr is not a valid address, or if -name or -pool names
    another pool; the message is then ``unknown`` or ``no_pool_text``, with ``{name}`` replaced by that name.

    :param at_manager: a pool on another machine is its manager, and not an access point
    """
    if elsewhere := _pool_elsewhere(arguments, ("pool",) if at_manager else ("name", "pool")):
        return elsewhere
    for option in arguments.all_given("addr"):
        if error_text := _address_error(called_tool(), "addr", option.values[0]):
            raise ToolEnded(1, f"{error_text}\n")
    for option in arguments.all_given("name", "pool"):
        if not is_this_pool(option.values[0]):
            no_such = no_pool_text if no_pool_text and option.name == "pool" else unknown
            raise ToolEnded(1, no_such.format(name=option.values[0]))
    return default_log()


def job_id(word: str) -> tuple[int, int] | None:
    """Return the cluster and proc of a job id such as 12.3 or 12 (which means 12.0), or None for any other word."""
    match = re.fullmatch(r"([0-9]+)(?:\.([0-9]+))?", word)
    return None if match is None else (int(match[1]), int(match[2] or 0))


def job_and_process(url: str, job: tuple[int, int]) -> tuple[ClassAd | None, RunningProcess | None]:
    """Return the ad and the running process of a job in the queue, or None for each that does not exist."""
    from ..runtime.queries import Queries

    with Queries(url) as queries:
        ad = queries.job(*job)
        return ad, None if ad is None else queries.run(*job)
