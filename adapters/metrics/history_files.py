"""Read and write the files of a pool's history, in HTCondor's format: ``viewhistSET.LEVEL.new`` and ``.old``.

Source: HTCondor's ``ViewServer`` (view_server.cpp): rotation, and which level answers a query.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from attrs import frozen

from ...projections.pool_history import LEVELS, SETS, Line

DEFAULT_STORAGE = 10_000_000


class HistoryEntry(NamedTuple):
    """An entry: the time in seconds since 1970, the name, and the values as in the file, with tabs before them."""

    time: int
    name: str
    values: str

    @property
    def line(self) -> str:
        return f"{self.time}\t{self.name}\t:{self.values}\n"


@frozen
class HistoryFiles:
    """The files in a directory. ``max_storage``: the bytes that all files may use (POOL_HISTORY_MAX_STORAGE)."""

    folder: Path
    max_storage: int = DEFAULT_STORAGE

    def path(self, data_set: int, level: int, suffix: str) -> Path:
        return self.folder / f"viewhist{data_set}.{level}.{suffix}"

    def append(self, lines: Iterable[Line]) -> None:
        """Append lines, and rename the files that have reached their size. Each pair of files has an equal share."""
        texts: dict[tuple[int, int], list[str]] = {}
        for data_set, level, text in lines:
            texts.setdefault((data_set, level), []).append(text)
        for place, added in texts.items():
            path = self.path(*place, "new")
            with path.open("a") as file:
                file.write("".join(added))
            if path.stat().st_size > self.max_storage // (LEVELS * SETS * 2):
                os.replace(path, self.path(*place, "old"))

    def entries(self, data_set: int, since: int, until: int) -> list[HistoryEntry]:
        """Return the entries of a period, from the level with the highest resolution that reaches back to its start, or
        else from the one that reaches back farthest."""
        levels = [[*self._read(data_set, level, "old"), *self._read(data_set, level, "new")] for level in range(LEVELS)]
        filled = [entries for entries in levels if entries]
        reaching = (entries for entries in filled if entries[0].time <= since)
        chosen = next(reaching, None) or min(filled, key=lambda entries: entries[0].time, default=[])
        return [entry for entry in chosen if since <= entry.time <= until]

    def _read(self, data_set: int, level: int, suffix: str) -> Iterator[HistoryEntry]:
        try:
            file = self.path(data_set, level, suffix).open()
        except FileNotFoundError:
            return
        with file:
            for line in file:
                with suppress(ValueError):  # the last line may be incomplete after a power cut
                    yield parse_entry(line)


def parse_entry(line: str) -> HistoryEntry:
    """Parse a line of a file; raise ValueError if it is invalid."""
    time, _, rest = line.rstrip("\n").partition("\t")
    name, separator, values = rest.partition("\t:")
    if not separator or not line.endswith("\n"):
        raise ValueError(f"{line!r} is not a valid entry of a pool's history")
    return HistoryEntry(int(time), name, values)
