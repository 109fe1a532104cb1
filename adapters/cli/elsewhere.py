"""Run a command that only reads where the log is: at a role of a pool on another machine."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..bounded_text import read_input, read_text
from ..condor_tools.options import ToolError, ToolSyntax, command_table, parse
from ..condor_tools.terminal import width_of
from ..https.messages import Query
from ..https.remote_pool import remote_pool
from ..https.remote_query import check_query, file_options
from .common import CommandOutput, called_tool

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

_ZONES = "/zoneinfo/"


def run_elsewhere(argv: Sequence[str]) -> int:
    """Run a command (a role's URL, the command, its arguments) and print what it prints there. Raise `UsageError` if
    the command needs files of that machine, `ManagerError` if the manager or the role rejects the query."""
    url, command, *argv = argv
    words, text = _with_file_as_input(command_table(command), argv)
    query = Query(called_tool() or "poolbook", command, words, text, width_of() or 0, time_zone())
    check_query(query)
    reply = remote_pool(url).query(query)
    return CommandOutput(reply.out, reply.err, reply.code).print_all()


def queue_elsewhere(url: str, constraint: str) -> list[ClassAd]:
    """Return the ads of all jobs in the queue of an access point that satisfy a constraint."""
    from ...domain.classad import ClassAd

    words = ["-allusers", "-constraint", constraint, "-jsonl"]
    reply = remote_pool(url).query(Query("poolbook", "q", words))
    if reply.code:
        raise ToolError(reply.err.strip())
    return [ClassAd.from_json(line) for line in reply.out.splitlines()]


def _with_file_as_input(table: ToolSyntax, argv: Sequence[str]) -> tuple[list[str], str]:
    """Replace a file among the options by standard input; return the arguments, and the content of the file."""
    arguments, names = parse(table, argv), file_options(table)
    if not arguments.has(*names):
        return list(argv), ""
    words, text = list(arguments.words), ""
    for option in arguments.options:
        if option.name in names:
            (path,) = option.values
            text = read_input() if path == "-" else read_text(path)
        words += [option.spelling, *(["-"] if option.name in names else option.values)]
    return words, text


def time_zone() -> str:
    """Return the user's time zone, as the environment variable TZ names it."""
    path = os.path.realpath("/etc/localtime")
    return os.environ.get("TZ") or (path.partition(_ZONES)[2] if _ZONES in path else time.tzname[0])
