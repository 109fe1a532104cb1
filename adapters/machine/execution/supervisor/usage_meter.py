"""Count what a transfer moves, and its failures."""

from __future__ import annotations

import errno
import os
from typing import Any

from .plugins import PluginError, Plugins

SENDING, RECEIVING = "sending", "receiving"  #: the end at which a transfer failed
TOO_LARGE = {"input": 32, "output": 33}  #: HoldReasonCode: MaxTransferInputSizeExceeded, MaxTransferOutputSizeExceeded
FAILED = {"input": 13, "output": 12, "checkpoint": 36}
"""TransferInputError, TransferOutputError, FailedToCheckpoint."""

Result = dict[str, Any]
"""The result of a transfer: files, size, listed; ``moved_kb``: the space moved out of the scratch directory; ``urls``:
for each protocol the files listed, the files moved, and their bytes; ``checkpoint``: the number of the checkpoint that
was restored from its URL; ``failure``: code, errno, end, words, protocol."""

_MEGABYTE = 1 << 20
_LONGEST, _MOST_PROTOCOLS, _MOST_NAMES = 64, 50, 1 << 15  #: a result must fit into a message


class TransferError(Exception):
    """A file could not be transferred: the end that failed, the errno or another subcode, the reason, and a plugin's
    protocol."""

    def __init__(
        self, end: str, number: int, reason: str, code: int = 0, protocol: str = "", by_plugin: bool = False
    ) -> None:
        super().__init__(reason)
        self.end, self.number, self.reason, self.code = end, number, reason, code
        self.protocol, self.by_plugin = protocol, by_plugin


def read_error(path: str, error: OSError, rule: str = "") -> TransferError:
    number = error.errno or 0
    return TransferError(SENDING, number, f"reading from file {path}: (errno {number}) {os.strerror(number)}{rule}")


def write_error(path: str, error: OSError) -> TransferError:
    number = error.errno or 0
    return TransferError(RECEIVING, number, f"writing to file {path}: (errno {number}) {os.strerror(number)}")


def path_error(path: str) -> TransferError:
    """Return the error of a relative path that leads out of its directory."""
    return TransferError(RECEIVING, errno.EPERM, f"Attempt to write to illegal sandbox path: {path}")


def plugin_error(end: str, error: PluginError) -> TransferError:
    return TransferError(end, error.subcode, error.reason, protocol=error.protocol, by_plugin=True)


class UsageMeter:
    """Counts what a transfer has moved so far, and its failures."""

    def __init__(self, kind: str, limit_mb: int | None) -> None:
        self._kind = kind
        self._limit = None if limit_mb is None or limit_mb < 0 else limit_mb * _MEGABYTE
        self.listed = self.files = self.size = self.moved_kb = self.failures = 0
        self.urls: dict[str, list[int]] = {}  # for each protocol: files listed, files moved, bytes
        self.first: TransferError | None = None
        self.checkpoint = -1  #: the number of the checkpoint at a URL from which the job continues (-1: none)
        self.names: dict[str, None] = {}  # the output files and directories that are not in another directory

    def admit(self, path: str, size: int) -> None:
        """Raise `TransferError` if `size` more bytes would exceed the job's limit."""
        if not self.has_room(size):
            assert self._limit is not None
            reason = (
                f"sending file {path}: max total {'upload' if self._kind == 'input' else 'download'} bytes exceeded "
                f"(max={self._limit // _MEGABYTE} MB, this file={size // _MEGABYTE} MB)"
            )
            raise TransferError(SENDING, 0, reason, TOO_LARGE[self._kind])

    def has_room(self, size: int) -> bool:
        """Return True if `size` more bytes are within the job's limit."""
        return self._limit is None or self.size + size <= self._limit

    def count_moved(self, size: int, disk_blocks: int, files: int = 1) -> None:
        """Count files that were moved out of the scratch directory instead of copied."""
        self.files += files
        self.size += size
        self.moved_kb += disk_blocks // 2

    def count_failed(self, error: TransferError) -> None:
        self.failures += 1
        self.first = self.first or error

    def by_url(self, kind: str, number: int, count: int = 1, size: int = 0) -> None:
        """Count files that a protocol has listed (``number`` 0) or moved (1)."""
        kind = kind[:_LONGEST]
        if kind not in self.urls and len(self.urls) >= _MOST_PROTOCOLS:
            kind = "other"
        counts = self.urls.setdefault(kind, [0, 0, 0])
        counts[number] += count
        counts[2] += size

    def move_by_plugins(self, plugins: Plugins, end: str) -> None:
        """Let plugins move their files, and count them."""
        for moved_files, failure in plugins.move():
            for moved_file in moved_files:
                self.by_url(moved_file.protocol, 1, size=moved_file.size)
            if failure is not None:
                self.count_failed(plugin_error(end, failure))

    def result(self) -> Result:
        result: Result = {"files": self.files, "size": self.size, "listed": self.listed}
        if self.moved_kb:
            result["moved_kb"] = self.moved_kb
        names = os.fsencode(",".join(self.names)).decode(errors="replace")
        if self._kind == "output" and len(names) <= _MOST_NAMES:
            result["names"] = names
        if self.checkpoint >= 0:
            result["checkpoint"] = self.checkpoint
        if self.urls:
            result["urls"] = [[protocol, *counts] for protocol, counts in self.urls.items()]
        if self.first is not None:
            is_plain = self.first.end == SENDING and not self.first.by_plugin
            count_text = f"{self.failures} total failures: first failure: " if is_plain else ""
            result["failure"] = {
                "code": self.first.code or FAILED[self._kind],
                "errno": self.first.number,
                "end": self.first.end,
                "words": f"{count_text}{self.first.reason}"[:2000],
                "protocol": self.first.protocol,
            }
        return result
