"""What is to be listed and since when, as people say it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from attrs import frozen


@frozen
class StreamFilter:
    """A stream of the log, and of a cluster's one process."""

    stream: str
    proc: int | None = None


_NAMED_STREAMS = ("pool", "requests", "evidence", "negotiator", "accountant", "defrag")
# The first that fits: what people say, and the stream that it means.
_SAID = (
    (re.compile(r"(?:cluster/)?(\d+)\.(\d+)", re.ASCII), "cluster/{}"),
    (re.compile(r"(?:cluster/)?(\d+)", re.ASCII), "cluster/{}"),
    (re.compile(rf"({'|'.join(_NAMED_STREAMS)})"), "{}"),
    (re.compile(r"((?:slot|machine|submitter|source|ads|table)/.+)"), "{}"),
    (re.compile(r"([^/]+@.+)"), "slot/{}"),
)


def wanted(text: str) -> StreamFilter:
    """What `text` names: a slot, a cluster, a job, or a stream under its own name. Raises ValueError."""
    for pattern, stream in _SAID:
        found = pattern.fullmatch(text)
        if found:
            first, *proc = found.groups()
            number = str(int(first)) if stream == "cluster/{}" else first
            return StreamFilter(stream.format(number), int(proc[0]) if proc else None)
    raise ValueError(
        f"{text!r} names nothing that a log keeps: give a job (3.1), a cluster (3), a slot (slot1@host), "
        f"machine/NAME, submitter/NAME, or one of {', '.join(_NAMED_STREAMS)}; of an imported log also source/1, "
        "ads/history, table/queue and others of their kind"
    )


_SECONDS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400,
            "day": 86_400, "w": 604_800, "week": 604_800}  # fmt: skip
_AGO = re.compile(r"-?(\d+(?:\.\d+)?)\s*([a-z]+?)s?(?:\s+ago)?", re.ASCII)
_CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d))?", re.ASCII)
_DAYS = {"today": 0, "yesterday": 1}
_DAY = 86_400_000_000


def is_clock(text: str) -> bool:
    """Whether a text is a time of day alone."""
    return _CLOCK.fullmatch(text.strip()) is not None


def since(text: str, now: int, zone: tzinfo = UTC, after: int | None = None) -> int:
    """The instant that `text` means, in microseconds: a date or time of ISO 8601 (of `zone`, unless it says its own);
    how long before `now`: "10 min", "-2h"; "today" or "yesterday", its midnight; or a time of day, 3:00, the last one
    before `now`, or with `after` the first one from there on. Raises ValueError."""
    said = text.strip().lower()
    ago, clock = _AGO.fullmatch(said), _CLOCK.fullmatch(said)
    if ago and ago[2] in _SECONDS:
        return now - round(float(ago[1]) * _SECONDS[ago[2]] * 1_000_000)
    near = now if after is None or not clock else after
    day = datetime.fromtimestamp(near // 1_000_000, zone).replace(hour=0, minute=0, second=0)
    try:
        if clock:
            when = day.replace(hour=int(clock[1]), minute=int(clock[2]), second=int(clock[3] or 0))
        else:
            when = day - timedelta(_DAYS[said]) if said in _DAYS else datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{text!r} is no time: give a date and time (2027-01-15T08:00), a time of day (3:00), today, yesterday, or "
            "how long ago (10 min, 2 h, 3 days)"
        ) from None
    at = round((when if when.tzinfo else when.replace(tzinfo=zone)).timestamp() * 1_000_000)
    if not clock:
        return at
    return at - _DAY * (at > now) if after is None else at + _DAY * (at < after)
