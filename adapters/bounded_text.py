"""Read files, standard input and the output of programs as text, up to a limit, so that endless input does not use all
memory."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import IO

LONGEST = 256 << 20  #: maximum number of bytes in a text
MOST_LINES = 10_000_000  #: maximum number of lines in a text: each may be an item of a queue statement
_PIECE = 1 << 20


class TooLongError(OSError):
    """A text exceeds the limit or takes too long to arrive; `strerror` states the limit and the fix."""

    def __init__(self, reason: str, name: str) -> None:
        super().__init__(errno.EFBIG, reason, name)

    def __str__(self) -> str:
        return str(self.strerror)


def text_of(stream: IO[bytes], name: str, errors: str = "surrogateescape") -> str:
    """Return the complete content of `stream`, decoded as UTF-8. Raise `TooLongError` beyond `LONGEST` bytes or
    `MOST_LINES` lines."""
    chunks: list[bytes] = []
    size = lines = 0
    while chunk := stream.read(_PIECE):
        chunks.append(chunk)
        size += len(chunk)
        lines += chunk.count(b"\n")
        if size > LONGEST:
            raise TooLongError(f"it is longer than {LONGEST >> 20} MB, which is the limit; split it", name)
        if lines > MOST_LINES:
            raise TooLongError(f"it has more than {MOST_LINES:,} lines, which is the limit; split it", name)
    return b"".join(chunks).decode("utf-8", errors)


def read_text(path: str | Path, errors: str = "surrogateescape") -> str:
    """Return a file's text with all line ends as newlines. Raise `OSError` if the file is unreadable or too long."""
    with open(path, "rb") as file:
        return text_of(file, str(path), errors).replace("\r\n", "\n").replace("\r", "\n")


def read_input() -> str:
    """Return the text on standard input. Raise `OSError` if it cannot be read or is too long."""
    return text_of(sys.stdin.buffer, "standard input")


def output_of(argv: Sequence[str], folder: Path, seconds: float) -> str:
    """Return the output of a program, whatever its exit code. Raise `OSError` if the program cannot be started, does
    not end in time, or writes more than `text_of` accepts; in the last two cases, kill the program and its children."""
    import subprocess
    from threading import Timer

    until = monotonic() + seconds
    with subprocess.Popen(
        argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        timer = Timer(seconds, _kill, (process.pid,))
        timer.start()
        try:
            assert process.stdout is not None
            text = text_of(process.stdout, argv[0])
            process.wait()
        except BaseException:
            _kill(process.pid)
            raise
        finally:
            timer.cancel()
    if process.returncode == -signal.SIGKILL and monotonic() >= until:
        raise TooLongError(f"it did not end within {seconds:g} seconds", argv[0])
    return text


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
