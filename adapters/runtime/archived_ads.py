"""Read imported ads from the log, at the places in ``projections/imported_ads``.

An SQLite log is read directly, because opening a log takes longer than finding an ad. Other logs are opened, as are
logs whose ads have an older format.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, tzinfo
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from ...domain.imported.packed_ads import UnpackedAds
from ...projections.job_query import ALL
from ..stores.location import locate
from ..stores.sqlite_files import reading_uri

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Context, Expression
    from ...projections.imported_ads import AdPlace
    from ...projections.job_query import JobSelection
    from ...projections.views import Views


class Sieve:
    """Skips ads that cannot match the constraints, based on the attributes in the constraints and without parsing
    complete ads. An ad that may match is never skipped."""

    def __init__(self, texts: Sequence[str], constraints: Sequence[Expression], context: Context) -> None:
        self._constraints, self._context = constraints, context
        self.names = {name for text in texts for name in _NAME.findall(text)}
        self.useful = bool(constraints) and not any("'" in text or _INDIRECT.search(text) for text in texts)

    def lets_pass(self, attributes: dict[str, str]) -> bool:
        from ...domain.classad import ClassAd
        from ..condor_tools.job_selection import satisfies

        if not all(map(_PLAIN.fullmatch, attributes.values())):
            return True
        ad = ClassAd.from_old("\n".join([f"{name} = {value}" for name, value in attributes.items()]))
        return all(satisfies(constraint, ad, self._context) for constraint in self._constraints)


_NAME = re.compile(r"[A-Za-z_]\w*")
_INDIRECT = re.compile(r"\b(?:eval|evalin\w*|unparse|debug|my(?!\.)|target(?!\.)|self|parent|toplevel|root)\b", re.I)
"""Functions and scopes by which an expression can refer to attributes without naming them."""
_PLAIN = re.compile(r'-?\d+(?:\.\d+)?(?:E[-+]?\d+)?|"[^"\\]*"|true|false|undefined', re.I)


def ads_at(url: str, places: Iterable[AdPlace], sieve: Sieve | None = None) -> Iterator[ClassAd]:
    """Yield the ads at these places in the log at `url`, in order, except for ads that `sieve` skips. Each ad is read
    when it is needed. Raise `LogError` if the log cannot be read."""
    from ...domain.classad import ClassAd

    for position, same_event in groupby(places, attrgetter("position")):
        unpacked = UnpackedAds(_packed_ads(url, position))
        sieve_places = None if sieve is None else unpacked.places_of(sieve.names)
        for place in same_event:
            if sieve is None or sieve_places is None or sieve.lets_pass(unpacked.selected(place.number, sieve_places)):
                yield ClassAd.from_old(unpacked.text(place.number))


def history_ads(
    url: str, views: Views, selection: JobSelection = ALL, sieve: Sieve | None = None, forwards: bool = False
) -> Iterator[ClassAd]:
    """Yield the ads of the jobs that have left the queue, except imported ads that `sieve` skips. The latest is the
    first or, with `forwards`, the last. An imported ad is yielded once even if several files have it."""
    yield from ads_at(url, views.kept_ad_places(selection, forwards, once=True), sieve)
    yield from views.history_ads(selection, forwards=forwards)


def slot_ads(url: str, views: Views, now: int, timezone: tzinfo = UTC) -> Iterator[ClassAd]:
    """Yield the slots' ads. If the log was imported, condor_status printed them, and StartLogs update them."""
    sampled: dict[object, ClassAd] = {ad.eval("Name"): ad for ad in sample_ads(url, views.last_sample("machine_ads"))}
    machines = {row.machine for row in views.slots()} if sampled else set()
    for slot in views.slot_ads(now, timezone):
        ad = sampled.pop(slot.eval("Name"), None)
        if ad is None:
            yield slot
            continue
        for name in slot:
            ad[name] = slot[name]
        yield ad
    yield from (ad for ad in sampled.values() if ad.eval("Machine") not in machines)


def sample_ads(url: str, positions: Iterable[int]) -> Iterator[ClassAd]:
    """Yield the ads of a sample, whose events are at these positions. Raise `LogError` if the log cannot be read."""
    from ...domain.classad import ClassAd

    for position in positions:
        unpacked = UnpackedAds(_packed_ads(url, position))
        for number in range(len(unpacked.group_of)):
            yield ClassAd.from_old(unpacked.text(number))


def _packed_ads(url: str, position: int) -> bytes:
    location = locate(url)
    packed = _of_file(location.place, position) if location.kind == "sqlite" else None
    return _of_log(url, position) if packed is None else packed


def _of_file(path: str, position: int) -> bytes | None:
    """Read an event from a log file; return None if it is not there in the current format."""
    import json
    from base64 import b64decode

    try:
        with closing(sqlite3.connect(reading_uri(path), uri=True)) as connection:
            row = connection.execute("SELECT topic, state FROM stored_events WHERE rowid=?", (position,)).fetchone()
        if row is None or row[0] not in ("ads.kept", "ads"):
            return None
        return b64decode(json.loads(row[1])["ads"])
    except (OSError, sqlite3.Error, ValueError, KeyError, TypeError):
        return None


def _of_log(url: str, position: int) -> bytes:
    from ...domain.events import AdsKept
    from ...domain.ports.log import LogDamaged
    from ..stores.opening import open_log

    with closing(open_log(url, create=False, read_only=True)) as log:
        event = next((event for _, event in log.read(position - 1, 1)), None)
    if not isinstance(event, AdsKept):
        raise LogDamaged(f"{url}: there are no ads at position {position}; `poolbook views` rebuilds the views")
    return event.ads
