"""The log's subscribers while a pool runs: its users' job logs and its views.

Both can be made again from the log, so neither may stop the pool: a failure is reported once, and retried later from
the subscriber's checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ...domain.events import Event
from ...domain.ports.log import EventStore
from .userlog.writer import RightsOf, UserLogError, UserLogWriter
from .view_keeper import RETRY, VIEWS_EVERY, ViewKeeper


class Subscribers:
    """Subscribers of `log`, kept at `url`. `folder` keeps the user logs' checkpoint; `tell` is called with messages for
    the user who runs the pool. ``rights_of``: with whose rights the user logs are written, see `UserLogWriter`."""

    def __init__(
        self, url: str, log: EventStore, folder: Path, tell: Callable[[str], None], rights_of: RightsOf | None = None
    ) -> None:
        self._url, self._log, self._folder, self._tell = url, log, folder, tell
        self._rights_of = rights_of
        self._user_logs: UserLogWriter | None = None
        self._again = 0
        self._told: set[str] = set()
        self._views = ViewKeeper(url, self._say_once)

    def follow(self, first: int, events: Sequence[Event], now: int) -> None:
        """Take the events that were appended from position `first` on."""
        self._views.follow()
        writer = self._writer(now)
        if writer is None:
            return
        try:
            writer.write((first + offset, event) for offset, event in enumerate(events))
        except UserLogError as error:
            self._failed(str(error), now)
            self._user_logs = None
        self._complain(writer)

    def _writer(self, now: int) -> UserLogWriter | None:
        if self._user_logs is None and now >= self._again:
            try:
                writer = UserLogWriter(self._folder, rights_of=self._rights_of)
                writer.start(self._log.read())
                self._user_logs = writer
            except UserLogError as error:
                self._failed(str(error), now)
        return self._user_logs

    def _complain(self, writer: UserLogWriter) -> None:
        for failure in writer.failures:
            self._say_once(f"the job log {failure.path} cannot be written: {failure.reason}")

    def begin(self, now: int) -> None:
        """Catch up with everything appended since the last time."""
        self._views.put_off(now + VIEWS_EVERY)
        writer = self._writer(now)
        if writer is not None:
            self._complain(writer)

    def keep_views(self, now: int, busy: bool) -> None:
        """Have the views updated if that is due."""
        self._views.keep(now, busy)

    @property
    def behind(self) -> bool:
        """Whether the views are behind the log."""
        return self._views.behind

    def _failed(self, text: str, now: int) -> None:
        self._again = now + RETRY
        self._say_once(text)

    def _say_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)

    def close(self) -> None:
        self._views.close()
