"""Append to files to which other processes may also append.

A file is opened once per batch with O_APPEND, so that the system appends each text at the current end. Like HTCondor
without ENABLE_USERLOG_LOCKING, it is not locked.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from .event_text import END

MODE = 0o644  #: permissions of a new file, before the umask
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOCTTY | os.O_NONBLOCK


_SEARCHED = 64 << 20  #: maximum bytes from other writers that are searched for the text of a killed writer


def _never_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def size(path: str) -> int:
    """Return a file's size in bytes, or 0 if it does not exist or cannot be read."""
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0


def _open(path: str) -> int:
    try:
        return os.open(path, _FLAGS, MODE)
    except ValueError as error:  # not a valid file name: it contains a NUL character
        raise OSError(errno.EINVAL, str(error)) from None


class Loss(NamedTuple):
    """The number of events that could not be written to a file, and why."""

    events: int
    reason: str


def append(path: str, text: bytes, durable: bool = False) -> Loss | None:
    """Append `text`, which consists of complete events; with `durable`, sync it to disk. If not everything fits, keep
    the events that do, and return the loss."""
    unwritten = memoryview(text)
    try:
        fd = _open(path)
    except OSError as error:
        return Loss(count_events(text), describe_error(error))
    try:
        while unwritten:
            unwritten = unwritten[os.write(fd, unwritten) :]
        if durable:
            os.fsync(fd)
    except OSError as error:
        written_size = _cut_torn(fd, text[: len(text) - len(unwritten)])
        return Loss(count_events(text) - written_size, describe_error(error))
    finally:
        os.close(fd)
    return None


def _cut_torn(fd: int, written_text: bytes) -> int:
    """Remove an incomplete event from the end of the file, unless another process has written after it; return the
    number of complete events written."""
    torn_size = len(written_text) - (written_text.rfind(_DOTS) + len(_DOTS) if _DOTS in written_text else 0)
    end = os.lseek(fd, 0, os.SEEK_CUR)
    if torn_size and os.fstat(fd).st_size == end:
        os.ftruncate(fd, end - torn_size)
    return count_events(written_text)


def count_events(text: bytes) -> int:
    return text.count(_DOTS)


_DOTS = b"\n" + END.encode()


def split_events(text: bytes) -> Iterator[bytes]:
    """Yield the events of `text`, each with its closing line; the last one may be incomplete."""
    start = 0
    while start < len(text):
        dots_at = text.find(_DOTS, start)
        end = len(text) if dots_at < 0 else dots_at + len(_DOTS)
        yield text[start:end]
        start = end


def missing_part(path: str, since: int, text: bytes) -> bytes:
    """Return the part of `text` that is not in the file after the size `since`, where others may have written, too. If
    the file is shorter, because it was emptied or replaced, search it from its start. An incomplete event at the end is
    completed. Return all of `text` for a FIFO or a device; search only a limited number of bytes. Raise `OSError` if
    the file cannot be read."""
    try:
        with open(path, "rb", opener=_never_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return text
            file.seek(since if status.st_size >= since else 0)
            tail_text = file.read(len(text) + _SEARCHED)
    except FileNotFoundError:
        return text
    if tail_text == text:
        return b""
    done_count = at = 0
    for event in split_events(text):
        place = at if tail_text.startswith(event, at) else tail_text.find(event, at)
        if place < 0:
            break
        at = place + len(event)
        done_count += len(event)
    missing_text = text[done_count:]
    return missing_text[_torn_length(tail_text[at:], next(split_events(missing_text), b"")) :]


def _torn_length(tail: bytes, event: bytes) -> int:
    """Return how many bytes of `event` are at the end of `tail`, starting on a new line."""
    for length in range(min(len(event) - 1, len(tail)), 0, -1):
        tail_start = len(tail) - length
        if (tail_start == 0 or tail[tail_start - 1 : tail_start] == b"\n") and tail.endswith(event[:length]):
            return length
    return 0


def why_unwritable(path: str) -> str:
    """Return why no log can be written at `path`, or an empty string if one can. Create the file, as the first event
    would. A submission then holds the job (code 22), so that it does not run without its log."""
    try:
        os.close(_open(path))
    except OSError as error:
        return describe_error(error)
    return ""


def describe_error(error: OSError) -> str:
    return f"{error.strerror or error} (errno {error.errno})"
