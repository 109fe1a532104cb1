"""Read the data files beside the code: tables from HTCondor, rules, and the words of sentences.

A data file is installed with the code and changes only with it, so the domain stays pure. A module passes
``get_data(__package__, "NAME")``, a file in its folder. (``importlib.resources`` takes 11 ms to import.)
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import dropwhile
from typing import NamedTuple


def lines(data: bytes | None) -> list[str]:
    """Return the lines of a data file, without the comments at its head."""
    assert data is not None, "every loader of Python's own has the data of its packages"
    return list(dropwhile(_is_comment, data.decode().splitlines()))


def _is_comment(line: str) -> bool:
    return line.startswith("#")


class DataSection(NamedTuple):
    """A section: the two parts of its heading, ``[kind: about]`` or ``[kind]``, and its lines."""

    kind: str
    about: str
    lines: list[str]

    @property
    def names(self) -> list[str]:
        """Return the names, of which a line may have several."""
        return " ".join(self.lines).split()


def sections(data: bytes | None) -> list[DataSection]:
    """Return the sections of a data file; a ``#`` line is a comment."""
    data_sections: list[DataSection] = []
    for line in lines(data):
        if line.startswith("["):
            kind, _, about = line[1:-1].partition(": ")
            data_sections.append(DataSection(kind, about, []))
        elif line and not _is_comment(line):
            data_sections[-1].lines.append(line)
    return data_sections


def names_of(data_sections: Iterable[DataSection], kind: str) -> list[str]:
    return [name for section in data_sections if section.kind == kind for name in section.names]
