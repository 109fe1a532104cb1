"""``poolbook top``: show the pool in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..condor_tools.options import ToolError, UsageError, command_table, parse
from ..machine.local_time import local_time
from ..runtime.queries import Queries
from ..stores.location import safe_url
from .common import log_option, selected_log
from .time_window import instant_of

TOP = command_table("top")


def top(argv: Sequence[str]) -> int:
    arguments = parse(TOP, argv)
    if arguments.words:
        raise UsageError(f"poolbook top: {arguments.words[0]!r} is not an option; specify the log with -log")
    url = selected_log(arguments)
    with Queries(url) as queries:
        at = instant_of("top", arguments, "at", queries.log)
    try:
        from ..top.app import PoolTop
    except ModuleNotFoundError as error:
        message = f"poolbook top needs {error.name}, which is not installed: pip install 'poolbook[top]'"
        raise ToolError(message) from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ToolError(
            "poolbook top: the input or output is not a terminal, which it needs; use `poolbook status` instead"
        )
    PoolTop(url, safe_url(url), local_time(), at, log_option(url)).run()
    return 0
