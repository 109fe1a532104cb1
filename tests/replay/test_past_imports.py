"""Golden: status, history and usage of an imported log at a time, by the times of the records."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.runtime.queries import LogBeginsLater, Queries
from poolbook.domain.units import SECOND

TRACE = Path(__file__).parents[1] / "data" / "traces" / "05-prio-preempt"
DAY = 1_795_132_800  # 2026-11-20


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = str(tmp_path_factory.mktemp("past") / "audit.db")
    assert main(["import", str(TRACE), "-log", url, "-zone", "UTC"]) == 0
    return url


def at(hours: int, minutes: int, seconds: int) -> int:
    return (DAY + hours * 3600 + minutes * 60 + seconds) * SECOND


@pytest.mark.parametrize(
    ("moment", "states"),
    [
        (at(22, 36, 45), ["Unclaimed/Idle", "Unclaimed/Idle", "Unclaimed/Idle"]),
        (at(22, 36, 57), ["Claimed/Busy", "Claimed/Busy", "Claimed/Busy"]),
        (at(22, 40, 0), ["Unclaimed/Idle", "Unclaimed/Idle", "Unclaimed/Idle"]),
    ],
)
def test_slots_have_the_states_of_the_last_transitions_by_then(moment: int, states: list[str], audit: str) -> None:
    with Queries(audit, at=moment) as queries:
        slots = sorted(queries.slots(moment // SECOND), key=lambda ad: str(ad.eval("Name")))
        assert [f"{slot.eval('State')}/{slot.eval('Activity')}" for slot in slots] == states


def test_after_all_records_the_answers_are_the_present_ones(audit: str) -> None:
    last = at(30, 0, 0)
    with Queries(audit) as present, Queries(audit, at=last) as past:
        assert [slot.to_old() for slot in past.slots(last // SECOND)] == [
            slot.to_old() for slot in present.slots(last // SECOND)
        ]
        assert [ad.to_old() for ad in past.history()] == [ad.to_old() for ad in present.history()]
        for by in ("user", "group", "cluster"):
            assert past.usage(by) == present.usage(by)


def test_the_history_and_its_usage_have_the_jobs_that_had_completed_by_then(audit: str) -> None:
    with Queries(audit) as present:
        ends = {(ad.eval("ClusterId"), ad.eval("ProcId")): ad.eval("EnteredCurrentStatus") for ad in present.history()}
    for moment in sorted({int(str(end)) for end in ends.values()}):
        with Queries(audit, at=moment * SECOND) as past:
            jobs = {(ad.eval("ClusterId"), ad.eval("ProcId")) for ad in past.history()}
            assert jobs == {job for job, end in ends.items() if int(str(end)) <= moment}
            assert sum(row.jobs for row in past.usage()) == len(jobs)


def test_a_time_before_the_records_is_an_error(audit: str) -> None:
    with Queries(audit, at=at(20, 0, 0)) as queries, pytest.raises(LogBeginsLater):
        list(queries.slots(0))
