"""What differs between the jobs of a cluster, packed: a few bytes a job in the log and in memory, unpacked on demand.

The columns (attribute -> one text per process) are cut into chunks of ``CHUNK`` processes, and each chunk is compressed
by itself, so that one job's attributes cost the unpacking of its chunk alone. The last chunk unpacked is kept: who
looks at one job usually looks at the next.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache

CHUNK = 4096
"""Processes in a chunk. Logs depend on it."""
_LEVEL = 5


@cache
def _decoder() -> Callable[[bytes], dict[str, list[str]]]:
    import msgspec  # whoever lists slots has jobs' statuses from here, and no columns

    return msgspec.json.Decoder(dict[str, list[str]]).decode


def _decode(packed: bytes) -> dict[str, list[str]]:
    return _decoder()(zlib.decompress(packed))


def pack(columns: Mapping[str, Sequence[str]]) -> tuple[bytes, ...]:
    """The chunks of `columns`, all of one length. No columns: no chunks."""
    import msgspec

    count = len(next(iter(columns.values()), ()))
    return tuple(
        zlib.compress(msgspec.json.encode({name: texts[at : at + CHUNK] for name, texts in columns.items()}), _LEVEL)
        for at in range(0, count, CHUNK)
    )


def unpack(chunks: Sequence[bytes]) -> dict[str, list[str]]:
    """The columns that were packed."""
    columns: dict[str, list[str]] = {}
    for chunk in chunks:
        for name, texts in _decode(chunk).items():
            columns.setdefault(name, []).extend(texts)
    return columns


class Variants:
    """The packed columns of one cluster, to be asked for a single process."""

    __slots__ = ("_chunk", "_number", "chunks", "names")

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.chunks = tuple(chunks)
        self._number = -1
        self._chunk: dict[str, list[str]] = {}
        self.names: frozenset[str] = frozenset(self._unpacked(0)) if chunks else frozenset()
        self._number, self._chunk = -1, {}

    def _unpacked(self, number: int) -> dict[str, list[str]]:
        if self._number != number:
            self._number, self._chunk = number, _decode(self.chunks[number])
        return self._chunk

    def of(self, proc: int) -> dict[str, str]:
        """The attributes in which process `proc` differs from the others."""
        if not self.chunks:
            return {}
        at = proc % CHUNK
        return {name: texts[at] for name, texts in self._unpacked(proc // CHUNK).items()}
