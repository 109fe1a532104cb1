"""The mark: a log's head as its last writer saw it, kept outside the log to detect a cut or replaced log.

One line in a file of its own, rewritten in place after each append and synced when the log is closed. It may lag behind
the log (a crash between commit and mark, a second writer) but never runs ahead of it: the append was durable before. A
file that is missing, empty or all zeros counts as no mark (a copied log; a power cut).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from zlib import crc32

from ...domain.ports.log import Head, LogDamaged, LogUnavailable

_WORD = "poolbook-mark"
_ROOM = 160  # bytes: every mark fills its line, so that a shorter one leaves nothing of a longer one behind
Sealed = Callable[[int], tuple[int, str] | None]  #: epoch and digest of the append that ended at a position


def _line(head: Head) -> bytes:
    text = f"{_WORD} {head.epoch} {head.position} {head.digest}"
    return f"{text} {crc32(text.encode()):08x}".ljust(_ROOM - 1).encode() + b"\n"


def read_mark(path: str) -> Head | None:
    """Return the mark in the file `path`, or None if there is none. Raise `LogDamaged` if the file holds something
    else."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LogUnavailable(f"the log's mark {path} cannot be read: {error.strerror}") from error
    if not content.strip(b"\0"):
        return None
    with suppress(ValueError):  # of the unpacking, the numbers or the text
        word, epoch, position, digest, _ = content.decode("ascii").split()
        head = Head(int(epoch), int(position), digest)
        if word == _WORD and _line(head) == content:
            return head
    raise LogDamaged(f"{path} is no mark of a log any more; verify the log, then remove this file: a new one is made")


def disagreement(mark: Head | None, head: Head, sealed: Sealed) -> str | None:
    """Return why a log that ends at `head` is not the marked one; None if it is. Read the mark before the head."""
    if mark is None or mark.position == 0:
        return None
    if mark.position > head.position:
        return f"it ends at position {head.position}, but had reached {mark.position}: its end was cut off"
    if sealed(mark.position) != (mark.epoch, mark.digest):
        return f"what it holds up to position {mark.position} is not what had been appended: it was replaced"
    return None


class Mark:
    """The mark of a log that is open for writing."""

    def __init__(self, path: str) -> None:
        """Open or create the file. Raise `LogUnavailable` if it cannot be created or written."""
        self.path = path
        self._written = False
        try:
            os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LogUnavailable(
                f"the log's mark {path} cannot be written: {error.strerror}; a writer needs both the log and its mark"
            ) from error

    def write(self, head: Head) -> None:
        # The events are stored and acknowledged by now: a mark that lags is no reason to say that they are not.
        with suppress(OSError):
            os.pwrite(self._file, _line(head), 0)
            self._written = True

    def close(self) -> None:
        if self._written:
            with suppress(OSError):
                os.fsync(self._file)
        os.close(self._file)
