"""Read the tables of HTCondor defaults and configuration templates.

The tables are HTCondor 25.14.1's, in HTCondor's format, to be compared with the output of condor_config_val.
Each is read on first use.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import takewhile
from types import MappingProxyType
from typing import NamedTuple

from ...package_data import get_data, lines


class Default(NamedTuple):
    """A default: the original spelling of the name, and the unexpanded value."""

    name: str
    value: str


class Template(NamedTuple):
    """The lines that ``use CATEGORY : NAME`` inserts; the names have their original spelling."""

    category: str
    name: str
    lines: tuple[str, ...]


@lru_cache(maxsize=1)
def defaults() -> Mapping[str, Default]:
    """Return all defaults by lower-case name; those for one daemon as ``daemon.name``."""
    table: dict[str, Default] = {}
    remaining_lines = iter(lines(get_data(__package__, "defaults.conf")))
    for line in remaining_lines:
        name, _, value = line.partition(" ")
        if value == "@=end":
            value = "\n".join(line_of_value.strip() for line_of_value in takewhile("@end".__ne__, remaining_lines))
        else:
            value = value.removeprefix("=").removeprefix(" ")
        table[name.lower()] = Default(name, value)
    return MappingProxyType(table)


@lru_cache(maxsize=1)
def names_without_default() -> tuple[str, ...]:
    """Return the known names without a default; ``SLOT_TYPE_<N>`` has any number for ``<N>``."""
    return tuple(lines(get_data(__package__, "names_without_default.txt")))


@lru_cache(maxsize=1)
def templates() -> Mapping[tuple[str, str], Template]:
    """Return all templates by lower-case category and name."""
    table: dict[tuple[str, str], Template] = {}
    text = "\n".join(lines(get_data(__package__, "templates.conf")))
    for block in text.removeprefix("[").split("\n["):
        title, *line_of_value = block.split("\n")
        category, _, name = title.removesuffix("]").partition(":")
        table[category.lower(), name.lower()] = Template(category, name, tuple(line_of_value))
    return MappingProxyType(table)
