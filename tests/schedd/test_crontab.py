"""Golden: the meaning of the ``cron_`` commands in the manual's "CronTab Scheduling", and the results of other values
in HTCondor (``tests/data/recordings/schedules``). Property: a schedule's next time is the first minute that fits it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.classad import Context
from poolbook.domain.schedd.crontab import FIELDS, CronTab, InvalidCronTab, Offset, parse_crontab
from poolbook.domain.state.job_ad import unquoted

from ..together import together

NEW_YORK = ZoneInfo("America/New_York")
"""EST5EDT,M3.2.0,M11.1.0, as the recorded pool had it."""
RECORDED = Path("tests/data/recordings/schedules/times.tsv")
NAMES = ("minute", "hour", "day_of_month", "month", "day_of_week")


def offset(zone: object) -> Offset:
    return Context(now=0, timezone=zone).utc_offset  # type: ignore[arg-type]


def of(**fields: str) -> CronTab:
    assert fields.keys() <= set(NAMES)
    return parse_crontab(tuple(fields.get(name) for name in NAMES))


def seconds(text: str, zone: object = UTC) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp())  # type: ignore[arg-type]


def runs(schedule: CronTab, since: str, zone: object = UTC) -> Iterator[str]:
    """Yield the times of a schedule in local time."""
    now = seconds(since, zone)
    while True:
        now = schedule.next_run(now, offset(zone))
        yield f"{datetime.fromtimestamp(now, zone):%Y-%m-%d %H:%M %Z}"  # type: ignore[arg-type]


# HTCondor's answers


def recorded() -> list[list[str]]:
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


REASONS_OF_OUR_OWN = {
    "quoted": "Invalid parameter value '\"5\"' for CronMinute",  # which HTCondor's schedd cannot write into the ad
    "step0": "Invalid cron attribute: */0",  # which it does not report
}


@together("name, submitted, minute, hour, day_of_month, month, day_of_week, came", recorded())
def test_a_schedule_gives_the_same_time_or_error_as_in_htcondor(
    name: str, submitted: str, came: str, **fields: str
) -> None:
    texts = tuple(unquoted(fields[name]) if fields[name].startswith('"') else None for name in NAMES)
    try:
        next_run = str(parse_crontab(texts).next_run(int(submitted), offset(NEW_YORK), extends_weekdays=True))
    except InvalidCronTab as error:
        assert str(error) == REASONS_OF_OUR_OWN.get(
            name, unquoted(came).removeprefix("Invalid cron schedule parameters: ")
        )
        return
    assert next_run == came


# The manual


@together(
    ("fields", "values"),
    [
        # The asterisk operator
        ({"month": "*"}, {"months": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)}),
        # Ranges
        ({"hour": "0-4"}, {"hours": (0, 1, 2, 3, 4)}),
        # Lists
        ({"minute": "15,20,25,30", "hour": "0-3,9-12,15"},
         {"minutes": (15, 20, 25, 30), "hours": (0, 1, 2, 3, 9, 10, 11, 12, 15)}),
        ({"minute": "5,5,3-6,4"}, {"minutes": (3, 4, 5, 6)}),
        # Steps
        ({"minute": "10-30/5", "hour": "*/3"},
         {"minutes": (10, 15, 20, 25, 30), "hours": (0, 3, 6, 9, 12, 15, 18, 21)}),
        # The table of values: the first and the last of each
        ({"minute": "0,59", "hour": "0,23"}, {"minutes": (0, 59), "hours": (0, 23)}),
        ({"day_of_month": "1,31", "month": "1,12"}, {"days_of_month": (1, 31), "months": (1, 12)}),
        ({"day_of_week": "0"}, {"days_of_week": (0,)}),
        ({"day_of_week": "7"}, {"days_of_week": (0,)}),
        # If one field is given, all others are every value
        ({"minute": "7"}, {"hours": tuple(range(24)), "days_of_month": tuple(range(1, 32))}),
        ({"minute": "7"}, {"months": tuple(range(1, 13)), "days_of_week": ()}),  # and so are the days of the month
        ({"hour": "7"}, {"minutes": tuple(range(60))}),
    ],
)  # fmt: skip
def test_a_field_has_the_values_that_the_manual_lists(fields: dict[str, str], values: dict[str, object]) -> None:
    schedule = of(**fields)
    assert {name: getattr(schedule, name) for name in values} == values


@together(
    ("fields", "since", "times"),
    [
        # "Run 23 minutes after every two hours, every day of the week"
        ({"minute": "23", "hour": "0-23/2", "day_of_month": "*", "month": "*", "day_of_week": "*"}, "2026-11-20 21:00",
         ["2026-11-20 22:23 UTC", "2026-11-21 00:23 UTC", "2026-11-21 02:23 UTC"]),
        # "Run on each of May 10th to May 20th, as well as every remaining [Tuesday] within the month of May"
        ({"minute": "30", "hour": "20", "day_of_month": "10-20", "month": "5", "day_of_week": "2"}, "2026-11-20 00:00",
         [*(f"2027-05-{day:02} 20:30 UTC" for day in (4, *range(10, 21), 25)), "2028-05-02 20:30 UTC"]),
        # "Run every 10 minutes and every 6 minutes before noon on January 18th"
        ({"minute": "*/10,*/6", "hour": "0-11", "day_of_month": "18", "month": "1", "day_of_week": "*"},
         "2027-01-18 10:50", ["2027-01-18 10:54 UTC", "2027-01-18 11:00 UTC", "2027-01-18 11:06 UTC"]),
        ({"minute": "*/10,*/6", "hour": "0-11", "day_of_month": "18", "month": "1"},
         "2027-01-18 11:49", ["2027-01-18 11:50 UTC", "2027-01-18 11:54 UTC", "2028-01-18 00:00 UTC"]),
        # "If a job is submitted at 9:30am, then the next deferral time will be calculated to be 10:00am"
        ({"minute": "0", "hour": "*"}, "2026-11-20 09:30", ["2026-11-20 10:00 UTC", "2026-11-20 11:00 UTC"]),
        # "the current time rounded later in time to the next minute": never this one
        ({"minute": "*"}, "2026-11-20 09:30:00", ["2026-11-20 09:31 UTC"]),
        ({"minute": "30"}, "2026-11-20 09:30:00", ["2026-11-20 10:30 UTC"]),
        ({"minute": "30"}, "2026-11-20 09:29:59", ["2026-11-20 09:30 UTC"]),
        # Only days of the week, at the end of a month too
        ({"minute": "0", "hour": "3", "day_of_week": "1"}, "2026-11-30 03:00",
         ["2026-12-07 03:00 UTC", "2026-12-14 03:00 UTC"]),
        ({"minute": "0", "hour": "0", "day_of_week": "2", "month": "12"}, "2026-11-20 00:00", ["2026-12-01 00:00 UTC"]),
        # Days that not every month has
        ({"minute": "0", "hour": "0", "day_of_month": "31"}, "2026-10-31 00:00",
         ["2026-12-31 00:00 UTC", "2027-01-31 00:00 UTC", "2027-03-31 00:00 UTC"]),
        ({"minute": "0", "hour": "0", "day_of_month": "29", "month": "2"}, "2096-03-01 00:00",
         ["2104-02-29 00:00 UTC"]),
    ],
)  # fmt: skip
def test_a_schedule_has_these_times_one_after_the_other(fields: dict[str, str], since: str, times: list[str]) -> None:
    run_times = runs(of(**fields), since)
    assert [next(run_times) for _ in times] == times


# Limits and wrong values


@together(
    ("fields", "message"),
    [
        ({"minute": "fish"}, "Invalid parameter value 'fish' for CronMinute"),
        ({"day_of_week": "Mon"}, "Invalid parameter value 'Mon' for CronDayOfWeek"),
        ({"minute": "5;"}, "Invalid parameter value '5;' for CronMinute"),
        ({"minute": "1\t2"}, "Invalid parameter value '1\t2' for CronMinute"),
        ({"hour": "4-0"}, "Invalid cron attribute: 4-0"),  # the left one must be less
        ({"hour": "4 - "}, "Invalid cron attribute: 4-"),
        ({"minute": "*/0"}, "Invalid cron attribute: */0"),
        ({"minute": ""}, "Invalid cron attribute: "),
        ({"minute": "30/7", "hour": "4-0"}, "Invalid cron attribute: 30/7Invalid cron attribute: 4-0"),
    ],
)
def test_an_invalid_schedule_is_rejected_with_htcondors_message(fields: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidCronTab) as error:
        of(**fields)
    assert str(error.value) == message


def test_a_day_that_never_comes_is_rejected_where_htcondors_schedd_would_search_endlessly() -> None:
    with pytest.raises(InvalidCronTab, match="no day matches by the end of 2038"):
        of(day_of_month="30,31", month="2").next_run(seconds("2026-11-20 00:00"), offset(UTC))


@together(
    ("zone", "manual", "htcondor_25"),
    [
        # If only weekdays count, the schedd starts a month's days with 0, from the next month on.
        ({"day_of_week": "2", "month": "12"}, "2026-12-01 00:00", "2026-11-30 00:00"),
        ({"day_of_week": "2"}, "2026-11-24 00:00", "2026-11-24 00:00"),
        ({"day_of_week": "2", "day_of_month": "5", "month": "12"}, "2026-12-01 00:00", "2026-12-01 00:00"),
    ],
)
def test_only_htcondors_schedd_slips_to_the_day_before_a_month(
    zone: dict[str, str], manual: str, htcondor_25: str
) -> None:
    now, schedule = seconds("2026-11-23 12:00"), of(**zone)
    assert schedule.next_run(now, offset(UTC)) == seconds(manual)
    assert schedule.next_run(now, offset(UTC), extends_weekdays=True) == seconds(htcondor_25)


def test_a_past_time_of_htcondors_schedd_is_two_minutes_from_now() -> None:
    now = seconds("2026-11-30 03:00:20")
    weekly = of(minute="0", hour="3", day_of_week="1")
    assert weekly.next_run(now, offset(UTC), extends_weekdays=True) == now + 120


# Daylight saving


@together(
    ("fields", "since", "times"),
    [
        # A skipped time comes as long after the change as it would have without the change.
        ({"minute": "30", "hour": "2"}, "2027-03-13 12:00",
         ["2027-03-14 03:30 EDT", "2027-03-15 02:30 EDT"]),
        ({"minute": "30", "hour": "*"}, "2027-03-14 00:40",
         ["2027-03-14 01:30 EST", "2027-03-14 03:30 EDT", "2027-03-14 04:30 EDT"]),
        ({"minute": "30", "hour": "2,3"}, "2027-03-13 12:00",
         ["2027-03-14 03:30 EDT", "2027-03-15 02:30 EDT"]),
        # A repeated time comes once.
        ({"minute": "30", "hour": "1"}, "2027-11-06 12:00",
         ["2027-11-07 01:30 EDT", "2027-11-08 01:30 EST"]),
        ({"minute": "30", "hour": "*"}, "2027-11-07 00:40",
         ["2027-11-07 01:30 EDT", "2027-11-07 02:30 EST"]),
        # Every minute is every minute.
        ({"minute": "*"}, "2027-11-07 01:58",
         ["2027-11-07 01:59 EDT", "2027-11-07 01:00 EST", "2027-11-07 01:01 EST"]),
        ({"minute": "*"}, "2027-03-14 01:58", ["2027-03-14 01:59 EST", "2027-03-14 03:00 EDT"]),
        # Noon is noon in summer and in winter.
        ({"minute": "0", "hour": "12", "day_of_month": "1", "month": "1,7"}, "2026-11-20 00:00",
         ["2027-01-01 12:00 EST", "2027-07-01 12:00 EDT"]),
    ],
)  # fmt: skip
def test_the_times_are_in_the_access_points_zone(fields: dict[str, str], since: str, times: list[str]) -> None:
    run_times = runs(of(**fields), since, NEW_YORK)
    assert [next(run_times) for _ in times] == times


def test_the_second_of_two_equal_times_comes_if_the_first_is_past() -> None:
    second = datetime(2027, 11, 7, 1, 10, fold=1, tzinfo=NEW_YORK)
    next_time = of(minute="30", hour="1").next_run(int(second.timestamp()), offset(NEW_YORK))
    assert next_time == int(second.timestamp()) + 20 * 60


# Any schedule


def texts_of(least: int, most: int) -> st.SearchStrategy[str | None]:
    number = st.integers(least, most).map(str)
    span = st.tuples(st.integers(least, most), st.integers(least, most)).map(lambda pair: "{}-{}".format(*sorted(pair)))
    several = st.lists(number | span, min_size=1, max_size=3).map(",".join)
    return st.none() | st.just("*") | several


def parse_field(text: str | None, least: int, most: int) -> set[int]:
    """Return the values of a text, as the manual defines them."""
    values: set[int] = set()
    for part in ("*" if text is None else text).split(","):
        low_text, _, high_text = part.partition("-")
        values |= (
            set(range(least, most + 1)) if part == "*" else set(range(int(low_text), int(high_text or low_text) + 1))
        )
    return values


@given(st.tuples(*(texts_of(field.minimum, field.maximum) for field in FIELDS)), st.integers(0, 4 * 366 * 1440))
def test_the_next_time_is_the_first_minute_that_fits(texts: tuple[str | None, ...], minutes: int) -> None:
    now = seconds("2025-01-01 00:00") + minutes * 60
    minute, hour, month_day, month, weekday = (
        parse_field(text, field.minimum, field.maximum) for text, field in zip(texts, FIELDS, strict=True)
    )
    weekdays = {day % 7 for day in weekday}

    def fits(day: datetime) -> bool:
        """Return True if a day fits: either field suffices, but one that includes all days leaves it to the other."""
        by_month, by_week = day.day in month_day, day.isoweekday() % 7 in weekdays
        all_month, all_week = len(month_day) == 31, texts[4] in (None, "*") or len(weekdays) == 7
        if all_month or texts[4] in (None, "*"):
            return by_week if all_month and not all_week else by_month
        return by_month or by_week

    def first() -> int | None:
        day = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0)
        for _ in range(400):
            if day.month in month and fits(day):
                times = (day.replace(hour=h, minute=m).timestamp() for h in sorted(hour) for m in sorted(minute))
                next_time = next((int(at) for at in times if at > now), None)
                if next_time is not None:
                    return next_time
            day += timedelta(days=1)
        return None

    expected = first()
    if expected is not None:
        assert parse_crontab(texts).next_run(now, offset(UTC)) == expected
