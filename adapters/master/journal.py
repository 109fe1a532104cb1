"""The master's own log: its transitions, as a line of JSON each, in a file that is only appended to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from ...domain.master import transitions as t

_LONGEST: Final = 10 << 20  #: bytes after which a starting master begins a new file
_DECODER: Final = msgspec.json.Decoder(t.Any)


class Journal:
    """Appends transitions. ``path`` is the file; an old one that is long is renamed to ``path.old``."""

    def __init__(self, path: Path) -> None:
        rotate(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def append(self, transition: t.Transition) -> None:
        os.write(self._file, msgspec.json.encode(transition) + b"\n")

    def close(self) -> None:
        os.close(self._file)


def rotate(path: Path) -> None:
    """Rename a file to ``path.old`` if it is long."""
    with suppress(FileNotFoundError):
        if path.stat().st_size > _LONGEST:
            path.rename(f"{path}.old")


def read_journal(path: Path) -> Iterator[t.Transition]:
    """Return the transitions in a master's log. A line that a crash of the machine has cut short is skipped. Raise
    `OSError` if the file cannot be read."""
    with open(path, "rb") as file:
        for line in file:
            with suppress(msgspec.MsgspecError):
                yield _DECODER.decode(line)
