"""Read HTCondor's defaults and configuration templates, which are not in a pool's files.

The tables are facts of HTCondor 25.14.1. They stand beside this module in HTCondor's own form, to be compared with the
output of condor_config_val; each is read on first use.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import takewhile
from pkgutil import get_data
from types import MappingProxyType
from typing import NamedTuple

from ...package_data import lines


class Default(NamedTuple):
    """A default: the name as it is written, and its raw value."""

    name: str
    value: str


class Template(NamedTuple):
    """The lines that ``use CATEGORY : NAME`` inserts; both names as written."""

    category: str
    name: str
    lines: tuple[str, ...]


@lru_cache(maxsize=1)
def defaults() -> Mapping[str, Default]:
    """Return all defaults by lower-case name; defaults for one daemon as ``daemon.name``."""
    table: dict[str, Default] = {}
    rest = iter(lines(get_data(__package__, "defaults.conf")))
    for line in rest:
        name, _, value = line.partition(" ")
        if value == "@=end":
            value = "\n".join(inner.strip() for inner in takewhile("@end".__ne__, rest))
        else:
            value = value.removeprefix("=").removeprefix(" ")
        table[name.lower()] = Default(name, value)
    return MappingProxyType(table)


@lru_cache(maxsize=1)
def without_default() -> tuple[str, ...]:
    """Return the known names that have no default; a site chooses the ``<N>`` of ``SLOT_TYPE_<N>``."""
    return tuple(lines(get_data(__package__, "names_without_default.txt")))


@lru_cache(maxsize=1)
def templates() -> Mapping[tuple[str, str], Template]:
    """Return all templates by category and name in lower case."""
    table: dict[tuple[str, str], Template] = {}
    text = "\n".join(lines(get_data(__package__, "templates.conf")))
    for block in text.removeprefix("[").split("\n["):
        title, *inner = block.split("\n")
        category, _, name = title.removesuffix("]").partition(":")
        table[category.lower(), name.lower()] = Template(category, name, tuple(inner))
    return MappingProxyType(table)
