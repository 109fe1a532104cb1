"""The seal: a chain of digests over everything that was appended.

The digest of an append is BLAKE2b (32 bytes, in hexadecimal) of the MessagePack array

    [digest of the previous append, format, epoch, position of its first event, streams, versions, topics, states]

whose last four items are arrays with an item for each of its events. MessagePack writes the type and length of every
item before it, in the shortest form, so different appends have different encodings. The digest before the first append
is that of the empty array.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

_pack = msgspec.msgpack.Encoder().encode


Row = tuple[int, str, int, str, bytes]  #: a stored event: position, stream, version, topic, state


class AppendBatch(NamedTuple):
    """The events of an append, in columns, as databases expect them."""

    first: int  #: the position of the first event; the others follow
    streams: list[str]
    versions: list[int]  #: the events' numbers in their streams, from 1
    topics: list[str]
    states: list[bytes]

    @property
    def last(self) -> int:
        return self.first + len(self.states) - 1


def seal(digest_before: str, format: int, epoch: int, batch: AppendBatch) -> str:
    """Return the digest of an append. Raise `UnicodeEncodeError` if a text is not Unicode."""
    return _digest((digest_before, format, epoch, batch.first), batch[1:])


def recomputed_seal(digest_before: str, format: int, epoch: int, first_position: int, rows: Sequence[Row]) -> str:
    """Return the digest of an append of these rows, as they are now, or "" if no append can have stored them."""
    columns = list(zip(*rows, strict=True)) or [()] * 5
    try:
        return _digest((digest_before, format, epoch, first_position), columns[1:])
    except (UnicodeEncodeError, TypeError, OverflowError):
        return ""


_PACKED_ITEMS = 1000
"""The number of items that are packed together, so that a large append is not copied as a whole."""


def _digest(items: tuple[str, int, int, int], columns: Sequence[Sequence[object]]) -> str:
    """Return the digest of the array of these items and columns."""
    if len(columns[0]) <= _PACKED_ITEMS:
        return blake2b(_pack((*items, *columns)), digest_size=32).hexdigest()
    digest = blake2b(_array_header(len(items) + len(columns)) + _pack(items)[1:], digest_size=32)
    for column in columns:
        digest.update(_array_header(len(column)))
        for start in range(0, len(column), _PACKED_ITEMS):
            part = column[start : start + _PACKED_ITEMS]
            digest.update(memoryview(_pack(part))[len(_array_header(len(part))) :])
    return digest.hexdigest()


def _array_header(length: int) -> bytes:
    """Return the start of the MessagePack array with this length."""
    if length < 1 << 4:
        return bytes((0x90 | length,))
    return b"\xdc" + length.to_bytes(2, "big") if length < 1 << 16 else b"\xdd" + length.to_bytes(4, "big")


GENESIS = blake2b(_pack(()), digest_size=32).hexdigest()  #: the digest of an empty log
