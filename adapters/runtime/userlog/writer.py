"""Write user logs so that each event stands in its file once, whenever this process may be killed (docs/userlog.md).

Events come in batches, each announced in the checkpoint (``log_position.py``) before it touches any file. After a crash
the texts of the batch that was begun are made anew, as they follow from the log alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path

from ....domain.events import Event
from . import files
from .fold import UserLogs
from .log_position import Failure, ProgressFile, UserLogError
from .logged_clusters import LogFile

RightsOf = Callable[[str], AbstractContextManager[None]]
CHUNK = 10_000  #: events in a batch while a log is read from its beginning


class UserLogWriter:
    """Appends the pool's events to users' logs. ``folder`` keeps the checkpoint: of one log, for one writer. With
    ``durable``, each batch is synced to disk before it counts as written. ``rights_of`` gives the file rights of a
    log's owner for as long as something is done to it; None: it is done with this process's own. Raises `UserLogError`
    if the folder cannot be used, or its checkpoint cannot be read."""

    def __init__(
        self, folder: Path, logs: UserLogs | None = None, durable: bool = False, rights_of: RightsOf | None = None
    ) -> None:
        self._logs = UserLogs() if logs is None else logs
        self._rights_of = rights_of or (lambda owner: nullcontext())
        self._durable = durable
        self._file = ProgressFile(folder, durable)
        self._progress = self._file.read()

    @property
    def position(self) -> int:
        """Return the position in the pool's log up to which all is folded and, but for failures, written."""
        return self._logs.position

    @property
    def failures(self) -> list[Failure]:
        """Return the logs that could not be written, by path."""
        return [self._progress.failures[path] for path in sorted(self._progress.failures)]

    def start(self, log: Iterable[tuple[int, Event]]) -> None:
        """Read the pool's log from its first event: fold what is written already, write what is missing. Raise
        `UserLogError` if the log ends before the checkpoint: it is another log, or has been cut."""
        events = iter(log)
        progress = self._progress
        for position, event in islice(events, progress.position):
            self._logs.skip(position, event)
        begun = list(islice(events, progress.until - progress.position))
        reached = self.position + len(begun)
        if reached < progress.until:
            raise UserLogError(
                f"{self._file.path}: user logs are written up to event {progress.until}, the pool's log ends at "
                f"{reached}; a folder belongs to one log: give another folder, or the log that was there"
            )
        if begun:
            self._recover(begun)
        while chunk := list(islice(events, CHUNK)):
            self.write(chunk)

    def write(self, events: Iterable[tuple[int, Event]]) -> None:
        """Write `events`, the next ones of the log, as one batch. Skip those that were written before. Raise
        `UserLogError` if events between the last batch and this one are missing, or the checkpoint cannot be saved;
        then nothing of this batch is written, and a new writer may try it again."""
        progress = self._progress
        if self.position < progress.position:
            raise UserLogError(f"events up to {progress.position} are written already: let `start` read the log first")
        texts = self._texts(events)
        if not texts:
            return
        progress.until = self.position
        progress.sizes = {file.path: files.size(file.path) for file in texts}
        self._file.save(progress)
        for file, text in texts.items():
            self._append(file, text)
        self._done()

    # One batch

    def _texts(self, events: Iterable[tuple[int, Event]]) -> dict[LogFile, bytes]:
        parts: dict[LogFile, list[str]] = {}
        for position, event in events:
            if position <= self.position:
                continue
            if position != self.position + 1:
                raise UserLogError(
                    f"event {position} cannot follow event {self.position}: user logs need every event of the log; "
                    "`start` reads what is missing"
                )
            for file, text in self._logs.fold(position, event):
                parts.setdefault(file, []).append(text)
        return {file: files.encoded("".join(texts)) for file, texts in parts.items()}

    def _append(self, file: LogFile, text: bytes) -> None:
        path = file.path
        try:
            with self._rights_of(file.owner):
                loss = files.append(path, text, self._durable) if text else None
        except OSError as error:
            loss = files.Loss(files.count(text), files.problem(error))
        if loss is None:
            return
        known = self._progress.failures.get(path)
        first, before = (known.position, known.lost) if known else (self._progress.position + 1, 0)
        self._progress.failures[path] = Failure(path, loss.reason, first, before + loss.events)

    def _recover(self, events: list[tuple[int, Event]]) -> None:
        """Write what is missing of the batch that was begun before the crash."""
        sizes = self._progress.sizes
        for file, text in self._texts(events).items():
            try:
                with self._rights_of(file.owner):
                    rest = files.missing(file.path, sizes.get(file.path, 0), text)
            except (OSError, ValueError):
                rest = text  # cannot be read: appending tells why, or works
            self._append(file, rest)
        self._done()

    # The progress

    def _done(self) -> None:
        progress = self._progress
        progress.position = progress.until = self.position
        progress.sizes = {}
        self._file.save(progress)
