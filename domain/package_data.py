"""Read the data files in the package: tables from HTCondor, rules, and the texts of sentences.

A data file is installed with the code and changes only with it, so the domain stays pure. A module passes
``get_data(__package__, "NAME")``, a file in its own directory. (``importlib.resources`` takes 11 ms to import.)
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import dropwhile
from typing import NamedTuple


def lines(data: bytes | None) -> list[str]:
    """Return the lines of a data file, without the comments at its beginning."""
    assert data is not None, "Python's standard loaders provide the data files of packages"
    return list(dropwhile(_is_comment, data.decode().splitlines()))


def _is_comment(line: str) -> bool:
    return line.startswith("#")


class DataSection(NamedTuple):
    """A section of a data file: the two parts of its heading, ``[kind: about]`` or ``[kind]``, and its lines."""

    kind: str
    about: str
    lines: list[str]

    @property
    def names(self) -> list[str]:
        """Return the names in the lines; a line may contain several."""
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
