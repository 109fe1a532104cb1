"""Differential: this machine's time zone in its C library and in the zone database give the same time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from poolbook.adapters.cli.common import display_context
from poolbook.adapters.cli.time_window import parse_instant
from poolbook.adapters.machine.local_time import LocalTime, local_time
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.classad import Context

ZONES = ["America/New_York", "Europe/Rome", "Australia/Lord_Howe", "Asia/Kolkata", "America/Sao_Paulo"]


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ZoneInfo]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield ZoneInfo(request.param)
    monkeypatch.undo()
    time.tzset()


def test_offsets_agree_at_every_quarter_of_an_hour_around_the_zones_changes(zone: ZoneInfo) -> None:
    local_offset, zone_offset = (Context(now=0, timezone=zone_used).utc_offset for zone_used in (LocalTime(), zone))
    changes = [
        at
        for at in range(1_767_225_600, 1_767_225_600 + 366 * 86_400, 3600)
        if zone_offset(at) != zone_offset(at + 3600)
    ]
    instants = [at + 900 * quarter for at in (*changes, 1_767_225_600) for quarter in range(-8, 12)]
    assert [local_offset(at) for at in instants] == [zone_offset(at) for at in instants]


def test_a_local_time_is_parsed_as_in_the_zone(zone: ZoneInfo) -> None:
    start = datetime(2026, 1, 1)
    days = [start + timedelta(hours=11 * step) for step in range(800)]
    read = [(day.replace(tzinfo=LocalTime()), day.replace(tzinfo=zone)) for day in days]
    assert [local.timestamp() for local, _ in read] == [in_zone.timestamp() for _, in_zone in read]


@pytest.mark.parametrize("month", [1, 7])
def test_times_of_either_season_are_read_and_printed_with_its_own_offset(zone: ZoneInfo, month: int) -> None:
    noon = datetime(2026, month, 15, 12, tzinfo=zone)
    assert (
        parse_instant("q -at", f"2026-{month:02}-15 12:00", open_log("memory:", create=True))
        == noon.timestamp() * 1_000_000
    )
    assert datetime.fromtimestamp(noon.timestamp(), display_context().timezone).hour == 12


def test_a_machine_in_utc_has_utc_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert local_time() is UTC
