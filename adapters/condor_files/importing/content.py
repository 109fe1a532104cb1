"""Read the bytes of a file, compressed or not, and digests of its beginning."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Any, cast

from attrs import define

PIECE = 1 << 20
HEAD = 1024  #: size of a file's head in bytes: no two logs begin alike, as their times differ
DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError)  #: the errors of a file that is damaged or cut

_OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
"""The first bytes of compressed files."""
SUFFIXES = (".gz", ".bz2", ".xz")
_REWRITTEN = re.compile(rb"\A(\s*008 \(-?\d+\.[^\n]*?Global JobLog:\s*ctime=\d* id=\S*)( [^\n]*)")


def open_content(path: str) -> IO[bytes]:
    """Open the file's content, decompressed. Raise OSError."""
    with open(path, "rb") as file:
        magic = file.read(6)
    for begin, opener in _OPENERS.items():
        if magic.startswith(begin):
            return cast("IO[bytes]", opener(path, "rb"))
    return open(path, "rb")


def lasting(beginning: bytes) -> bytes:
    """Blank out what the writer changes later: an EventLog's header is updated in place when it is rotated."""
    return _REWRITTEN.sub(lambda found: found[1] + b" " * len(found[2]), beginning)


def digest(data: bytes = b"") -> Any:
    return hashlib.blake2b(data, digest_size=16)


def read_exactly(file: IO[bytes], size: int) -> bytes:
    """Read `size` bytes, or fewer up to the end or the damage. Raise one of ``DAMAGED`` if none can be read."""
    read: Callable[[int], bytes] = getattr(file, "read1", file.read)  # keeps the bytes before the damage
    parts: list[bytes] = []
    left = size
    while left > 0:
        try:
            part = read(left)
        except DAMAGED:
            if not parts:
                raise
            break
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def head_of(path: str, size: int) -> bytes:
    """Return the first `size` bytes of the content."""
    with open_content(path) as file:
        return lasting(read_exactly(file, size))


def length_of(path: str) -> int:
    """Return the readable length of the content in bytes."""
    with open_content(path) as file:
        if isinstance(file, gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile):
            return sum(map(len, pieces(file)))
        return os.fstat(file.fileno()).st_size


def pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of the content in pieces, as far as it can be read."""
    with suppress(*DAMAGED):
        while piece := read_exactly(file, PIECE):
            yield piece


def begins_with(path: str, other: str) -> bool:
    """Tell whether the content of `path` begins with all of that of `other`."""
    with open_content(path) as long, open_content(other) as short:
        return all(lasting(read_exactly(long, len(piece))) == lasting(piece) for piece in pieces(short))


@define
class Prefix:
    """An open file, and the digest of its first `offset` bytes."""

    file: IO[bytes]
    offset: int
    sum: Any

    @classmethod
    def of(cls, path: str) -> Prefix:
        return cls(open_content(path), 0, digest())

    def go(self, offset: int) -> bool:
        """Advance to `offset`; return False if the content ends before."""
        with suppress(*DAMAGED):
            while self.offset < offset and (piece := read_exactly(self.file, min(PIECE, offset - self.offset))):
                self.take(piece)
        return self.offset == offset

    def take(self, piece: bytes) -> None:
        self.sum.update(piece if self.offset else lasting(piece))
        self.offset += len(piece)

    @property
    def hex(self) -> str:
        return str(self.sum.hexdigest())
