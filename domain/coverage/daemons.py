"""DAEMON_LIST: which daemons a configuration starts.

A pool here is one process with the roles of ``ROLES``, and has them whatever the list says. What counts of the list is
whether it names an option of ``OPTIONS``.
"""

from __future__ import annotations

import re
from typing import Final

DAEMON_LIST: Final = "DAEMON_LIST"
ROLES: Final = frozenset({"COLLECTOR", "NEGOTIATOR", "SCHEDD", "STARTD"})
"""The daemons that every pool has the work of."""
DEFRAG: Final = "DEFRAG"
"""The daemon that defragments a pool."""
OPTIONS: Final = frozenset({DEFRAG})
"""The daemons that a pool does the work of if they are listed."""
_UNSEEN: Final = frozenset({"MASTER", "SHARED_PORT"})
"""Daemons whose work nobody can miss here."""


_FURTHER: Final = re.compile(r"^NEGOTIATOR_[A-Z0-9_]+$", re.ASCII)
"""Further negotiators (``domain/state/negotiators``)."""


def daemons(text: str) -> frozenset[str]:
    """Return the names of a list, in capital letters."""
    return frozenset(text.upper().replace(",", " ").split())


def is_followed(text: str) -> bool:
    """Tell whether a pool does what the list says: it names no daemon that there is not, and leaves no role out. (One
    that names no role only adds to what there is.)"""
    named = {_FURTHER.sub("NEGOTIATOR", name) for name in daemons(text) - _UNSEEN}
    return named <= ROLES | OPTIONS and named & ROLES in (frozenset(), ROLES)
