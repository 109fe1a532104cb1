"""The attributes that differ between a cluster's jobs, compressed to a few bytes per job in the log and in memory.

The columns (attribute -> one text per process) are cut into chunks of ``CHUNK`` processes. Each chunk is compressed
separately, so that reading one job decompresses only one chunk. Because callers usually read one job after another, the
last chunk is cached.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache

CHUNK = 4096
"""Processes per chunk. Existing logs depend on this value."""
_LEVEL = 5


@cache
def _decoder() -> Callable[[bytes], dict[str, list[str]]]:
    import msgspec  # only here: listing slots loads this module, but decodes nothing

    return msgspec.json.Decoder(dict[str, list[str]]).decode


def decode(packed: bytes) -> dict[str, list[str]]:
    """Return the columns of one chunk."""
    return _decoder()(zlib.decompress(packed))


def pack(columns: Mapping[str, Sequence[str]]) -> tuple[bytes, ...]:
    """Compress columns of equal length into chunks."""
    import msgspec

    count = len(next(iter(columns.values()), ()))
    return tuple(
        zlib.compress(msgspec.json.encode({name: texts[at : at + CHUNK] for name, texts in columns.items()}), _LEVEL)
        for at in range(0, count, CHUNK)
    )


def unpack(chunks: Sequence[bytes]) -> dict[str, list[str]]:
    """Return the columns that `pack` compressed."""
    columns: dict[str, list[str]] = {}
    for chunk in chunks:
        for name, texts in decode(chunk).items():
            columns.setdefault(name, []).extend(texts)
    return columns


class Variants:
    """The compressed columns of one cluster."""

    __slots__ = ("_chunk", "_number", "chunks", "names")

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.chunks = tuple(chunks)
        self._number = -1
        self._chunk: dict[str, list[str]] = {}
        self.names: frozenset[str] = frozenset(self._unpacked_chunk(0)) if chunks else frozenset()
        self._number, self._chunk = -1, {}

    def _unpacked_chunk(self, number: int) -> dict[str, list[str]]:
        if self._number != number:
            self._number, self._chunk = number, decode(self.chunks[number])
        return self._chunk

    def of_proc(self, proc: int) -> dict[str, str]:
        """Return the attributes of one process that differ between the processes."""
        if not self.chunks:
            return {}
        index = proc % CHUNK
        return {name: texts[index] for name, texts in self._unpacked_chunk(proc // CHUNK).items()}
