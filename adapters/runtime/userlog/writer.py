"""Write user logs with each event exactly once, even if this process is killed at any time (docs/userlog.md).

Events come in batches, each announced in the checkpoint before it changes any file. After a crash the texts of the
interrupted batch are computed again from the log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, islice
from pathlib import Path

import msgspec
from attrs import define, field, frozen

from ....domain.events import Event, PoolFounded
from ...machine.execution.supervisor.copying import sync_path
from . import files
from .files import describe_error
from .fold import UserLogs
from .logged_clusters import LogFile

# The user logs' checkpoint: a small file to which a line is added whenever the checkpoint advances. The last complete
# line is valid. If a crash cut off a line, that line is ignored, and the line before it still applies. The file is not
# replaced for each line, as some file systems write a replaced file to disk first, but rewritten when it has grown.

PROGRESS = "userlogs.progress"
GROWN = 1_000_000  #: the size in bytes at which the file is rewritten


class UserLogError(Exception):
    """The user logs cannot be written. The message names the file, the rule and the fix."""


@frozen
class Failure:
    """A log that could not be written: why, the position of the first missing event, and their number."""

    path: str
    reason: str
    position: int
    lost: int


@define
class UserLogPosition:
    """The writer's checkpoint: everything up to `position` is written. `until`: the end of the batch in progress, with
    the earlier `sizes` of its files; equal to `position` if there is none. `log` is the id of the pool's log, or empty
    if the id is not known yet."""

    position: int = 0
    until: int = 0
    sizes: dict[str, int] = field(factory=dict)
    failures: dict[str, Failure] = field(factory=dict)
    log: str = ""


class ProgressFile:
    """The checkpoint file in `folder`, created if missing. `durable`: `save` syncs each line to disk."""

    def __init__(self, folder: Path, durable: bool) -> None:
        self.path = folder / PROGRESS
        self._durable = durable
        self._size = 0

    def read_checkpoint(self) -> UserLogPosition:
        """Return the checkpoint; an empty one if the file does not exist. Remove an incomplete last line. Raise
        `UserLogError` if the folder or file cannot be used, or is not a checkpoint."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            text = self.path.read_bytes() if self.path.exists() else b""
            self._size = text.rfind(b"\n") + 1
            if self._size < len(text):
                os.truncate(self.path, self._size)
        except OSError as error:
            raise UserLogError(f"{self.path}: {describe_error(error)}; job event logs need a writable folder") from None
        if not text:
            return UserLogPosition()
        last_line = text[: self._size].rstrip(b"\n").rpartition(b"\n")[2]
        try:
            return msgspec.json.decode(last_line, type=UserLogPosition) if last_line else UserLogPosition()
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UserLogError(
                f"{self.path}: not a valid checkpoint of job event logs ({error}); remove it to write all job event "
                f"logs again from the first event"
            ) from None

    def save(self, progress: UserLogPosition) -> None:
        """Append a complete line or nothing. Raise `UserLogError` if the line could not be written."""
        line = msgspec.json.encode(progress) + b"\n"
        try:
            if self._size > GROWN:
                self._restart(line)
            else:
                self._add(line)
        except OSError as error:
            consequence = "without it events could be written twice, so no event is written"
            raise UserLogError(f"{self.path}: {describe_error(error)}; {consequence}") from None

    def _add(self, line: bytes) -> None:
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            _write(fd, line, self._durable)
        except OSError:
            os.ftruncate(fd, self._size)
            raise
        finally:
            os.close(fd)
        self._size += len(line)

    def _restart(self, line: bytes) -> None:
        new = self.path.with_suffix(".new")
        fd = os.open(new, os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o644)
        try:
            _write(fd, line, self._durable)
        finally:
            os.close(fd)
        os.replace(new, self.path)
        self._size = len(line)
        if self._durable:  # otherwise a power cut could undo the renaming but keep later writes to the logs
            sync_path(str(self.path.parent))


def _write(fd: int, text: bytes, durable: bool) -> None:
    unwritten = memoryview(text)
    while unwritten:
        unwritten = unwritten[os.write(fd, unwritten) :]
    if durable:
        os.fsync(fd)


RightsOf = Callable[[str], AbstractContextManager[None]]
CHUNK = 10_000  #: events in a batch while a log is read from its beginning


class UserLogWriter:
    """Appends the pool's events to users' logs. ``folder`` has the checkpoint of one log for one writer. With
    ``durable``, each batch is synced to disk before it counts as written. ``rights_of`` is a context manager with the
    file rights of a log's owner; None means this process's own rights. Raises `UserLogError` if the folder cannot be
    used, or its checkpoint cannot be read."""

    def __init__(
        self, folder: Path, logs: UserLogs | None = None, durable: bool = False, rights_of: RightsOf | None = None
    ) -> None:
        self._logs = UserLogs() if logs is None else logs
        self._rights_of = rights_of or (lambda owner: nullcontext())
        self._durable = durable
        self._file = ProgressFile(folder, durable)
        self._progress = self._file.read_checkpoint()

    @property
    def position(self) -> int:
        """The position in the pool's log up to which all events are folded and, except for failures, written."""
        return self._logs.position

    @property
    def failures(self) -> list[Failure]:
        """The logs that could not be written, by path."""
        return [self._progress.failures[path] for path in sorted(self._progress.failures)]

    def start(self, log: Iterable[tuple[int, Event]]) -> None:
        """Read the pool's log from its first event: fold the events that are already written, and write the others.
        Drop a checkpoint of another log. Raise `UserLogError` if the log ends before the checkpoint, because it was
        truncated."""
        events = iter(log)
        first_events = list(islice(events, 1))
        log_id = next((event.log for _, event in first_events if isinstance(event, PoolFounded)), "")
        if self._progress.log != log_id:
            self._progress = UserLogPosition(log=log_id)
        events = chain(first_events, events)
        progress = self._progress
        for position, event in islice(events, progress.position):
            self._logs.skip(position, event)
        begun_events = list(islice(events, progress.until - progress.position))
        reached_position = self.position + len(begun_events)
        if reached_position < progress.until:
            raise UserLogError(
                f"{self._file.path}: job event logs have been written up to event {progress.until}, but the pool's "
                f"log ends at {reached_position}; use another folder, or the folder's previous log"
            )
        if begun_events:
            self._recover(begun_events)
        while chunk := list(islice(events, CHUNK)):
            self.write(chunk)

    def write(self, events: Iterable[tuple[int, Event]]) -> None:
        """Write the next `events` of the log as one batch. Skip events that were already written. Raise `UserLogError`
        if events since the last batch are missing, or the checkpoint cannot be saved; then no part of this batch is
        written, and a new writer can retry it."""
        progress = self._progress
        if self.position < progress.position:
            raise UserLogError(f"events up to {progress.position} have already been written; call `start` first")
        texts = self._texts(events)
        if not texts:
            return
        progress.until = self.position
        progress.sizes = {file.path: files.size(file.path) for file in texts}
        self._file.save(progress)
        for file, text in texts.items():
            self._append(file, text)
        self._save_checkpoint()

    def _texts(self, events: Iterable[tuple[int, Event]]) -> dict[LogFile, bytes]:
        parts: dict[LogFile, list[str]] = {}
        for position, event in events:
            if position <= self.position:
                continue
            if position != self.position + 1:
                raise UserLogError(
                    f"event {position} cannot follow event {self.position}: job event logs need every event of the "
                    f"log; call `start` to read the missing ones"
                )
            for file, text in self._logs.fold(position, event):
                parts.setdefault(file, []).append(text)
        return {file: files.encode("".join(texts)) for file, texts in parts.items()}

    def _append(self, file: LogFile, text: bytes) -> None:
        path = file.path
        try:
            with self._rights_of(file.owner):
                loss = files.append(path, text, self._durable) if text else None
        except OSError as error:
            loss = files.Loss(files.count_events(text), files.describe_error(error))
        if loss is None:
            return
        failure = self._progress.failures.get(path)
        first, lost_before = (failure.position, failure.lost) if failure else (self._progress.position + 1, 0)
        self._progress.failures[path] = Failure(path, loss.reason, first, lost_before + loss.events)

    def _recover(self, events: list[tuple[int, Event]]) -> None:
        """Write the missing part of the batch that the crash interrupted."""
        sizes = self._progress.sizes
        for file, text in self._texts(events).items():
            try:
                with self._rights_of(file.owner):
                    missing_text = files.missing_part(file.path, sizes.get(file.path, 0), text)
            except (OSError, ValueError):
                missing_text = text  # the file cannot be read: appending either reports the reason or succeeds
            self._append(file, missing_text)
        self._save_checkpoint()

    def _save_checkpoint(self) -> None:
        progress = self._progress
        progress.position = progress.until = self.position
        progress.sizes = {}
        self._file.save(progress)
