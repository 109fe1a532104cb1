"""Differential: local times in a zone with summer time; the reference runs in a separate process in that zone."""

import json
import os
import subprocess
import sys
from zoneinfo import ZoneInfo

import pytest

from poolbook.domain.classad import ClassAd, Context, EvaluationError, parse, unparse

from ..together import together

ZONE = "America/Chicago"
CONTEXT = Context(timezone=ZoneInfo(ZONE))

# Reads texts and writes their values.
REFERENCE = """
import json, sys
import classad2, htcondor2

def value(text):
    try:
        return repr(classad2.ExprTree(text).simplify(classad2.ClassAd("[]"))).strip()
    except classad2.ClassAdException:
        return "fails"

json.dump([value(text) for text in json.load(sys.stdin)], sys.stdout)
"""

DATES = [
    # Winter and summer, before the present rules for the clocks, and beyond 32 bits.
    *("2024-01-15T12:00:00", "2024-07-15T12:00:00", "2024-02-29 23:59:59", "1999-12-31", "1970-01-01T00:00:00"),
    *("1950-07-01T00:00:00", "2037-12-31T23:59:59", "2038-01-19T03:14:08"),
    # In spring the clocks change from two to three o'clock, so half past two does not exist ...
    *("2024-03-10T01:59:59", "2024-03-10T02:00:00", "2024-03-10T02:30:00", "2024-03-10T03:00:00"),
    # ... and in autumn from two back to one, so half past one occurs twice.
    *("2024-11-03T00:59:59", "2024-11-03T01:00:00", "2024-11-03T01:30:00", "2024-11-03T01:59:59"),
    "2024-11-03T02:00:00",
]
SECONDS = [0, 1, -1, 3600, 86399, -600000000, 1700000000, 1720000000, 2147483647, -2147483648]
SECONDS += [1710057599, 1710057600, 1730613600, 1730615400, 1730617200, 1730619000]  # around the changes of the clocks

POINTS = [f'absTime("{date}{zone}")' for date in DATES for zone in ("", "Z", "-06:00", "+05:30")]
POINTS += [f"absTime({seconds})" for seconds in SECONDS]
POINTS += [f"absTime({seconds}, 3600)" for seconds in SECONDS]

FORMS = {
    "point": ["{}", "{} + relTime(86400)", "{} - absTime(0)", "{} < absTime(1720000000)"],
    "text": ["string({})", "strcat({})"],
    "number": ["int({})", "real({})"],
    "part": [
        *("getYear({})", "getMonth({})", "getDayOfMonth({})", "getDayOfWeek({})", "getDayOfYear({})"),
        *("getHours({})", "getMinutes({})", "getSeconds({})"),
    ],
    "ad": ["splitTime({})", "string(splitTime({}))"],
    "format": [
        *("formatTime({})", 'formatTime({}, "%Y-%m-%d %H:%M:%S")', 'formatTime({}, "%c %j %U %w %p %I")'),
        *('formatTime({}, "%Z %z")', "formatTime(splitTime({}))"),
    ],
    "epoch": ['formatTime({}, "%s")', 'formatTime(splitTime({}), "%s")'],
}
NUMBERS = [
    *("formatTime({})", 'formatTime({}, "%F %T %Z %z %s")', "splitTime({})", "splitTime({}.5)", "absTime({}.5)"),
    *("absTime(relTime({}))", "int(absTime({}))", 'formatTime(splitTime({}), "%c %s")'),
]
TEXTS = {name: [form.format(point) for form in forms for point in POINTS] for name, forms in FORMS.items()}
TEXTS["seconds"] = [form.format(seconds) for form in NUMBERS for seconds in SECONDS]


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    """Return the reference's value of each text in the zone."""
    texts = [text for group in TEXTS.values() for text in group]
    answer = subprocess.run(
        [sys.executable, "-c", REFERENCE],
        input=json.dumps(texts),
        env={**os.environ, "TZ": ZONE},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    return dict(zip(texts, json.loads(answer.stdout), strict=True))


def value(text: str) -> str:
    try:
        return unparse(parse(text).evaluate(ClassAd(), context=CONTEXT))
    except EvaluationError:
        return "fails"


@pytest.mark.parametrize("group", TEXTS)
def test_local_times_are_those_of_the_reference_in_the_same_zone(group: str, reference: dict[str, str]) -> None:
    different = {text: (reference[text], value(text)) for text in TEXTS[group] if value(text) != reference[text]}
    assert different == {}


@together(
    ("text", "expected"),
    [
        ('absTime("2024-01-15T12:00:00")', 'absTime("2024-01-15T12:00:00-06:00")'),
        ('absTime("2024-07-15T12:00:00")', 'absTime("2024-07-15T12:00:00-05:00")'),
        ('absTime("2024-07-15T12:00:00Z")', 'absTime("2024-07-15T12:00:00-00:00")'),
        ("absTime(1720000000)", 'absTime("2024-07-03T04:46:40-05:00")'),
        ("absTime(1720000000, 3600)", 'absTime("2024-07-03T10:46:40+01:00")'),
        ('getHours(absTime("2024-07-15T12:00:00Z"))', "7"),
        ('formatTime(absTime("2024-07-15T12:00:00Z"), "%H")', '"12"'),
        ('formatTime(1720000000, "%H")', '"04"'),
        # A time that does not exist in spring counts as summer time, one that occurs twice in autumn as winter time.
        ('absTime("2024-03-10T02:30:00")', 'absTime("2024-03-10T02:30:00-05:00")'),
        ('absTime("2024-11-03T01:30:00")', 'absTime("2024-11-03T01:30:00-06:00")'),
        # The seconds of a broken-down time are counted as in winter time.
        ('formatTime(absTime("2024-07-15T12:00:00"), "%s")', '"1721066400"'),
    ],
)
def test_local_times_are_in_the_zone_of_the_context(text: str, expected: str) -> None:
    assert value(text) == expected
