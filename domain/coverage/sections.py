"""Read the tables of this folder: names in sections, each under a ``[heading]``; a ``#`` line is a comment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..package_data import lines


class Section(NamedTuple):
    """A section: the two parts of its heading, ``[kind: about]`` or ``[kind]``, and its lines."""

    kind: str
    about: str
    lines: list[str]

    @property
    def names(self) -> list[str]:
        """Return the names, of which a line may have several."""
        return " ".join(self.lines).split()


def sections(data: bytes | None) -> list[Section]:
    found: list[Section] = []
    for line in lines(data):
        if line.startswith("["):
            kind, _, about = line[1:-1].partition(": ")
            found.append(Section(kind, about, []))
        elif line and not line.startswith("#"):
            found[-1].lines.append(line)
    return found


def names_of(found: Iterable[Section], kind: str) -> list[str]:
    return [name for section in found if section.kind == kind for name in section.names]
