"""Read the data files that stand beside the code: tables of HTCondor's own, rules, and the words of sentences.

A data file is installed with the code and changes with it alone, so the domain stays pure. A module passes
``get_data(__package__, "NAME")``, a file of its own folder. (``importlib.resources`` takes 11 ms to import.)
"""

from __future__ import annotations

from itertools import dropwhile


def lines(data: bytes | None) -> list[str]:
    """Return the lines of a data file, without the comments at its head."""
    assert data is not None, "every loader of Python's own has the data of its packages"
    return list(dropwhile(_is_comment, data.decode().splitlines()))


def _is_comment(line: str) -> bool:
    return line.startswith("#")
