"""Read submit files for a server's clients in threads, so that no client can make the pool wait.

The client itself reads what takes long or is not the server's to read: files that are long or not regular (a pipe, the
client's standard input), and the programs that a configuration or a submit file asks for.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, NoReturn

from ...domain.config import ConfigError
from ...domain.submit import SubmitError
from .disk import Disk
from .requests import LONGEST_DESCRIPTION, Refused, SubmitDescription, Terms
from .submission import ReadDescription, Reading

MOST_AT_ONCE = 4  #: submit files that are read at once; further clients read their own


class LeftToClientError(Exception):
    """The client has to read its submit file itself."""


class FinishedReading(NamedTuple):
    """A submit file that was read: the request, or the reply to its client."""

    client: Any
    found: ReadDescription | None
    reply: dict[str, Any]


class DescriptionReader:
    """Reads submit files, and calls `wake` in another thread when one is finished."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._reading = 0
        self._finished: deque[FinishedReading] = deque()

    def begin(self, client: Any, description: SubmitDescription, terms: Terms) -> bool:
        """Begin to read a submit file of `client`; return False if too many are being read."""
        if self._reading == MOST_AT_ONCE:
            return False
        self._reading += 1
        Thread(target=self._read, args=(client, description, terms), daemon=True).start()
        return True

    def finished(self) -> list[FinishedReading]:
        """Return what was finished since the last call."""
        found = [self._finished.popleft() for _ in range(len(self._finished))]
        self._reading -= len(found)
        return found

    def _read(self, client: Any, description: SubmitDescription, terms: Terms) -> None:
        self._finished.append(_read(client, description, terms))
        self._wake()


def _read(client: Any, description: SubmitDescription, terms: Terms) -> FinishedReading:
    reading = Reading(description, _ShortDisk(Path(description.folder)))
    try:
        own, _ = reading.configured()  # the server has printed its warnings
        return FinishedReading(client, reading.request(terms, own), {})
    except Refused as error:
        return FinishedReading(client, None, {"refusal": str(error), "warnings": error.warnings})
    except (SubmitError, ConfigError) as error:
        return FinishedReading(client, None, {"refusal": str(error)})
    except Exception:  # also a fault of ours, which the client then meets by itself
        return FinishedReading(client, None, left_to_client(terms))


def left_to_client(terms: Terms) -> dict[str, Any]:
    """Return the reply that makes the client read its submit file itself."""
    return {"answer": {"terms": terms._asdict()}}


class _ShortDisk(Disk):
    """The disk as far as a server reads it for a client."""

    def read(self, path: str) -> str:
        _check_short(self.folder / path)
        return super().read(path)

    def run(self, command: str) -> NoReturn:
        raise LeftToClientError(command)

    def write(self, path: str, text: str) -> NoReturn:
        raise LeftToClientError(path)

    def standard_input(self) -> NoReturn:
        raise LeftToClientError("-")


def _check_short(path: Path) -> None:
    """Leave files to the client that are long, not regular, or named relative to the process (/proc/self/fd/3). Raise
    `OSError` if there is no such file."""
    found = os.stat(path)
    elsewhere = os.path.realpath(path).startswith(("/proc/", "/dev/")) or str(path).startswith(("/proc/", "/dev/"))
    if elsewhere or not stat.S_ISREG(found.st_mode) or found.st_size > LONGEST_DESCRIPTION:
        raise LeftToClientError(str(path))
