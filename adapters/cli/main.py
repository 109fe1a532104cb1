"""``poolbook COMMAND ...``: find the command, call it, and convert its errors into a message and an exit code.

Exit codes: 0, success; 1, rejected, or the answer is no; 2, invalid usage; 3, an unexpected error; 130, interrupted. No
error prints a traceback: an unexpected error is reported in a sentence, and its traceback is saved in a file
(``fault_report``). ``poolbook -debug COMMAND`` prints the traceback instead.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from ..condor_tools.options import Help, NotHere, ToolError, UsageError, Version, pair, sections, texts_by_name, usage
from ..condor_tools.terminal import columns, guard_streams, width_of, wrap_text
from ..condor_tools.tool_options import ToolEnded, htcondor_message, version
from ..runtime.elsewhere import QueryElsewhere


class Entry(NamedTuple):
    """A row of ``commands/names.txt``: a command's module, relative to this package, its function and short
    description."""

    module: str
    function: str
    words: str


def _entries(heading: str) -> dict[str, Entry]:
    cells = ((name, *pair(fields)) for name, fields in map(pair, _NAMES[heading]))
    places = ((name, place.rpartition("."), purpose) for name, place, purpose in cells)
    return {name: Entry(module, function, purpose) for name, (module, _, function), purpose in places}


_NAMES = sections("names")
COMMANDS, TOOLS = _entries("commands:"), _entries("tools:")
UNSUPPORTED, WORDS = (texts_by_name(_NAMES[f"{kind} without a command:"]) for kind in ("tools", "words"))
ALTERNATIVES = UNSUPPORTED | WORDS
PREFIX = "condor_"
RENAMED_TOOLS = {
    "vacate_job": "vacate",
    "analyze": "why",
    "metricd": "metrics",
    "gangliad": "metrics",
}
"""HTCondor's tools that have another name in Poolbook."""


def tool_name(name: str) -> str:
    """Return the HTCondor name of a tool. All but one of them start with ``condor_``."""
    return name if name == "htcondor" else PREFIX + name


def command_named(name: str) -> str:
    """Return the command with this name; empty if there is none. The names in ``TOOLS`` are not commands."""
    plain_name = name.removeprefix(PREFIX)
    if name in COMMANDS:
        return name
    if name != plain_name and plain_name in COMMANDS and plain_name not in ALTERNATIVES:
        return plain_name
    return RENAMED_TOOLS.get(plain_name, "")


def unknown_command_message(name: str) -> str:
    from ...domain.suggestions import did_you_mean

    plain_name = name.removeprefix(PREFIX)
    if plain_name in ALTERNATIVES:
        return f"poolbook: unknown command {name}: {ALTERNATIVES[plain_name]}"
    if hint := did_you_mean(plain_name, COMMANDS):
        return f"poolbook: unknown command {name!r}; {hint}"
    if name != plain_name:
        return f"poolbook: Poolbook has no counterpart of {name}; `poolbook -help` lists its commands"
    return f"poolbook: unknown command {name!r}; `poolbook -help` lists the commands"


_FIRST = """\
poolbook: an HTCondor pool that records every state change in an append-only log

usage: poolbook COMMAND [options]        poolbook help COMMAND shows a command's options

"""
_LAST = (
    "",
    "Commands that use a pool accept -log URL: a file name (default: POOLBOOK_LOG, or pool.db in the current "
    "directory), sqlite:///file.db or postgresql://...; with -json they print JSON. HTCondor's names also work: "
    "poolbook condor_q. Some commands only have HTCondor's name: " + ", ".join(map(tool_name, TOOLS)) + ".",
    "",
    "Try:  poolbook run job.sub        then  poolbook history,  poolbook why 1.0,  poolbook verify",
    "",
)
_WIDTH = 118
"""The width of the help in columns if the terminal's width is unknown."""


def overview() -> str:
    width = width_of()
    lines = columns([(name, entry.words) for name, entry in COMMANDS.items()], width)
    return wrap_text(_FIRST, width) + "\n".join(lines) + "\n" + wrap_text("\n".join(_LAST), width or _WIDTH)


_NO_POOL = "No pool in this directory yet: start one with `poolbook run job.sub` or `poolbook serve`, or use -log FILE."
_DEBUG = "-debug"
UNEXPECTED_ERROR_CODE = 3  #: the exit code of a command that failed with an unexpected error
_HELPS = ("-h", "-help", "--help", "help")
_VERSIONS = ("-version", "--version", "version")
_TOOL_FAILURE_CODES = 1  #: the exit code of HTCondor tools for any failure


_WITH_ATTRIBUTES = ("condor_q", "condor_status", "condor_history")


def _tool_option(word: str) -> str:
    """Return -at in full: in HTCondor's tools it means -attributes, in `poolbook`'s commands a time."""
    return "-attributes" if word == "-at" else word


def _print_safely(text: object) -> None:
    print(wrap_text(str(text), width_of(sys.stderr)), file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    if argv is None:
        tool = os.path.basename(sys.argv[0])
        if tool.startswith("condor_") or tool == "htcondor":
            code = main([tool, *map(_tool_option, sys.argv[1:])] if tool in _WITH_ATTRIBUTES else [tool, *sys.argv[1:]])
            is_exact_tool = tool.removeprefix("condor_") in TOOLS  # these already exit as HTCondor's tools do
            return _TOOL_FAILURE_CODES if code in (2, UNEXPECTED_ERROR_CODE) and not is_exact_tool else code
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = arguments[:1] == [_DEBUG]
    arguments = arguments[debug:]
    if arguments[0:1] and arguments[0] in _HELPS:
        arguments = [*arguments[1:2], "-help"]
    if not arguments or arguments[0] == "-help":
        print(overview(), end="")
        return 0 if arguments else 2
    if arguments[0] in _VERSIONS:
        from ..machine.host import CONDOR_VERSION, VERSION

        print(f"poolbook {VERSION}, with the behaviour of {CONDOR_VERSION}")
        return 0
    entry = COMMANDS.get(arguments[0]) or TOOLS.get(arguments[0].removeprefix("condor_"))
    if entry is None:
        entry = COMMANDS.get(command_named(arguments[0]))
        if entry is None:
            _print_safely(unknown_command_message(arguments[0]))
            return 2
    try:
        return _call(entry, arguments, debug)
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except KeyboardInterrupt:
        return 130


_ELSEWHERE = Entry("elsewhere", "run_elsewhere", "")


def _call(entry: Entry, arguments: Sequence[str], debug: bool) -> int:
    try:
        command = getattr(import_module(f".{entry.module}", __package__), entry.function)
        exit_code = int(command(arguments[1:]))
        sys.stdout.flush()
        return exit_code
    except BrokenPipeError:
        raise
    except Exception as error:
        if isinstance(error, QueryElsewhere):
            command = command_named(arguments[0]) or arguments[0].removeprefix(PREFIX)
            return _call(_ELSEWHERE, ["", error.url, command, *arguments[1:]], debug)
        if debug:
            raise
        code = _print_expected_error(error)
        if code is not None:
            return code
        from .fault_report import fault_message

        _print_safely(fault_message(error, arguments))
        return UNEXPECTED_ERROR_CODE


def _print_expected_error(error: Exception) -> int | None:
    from ...domain.errors import PoolbookError
    from .common import called_tool

    if isinstance(error, Help):
        print(usage(error.command, width_of()), flush=True)
        return error.exit_code
    if isinstance(error, Version):
        print(version(), end="", flush=True)
        return error.exit_code
    if isinstance(error, NotHere) and called_tool():
        sys.stderr.write(error.tool_message.replace("{tool}", called_tool()))
        return error.tool_code
    if isinstance(error, UsageError) and called_tool():
        text = htcondor_message(error)
        if text is not None:
            print(text, file=sys.stderr)
            return error.exit_code
    if isinstance(error, UsageError | ToolError):
        _print_safely(error)
        return error.exit_code
    if isinstance(error, ToolEnded):
        sys.stdout.write(error.out)
        sys.stderr.write(error.err)
        return error.exit_code
    from ...domain.ports.log import LogMissing
    from ..runtime.requests import RequestRefused
    from .common import DEFAULT_LOG

    if isinstance(error, LogMissing) and error.name == DEFAULT_LOG:
        _print_safely(_NO_POOL)
        return 1
    if isinstance(error, OSError) and error.filename is not None:
        from .fault_report import file_error_message

        _print_safely(f"poolbook: {file_error_message(error)}")
        return 1
    if not isinstance(error, PoolbookError | RequestRefused):
        return None
    for line in getattr(error, "warnings", ()):
        print(line, file=sys.stderr)
    tool_message = getattr(error, "tool", "") if called_tool() else ""
    _print_safely(tool_message or f"poolbook: {error}")
    return 1


def entry() -> None:
    # With the default threshold, searching the objects of loaded modules for garbage takes a tenth of a short command.
    gc.set_threshold(100_000)
    guard_streams()
    code = main()
    # At exit, the interpreter collects garbage among all imported objects twice. It skips frozen objects.
    gc.freeze()
    sys.exit(code)
