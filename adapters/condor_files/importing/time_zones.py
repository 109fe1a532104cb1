"""Determine the time zone of a pool's files: HTCondor's daemons write local times without a zone.

Some files reveal it. The first line of an EventLog contains the same time as a local time and as seconds since the
epoch (``ctime=``). For a job or slot, some files contain local times (job event logs, daemon logs) and others epoch
times (ads, job_queue.log). If a local time and an epoch time of the same job or slot differ by a multiple of 15
minutes, this is evidence for that offset.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice, product
from typing import Any, Final

from ....domain.classad.time_zones import zone_of

SEARCHED_BYTES: Final = 1 << 18  #: bytes at the start of each file that are searched for evidence of its zone
_QUARTER: Final = 15 * 60  #: all zones' offsets are multiples of this, in seconds
_MAX_DIFFERENCE: Final = 2  #: maximum difference in seconds between a local time and an epoch time of the same event
_MIN_SHARE: Final = 0.8  #: the minimum share of the evidence that a zone must explain
_MIN_SIGNS: Final = 3  #: less evidence than this from jobs' records may be coincidence
_MAX_COMPARED: Final = 100  #: maximum number of times compared for a job or slot
_MAX_OFFSET: Final = 14 * 3600
_STAMP: Final = (
    rb"(?:(\d{4})-(\d\d)-(\d\d)|(\d\d)/(\d\d)(?:/(\d\d|\d{4}))?)[ T](\d\d):(\d\d):(\d\d)(?![.:\d]*(?:Z|[+-]\d\d))"
)
_HEADER: Final = re.compile(rb"^008 \(-?\d+\.-?\d+\.-?\d+\) " + _STAMP + rb" Global JobLog:\s*ctime=(\d{10})\b", re.M)
_ENTRY: Final = re.compile(rb"^0\d\d \(0*(\d+)\.0*(\d+)\.\d+\) " + _STAMP, re.M)
_LINE: Final = re.compile(rb"^" + _STAMP + rb"[^\n]*?\b[Jj]ob (\d+)\.(\d+)\b", re.M)
_CHANGE: Final = re.compile(rb"^" + _STAMP + rb" (slot\w+)(?:\[[^\n]*?\])?: [^\n]*[Cc]hang(?:e|ing)", re.M)
_QUEUED: Final = re.compile(rb"^103 0*(\d+)\.(\d+) \w+ (1\d{9})\s*$", re.M)
_AD: Final = re.compile(rb"(?:^[A-Za-z_]\w* = [^\n]*\n)+", re.M)
_JOB: Final = re.compile(rb"^ClusterId = (\d+)$[\s\S]*?^ProcId = (\d+)$", re.M)
_SLOT: Final = re.compile(rb"^Name = \"(slot\w+)(?:@[^\n]*)?\"$", re.M)
_EPOCH: Final = re.compile(rb"^\w+ = (1\d{9})$", re.M)


Thing = tuple[bytes, ...]  #: a job, given as cluster and proc, or a slot
Sign = tuple[datetime, int]  #: a local time without a zone, and an epoch time that may be of the same event


class ZoneSigns:
    """Collects evidence of the files' zone: call ``take`` with the start of each file, then ``zone``."""

    def __init__(self) -> None:
        self._of_headers: list[Sign] = []
        self._local: dict[Thing, set[datetime]] = {}
        self._epochs: dict[Thing, set[int]] = {}

    def scan_file_start(self, data: bytes, modified: float) -> None:
        """Process the start of a file. ``modified`` (seconds) determines the year of times without one."""
        year = datetime.fromtimestamp(modified, UTC).year
        for header in _HEADER.finditer(data):
            epoch = int(header[10])
            for when in _parse_stamp(header.groups()[:9], datetime.fromtimestamp(epoch, UTC).year):
                self._of_headers.append((when, epoch))
        for entry in _ENTRY.finditer(data):
            _add_times(self._local, entry.group(1, 2), _parse_stamp(entry.groups()[2:], year))
        for pattern in (_LINE, _CHANGE):
            for line in pattern.finditer(data):
                _add_times(self._local, line.groups()[9:], _parse_stamp(line.groups()[:9], year))
        for line in _QUEUED.finditer(data):
            _add_times(self._epochs, line.group(1, 2), [int(line[3])])
        for ad in _AD.finditer(data):
            for pattern in (_JOB, _SLOT):
                if name_match := pattern.search(ad[0]):
                    _add_times(self._epochs, name_match.groups(), map(int, _EPOCH.findall(ad[0])))

    def zone(self, default: str, given: bool) -> str:
        """Return `default` if it explains the evidence, or if there is too little; else the offset that does. Raise
        ValueError if no offset does, or if the user `given` zone contradicts the evidence."""
        signs = [(sign, offset) for sign in self._zone_evidence() if (offset := _zone_offset(sign)) is not None]
        if len(signs) < (1 if self._of_headers else _MIN_SIGNS):
            return default
        default_zone = zone_of(default)
        fits = sum(
            abs(when.replace(tzinfo=default_zone).timestamp() - epoch) <= _MAX_DIFFERENCE for (when, epoch), _ in signs
        )
        if fits >= _MIN_SHARE * len(signs) or (given and fits):
            return default
        counts = Counter(offset for _, offset in signs).most_common()
        names = [_offset_name(offset) for offset, _ in counts]
        if given:
            raise ValueError(f"-zone {default}: the files' local times are {names[0]}; give -zone {names[0]}")
        if counts[0][1] < _MIN_SHARE * len(signs):
            raise ValueError(
                f"the files' local times are in several zones ({', '.join(names[:3])}): name the zone with -zone, such "
                "as -zone Europe/Madrid, or import the files of each zone separately"
            )
        return names[0]

    def _zone_evidence(self) -> Iterator[Sign]:
        """Yield the evidence in the EventLogs' headers, which is certain, or without any that in jobs' records."""
        yield from self._of_headers
        if not self._of_headers:
            for thing, times in self._local.items():
                yield from product(times, self._epochs.get(thing, ()))


def _add_times(times: dict[Thing, set[Any]], thing: Thing, new_times: Iterable[Any]) -> None:
    known_times = times.setdefault(thing, set())
    known_times.update(islice(new_times, _MAX_COMPARED - len(known_times)))


def _parse_stamp(fields: tuple[bytes | None, ...], year: int) -> list[datetime]:
    """Return the time in a ``_STAMP``, or an empty list if the time is invalid."""
    weekday, month, day, old_month, old_day, short_year, hour, minute, second = (int(field or 0) for field in fields)
    year = weekday or (short_year + 2000 if 0 < short_year < 100 else short_year) or year
    try:
        return [datetime(year, month or old_month, day or old_day, hour, minute, second)]
    except ValueError:
        return []


def _zone_offset(sign: Sign) -> int | None:
    """Return the seconds between the local time and the epoch time, or None if this is not close to a zone's offset."""
    seconds_apart = int(sign[0].replace(tzinfo=UTC).timestamp()) - sign[1]
    offset = round(seconds_apart / _QUARTER) * _QUARTER
    return offset if abs(seconds_apart - offset) <= _MAX_DIFFERENCE and abs(offset) <= _MAX_OFFSET else None


def _offset_name(offset: int) -> str:
    return f"{'-' if offset < 0 else '+'}{abs(offset) // 3600:02d}:{abs(offset) // 60 % 60:02d}" if offset else "UTC"
