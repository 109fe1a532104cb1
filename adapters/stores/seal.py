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
    return blake2b(_pack((digest_before, format, epoch, *batch)), digest_size=32).hexdigest()


def recomputed_seal(digest_before: str, format: int, epoch: int, first_position: int, rows: Sequence[Row]) -> str:
    """Return the digest of an append of these rows, as they are now, or "" if no append can have stored them."""
    columns = list(zip(*rows, strict=True)) or [()] * 5
    try:
        return blake2b(_pack((digest_before, format, epoch, first_position, *columns[1:])), digest_size=32).hexdigest()
    except (UnicodeEncodeError, TypeError, OverflowError):
        return ""


GENESIS = blake2b(_pack(()), digest_size=32).hexdigest()  #: the digest of an empty log
