"""Find the time zone of a file: HTCondor's daemons write local times without their zone."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_OFFSET = re.compile(r"(?:UTC)?([+-])(\d\d):?(\d\d)")
_LOCALTIME = "/etc/localtime"


def zone_of(name: str) -> tzinfo:
    """Return the zone "Europe/Madrid" (of the time zone database), "UTC" or "+02:00". Raise ValueError for another
    name."""
    if name in ("UTC", "Z"):
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3])
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    else:
        try:
            return ZoneInfo(name)
        except (LookupError, ValueError, OSError):
            pass
    raise ValueError(f"there is no time zone {name!r}: name one like Europe/Madrid, UTC or +02:00")


def local_zone() -> str:
    """Return the name of this machine's zone for ``zone_of``."""
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
