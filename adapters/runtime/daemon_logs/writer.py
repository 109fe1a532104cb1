"""Write the lines of the daemons' logs to files, each line exactly once, even if this process is killed at any time.

The checkpoint has the position in the pool's log up to which all lines are written, and the sizes of the files then. A
killed writer's files may be longer: they are cut to these sizes, and the lines that follow are written again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, tzinfo
from glob import escape, glob
from pathlib import Path
from typing import Any, Protocol

import msgspec
from attrs import define, field

from ....domain.events import PoolFounded
from ...replaced_files import replace_file
from .fold import DaemonLogs, LogLine
from .log_settings import LogFile, LogSettings

PROGRESS = "daemonlogs.progress"
_PENDING = 1 << 20  #: write the lines to their files when they have this many bytes


class DaemonLogError(Exception):
    """A log cannot be written. The message names the file, the rule and the fix."""


class Fold(Protocol):
    """Folds events into lines. ``position`` is that of the last event."""

    position: int

    def fold(self, position: int, event: Any, /) -> list[LogLine]: ...


@define
class LogProgress:
    """The checkpoint: the id of the pool's log, the position up to which everything is written, and the size and the
    time (seconds) of the first line of each file."""

    log: str = ""
    position: int = 0
    sizes: dict[str, int] = field(factory=dict)
    since: dict[str, int] = field(factory=dict)


class DaemonLogWriter:
    """Appends lines to the logs of `settings`. `folder` has the checkpoint; without it, files that exist are replaced.
    Only lines in the `window` (microseconds) are written. `warn` is called for each file that another program wrote.
    `logs` folds the events into lines (default: the lines of a pool).

    Raises `DaemonLogError` if a file cannot be written."""

    def __init__(
        self, settings: LogSettings, folder: Path | None = None, warn: Callable[[str], None] = print,
        zone: tzinfo | None = None, window: tuple[int, int] = (0, 1 << 62), logs: Fold | None = None,
    ) -> None:  # fmt: skip
        self.settings = settings
        self._path = folder / PROGRESS if folder is not None else None
        self._warn, self._zone, self._window = warn, zone, window
        self._logs: Fold = logs or DaemonLogs()
        self._progress = LogProgress()
        self._pending: dict[str, list[bytes]] = {}
        self._pending_size = 0
        self._opened: set[str] = set()
        self._is_outdated = False  #: the checkpoint lacks the size of a file that was opened
        self._foreign: set[str] = set()  #: files that another program has written
        self._stamp = (-1, "")

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes of the files that have been written, in bytes."""
        return self._progress.sizes

    def start(self, log: Iterable[tuple[int, Any]]) -> None:
        """Read the pool's log from its first event, and write the lines that are missing."""
        self._read_checkpoint()
        self.write(log)

    def write(self, events: Iterable[tuple[int, Any]]) -> None:
        """Write the lines of the next events. Skip events whose lines were already written."""
        for position, event in events:
            if position <= self._logs.position:
                continue
            if type(event) is PoolFounded and self._progress.log != event.log:
                self._progress = LogProgress(event.log)
            lines = self._logs.fold(position, event)
            if lines and position > self._progress.position and self._window[0] <= event.at < self._window[1]:
                self._add_lines(lines, position)
            if self._pending_size > _PENDING:
                self._flush(position)
        if self._logs.position > self._progress.position:
            self._flush(self._logs.position)

    def _add_lines(self, lines: list[LogLine], position: int) -> None:
        """Add an event's lines to the lines that wait, after rotating each full file."""
        lines_of: dict[str, tuple[LogFile, list[LogLine]]] = {}
        for line in lines:
            for file in self.settings.files_of(line.log):
                if file.accepts(line):
                    lines_of.setdefault(file.path, (file, []))[1].append(line)
        for path, (file, lines_of_file) in lines_of.items():
            at = lines_of_file[0].at // 1_000_000
            if path not in self._opened:
                self._open(file, at)
            if path not in self._foreign and self._is_full(file, at):
                self._flush(position - 1)  # so none of this event's lines may wait yet
                self._rotate(file, lines_of_file[0])
        for path, (file, lines_of_file) in lines_of.items():
            if path not in self._foreign:
                self._put(path, b"".join(self._line(file, line) for line in lines_of_file))

    def _put(self, path: str, text: bytes) -> None:
        self._pending.setdefault(path, []).append(text)
        self._pending_size += len(text)

    def _line(self, file: LogFile, line: LogLine) -> bytes:
        headers, category = file.flags.headers, line.category
        fields = [self._time(line.at, "D_TIMESTAMP" in headers, "D_SUB_SECOND" in headers)]
        if "D_PID" in headers:
            fields.append(f"(pid:{line.pid})")
        if "D_CAT" in headers:
            shown = "D_ALWAYS" if category == "D_STATUS" else category
            fields.append(f"({shown}:2)" if line.is_verbose else f"({shown})")
        return f"{' '.join((*fields, line.text))}\n".encode("utf-8", "surrogateescape")

    def _time(self, at: int, is_number: bool, has_fraction: bool) -> str:
        milliseconds = (at + 500) // 1000 if has_fraction else at // 1_000_000 * 1000
        second, fraction = divmod(milliseconds, 1000)
        if is_number:
            text = str(second)
        else:
            if self._stamp[0] != second:
                moment = datetime.fromtimestamp(second, self._zone)
                moment = moment if self._zone is not None else moment.astimezone()
                self._stamp = second, moment.strftime(self.settings.time_format)
            text = self._stamp[1]
        return f"{text}.{fraction:03}" if has_fraction else text

    # Files

    def _open(self, file: LogFile, at: int) -> None:
        """Prepare a file before its first line by this writer."""
        self._opened.add(file.path)
        sizes, path = self._progress.sizes, file.path
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            size = os.path.getsize(path) if os.path.exists(path) else 0
            if size and self._path is not None and path not in sizes:
                self._foreign.add(path)
                self._warn(
                    f"{path} is not written: another program wrote it, and a log has the lines of one "
                    "pool; move it, or set LOG to another directory"
                )
            elif size and (self._path is None or file.is_truncated):
                os.truncate(path, 0)
                size = 0
        except OSError as error:
            raise _failure(path, error) from None
        self._is_outdated = self._is_outdated or sizes.get(path) != size
        sizes[path] = size
        self._progress.since.setdefault(path, at)

    def _is_full(self, file: LogFile, at: int) -> bool:
        if not file.largest:
            return False
        if file.by_time:
            since = self._progress.since[file.path]
            return at - at % file.largest > since - since % file.largest
        waiting = sum(map(len, self._pending.get(file.path, ())))
        return self._progress.sizes[file.path] + waiting >= file.largest

    def _rotate(self, file: LogFile, line: LogLine) -> None:
        """Rename a full file, and start a new one."""
        path, size = file.path, self._progress.sizes[file.path]
        since = self._progress.since[path]
        at = line.at // 1_000_000
        name = f"{path}.old"
        if file.rotations > 1:
            moment = since - since % file.largest if file.by_time else at
            newest = max(_rotated(path), default="")
            while (name := f"{path}.{datetime.fromtimestamp(moment, self._zone):%Y%m%dT%H%M%S}") <= newest:
                moment += 1
        unit = "sec" if file.by_time else "bytes"
        amount = at - at % file.largest - (since - since % file.largest) if file.by_time else size
        before = (f"MaxLog = {file.largest} {unit}, length = {amount}", f'Saving log file to "{name}"')
        after = self._line(file, line._replace(category="D_ALWAYS", text=f"Now in new log file {path}"))
        try:
            _append(path, b"".join(self._line(file, line._replace(category="D_ALWAYS", text=text)) for text in before))
            os.replace(path, name)
            self._progress.sizes[path], self._progress.since[path] = 0, at
            self._save()
            for old in _rotated(path)[: -file.rotations] if file.rotations > 1 else ():
                os.unlink(old)
        except OSError as error:
            raise _failure(path, error) from None
        self._put(path, after)

    def _flush(self, position: int) -> None:
        """Write the lines that wait, which are all lines up to this position, and save the checkpoint."""
        if self._is_outdated:  # otherwise a file would look like another program's if this process is killed
            self._save()
        pending, self._pending, self._pending_size = self._pending, {}, 0
        for path, parts in pending.items():
            text = b"".join(parts)
            try:
                _append(path, text)
            except OSError as error:
                raise _failure(path, error) from None
            self._progress.sizes[path] += len(text)
        self._progress.position = position
        self._save()

    def _save(self) -> None:
        self._is_outdated = False
        if self._path is None:
            return
        try:
            replace_file(self._path, msgspec.json.encode(self._progress).decode())
        except OSError as error:
            raise _failure(str(self._path), error) from None

    def _read_checkpoint(self) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError, msgspec.DecodeError):
            self._progress = msgspec.json.decode(self._path.read_bytes(), type=LogProgress)
        for path, size in self._progress.sizes.items():
            with suppress(FileNotFoundError):
                if os.path.getsize(path) > size:
                    os.truncate(path, size)


def _rotated(path: str) -> list[str]:
    """Return the older files of a log that have times in their names, the oldest first."""
    return sorted(glob(f"{escape(path)}.[0-9]*T[0-9]*"))


def _append(path: str, text: bytes) -> None:
    with open(path, "ab", buffering=0) as file:
        unwritten = memoryview(text)
        while unwritten:
            unwritten = unwritten[file.write(unwritten) :]


def _failure(path: str, error: OSError) -> DaemonLogError:
    return DaemonLogError(
        f"{path} cannot be written: {error.strerror or error}; make LOG a directory that this pool can write, or "
        "remove it from the configuration"
    )
