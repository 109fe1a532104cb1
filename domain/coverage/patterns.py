"""Find values by names with a part that a site chooses, such as ``GROUP_QUOTA_<groupname>``, without case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Generic, TypeVar

T = TypeVar("T")

_PART = re.compile("<[^>]*>")
_DAEMONS = (
    "c_gahp|collector|credd|dagman|defrag|gangliad|gridmanager|had|job_router|kbdd|librarian|master|negotiator|"
    "placementd|preen|procd|replication|rooster|schedd|shadow|shared_port|startd|starter|submit|tool|transferer|vm_gahp"
)
_PARTS = {"<N>": "[0-9]+", "<SUBSYS>": f"(?:{_DAEMONS})"}


def _regex(pattern: str) -> str:
    """Return a pattern as a regular expression: ``<N>`` is a number, ``<SUBSYS>`` a daemon, any other part whatever."""
    pieces = (re.escape(piece.lower()) for piece in _PART.split(pattern))
    parts = [_PARTS.get(part, ".+") for part in _PART.findall(pattern)]
    return "".join(piece + part for piece, part in zip(pieces, [*parts, ""], strict=True))


class Names(Generic[T]):
    """A value for each name. A full name goes before the patterns, which are tried in the order given."""

    def __init__(self, table: Mapping[str, T]) -> None:
        self._names = {name.lower(): value for name, value in table.items() if "<" not in name}
        self._patterns = [(re.compile(_regex(name)), value) for name, value in table.items() if "<" in name]

    def get(self, name: str) -> T | None:
        """Return the value of a name; None where the table has none."""
        key = name.lower()
        if key in self._names:
            return self._names[key]
        return next((value for pattern, value in self._patterns if pattern.fullmatch(key)), None)
