"""Read the data files that stand beside the code of this room: words, in tables."""

from __future__ import annotations

from ...domain.package_data import lines


def tables(data: bytes | None) -> dict[str, dict[str, str]]:
    """Return the tables of a data file by their headings, ``[heading]``, each with its lines ``name: words``. A line
    that begins with ``#`` is a comment."""
    found: dict[str, dict[str, str]] = {}
    table: dict[str, str] = {}
    for line in lines(data):
        if line.startswith("["):
            table = found[line[1:-1]] = {}
        elif line and not line.startswith("#"):
            name, _, words = line.partition(": ")
            table[name] = words
    return found
