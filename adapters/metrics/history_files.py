"""Read and write the files of a pool's history, in HTCondor's format: ``viewhistSET.LEVEL.new`` and ``.old``.

Source: HTCondor's ``ViewServer`` (view_server.cpp): rotation, and which level answers a query. HTCondor's files have
equal shares of POOL_HISTORY_MAX_STORAGE; here the shares let the last level reach back longest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from attrs import frozen

from ...projections.pool_history import GROUPS, LEVELS, SLOTS, SUBMITTERS, USERS, Line

DEFAULT_STORAGE: Final = 10_000_000
_SHARES: Final[Mapping[int, float]] = {SLOTS: 0.8, **dict.fromkeys((SUBMITTERS, GROUPS, USERS), 0.2 / 3)}
"""The shares of the data sets in the storage. Almost all lines describe slots."""
_LAST_SHARE: Final = 0.8
"""The share of the last level in that of its data set. The others have equal shares of the rest."""


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
        """Append lines, and first rename the files that would exceed their share."""
        texts: dict[tuple[int, int], list[str]] = {}
        for data_set, level, text in lines:
            texts.setdefault((data_set, level), []).append(text)
        for place, added in texts.items():
            path, text = self.path(*place, "new"), "".join(added)
            size = path.stat().st_size if path.exists() else 0
            if size and size + len(text.encode()) > self._share(*place):
                os.replace(path, self.path(*place, "old"))
            with path.open("a") as file:
                file.write(text)

    def _share(self, data_set: int, level: int) -> float:
        """Return how many bytes a file may have. There are two, the new one and the old one."""
        of_level = _LAST_SHARE if level == LEVELS - 1 else (1 - _LAST_SHARE) / (LEVELS - 1)
        return self.max_storage * _SHARES.get(data_set, 0) * of_level / 2

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
