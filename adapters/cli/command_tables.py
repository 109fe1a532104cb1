"""The commands' own tables, as what is made of all of them needs them: completion, man pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module

from ..condor_tools.options import Command, Help, Option
from .main import COMMANDS

_FILES = re.compile(r"FILE|FOLDER|SCENARIO|\[LOG\]")
FILE_VALUES = frozenset({"<file>", "<folder>", "<url>"})
"""What an option takes where it takes a file's name."""


def table_of(name: str) -> Command:
    """The table of a command, as its help is made of it."""
    entry = COMMANDS[name]
    try:
        getattr(import_module(f".{entry.module}", __package__), entry.function)(["-help"])
    except Help as found:
        return found.command
    raise AssertionError(f"{name} has no help")


def options_of(command: Command) -> Iterator[Option]:
    """The options that do something, each once."""
    return (option for option in command.options if not option.refused)


def takes_files(command: Command) -> bool:
    """Whether what is named behind the command are files or folders."""
    return _FILES.search(command.usage) is not None
