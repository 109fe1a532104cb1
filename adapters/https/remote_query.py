"""Queries from other machines: commands that only read, and run where the log is."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from threading import Timer
from typing import Final

from ..condor_tools.options import Help, ToolSyntax, UsageError, Version, command_table, parse
from ..runtime.elsewhere import ON_BEHALF
from .messages import Query, QueryReply

_LARGEST_OUTPUT: Final = 32 << 20  #: bytes that a query may print
_LONGEST_S: Final = 50  #: seconds that a query may take
_QUERIES: Final = ("history", "log", "q", "stats", "status", "usage", "userprio", "why")
_ZONE: Final = re.compile(r"[A-Za-z<][A-Za-z0-9_+<>-]*(/[A-Za-z0-9_+-]+)*", re.ASCII)
_TOOL: Final = re.compile(r"poolbook|condor_[a-z_]{1,40}")
_PROGRAM: Final = "import sys; sys.argv = sys.argv[1:]; from poolbook.adapters.cli.main import entry; entry()"


def file_options(table: ToolSyntax) -> set[str]:
    """Return the names of a command's options that name a file."""
    return {option.name for option in table.options if "<file>" in option.values.split()}


def check_query(query: Query) -> None:
    """Raise `UsageError` unless the command only reads the pool's log, and no other file of this machine."""
    if query.command not in _QUERIES or not _TOOL.fullmatch(query.tool):
        raise UsageError(
            f"poolbook {query.command}: this command does not work with a pool on another machine; run it there"
        )
    if query.command == "stats":
        if {"-f", "-pool"}.intersection(query.words):
            raise UsageError("condor_stats: -f and -pool do not work on another machine; omit them")
        return
    table = command_table(query.command)
    try:
        arguments = parse(table, query.words)
    except (Help, Version):
        return
    for option in arguments.options:
        is_file = option.name in file_options(table) and option.values != ("-",)
        if is_file or option.name in ("follow", "log", "with"):
            raise UsageError(
                f"poolbook {query.command}: {option.spelling} does not work with a pool on another machine; run the "
                f"command there"
            )


def run_query(query: Query, log: str, user: str) -> QueryReply:
    """Run a checked command on a log, and return what it prints."""
    environment = {**os.environ, "POOLBOOK_LOG": log, ON_BEHALF: user, "PYTHONIOENCODING": "utf-8:replace"}
    if _ZONE.fullmatch(query.zone):
        environment["TZ"] = query.zone
    if query.width > 0:
        environment["POOLBOOK_WIDTH"] = str(query.width)
    words = [query.tool, *(() if query.tool.startswith("condor_") else (query.command,)), *query.words]
    command = [sys.executable, "-c", _PROGRAM, *words]
    with tempfile.TemporaryFile() as text, tempfile.TemporaryFile() as err:
        text.write(query.text.encode())
        text.seek(0)
        with subprocess.Popen(command, stdin=text, stdout=subprocess.PIPE, stderr=err, env=environment) as process:
            limit = Timer(_LONGEST_S, process.kill)
            limit.start()
            assert process.stdout is not None
            out = process.stdout.read(_LARGEST_OUTPUT + 1)
            if len(out) > _LARGEST_OUTPUT:
                process.kill()
        limit.cancel()
        if process.returncode == -signal.SIGKILL:
            limits = f"{_LONGEST_S} s and {_LARGEST_OUTPUT >> 20} MB"
            return QueryReply("", f"poolbook: the query exceeds the limits of {limits}; select fewer jobs\n", 1)
        err.seek(0)
        return QueryReply(out.decode(errors="replace"), err.read(1 << 20).decode(errors="replace"), process.returncode)
