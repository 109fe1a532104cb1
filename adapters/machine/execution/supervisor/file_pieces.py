"""The wire format of a job's files: the files of a transfer follow each other in one stream, divided into pieces.

A transfer starts with a list of entries, from which both ends compute the layout of the stream. Each piece is followed
by its SHA-256. A receiver writes only pieces that it has verified. So the sizes of its files determine the position
where it continues, even after its process was killed.
"""

from __future__ import annotations

import errno
import os
import stat
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from .copying import NEVER_WAIT
from .scratch import remove_now
from .usage_meter import TransferError, path_error, read_error, write_error

PIECE = 1 << 20  #: maximum number of bytes of a piece, without its digest
_DIGEST = 32  #: the length of a SHA-256
FILE, DIRECTORY, STREAM = "file", "directory", "stream"  #: kinds of entries; a stream is the job's output or error


class Entry(NamedTuple):
    """A file or directory to transfer."""

    kind: str
    name: str  #: relative to the directory where it is placed; a stream's is that of its file in the scratch directory
    size: int
    mode: int
    source: str  #: its path at the sender, for messages


def describe(kind: str, name: str, source: str) -> Entry:
    """Return the entry of a file or directory. Raise `TransferError` if it cannot be read."""
    try:
        descriptor = os.open(source, os.O_RDONLY | NEVER_WAIT)
        try:
            info = os.fstat(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise read_error(source, error) from None
    size = info.st_size if stat.S_ISREG(info.st_mode) else 0  # a device has no size
    return Entry(kind, name, size, stat.S_IMODE(info.st_mode) & 0o777, source)


def check_name(name: str) -> None:
    """Raise `TransferError` if a name does not stay below the directory where it is placed."""
    if "\0" in name or any(part in ("", os.curdir, os.pardir) for part in name.split("/")):
        raise path_error(name)


class Layout:
    """The positions of entries and their pieces in the stream."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.starts = list(accumulate((entry.size + _DIGEST * -(-entry.size // PIECE) for entry in entries), initial=0))

    @property
    def length(self) -> int:
        return self.starts[-1]

    def position_of(self, index: int, offset: int) -> int:
        """Return the position of the piece that begins at an offset of a file."""
        return self.starts[index] + offset + _DIGEST * (offset // PIECE)

    def pieces(self, position: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield entry number, offset and length of each piece from a position on, up to the one that reaches ``end``.
        Raise `ValueError` if no piece begins there."""
        index = bisect_right(self.starts, position) - 1
        number, rest = divmod(position - self.starts[index], PIECE + _DIGEST)
        if rest or position < 0:
            raise ValueError(f"no piece begins at {position}")
        offset = number * PIECE
        while position < min(end, self.length):
            length = min(PIECE, self.entries[index].size - offset)
            if length:
                yield index, offset, length
                position += length + _DIGEST
            offset += length
            if offset >= self.entries[index].size:
                index, offset = index + 1, 0

    def end_of(self, position: int, count: int) -> int:
        """Return the end of the pieces from a position on that have at least ``count`` bytes, or of the last piece."""
        for _, _, length in self.pieces(position, position + count):
            position += length + _DIGEST
        return position


def read_pieces(layout: Layout, position: int, end: int) -> Iterator[bytes]:
    """Yield the stream from a position on, in blocks of at most a piece. Raise `TransferError` if a file cannot be
    read, or has become shorter."""
    current, reader, block = -1, -1, bytearray()
    try:
        for index, offset, length in layout.pieces(position, end):
            source = layout.entries[index].source
            try:
                if index != current:
                    if reader >= 0:
                        os.close(reader)
                    reader, current = -1, index
                    reader = os.open(source, os.O_RDONLY | NEVER_WAIT)
                data = _read_at(reader, offset, length)
            except OSError as error:
                if block:
                    yield bytes(block)  # the receiver then asks for the failed piece, and receives the error
                raise read_error(source, error) from None
            if len(block) + length > PIECE:
                yield bytes(block)
                block.clear()
            block += data
            block += _digest(data)
        if block:
            yield bytes(block)
    finally:
        if reader >= 0:
            os.close(reader)


def _digest(piece: bytes) -> bytes:
    from hashlib import sha256  # it is large, and the supervisor itself does not need it

    return sha256(piece).digest()


def _read_at(reader: int, offset: int, length: int) -> bytes:
    parts = []
    while length:
        data = os.pread(reader, length, offset)
        if not data:
            raise OSError(errno.EIO, "it has become shorter")
        parts.append(data)
        offset, length = offset + len(data), length - len(data)
    return b"".join(parts)


class Receiver:
    """Receives a stream into a directory, in which the entries have their numbers as names. It continues with what an
    earlier one has left there.

    :param target: returns the final path of an entry, for messages
    :param failures: the entries that are not received, by their numbers
    """

    def __init__(
        self,
        folder: str,
        layout: Layout,
        target: Callable[[Entry], str],
        failures: Mapping[int, TransferError],
    ) -> None:
        self.layout = layout
        self.failures = dict(failures)
        self._folder, self._target = folder, target
        self._index = self._offset = 0
        self._writer, self._writes_to = -1, -1
        self._pending = bytearray()
        self._advance()

    @property
    def is_complete(self) -> bool:
        return self._index == len(self.layout.entries)

    @property
    def position(self) -> int:
        """Return the position of the next piece."""
        return self.layout.position_of(self._index, self._offset)

    def path(self, index: int) -> str:
        return f"{self._folder}/{index}"

    def feed(self, data: bytes) -> bool:
        """Receive the next part of the stream. Return False if the sender must continue at ``position`` instead,
        because a piece is damaged or a file cannot be written."""
        self._pending += data
        while not self.is_complete:
            length = min(PIECE, self.layout.entries[self._index].size - self._offset)
            if len(self._pending) < length + _DIGEST:
                return True
            piece = bytes(self._pending[:length])
            if _digest(piece) != self._pending[length : length + _DIGEST]:
                self.interrupt()
                return False
            del self._pending[: length + _DIGEST]
            try:
                self._write(piece)
            except OSError as error:
                self.skip(write_error(self._target(self.layout.entries[self._index]), error))
                return False
            self._offset += length
            self._advance()
        return True

    def interrupt(self) -> None:
        """Forget the incomplete piece: the stream continues at ``position``."""
        self._pending.clear()

    def skip(self, error: TransferError) -> None:
        """Give up the current file, and continue with the next one."""
        self.interrupt()
        self._fail(error)
        self._advance()

    def close(self) -> None:
        if self._writer >= 0:
            os.close(self._writer)
        self._writer = self._writes_to = -1

    def _fail(self, error: TransferError) -> None:
        self.close()
        self.failures[self._index] = error
        remove_now(self.path(self._index))
        if os.path.lexists(self.path(self._index)):
            os.unlink(self.path(self._index))
        self._index, self._offset = self._index + 1, 0

    def _advance(self) -> None:
        """Go to the next piece that is missing. Create directories and empty files on the way."""
        while not self.is_complete:
            if self._index in self.failures:
                self._index, self._offset = self._index + 1, 0
                continue
            entry = self.layout.entries[self._index]
            if self._offset == 0:
                try:
                    self._offset = self._received_bytes(entry)
                except OSError as error:
                    self._fail(write_error(self._target(entry), error))
                    continue
            if self._offset < entry.size:
                return
            self._index, self._offset = self._index + 1, 0

    def _received_bytes(self, entry: Entry) -> int:
        """Return how many bytes of an entry were received; create it if it is missing."""
        path = self.path(self._index)
        if entry.kind == DIRECTORY:
            os.makedirs(path, 0o700, exist_ok=True)
            return 0
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | NEVER_WAIT, 0o600))
        size = os.lstat(path).st_size
        return size if size == entry.size else size - size % PIECE

    def _write(self, piece: bytes) -> None:
        if self._writes_to != self._index:
            self.close()
            self._writer = os.open(self.path(self._index), os.O_WRONLY | os.O_NOFOLLOW | NEVER_WAIT)
            self._writes_to = self._index
        offset = self._offset
        while piece:
            written_count = os.pwrite(self._writer, piece, offset)
            offset, piece = offset + written_count, piece[written_count:]
