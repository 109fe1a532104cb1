"""The option tables of all commands, for completion and man pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module

from ..condor_tools.options import Command, Help, Option
from ..condor_tools.tool_options import Tool
from .main import COMMANDS, TOOLS

_FILES = re.compile(r"FILE|FOLDER|SCENARIO|\[LOG\]")
FILE_VALUES = frozenset({"<file>", "<folder>", "<url>"})
"""Placeholders of options that take a file's name."""


def table_of(name: str) -> Command:
    """Return the table of a command from which its help is made."""
    entry = COMMANDS[name]
    try:
        getattr(import_module(f".{entry.module}", __package__), entry.function)(["-help"])
    except Help as found:
        return found.command
    raise AssertionError(f"{name} has no help")


def tool_of(name: str) -> Tool | None:
    """Return the table of a tool that is there under HTCondor's name; None if it has none, or there is no such tool."""
    entry = TOOLS.get(name.removeprefix("condor_"))
    if entry is None:
        return None
    found: Tool | None = getattr(import_module(f".by_name.{entry.module}", __package__), "TOOL", None)
    return found


def options_of(command: Command) -> Iterator[Option]:
    """Yield the options that the command accepts, each once."""
    return (option for option in command.options if not option.refused)


def takes_files(command: Command) -> bool:
    """Tell whether the command's operands are files or folders."""
    return _FILES.search(command.usage) is not None
