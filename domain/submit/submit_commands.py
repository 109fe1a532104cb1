"""The commands that become one attribute each, by ``commands.txt``; refused commands; the universes."""

from __future__ import annotations

from enum import Enum
from pkgutil import get_data
from typing import NamedTuple

from ..package_data import lines, sections


class CommandType(Enum):
    """The type of a command's value, and how it is written to the ad."""

    EXPRESSION = "an expression"
    TEXT = "a text, as it stands"
    UNQUOTED = "a text; double quotes around it are taken off"
    LIST = "texts with commas or blanks between them"
    PATH = "a path; from the job's initial directory if it is relative"
    BOOLEAN = "true or false"
    INTEGER = "an integer"
    COUNT = "an integer from 0"
    LEADING = "the integer with which a text begins, else 0"
    SIGNAL = "a signal, by name or number"


class SubmitCommand(NamedTuple):
    attribute: str
    names: str  # in the order in which they are asked, blanks between them
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
BASE: dict[str, str] = {name: text for name, _, text in (line.partition(" = ") for line in _BASE_LINES)}
"""What every job's ad begins with."""

# Commands of features that are not here, each with what to do instead.
REFUSED: tuple[tuple[str, str], ...] = (
    ("checkpoint_destination", "checkpoints are kept in the pool's spool; leave checkpoint_destination out"),
    ("tool_daemon_cmd", "tool daemons are not supported; start the tool from the job's own script"),
)

# The universes that run here; all others are refused with a way out.
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
