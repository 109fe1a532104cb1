"""What a transfer has moved, and what it could not."""

from __future__ import annotations

import errno
import os
from typing import Any

from .plugins import PluginError, Plugins

SENDING, RECEIVING = "sending", "receiving"  #: at which end a transfer failed
TOO_LARGE = {"input": 32, "output": 33}  #: HoldReasonCode: MaxTransferInputSizeExceeded, MaxTransferOutputSizeExceeded
FAILED = {"input": 13, "output": 12, "checkpoint": 36}
"""TransferInputError, TransferOutputError, FailedToCheckpoint."""

Result = dict[str, Any]
"""What became of a transfer: files, size, listed; ``moved_kb``: what the scratch directory has lost; ``urls``: of each
protocol how many were listed and have moved, and their bytes; of a failure code, errno, end, words and protocol."""

_MEGABYTE = 1 << 20
_LONGEST, _MOST_PROTOCOLS = 64, 50  #: of protocols the letters, and how many are told apart: a result is read at once


class TransferError(Exception):
    """A file could not be transferred: at which end, the errno or another subcode, what was tried, and of a plugin the
    protocol."""

    def __init__(
        self, end: str, number: int, words: str, code: int = 0, protocol: str = "", by_plugin: bool = False
    ) -> None:
        super().__init__(words)
        self.end, self.number, self.words, self.code = end, number, words, code
        self.protocol, self.by_plugin = protocol, by_plugin


def unreadable(path: str, error: OSError, rule: str = "") -> TransferError:
    number = error.errno or 0
    return TransferError(SENDING, number, f"reading from file {path}: (errno {number}) {os.strerror(number)}{rule}")


def unwritable(path: str, error: OSError) -> TransferError:
    number = error.errno or 0
    return TransferError(RECEIVING, number, f"writing to file {path}: (errno {number}) {os.strerror(number)}")


def illegal(path: str) -> TransferError:
    """A relative path that leads out of where it is to be kept."""
    return TransferError(RECEIVING, errno.EPERM, f"Attempt to write to illegal sandbox path: {path}")


def of_plugin(end: str, error: PluginError) -> TransferError:
    return TransferError(end, error.subcode, error.words, protocol=error.protocol, by_plugin=True)


class UsageMeter:
    """What a transfer has moved so far, and what it could not."""

    def __init__(self, way: str, limit_mb: int | None) -> None:
        self._way = way
        self._limit = None if limit_mb is None or limit_mb < 0 else limit_mb * _MEGABYTE
        self.listed = self.files = self.size = self.moved_kb = self.failures = 0
        self.urls: dict[str, list[int]] = {}  # of each protocol: how many were listed, have moved, their bytes
        self.first: TransferError | None = None

    def admit(self, path: str, size: int) -> None:
        """Raise `TransferError` if so many further bytes are more than the job may move."""
        if not self.fits(size):
            assert self._limit is not None
            words = (
                f"sending file {path}: max total {'upload' if self._way == 'input' else 'download'} bytes exceeded "
                f"(max={self._limit // _MEGABYTE} MB, this file={size // _MEGABYTE} MB)"
            )
            raise TransferError(SENDING, 0, words, TOO_LARGE[self._way])

    def fits(self, size: int) -> bool:
        """Tell whether the job may move so many further bytes."""
        return self._limit is None or self.size + size <= self._limit

    def moved(self, size: int, blocks: int, files: int = 1) -> None:
        """Count what was not copied: it is in the scratch directory no more."""
        self.files += files
        self.size += size
        self.moved_kb += blocks // 2

    def failed(self, error: TransferError) -> None:
        self.failures += 1
        self.first = self.first or error

    def by_url(self, kind: str, number: int, count: int = 1, size: int = 0) -> None:
        """Add to what a protocol has listed (``number`` 0) or moved (1)."""
        kind = kind[:_LONGEST]
        if kind not in self.urls and len(self.urls) >= _MOST_PROTOCOLS:
            kind = "other"
        counts = self.urls.setdefault(kind, [0, 0, 0])
        counts[number] += count
        counts[2] += size

    def take(self, plugins: Plugins, end: str) -> None:
        """Have plugins move their files, and count them."""
        for moved, failure in plugins.move():
            for each in moved:
                self.by_url(each.protocol, 1, size=each.size)
            if failure is not None:
                self.failed(of_plugin(end, failure))

    def result(self) -> Result:
        said: Result = {"files": self.files, "size": self.size, "listed": self.listed}
        if self.moved_kb:
            said["moved_kb"] = self.moved_kb
        if self.urls:
            said["urls"] = [[protocol, *counts] for protocol, counts in self.urls.items()]
        if self.first is not None:
            plain = self.first.end == SENDING and not self.first.by_plugin
            counted = f"{self.failures} total failures: first failure: " if plain else ""
            said["failure"] = {
                "code": self.first.code or FAILED[self._way],
                "errno": self.first.number,
                "end": self.first.end,
                "words": f"{counted}{self.first.words}"[:2000],
                "protocol": self.first.protocol,
            }
        return said
