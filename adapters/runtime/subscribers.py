"""The subscribers of a running pool's log: users' job logs, the daemons' logs, and the views.

All can be rebuilt from the log, so none may stop the pool: a failure is reported once, and retried later from the
subscriber's checkpoint.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...domain.events import Event
from ...domain.ports.log import EventStore, LogError
from ...projections.views import Views
from ..stores.log_paths import log_paths
from ..stores.opening import open_log
from .history_file import update_history_file
from .userlog.writer import RightsOf, UserLogError, UserLogWriter
from .views import catch_up, open_tables, views_path

if TYPE_CHECKING:
    from .daemon_logs.log_settings import LogSettings
    from .daemon_logs.writer import DaemonLogWriter

# The views of a running pool: a thread updates them to the log's head while the pool handles requests.
#
# A command that affects many jobs changes as many rows of the views. Only readers of the views wait for this update,
# because the thread reads the log itself, as any reader of the views does.

VIEWS_EVERY = 500_000  #: microseconds between two updates of the views; readers update them as well
VIEWS_PATIENCE = 5_000_000  #: microseconds that the update may be late while the pool is busy
RETRY = 5_000_000  #: microseconds until a failed update is retried
TURN = 0.001
"""The maximum time in seconds that the thread computes at once, because a request yields to it a dozen times."""


class ViewKeeper:
    """Updates the views of the log at `url`, in a thread. The thread calls `failed` with each error."""

    def __init__(self, url: str, failed: Callable[[str], None]) -> None:
        self._url, self._tell = url, failed
        self._stale = True
        self._failed = False
        self._at_work = False
        self._ending = False
        self._again = 0
        self._asked = threading.Event()
        self._thread: threading.Thread | None = None
        self._log: EventStore | None = None
        self._views: sqlite3.Connection | None = None

    @property
    def is_behind(self) -> bool:
        """Return True if the views may be behind the log."""
        return self._stale or self._failed or self._at_work

    def mark_outdated(self) -> None:
        """Mark the views as outdated after an append."""
        self._stale = True

    def postpone(self, until: int) -> None:
        """Start no update before this instant."""
        self._again = until

    def update_if_due(self, now: int, busy: bool) -> None:
        """Start an update of the views if it is due. It is due immediately if the pool is idle, otherwise later."""
        if self._at_work:
            return
        if self._failed:
            self._failed, self._stale, self._again = False, True, now + RETRY
        if self._stale and now >= self._again + (VIEWS_PATIENCE if busy else 0):
            self._again = now + VIEWS_EVERY
            self._begin()

    def close(self) -> None:
        """Update the views to the log's head, and stop."""
        self._ending = True
        if self.is_behind or self._thread is not None:
            self._begin()
        if self._thread is not None:
            self._thread.join()

    def _begin(self) -> None:
        self._at_work = True
        if self._thread is None:
            sys.setswitchinterval(TURN)
            self._thread = threading.Thread(target=self._work, daemon=True, name="views")
            self._thread.start()
        self._asked.set()

    def _work(self) -> None:
        ending = False
        while not ending:
            self._asked.wait()
            self._asked.clear()
            ending = self._ending
            self._stale = self._failed = False  # events appended from here on make the views outdated again
            try:
                self._update()
            except Exception as error:
                self._failed = True
                expected = isinstance(error, (sqlite3.Error, LogError, OSError))
                self._tell(f"the views cannot be written: {error if expected else repr(error)}")
                self._give_back()
            self._at_work = False
        self._give_back()

    def _update(self) -> None:
        if self._log is None:
            self._log = open_log(self._url, create=False, read_only=True)
        if self._views is None:
            self._views = open_tables(views_path(self._url))
        catch_up(self._log, self._views, shared=True)
        update_history_file(log_paths(self._url).folder, Views(self._views))

    def _give_back(self) -> None:
        for resource in (self._views, self._log):
            if resource is not None:
                resource.close()
        self._views = self._log = None


class DaemonLogKeeper:
    """Writes the daemons' logs of a pool whose log is `log`; `folder` has their checkpoint. Calls `failed` with each
    error. Nothing is written until `configure` is called with settings."""

    def __init__(self, log: EventStore, folder: Path, failed: Callable[[str], None]) -> None:
        self._log, self._folder, self._tell = log, folder, failed
        self._settings: LogSettings | None = None
        self._writer: DaemonLogWriter | None = None
        self._again = 0

    def configure(self, settings: LogSettings | None) -> None:
        """Write the logs under these settings from now on; None: write no logs."""
        self._settings, self._writer, self._again = settings, None, 0

    def process_events(self, first: int, events: Sequence[Event], now: int) -> None:
        """Write the lines of the events that were appended from position `first` on, and of earlier ones that are
        missing."""
        if self._settings is None or now < self._again:
            return
        from .daemon_logs.writer import DaemonLogError, DaemonLogWriter

        try:
            if self._writer is not None:
                self._writer.write((first + offset, event) for offset, event in enumerate(events))
                return
            writer = DaemonLogWriter(self._settings, self._folder, self._tell)
            writer.start(self._log.read())
            self._writer = writer
        except (DaemonLogError, LogError) as error:
            self._writer, self._again = None, now + RETRY
            self._tell(str(error))
        except Exception as error:  # a retry would fail again
            self.configure(None)
            self._tell(f"the daemons' logs are no longer written: {error!r}; report this error to Poolbook's authors")


class Subscribers:
    """The subscribers of `log` at `url`. `folder` contains the checkpoint of the user logs, `tell` is called with
    messages for the user who runs the pool, and ``rights_of`` is described in `UserLogWriter`. Only access points write
    user logs: other roles have copies of the jobs."""

    def __init__(
        self, url: str, log: EventStore, folder: Path, tell: Callable[[str], None], rights_of: RightsOf | None = None,
        writes_user_logs: bool = True,
    ) -> None:  # fmt: skip
        self._url, self._log, self._folder, self._tell = url, log, folder, tell
        self._writes_user_logs = writes_user_logs
        self._rights_of = rights_of
        self._user_logs: UserLogWriter | None = None
        self._again = 0
        self._told: set[str] = set()
        self.views = ViewKeeper(url, self._warn_once)
        self.daemon_logs = DaemonLogKeeper(log, folder, self._warn_once)

    def process_events(self, first: int, events: Sequence[Event], now: int) -> None:
        """Process the events that were appended from position `first` on."""
        self.views.mark_outdated()
        self.daemon_logs.process_events(first, events, now)
        writer = self._writer(now)
        if writer is None:
            return
        try:
            writer.write((first + offset, event) for offset, event in enumerate(events))
        except UserLogError as error:
            self._report_failure(str(error), now)
            self._user_logs = None
        self._complain(writer)

    def _writer(self, now: int) -> UserLogWriter | None:
        if self._writes_user_logs and self._user_logs is None and now >= self._again:
            try:
                writer = UserLogWriter(self._folder, rights_of=self._rights_of)
                writer.start(self._log.read())
                self._user_logs = writer
            except (LogError, UserLogError) as error:
                self._report_failure(str(error), now)
        return self._user_logs

    def _complain(self, writer: UserLogWriter) -> None:
        for failure in writer.failures:
            self._warn_once(f"the job log {failure.path} cannot be written: {failure.reason}")

    def catch_up(self, now: int) -> None:
        """Process all events that were appended since the last call."""
        self.views.postpone(now + VIEWS_EVERY)
        self.daemon_logs.process_events(0, (), now)
        writer = self._writer(now)
        if writer is not None:
            self._complain(writer)

    def _report_failure(self, text: str, now: int) -> None:
        self._again = now + RETRY
        self._warn_once(text)

    def _warn_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)

    def close(self) -> None:
        self.views.close()
