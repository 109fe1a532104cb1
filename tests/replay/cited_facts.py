"""What every sentence of ``why`` about a real pool must keep to, whatever its code: it cites no record later than its
own time, and what it names (times, slots, users, jobs, codes, pids) is in the records that it cites, or in what stands
before these in the same file, or it is the run's of which an earlier sentence told. Files are read as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from poolbook.replay.why import Sentence

from .cited_records import SECOND, Cited, short

_DATES: Final = (
    re.compile(r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[ T](?P<clock>\d\d:\d\d:\d\d)"),
    re.compile(r"(?P<month>\d\d)/(?P<day>\d\d)(?:/(?P<year>\d\d))? (?P<clock>\d\d:\d\d:\d\d)"),
)
KEPT: Final = ("history", "epochs", "startd_history", "job_ads", "queue")
"""Kinds of files whose records are written after what they tell of, and have no time of their own."""
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d)")
_DERIVED: Final = (
    re.compile(r"(?:after|CPU) (?:[\d.]+ (?:d|h|min|s) ?)+"),
    re.compile(r"memory [\d.]+ [KMG]iB|memory \d+ KiB"),
    re.compile(r"[\d,]+ (?:times?|runs?)\b"),
    re.compile(r"by transition \w+(?: \(\w+\))?"),  # the table's number of it
    re.compile(r"and \d+ more"),
    re.compile(r" \[[^\[\]]*\]$"),  # the places
)
"""What is worked out of records, and not in them as it is said."""
_NAMED: Final = re.compile(r"[\w.+-]+@[\w.-]*\w|\d+\.\d+(?![\d.])|\d+")
_BEGIN: Final = (
    "started",
    "started_there",
    "shadow_began",
    "shadow_goes_on",
    "shadow_lost",
    "shadow_found",
    "entry",
)
"""The codes of sentences that say on which slot a run is."""
_BEFORE: Final = 150  #: so many lines before its own a record of a daemon's log may rest on
_AFTER: Final = re.compile(r"after ((?:[\d.]+ (?:d|h|min|s) ?)+)")
_UNITS: Final = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}


def instant_of(text: str, near: int) -> int | None:
    """Return when a line of a log was written (microseconds, UTC); `near` tells the year if the line does not."""
    for pattern in _DATES:
        if match := pattern.search(text.split("\n")[0][:80]):
            year = match["year"] or str(datetime.fromtimestamp(near // SECOND, UTC).year)
            day = f"{year if len(year) == 4 else f'20{year}'}-{match['month']}-{match['day']}"
            return int(datetime.fromisoformat(f"{day} {match['clock']}+00:00").timestamp()) * SECOND
    return None


def wrong(name: str, number: int, life: Sequence[Sentence], cited: Cited) -> Iterator[str]:
    """What a sentence of the life of a job or slot (``name``) says that it must not."""
    sentence = life[number]
    texts = []
    for place in sentence.places:
        kind, text = cited.record(place)
        texts.append(text)
        when = None if kind in KEPT else instant_of(text, sentence.at)
        if when is not None and when > sentence.at // SECOND * SECOND:
            yield f"{place} is later"
    if sentence.code == "submitted" and len(sentence.places) == 1:  # without an ad, daemons say whose the job is
        texts += cited.users(name.partition(".")[0])
    if texts:
        yield from _unfounded(name, sentence, life[:number], "\n".join(texts), cited)


def _unfounded(name: str, sentence: Sentence, before: Sequence[Sentence], text: str, cited: Cited) -> Iterator[str]:
    said = sentence.full
    for match in _INSTANT.finditer(said):
        if match[1] not in text and str(int(datetime.fromisoformat(f"{match[0]}+00:00").timestamp())) not in text:
            yield f"{match[0]} is not in its records"
    ran = _AFTER.search(said)
    if ran and not any(
        _agree(sentence.at, one.at, ran[1]) for one in (*before, sentence) if one.code in _BEGIN or one is sentence
    ):
        yield f"nothing began {ran[1].strip()} before"
    for pattern in (_INSTANT, *_DERIVED):
        said = pattern.sub(" ", said)
    own, wider = known_of(sentence, before), ""
    for token in dict.fromkeys(match[0] for match in _NAMED.finditer(said)):
        if token == name or _is_in(token, text) or token in own or _is_of_file(token, sentence.places[0]):
            continue
        wider = wider or "\n".join(cited.lines_before(place, _BEFORE) for place in sentence.places)
        if not _is_in(token, wider):
            yield f"{token} is not in its records"


def known_of(sentence: Sentence, before: Sequence[Sentence]) -> set[str]:
    """Return the slot of a job's run, or the job of a slot's run, that sentences before this one tell."""
    runs = [one for one in before if one.code in _BEGIN and one.facts.get("slot")]
    jobs = [one for one in before if one.code == "log_reported" and "is started" in one.facts["words"]]
    return {*(runs[-1].facts["slot"] for _ in runs[:1]), *(jobs[-1].facts["words"].split()[1] for _ in jobs[:1])}


def _is_in(token: str, text: str) -> bool:
    if re.search(rf"(?<!\d){re.escape(token)}(?!\d)", text):
        return True
    if re.fullmatch(r"\d+\.\d+", token):
        cluster, proc = map(int, token.split("."))
        return f"({cluster:03d}.{proc:03d}." in text or f"{cluster:05d}.{proc:05d}" in text
    return "@" in token and bool(re.search(rf"\b{re.escape(short(token))}(: |\[)", text))


def _is_of_file(token: str, place: str) -> bool:
    """Whether a slot is the one that its starter's log is called after."""
    return f"StarterLog.{short(token)}:" in place


def _agree(at: int, began: int, words: str) -> bool:
    numbers = words.split()
    lasted = sum(float(count) * _UNITS[unit] for count, unit in zip(numbers[::2], numbers[1::2], strict=True))
    unit = _UNITS[numbers[-1]] if len(numbers) > 2 else 1
    return abs(timedelta(microseconds=at - began).total_seconds() - lasted) <= unit
