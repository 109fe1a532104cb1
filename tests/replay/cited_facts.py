"""Checks of the facts in each sentence that ``why`` writes about a real pool, whatever the sentence's code. A sentence
cites no record later than its own time. Each name in it (times, slots, users, jobs, codes, pids) is in the records that
it cites, in earlier records of the same file, or in an earlier sentence about the same run. Files are read as plain
text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from poolbook.replay.narration.sentences import Sentence

from .cited_records import SECOND, Cited, slot_name

_DATES: Final = (
    re.compile(r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[ T](?P<clock>\d\d:\d\d:\d\d)"),
    re.compile(r"(?P<month>\d\d)/(?P<day>\d\d)(?:/(?P<year>\d\d))? (?P<clock>\d\d:\d\d:\d\d)"),
)
UNDATED_KINDS: Final = ("history", "epochs", "startd_history", "job_ads", "queue")
"""Kinds of files whose records are written later than what they report, and have no time."""
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d)")
_DERIVED: Final = (
    re.compile(r"(?:after|CPU) (?:[\d.]+ (?:d|h|min|s) ?)+"),
    re.compile(r"memory [\d.]+ [KMG]iB|memory \d+ KiB"),
    re.compile(r"[\d,]+ (?:times?|runs?)\b"),
    re.compile(r"by transition \w+(?: \(\w+\))?"),  # the row's number in the table
    re.compile(r"and \d+ more"),
    re.compile(r" \[[^\[\]]*\]$"),  # the cited places
)
"""What is derived from records, and is not in them literally."""
_NAMED: Final = re.compile(r"[\w.+-]+@[\w.-]*\w|\d+\.\d+(?![\d.])|\d+")
_BEGIN: Final = (
    "started",
    "started_there",
    "shadow_began",
    "shadow_reused",
    "shadow_lost",
    "shadow_found",
    "entry",
)
"""The codes of sentences that name the slot of a run."""
_BEFORE: Final = 150  #: how many preceding lines a record of a daemon's log may refer to
_AFTER: Final = re.compile(r"after ((?:[\d.]+ (?:d|h|min|s) ?)+)")
_UNITS: Final = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}


def instant_of(text: str, near: int) -> int | None:
    """Return when a line of a log was written (microseconds, UTC); `near` supplies the year if the line has none."""
    for pattern in _DATES:
        if match := pattern.search(text.split("\n")[0][:80]):
            year = match["year"] or str(datetime.fromtimestamp(near // SECOND, UTC).year)
            day = f"{year if len(year) == 4 else f'20{year}'}-{match['month']}-{match['day']}"
            return int(datetime.fromisoformat(f"{day} {match['clock']}+00:00").timestamp()) * SECOND
    return None


def wrong_statements(name: str, number: int, life: Sequence[Sentence], records: Cited) -> Iterator[str]:
    """Yield each forbidden statement in a sentence about a job or slot (``name``)."""
    sentence = life[number]
    texts = []
    for place in sentence.places:
        kind, text = records.record(place)
        texts.append(text)
        recorded_at = None if kind in UNDATED_KINDS else instant_of(text, sentence.at)
        if recorded_at is not None and recorded_at > sentence.at // SECOND * SECOND:
            yield f"{place} is later"
    if sentence.code == "submitted" and len(sentence.places) == 1:  # daemons name the job's owner when there is no ad
        texts += records.users(name.partition(".")[0])
    if texts:
        yield from _unfounded_tokens(name, sentence, life[:number], "\n".join(texts), records)


def _unfounded_tokens(
    name: str, sentence: Sentence, earlier: Sequence[Sentence], record_text: str, records: Cited
) -> Iterator[str]:
    statement = sentence.full
    for match in _INSTANT.finditer(statement):
        if (
            match[1] not in record_text
            and str(int(datetime.fromisoformat(f"{match[0]}+00:00").timestamp())) not in record_text
        ):
            yield f"{match[0]} is not in its records"
    run_time = _AFTER.search(statement)
    if run_time and not any(
        _duration_agrees(sentence.at, start.at, run_time[1])
        for start in (*earlier, sentence)
        if start.code in _BEGIN or start is sentence
    ):
        yield f"nothing began {run_time[1].strip()} before"
    for pattern in (_INSTANT, *_DERIVED):
        statement = pattern.sub(" ", statement)
    own_run, wider_text = known_of(sentence, earlier), ""
    for token in dict.fromkeys(match[0] for match in _NAMED.finditer(statement)):
        if token == name or _is_in(token, record_text) or token in own_run or _is_of_file(token, sentence.places[0]):
            continue
        wider_text = wider_text or "\n".join(records.lines_before(place, _BEFORE) for place in sentence.places)
        if not _is_in(token, wider_text):
            yield f"{token} is not in its records"


def known_of(sentence: Sentence, earlier: Sequence[Sentence]) -> set[str]:
    """Return the slot of a job's run, or the job of a slot's run, from earlier sentences."""
    runs = [start for start in earlier if start.code in _BEGIN and start.facts.get("slot")]
    reports = [sentence.facts["words"] for sentence in earlier if sentence.code == "log_reported"]
    jobs = [match[1] for words in reports for match in re.finditer(r"started job ([\d.]+) on", words)]
    return {*(runs[-1].facts["slot"] for _ in runs[:1]), *jobs[-1:]}


def _is_in(token: str, text: str) -> bool:
    if re.search(rf"(?<!\d){re.escape(token)}(?!\d)", text):
        return True
    if re.fullmatch(r"\d+\.\d+", token):
        cluster, proc = map(int, token.split("."))
        return f"({cluster:03d}.{proc:03d}." in text or f"{cluster:05d}.{proc:05d}" in text
    return "@" in token and bool(re.search(rf"\b{re.escape(slot_name(token))}(: |\[)", text))


def _is_of_file(token: str, place: str) -> bool:
    """Return True if the starter's log is named after this slot."""
    return f"StarterLog.{slot_name(token)}:" in place


def _duration_agrees(at: int, started_at: int, run_time: str) -> bool:
    numbers = run_time.split()
    duration = sum(float(count) * _UNITS[unit] for count, unit in zip(numbers[::2], numbers[1::2], strict=True))
    unit = _UNITS[numbers[-1]] if len(numbers) > 2 else 1
    return abs(timedelta(microseconds=at - started_at).total_seconds() - duration) <= unit
