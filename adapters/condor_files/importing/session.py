"""Run an import for commands and programs: lock its log against other writers, and import the directories."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from threading import Event
from typing import Self

from ....domain.decision.draft import Refusal
from ....domain.ports.log import AlreadyServed, EventStore, LogUnavailable
from ...library.python_values import pauses, polls
from ...runtime.views import views_current
from ...stores.location import locate, safe_url
from ...stores.log_paths import WriterLock
from ...stores.opening import open_log
from .driver import Importer, ImportResult, Options, Progress, begin_import

StrPath = str | os.PathLike[str]
Folders = StrPath | Sequence[StrPath]  #: one or more files or directories to import


class ImportSession:
    """The import of some directories into one log, which no other process can write meanwhile. Close it after use."""

    def __init__(self, folders: Folders, url: StrPath, options: Options | None = None) -> None:
        """Lock the log at `url`, and create it if it is missing. Raise `Refusal` if one of the directories is missing,
        `ValueError` if no directory is named or a zone or time format is invalid, `AlreadyServed` if another process
        writes the log, `LogError` if the log cannot be opened, or is a pool's own log."""
        self.url = os.fspath(url)
        paths = [os.fspath(path) for path in ([folders] if isinstance(folders, str | os.PathLike) else folders)]
        if not paths:
            raise ValueError("specify a directory to import")
        for path in paths:
            if not os.path.exists(path):
                raise Refusal(f"{path} does not exist: specify an HTCondor directory, such as LOG or SPOOL, or a file")
        with ExitStack() as stack:
            self._lock(stack)
            self.log: EventStore = open_log(self.url, create=True)
            stack.callback(self.log.close)
            self._importer = Importer(self.log, paths, options or Options(), _files_of_log(self.url))
            if self.log.head.position:
                begin_import(self.log, "", 0)
            self._close = stack.pop_all().close

    def _lock(self, stack: ExitStack) -> None:
        lock = WriterLock(self.url)
        try:
            is_taken = lock.try_acquire()
        except OSError as error:
            cause = f"{error.strerror}: {error.filename}"
            raise LogUnavailable(f"cannot create a log at {safe_url(self.url)}: {cause}") from None
        if not is_taken:
            raise AlreadyServed(f"process {lock.holder()} is writing {safe_url(self.url)}; wait until it has ended")
        stack.callback(lock.give_up)

    def run(self, progress: Progress | None = None) -> ImportResult:
        """Import new content, and update the views of the log. Raise `LogError` if the log cannot be written, `OSError`
        if one of the directories cannot be read."""
        result = self._importer.run(progress)
        if result.events:
            views_current(self.url).close()  # so that no later reader has to rebuild them
        return result

    def rounds(
        self, interval: float, timeout: float | None = None, stop: Event | None = None
    ) -> Iterator[ImportResult]:
        """Import repeatedly, with these pauses; yield the first result, and each later result with new events."""
        is_first = True
        for _ in polls(pauses(interval, timeout), stop):
            result = self.run()
            if result.events or is_first:
                yield result
            is_first = False

    def close(self) -> None:
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _files_of_log(url: str) -> list[str]:
    """Return the log's own files, which must not be imported."""
    location = locate(url)
    if location.kind != "sqlite":
        return []
    files = [f"{location.place}{end}" for end in ("", ".head", ".lock", ".views", ".snapshot")]
    return [file + end for file in files for end in ("", "-wal", "-shm", "-journal")]


def import_pool(
    folders: Folders,
    log: StrPath,
    *,
    zone: str = "",
    machine: str = "",
    time_format: str = "",
    progress: Progress | None = None,
) -> ImportResult:
    """Import the files of an HTCondor pool into a log, like `poolbook import`; `Log.open` reads the log.

    >>> result = import_pool(["/var/log/condor", "/var/lib/condor/spool"], "audit.db")  # doctest: +SKIP
    >>> Log.open("audit.db").why("12.3")  # doctest: +SKIP

    A repeated import reads only new content, even if files were renamed.

    :param folders: a directory, which is read recursively, or a file; or several of them
    :param log: the log, created if it is missing: a file's path, ``sqlite:///x.db`` or ``postgresql://...``
    :param zone: the time zone of the daemons' local times: Europe/Madrid, UTC, +02:00 (empty: this machine's)
    :param machine: the daemons' host, if the files do not name it (empty: the directory's name)
    :param time_format: the pool's DEBUG_TIME_FORMAT, if it is not one of the usual formats
    :param progress: called with the file's path, the bytes read, the file's size, and the number of events
    :raises Refusal: one of the directories does not exist
    :raises ValueError: the zone or time format is invalid
    :raises AlreadyServed: another process writes the log
    :raises LogError: the log cannot be opened or written, or is a pool's own log
    :raises OSError: one of the directories cannot be read
    """
    with ImportSession(folders, log, Options(zone, machine, time_format)) as session:
        return session.run(progress)


def follow_pool(
    folders: Folders,
    log: StrPath,
    *,
    zone: str = "",
    machine: str = "",
    time_format: str = "",
    interval: float = 2.0,
    timeout: float | None = None,
    stop: Event | None = None,
) -> Iterator[ImportResult]:
    """Import the files of a running HTCondor pool as they grow. Yield the first result, then each with new events.

    >>> for result in follow_pool("condor", "audit.db", timeout=0):
    ...     print(result.events, "new events")
    0 new events

    The arguments and errors are the same as for `import_pool`; errors are raised when the first result is requested.

    :param interval: seconds between two polls
    :param timeout: stop after this many seconds (None: never)
    :param stop: stop when another thread sets this
    :raises ValueError: the zone, time format or a duration is invalid
    """
    with ImportSession(folders, log, Options(zone, machine, time_format)) as session:
        yield from session.rounds(interval, timeout, stop)
