"""Read the bytes of a file, compressed or not, and compute digests of its start."""

from __future__ import annotations

import bz2
import errno
import gzip
import hashlib
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Any

from attrs import define

PIECE_BYTES = 1 << 20
HEAD_BYTES = 1024  #: size of a file's head in bytes; the heads of two logs differ, since their times differ
DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError)  #: the errors raised for a damaged or truncated file

_OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
"""The magic bytes at the start of compressed files."""
SUFFIXES = (".gz", ".bz2", ".xz")
_CHANGING_HEADER = re.compile(rb"\A(\s*008 \(-?\d+\.[^\n]*?Global JobLog:\s*ctime=\d* id=\S*)( [^\n]*)")


VARIABLE = "POOLBOOK_MAX_UNPACKED"  #: maximum MiB to read from a compressed file; if unset, the limits below apply
MAX_RATIO = 100  #: maximum ratio of unpacked to compressed size; logs compress by a factor of 10 to 50
ALWAYS_ALLOWED = 256 << 20  #: bytes that may always be read, regardless of the ratio
DEFAULT_LIMIT = 8 << 30  #: maximum number of bytes to read


class TooMuchError(OSError):
    """A compressed file contains more than the limit; it may be an attempt to fill the disk."""

    def __init__(self, most: int) -> None:
        super().__init__(
            errno.EFBIG,
            f"it unpacks to over {most >> 20} MiB, which exceeds the limit for a compressed file of its size; if you "
            f"trust it, unpack it, or set {VARIABLE} to a higher limit in MiB",
        )


class UnpackedFile:
    """A compressed file that is read unpacked. Reading raises `TooMuchError` when it exceeds the maximum size."""

    def __init__(self, path: str, opener: Callable[..., Any]) -> None:
        self._packed = open(path, "rb")  # noqa: SIM115  # closed with this
        self._file = opener(self._packed, "rb")
        self._most = unpacked_limit(os.fstat(self._packed.fileno()).st_size)

    def read1(self, size: int = -1) -> bytes:
        data: bytes = b"" if self._file.tell() > self._most else self._file.read1(size)
        if self._file.tell() > self._most:
            raise TooMuchError(self._most)
        return data

    read = read1

    def seek(self, offset: int) -> int:
        if offset > self._most:
            raise TooMuchError(self._most)
        return int(self._file.seek(offset))

    def fileno(self) -> int:
        return self._packed.fileno()

    def packed_bytes_read(self) -> int:
        """Return the number of bytes read from the compressed file itself."""
        return self._packed.tell()

    def close(self) -> None:
        self._file.close()
        self._packed.close()

    def __enter__(self) -> UnpackedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Content = IO[bytes] | UnpackedFile


def unpacked_limit(size: int) -> int:
    """Return how many bytes to read at most from a compressed file of this size. Raise `ValueError` for a wrong
    setting."""
    setting_text = os.environ.get(VARIABLE)
    if not setting_text:
        return min(DEFAULT_LIMIT, max(ALWAYS_ALLOWED, MAX_RATIO * size))
    if not setting_text.isdigit() or not int(setting_text):
        raise ValueError(f"{VARIABLE} must be a number of MiB, not {setting_text!r}")
    return int(setting_text) << 20


def open_content(path: str) -> Content:
    """Open the file's content, decompressed. Raise OSError; reading raises `TooMuchError` beyond the limit."""
    with open(path, "rb") as file:
        first_bytes = file.read(6)
    for begin, opener in _OPENERS.items():
        if first_bytes.startswith(begin):
            return UnpackedFile(path, opener)
    return open(path, "rb")


def packed_bytes_read(file: Content, offset: int) -> int:
    """Return how many bytes of the file itself were read to obtain `offset` bytes of its content."""
    return file.packed_bytes_read() if isinstance(file, UnpackedFile) else offset


def without_changing_header(beginning: bytes) -> bytes:
    """Blank out the part that the writer changes later: an EventLog's header is updated when the log is rotated."""
    return _CHANGING_HEADER.sub(lambda match: match[1] + b" " * len(match[2]), beginning)


def new_digest(data: bytes = b"") -> Any:
    return hashlib.blake2b(data, digest_size=16)


def read_exactly(file: Content, size: int) -> bytes:
    """Read `size` bytes, or fewer before the end or damage. Raise one of ``DAMAGED`` if nothing can be read."""
    read_chunk: Callable[[int], bytes] = getattr(file, "read1", file.read)  # returns the bytes before the damage
    chunks: list[bytes] = []
    remaining = size
    while remaining > 0:
        try:
            chunk = read_chunk(remaining)
        except DAMAGED:
            if not chunks:
                raise
            break
        if not chunk:
            break
        chunks.append(chunk)
        remaining -= len(chunk)
    return b"".join(chunks)


def head_of(path: str, size: int) -> bytes:
    with open_content(path) as file:
        return without_changing_header(read_exactly(file, size))


def length_of(path: str) -> int:
    with open_content(path) as file:
        if isinstance(file, UnpackedFile):
            return sum(map(len, read_chunks(file)))
        return os.fstat(file.fileno()).st_size


def read_chunks(file: Content) -> Iterator[bytes]:
    """Yield the rest of the content in chunks, as far as it is readable."""
    with suppress(*DAMAGED):
        while chunk := read_exactly(file, PIECE_BYTES):
            yield chunk


def starts_with_content(path: str, other: str) -> bool:
    """Check whether the content of `path` starts with the complete content of `other`."""
    with open_content(path) as longer_file, open_content(other) as shorter_file:
        return all(
            without_changing_header(read_exactly(longer_file, len(chunk))) == without_changing_header(chunk)
            for chunk in read_chunks(shorter_file)
        )


@define
class Prefix:
    """An open file, and the digest of its first `offset` bytes."""

    file: Content
    offset: int
    sum: Any

    @classmethod
    def open_at_start(cls, path: str) -> Prefix:
        return cls(open_content(path), 0, new_digest())

    def advance_to(self, offset: int) -> bool:
        """Advance to `offset`; return False if the content ends before that."""
        with suppress(*DAMAGED):
            while self.offset < offset and (chunk := read_exactly(self.file, min(PIECE_BYTES, offset - self.offset))):
                self.add_chunk(chunk)
        return self.offset == offset

    def add_chunk(self, chunk: bytes) -> None:
        self.sum.update(chunk if self.offset else without_changing_header(chunk))
        self.offset += len(chunk)

    @property
    def hex_digest(self) -> str:
        return str(self.sum.hexdigest())
