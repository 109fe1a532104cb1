"""The commands that set one attribute each (``commands.txt``), unsupported commands, and universes."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ..package_data import get_data, lines, sections


class CommandType(Enum):
    """The type of a command's value, which determines how the value is written to the ad."""

    EXPRESSION = "an expression"
    TEXT = "a text, unchanged"
    UNQUOTED = "a text, without double quotes around it"
    LIST = "texts, separated by commas or blanks"
    PATH = "a path, relative to the job's initial directory"
    BOOLEAN = "true or false"
    INTEGER = "an integer"
    COUNT = "an integer, 0 or more"
    LEADING = "the integer at the beginning of a text, else 0"
    SIGNAL = "a signal, by name or number"


class SubmitCommand(NamedTuple):
    attribute: str
    names: str  # separated by blanks, in the order in which they are looked up
    kind: CommandType

    @property
    def commands(self) -> tuple[str, ...]:
        return (*self.names.split(), self.attribute.lower())


SIMPLE: tuple[SubmitCommand, ...] = tuple(
    SubmitCommand(attribute, names, CommandType[kind])
    for section in sections(get_data(__package__, "commands.txt"))
    for attribute, kind, names in (line.split(" ", 2) for line in section.lines)
)

_BASE_LINES = lines(get_data(__package__, "base_ad.txt"))
BASE_AD: dict[str, str] = {name: text for name, _, text in (line.partition(" = ") for line in _BASE_LINES)}
"""The initial attributes of every job's ad."""

# Commands of unsupported features, each with an alternative to suggest.
UNSUPPORTED: tuple[tuple[str, str], ...] = (
    ("tool_daemon_cmd", "tool daemons are not supported; start the tool from the job's own script"),
)

# The supported universes; any other universe is rejected with a suggested alternative.
UNIVERSES = {
    **{"vanilla": 5, "5": 5, "scheduler": 7, "7": 7, "local": 12, "12": 12},
    **{"docker": 5, "container": 5},  # vanilla jobs in a container: container_commands.py
}
SCHEDULER = UNIVERSES["scheduler"]
OTHER_UNIVERSES = {
    "standard": "its checkpoints are gone from HTCondor too; let the job write its own (checkpoint_exit_code)",
    "parallel": "queue one job for each node, or let one job start them",
    "mpi": "queue one job for each node, or let one job start them",
    "java": "universe = vanilla with executable = /usr/bin/java runs it",
    "vm": "universe = vanilla with a script that starts the virtual machine runs it",
    "grid": "universe = vanilla runs it in this pool",
}
