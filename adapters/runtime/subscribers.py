"""The log's subscribers while a pool runs: its users' job logs and its views.

Both can be made again from the log, so neither may stop the pool: a failure is reported once, and retried later from
the subscriber's checkpoint.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from ...domain.events import Event
from ...domain.ports.log import Log, LogError
from .userlog import UserLogError, UserLogWriter
from .userlog.writer import RightsOf
from .views import catch_up, open_tables, views_path

VIEWS_EVERY = 500_000  #: microseconds between two updates of the views; readers update them as well
VIEWS_PATIENCE = 5_000_000  #: microseconds that the update may be late while the pool is busy
RETRY = 5_000_000  #: microseconds until a failed update is retried


class Subscribers:
    """Subscribers of `log`, kept at `url`. `folder` keeps the user logs' checkpoint; `tell` is called with messages for
    the user who runs the pool. ``rights_of``: with whose rights the user logs are written, see `UserLogWriter`."""

    def __init__(
        self, url: str, log: Log, folder: Path, tell: Callable[[str], None], rights_of: RightsOf | None = None
    ) -> None:
        self._url, self._log, self._folder, self._tell = url, log, folder, tell
        self._rights_of = rights_of
        self._user_logs: UserLogWriter | None = None
        self._views: sqlite3.Connection | None = None
        self._again = {"user logs": 0, "views": 0}
        self._told: set[str] = set()
        self.behind = True  #: whether the views are behind the log

    def follow(self, first: int, events: Sequence[Event], now: int) -> None:
        """Take the events that were appended from position `first` on."""
        self.behind = True
        writer = self._writer(now)
        if writer is None:
            return
        try:
            writer.write((first + offset, event) for offset, event in enumerate(events))
        except UserLogError as error:
            self._failed("user logs", str(error), now)
            self._user_logs = None
        self._complain(writer)

    def _writer(self, now: int) -> UserLogWriter | None:
        if self._user_logs is None and now >= self._again["user logs"]:
            try:
                writer = UserLogWriter(self._folder, rights_of=self._rights_of)
                writer.start(self._log.read())
                self._user_logs = writer
            except UserLogError as error:
                self._failed("user logs", str(error), now)
        return self._user_logs

    def _complain(self, writer: UserLogWriter) -> None:
        for failure in writer.failures:
            self._say_once(f"the job log {failure.path} cannot be written: {failure.reason}")

    def begin(self, now: int) -> None:
        """Catch up with everything appended since the last time."""
        self._again["views"] = now + VIEWS_EVERY
        writer = self._writer(now)
        if writer is not None:
            self._complain(writer)

    def keep_views(self, now: int, busy: bool) -> None:
        """Update the views if that is due: soon while little happens, later while the pool is busy."""
        if not self.behind or now < self._again["views"] + (VIEWS_PATIENCE if busy else 0):
            return
        self._update_views(now)

    def _update_views(self, now: int) -> None:
        try:
            if self._views is None:
                self._views = open_tables(views_path(self._url))
            catch_up(self._log, self._views)
            self.behind = False
            self._again["views"] = now + VIEWS_EVERY
        except (sqlite3.Error, LogError) as error:
            self._failed("views", f"the views cannot be written: {error}", now)
            self._close_views()

    def _failed(self, what: str, text: str, now: int) -> None:
        self._again[what] = now + RETRY
        self._say_once(text)

    def _say_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)

    def _close_views(self) -> None:
        if self._views is not None:
            self._views.close()
            self._views = None

    def close(self, now: int) -> None:
        if self.behind:
            self._update_views(now)
        self._close_views()
