"""The history file in HTCondor's text form, for programs that read HTCondor's.

It is written from the views, so missing records are added later. A pool has a history file only if a client has
requested its path: condor_config_val creates the file, and then the pool keeps it up to date.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from glob import escape, glob
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ..condor_tools.cells import number, text
from ..condor_tools.formats import long_text
from ..condor_tools.job_selection import id_of

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ...domain.config import Configuration
    from ...projections.views import Views

_SETTINGS: Final = "history.json"  #: in the pool's directory: the path and limits of its history file
_BANNER: Final = re.compile(rb"\*\*\* Offset = \d+ ClusterId = (\d+) ProcId = (\d+) .*\n")


class HistoryFile(NamedTuple):
    """A history file, with its path, its maximum size (0 means no limit), and the number of older files to keep."""

    path: str
    most: int
    rotations: int

    def update(self, views: Views) -> None:
        """Append the ads of the jobs that left the queue after the file's last one. Raise `OSError`."""
        last, end = _last_job(self.path)
        for older in reversed(self._rotated_files()):
            last = last or _last_job(older)[0]
        later = _later_ads(views, last)
        if later is None:  # the file belongs to another log
            end, later = 0, views.history_ads(forwards=True)
        with open(self.path, "ab") as file:
            file.truncate(end)
        self._append(later)

    def _append(self, ads: Iterable[ClassAd]) -> None:
        for ad in ads:
            written = long_text(ad).encode(errors="surrogateescape")[:-1]
            if self.most and 0 < os.path.getsize(self.path) > self.most - len(written):
                self._rotate(int(number(ad, "EnteredCurrentStatus") or 0))
            with open(self.path, "ab") as file:
                file.write(written + _banner(ad, file.tell()))

    def _rotated_files(self) -> list[str]:
        return sorted(glob(f"{escape(self.path)}.[0-9]*"))

    def _rotate(self, at: int) -> None:
        rotated = self._rotated_files()
        # Files written in the same second are given later times, since their names must be in the order of their jobs.
        while (name := f"{self.path}.{datetime.fromtimestamp(at):%Y%m%dT%H%M%S}") <= max(rotated, default=""):
            at += 1
        os.rename(self.path, name)
        for old in [*rotated, name][: -self.rotations]:
            os.unlink(old)


def begin_history_file(folder: Path, configuration: Configuration, views: Views) -> None:
    """Write the history file of the pool in `folder` at the path in HISTORY, and make the pool update it. Raise
    `OSError`."""
    path = configuration.get("HISTORY")
    if path:
        max_size = configuration.integer("MAX_HISTORY_LOG", 20 << 20)
        rotated = configuration.boolean("ENABLE_HISTORY_ROTATION", True)
        file = HistoryFile(path, max_size if rotated else 0, max(1, configuration.integer("MAX_HISTORY_ROTATIONS", 2)))
        (folder / _SETTINGS).write_text(json.dumps(file), encoding="utf-8")
        update_history_file(folder, views)


def update_history_file(folder: Path, views: Views) -> None:
    """Update the history file of the pool in `folder`, if it has one. Raise `OSError`."""
    with suppress(FileNotFoundError), open(folder / _SETTINGS, encoding="utf-8") as settings:
        fcntl.flock(settings, fcntl.LOCK_EX)
        HistoryFile(*json.load(settings)).update(views)


def _banner(ad: ClassAd, offset: int) -> bytes:
    """Return the line after an ad, by which HTCondor's readers find the ad. Its time is the time when the job ended."""
    cluster, proc = id_of(ad)
    at, completed = (int(number(ad, name) or 0) for name in ("EnteredCurrentStatus", "CompletionDate"))
    ids = f'ClusterId = {cluster} ProcId = {proc} Owner = "{text(ad, "Owner") or "?"}"'
    return f"*** Offset = {offset} {ids} CompletionDate = {completed} CurrentTime = {at}\n".encode()


def _last_job(path: str) -> tuple[tuple[int, int] | None, int]:
    """Return the last job in a history file, and the end of its record, or None and 0 if the file has no jobs."""
    with (
        suppress(FileNotFoundError, ValueError),  # ValueError: an empty file cannot be mapped
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        at = len(data)
        while (at := data.rfind(b"\n*** ", 0, at)) >= 0:
            if banner := _BANNER.match(data, at + 1):
                return (int(banner[1]), int(banner[2])), banner.end()
    return None, 0


def _later_ads(views: Views, last: tuple[int, int] | None) -> Iterable[ClassAd] | None:
    """Return the ads of the jobs that left the queue after this job, or None if this job has not left the queue."""
    if last is None:
        return views.history_ads(forwards=True)
    ads: list[ClassAd] = []
    for ad in views.history_ads():
        if id_of(ad) == last:
            return reversed(ads)
        ads.append(ad)
    return None
