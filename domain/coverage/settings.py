"""Which part of Poolbook implements each HTCondor setting, and what unimplemented settings control."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, Generic, Literal, TypeVar

from ..package_data import DataSection, get_data, names_of, sections

Kind = Literal["followed", "macro", "unenforced", "subject"]

LIMIT_SUFFIX: Final = "_limit"
"""``<NAME>_LIMIT`` is the concurrency limit of a custom resource, unless HTCondor has a setting of this name."""
UNKNOWN_EFFECT: Final = "what no part of Poolbook does"


@cache
def _sections() -> list[DataSection]:
    return sections(get_data(__package__, "settings.txt"))


def sections_of(kind: Kind) -> list[tuple[str, list[str]]]:
    """Return the sections of the table for this kind, each as a description and the settings that it describes."""
    return [(section.about, section.names) for section in _sections() if section.kind == kind]


@cache
def _descriptions(kind: Kind) -> NameTable[str]:
    return NameTable({name: about for about, names in sections_of(kind) for name in names})


def macros() -> list[str]:
    """Return the names that HTCondor's defaults define only for use as ``$(NAME)``."""
    return names_of(_sections(), "macro")


def implemented_by(name: str) -> str | None:
    """Return the part of Poolbook that implements a setting, given without prefixes, or None if no part does."""
    return _descriptions("macro").get(name) or _descriptions("followed").get(name)


def restriction(name: str) -> str | None:
    """Describe the restriction by a setting that Poolbook does not enforce, or None for no restriction."""
    return _descriptions("unenforced").get(name)


def describe_effect(name: str) -> str:
    """Describe what an unimplemented setting controls in HTCondor."""
    return _descriptions("subject").get(name) or UNKNOWN_EFFECT


# Look up names case-insensitively, with placeholders such as in ``GROUP_QUOTA_<groupname>``.

T = TypeVar("T")

_PART = re.compile("<[^>]*>")
_DAEMONS = (
    "c_gahp|collector|credd|dagman|defrag|gangliad|gridmanager|had|job_router|kbdd|librarian|master|negotiator|"
    "placementd|preen|procd|replication|rooster|schedd|shadow|shared_port|startd|starter|submit|tool|transferer|vm_gahp"
)
_LOGGED = "collector|defrag|master|negotiator|schedd|shadow|startd|starter"  #: the daemons that have logs in Poolbook
_PART_PATTERNS = {"<N>": "[0-9]+", "<SUBSYS>": f"(?:{_DAEMONS})", "<LOGGED>": f"(?:{_LOGGED})"}


def _regex(pattern: str) -> str:
    """Convert a pattern to a regular expression: ``<N>`` matches a number, ``<SUBSYS>`` a daemon, others any text."""
    pieces = (re.escape(piece.lower()) for piece in _PART.split(pattern))
    parts = [_PART_PATTERNS.get(part, ".+") for part in _PART.findall(pattern)]
    return "".join(piece + part for piece, part in zip(pieces, [*parts, ""], strict=True))


class NameTable(Generic[T]):
    """A table of values by name or pattern. An exact name takes precedence, then the first matching pattern."""

    def __init__(self, table: Mapping[str, T]) -> None:
        self._names = {name.lower(): value for name, value in table.items() if "<" not in name}
        self._patterns = [(re.compile(_regex(name)), value) for name, value in table.items() if "<" in name]

    def get(self, name: str) -> T | None:
        """Return the value for a name, or None if the table has no value for it."""
        key = name.lower()
        if key in self._names:
            return self._names[key]
        return next((value for pattern, value in self._patterns if pattern.fullmatch(key)), None)


# DAEMON_LIST, the daemons that a configuration starts.
#
# A pool is one process that always acts as the ``ROLES``. The list only determines which ``OPTIONS`` it also runs.

DAEMON_LIST: Final = "DAEMON_LIST"
ROLES: Final = frozenset({"COLLECTOR", "NEGOTIATOR", "SCHEDD", "STARTD"})
"""The daemons whose functions every pool performs."""
DEFRAG: Final = "DEFRAG"
"""The daemon that defragments a pool."""
HAD: Final = frozenset({"HAD", "REPLICATION"})
"""The daemons of a manager that is one of several."""
KBDD: Final = "KBDD"
"""The daemon that reports the X server's input; in Poolbook, the startd's sensors ask the server."""
OPTIONS: Final = frozenset({DEFRAG, KBDD, *HAD, "ADSTASH", "GANGLIAD", "METRICD"})
"""The daemons whose functions a pool performs only if they are listed."""
_INVISIBLE: Final = frozenset({"MASTER", "SHARED_PORT"})
"""Daemons that a pool does not need, so listing them is harmless."""
_EXTRA_NEGOTIATOR: Final = re.compile(r"^NEGOTIATOR_[A-Z0-9_]+$", re.ASCII)
"""Additional negotiators (``domain/state/negotiators``)."""
_FURTHER_DEFRAG: Final = re.compile(r"^DEFRAG[A-Z0-9_]+$", re.ASCII)
"""Additional daemons that defragment a pool, each with its own policy."""

VIEW_SERVER: Final = "VIEW_SERVER"
"""A view server, which keeps the history of pools that forward their ads to it."""
_FURTHER_VIEW_SERVER: Final = re.compile(r"^VIEWSERV[A-Z0-9_]*$", re.ASCII)


def is_view_server(daemon: str) -> bool:
    """Check whether a name in DAEMON_LIST, in upper case, is that of a HTCondorView server: VIEW_SERVER, VIEWSERV01."""
    return daemon == VIEW_SERVER or _FURTHER_VIEW_SERVER.match(daemon) is not None


def is_defrag(daemon: str) -> bool:
    """Check whether a name in DAEMON_LIST, in upper case, is that of a daemon that defragments: DEFRAG, DEFRAG2."""
    return daemon == DEFRAG or _FURTHER_DEFRAG.match(daemon) is not None


def is_manager_option(daemon: str) -> bool:
    """Check whether a name in DAEMON_LIST, in upper case, is that of an optional part of a manager's process."""
    return is_defrag(daemon) or daemon in HAD or _EXTRA_NEGOTIATOR.match(daemon) is not None


def is_part_of_manager(daemon: str) -> bool:
    """Check whether a name in DAEMON_LIST, in upper case, is that of a part of a manager's process that `poolbook off`
    can turn off alone."""
    return daemon == "NEGOTIATOR" or is_manager_option(daemon)


def parse_daemon_list(text: str) -> frozenset[str]:
    """Return the daemons in a DAEMON_LIST, in upper case."""
    return frozenset(text.upper().replace(",", " ").split())


def is_possible(text: str) -> bool:
    """Check whether a pool can run the listed daemons: no daemon is unknown, and the list has either all roles, or none
    and so only adds daemons."""
    listed = {name for name in parse_daemon_list(text) - _INVISIBLE if not is_view_server(name)}
    named = {_FURTHER_DEFRAG.sub(DEFRAG, _EXTRA_NEGOTIATOR.sub("NEGOTIATOR", name)) for name in listed}
    return named <= ROLES | OPTIONS and named & ROLES in (frozenset(), ROLES)
