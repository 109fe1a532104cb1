"""Golden: the negotiator's ad has HTCondor's attributes, and `poolbook status -negotiator` shows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.runtime.pool_ads import PoolInstant, negotiator_ad
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.projections.views import CycleRow

from ..replay.contested_pool import contested_pool
from .captures import captured_ads

COUNTS_OF_THE_LOG = {"SubmittersShareLimit", "SubmittersMatchLimit"}
"""The counts of the log. HTCondor's ad has the names of the first, so a cycle in which it is not 0 does not have it."""


def row(end: int, **statistics: float) -> CycleRow:
    return CycleRow(end, end * 1_000_000, {"Time": end, "End": end, "Duration": 0, "Matches": 0, **statistics})


def attributes(ad: object) -> set[str]:
    return {name for name in ad if name.startswith("LastNegotiationCycle")}  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def story() -> list[e.Event]:
    return [event for _, event in contested_pool().events()]


def test_a_cycle_has_htcondors_attributes(story: list[e.Event]) -> None:
    held = [event for event in story if isinstance(event, e.CycleHeld)][-4:]
    cycles = [
        CycleRow(0, event.at, event.statistics | dict.fromkeys(COUNTS_OF_THE_LOG, 0.0)) for event in reversed(held)
    ]
    expected = attributes(captured_ads("status_negotiator_long")[0])
    assert attributes(negotiator_ad(PoolInstant("pool", 0, None), cycles)) == expected
    assert len(expected) == 3 * 33


def test_the_last_cycle_is_number_0_and_a_period_is_the_time_since_the_previous_end() -> None:
    ad = negotiator_ad(PoolInstant("pool", 1070, None), [row(1060), row(1050), row(1020), row(1000)])
    assert [ad.eval(f"LastNegotiationCycleEnd{back}") for back in range(3)] == [1060, 1050, 1020]
    assert [ad.eval(f"LastNegotiationCyclePeriod{back}") for back in range(3)] == [10, 30, 20]
    assert "LastNegotiationCycleEnd3" not in ad


def test_the_first_cycle_of_all_has_no_period() -> None:
    assert negotiator_ad(PoolInstant("pool", 1070, None), [row(1060)]).eval("LastNegotiationCyclePeriod0") == 0


def test_matches_are_counted_by_the_second_of_the_period() -> None:
    ad = negotiator_ad(PoolInstant("pool", 1070, None), [row(1060, Matches=5), row(1050)])
    assert ad.eval("LastNegotiationCycleMatchRateSustained0") == 0.5
    assert ad.eval("LastNegotiationCycleMatchRate0") == 0.0


def test_the_command_shows_the_logs_cycle(
    story: list[e.Event], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = str(tmp_path / "pool.db")
    log = open_log(url, create=True)
    log.append(story)
    log.close()
    last = [event for event in story if isinstance(event, e.CycleHeld)][-1]
    assert main(["status", "-negotiator", "-l", "-log", url]) == 0
    shown_attributes = dict(re.findall(r"^LastNegotiationCycle(\w+)0 = (\S+)$", capsys.readouterr().out, re.MULTILINE))
    assert (
        shown_attributes.items()
        >= {name: f"{count:.0f}" for name, count in last.statistics.items() if name not in COUNTS_OF_THE_LOG}.items()
    )
    assert main(["status", "-negotiator", "-log", url]) == 0
    heading, _, line = capsys.readouterr().out.partition("\n")
    assert heading.split()[-3:] == ["Jobs", "Matches", "Rejections"]
    assert line.split()[-3:] == [f"{last.statistics[name]:.0f}" for name in ("NumIdleJobs", "Matches", "Rejections")]


def test_a_pool_without_a_cycle_has_a_negotiator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(tmp_path / "pool.db")
    log = open_log(url, create=True)
    log.append([e.PoolFounded(1, "founded", "found", "here", "htcondor-25", "example.org", "0.1", {})])
    log.close()
    assert main(["status", "-negotiator", "-af", "Name", "MyType", "LastNegotiationCycleEnd0", "-log", url]) == 0
    assert capsys.readouterr().out == "here Negotiator undefined\n"


def test_the_ad_has_the_use_of_each_concurrency_limit() -> None:
    ad = negotiator_ad(PoolInstant("pool", 1070, None), [], {"xsw": 1.5, "large.a": 2.0})
    assert (ad.eval("ConcurrencyLimit_xsw"), ad.eval("ConcurrencyLimit_large_a")) == (1.5, 2.0)
