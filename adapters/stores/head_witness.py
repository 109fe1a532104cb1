"""The mark: the log's head after its last append, kept outside the log to detect a truncated or replaced log.

It is one line in a separate file, rewritten in place after each append and synced when the log is closed. It may lag
behind the log (after a crash between commit and mark, or with a second writer) but is never ahead of it: the append is
durable before the mark is written. A file that is missing (a copied log), empty, or all zeros (a power failure) counts
as no mark.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from zlib import crc32

from ...domain.ports.log import Head, LogDamaged, LogUnavailable

_WORD = "poolbook-mark"
_MARK_BYTES = 160  # bytes: every mark has this length, so that it overwrites the previous one completely
Sealed = Callable[[int], tuple[int, str] | None]  #: epoch and digest of the append that ended at a position


def _mark_line(head: Head) -> bytes:
    text = f"{_WORD} {head.epoch} {head.position} {head.digest}"
    return f"{text} {crc32(text.encode()):08x}".ljust(_MARK_BYTES - 1).encode() + b"\n"


def read_mark(path: str) -> Head | None:
    """Return the mark in the file `path`, or None if there is none. Raise `LogDamaged` if its content is invalid."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LogUnavailable(f"the log's mark {path} cannot be read: {error.strerror}") from error
    if not content.strip(b"\0"):
        return None
    with suppress(ValueError):  # raised by the unpacking, the numbers, or the text
        word, epoch, position, digest, _ = content.decode("ascii").split()
        head = Head(int(epoch), int(position), digest)
        if word == _WORD and _mark_line(head) == content:
            return head
    raise LogDamaged(f"{path} is not a valid mark of a log; verify the log, then remove this file to create a new one")


def disagreement(mark: Head | None, head: Head, sealed: Sealed) -> str | None:
    """Return why a log that ends at `head` disagrees with its mark, or None if they agree. The caller must read the
    mark before the head."""
    if mark is None or mark.position == 0:
        return None
    if mark.position > head.position:
        return f"it ends at position {head.position}, but had reached {mark.position}: its end was truncated"
    if sealed(mark.position) != (mark.epoch, mark.digest):
        return f"its events up to position {mark.position} are not the ones that were appended: it was replaced"
    return None


class Mark:
    def __init__(self, path: str) -> None:
        """Open or create the file. Raise `LogUnavailable` if it cannot be created or written."""
        self.path = path
        self._written = False
        try:
            os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            problem = f"the log's mark {path} cannot be written: {error.strerror}"
            raise LogUnavailable(f"{problem}; a writer needs both the log and its mark") from error

    def write(self, head: Head) -> None:
        # The events are already durable: the append succeeds even if the mark cannot be written.
        with suppress(OSError):
            os.pwrite(self._file, _mark_line(head), 0)
            self._written = True

    def close(self) -> None:
        if self._written:
            with suppress(OSError):
                os.fsync(self._file)
        os.close(self._file)
