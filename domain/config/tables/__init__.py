"""What stands in no file of a pool: HTCondor's defaults, and the templates of ``use``.

The tables are facts of HTCondor 25.14.1, as its condor_config_val prints them: ``-dump`` of a machine whose
configuration is empty, and ``use CATEGORY:NAME``. Of a template's comments only their lines are kept, since messages
count them. Long lines are continued by a backslash.
"""

if __name__ != "poolbook.domain.config.tables":
    raise ImportError(f"import this folder as poolbook.domain.config.tables, not as {__name__}")

from collections.abc import Mapping
from functools import lru_cache
from itertools import takewhile
from types import MappingProxyType
from typing import NamedTuple


class Default(NamedTuple):
    """A default: the name as it is written, and its raw value."""

    name: str
    value: str


class Template(NamedTuple):
    """What ``use CATEGORY : NAME`` stands for; both names as they are written, and the lines."""

    category: str
    name: str
    lines: tuple[str, ...]


def _lines(text: str) -> list[str]:
    return text.replace("\\\n    ", "").strip("\n").split("\n")


@lru_cache(maxsize=1)
def defaults() -> Mapping[str, Default]:
    """All defaults under their names in small letters; those of one daemon alone as ``daemon.name``."""
    from . import defaults_a_to_d, defaults_e_to_n, defaults_o_to_z

    found: dict[str, Default] = {}
    for table in (defaults_a_to_d, defaults_e_to_n, defaults_o_to_z):
        lines = iter(_lines(table.TEXT))
        for line in lines:
            name, _, value = line.partition(" ")
            if value == "@=end":
                value = "\n".join(inner.strip() for inner in takewhile("@end".__ne__, lines))
            else:
                value = value.removeprefix("=").removeprefix(" ")
            found[name.lower()] = Default(name, value)
    return MappingProxyType(found)


@lru_cache(maxsize=1)
def without_default() -> tuple[str, ...]:
    """The names that mean something and have no default; some with parts in angle brackets, as ``SLOT_TYPE_<N>``."""
    from . import names_without_default as table

    return tuple(table.TEXT.split())


@lru_cache(maxsize=1)
def templates() -> Mapping[tuple[str, str], Template]:
    """All templates under their category and name in small letters."""
    from . import features, policies, roles

    found: dict[tuple[str, str], Template] = {}
    for table in (policies, features, roles):
        for block in "\n".join(_lines(table.TEXT)).removeprefix("[").split("\n["):
            title, *lines = block.split("\n")
            category, _, name = title.removesuffix("]").partition(":")
            found[category.lower(), name.lower()] = Template(category, name, tuple(lines))
    return MappingProxyType(found)
