"""Read the data files in the package: tables from HTCondor, rules, and the texts of sentences.

A data file is installed with the code and changes only with it, so the domain stays pure. A module passes
``get_data(__package__, "NAME")``, a file in its own directory. (Short commands import this module; ``pkgutil`` takes 3
ms to import, ``importlib.resources`` 11 ms.)
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import dropwhile
from sys import modules
from typing import Any, NamedTuple


def get_data(package: str, name: str) -> bytes:
    """Return the content of a data file in the directory of an imported package."""
    module = modules[package]
    loader: Any = module.__loader__
    content: bytes = loader.get_data(f"{module.__path__[0]}/{name}")
    return content


def lines(data: bytes) -> list[str]:
    """Return the lines of a data file, without the comments at its beginning."""
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


def sections(data: bytes) -> list[DataSection]:
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
