"""This machine's time zone, as in its C library: from TZ or /etc/localtime, with daylight saving time."""

from __future__ import annotations

import os
import time
from calendar import timegm
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from ...domain.units import DAY

_LOCALTIME: Final = "/etc/localtime"
_EPOCH: Final = datetime(1970, 1, 1)


class LocalTime(tzinfo):
    """The local time of this process. TZ may also be a rule that is not in the zone database."""

    def fromutc(self, dt: datetime) -> datetime:
        at = _seconds_as_utc(dt)
        local = dt + timedelta(seconds=time.localtime(at).tm_gmtoff)
        return local.replace(fold=int(self._epoch_seconds(local) != at))

    def _epoch_seconds(self, local: datetime | None) -> int:
        """Return a local time's instant. Use `fold` if there are two such instants, and the earlier offset in a gap."""
        wall = _seconds_as_utc(local or _EPOCH)
        before, offset_after = (time.localtime(wall + day_shift).tm_gmtoff for day_shift in (-DAY, DAY))
        offsets = {offset for offset in (before, offset_after) if time.localtime(wall - offset).tm_gmtoff == offset}
        instants = sorted(wall - offset for offset in offsets)
        if not instants:
            return wall - before
        return instants[-1] if local is not None and local.fold else instants[0]

    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(seconds=_seconds_as_utc(dt or _EPOCH) - self._epoch_seconds(dt))

    def dst(self, dt: datetime | None) -> timedelta:
        local = time.localtime(self._epoch_seconds(dt))
        return timedelta(seconds=local.tm_gmtoff + time.timezone if local.tm_isdst > 0 else 0)

    def tzname(self, dt: datetime | None) -> str:
        return time.localtime(self._epoch_seconds(dt)).tm_zone


def _seconds_as_utc(local: datetime) -> int:
    return timegm(local.replace(tzinfo=None).timetuple())


def local_zone() -> str:
    """Return the name of this machine's zone, for ``zone_of``."""
    from ...domain.classad.time_zones import zone_of  # loads ClassAds, which most commands do not need

    for name in (os.environ.get("TZ", "").removeprefix(":"), os.path.realpath(_LOCALTIME).partition("zoneinfo/")[2]):
        try:
            if name:
                zone_of(name)
                return name
        except ValueError:
            continue
    now = datetime.now().astimezone().utcoffset() or timedelta()
    minutes = round(now.total_seconds() / 60)
    return "UTC" if not minutes else f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def local_time() -> tzinfo:
    """Return this machine's time zone. If the zone is UTC, return ``UTC`` itself, which is faster."""
    return LocalTime() if time.timezone or time.daylight else UTC
