"""Property and golden: usage of runs, cut at a window's ends and at midnight, by user, machine and day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from poolbook.replay.runs.job_run import COMPLETED, ENDED, EVICTED, RUNNING, JobRun
from poolbook.replay.usage.usage_sums import BY, sums

SECOND = 1_000_000
NIGHT = round(datetime(2026, 11, 30, 23, tzinfo=UTC).timestamp()) * SECOND
MINUTE = 60 * SECOND
ALL_TIME = (0, 1 << 62)


def run(
    begin: int, end: int, outcome: str = COMPLETED, user: str = "alice@h", slot: str = "slot1@m", job: str = "1.0"
) -> JobRun:
    """A run from one minute to another, counted from an hour before December begins."""
    return JobRun(job, user, "physics", slot, NIGHT + begin * MINUTE, NIGHT + end * MINUTE, outcome)


def test_a_run_counts_as_far_as_it_is_inside_the_window() -> None:
    """A run from 2:50 to 3:10 has 10 minutes in the window from 3:00."""
    rows, total = sums([run(-10, 10)], ["user"], NIGHT, NIGHT + 60 * MINUTE)
    assert rows[("alice@h",)].as_dict() == total.as_dict() == {
        "jobs": 1, "runs": 1, "used": 600.0, "goodput": 600.0, "wasted": 0.0, "evictions": 0,
    }  # fmt: skip


def test_an_evicted_run_is_wasted_and_counts_where_it_ended() -> None:
    rows, total = sums([run(30, 90, EVICTED)], ["day"], *ALL_TIME)
    assert {key: (row.wasted // MINUTE, row.evictions, row.runs) for key, row in rows.items()} == {
        ("2026-11-30",): (30, 0, 1),
        ("2026-12-01",): (30, 1, 1),
    }
    assert (total.wasted // MINUTE, total.evictions, total.runs) == (60, 1, 1)
    before, _ = sums([run(30, 90, EVICTED)], ["user"], NIGHT, NIGHT + 90 * MINUTE)
    assert before[("alice@h",)].evictions == 0


def test_days_and_months_are_those_of_the_zone() -> None:
    east = timezone(timedelta(hours=2))
    assert list(sums([run(0, 1)], ["month"], *ALL_TIME)[0]) == [("2026-11",)]
    assert list(sums([run(0, 1)], ["month"], *ALL_TIME, east)[0]) == [("2026-12",)]
    assert list(sums([run(0, 60 * 24 * 70)], ["month"], *ALL_TIME)[0]) == [
        ("2026-11",),
        ("2026-12",),
        ("2027-01",),
        ("2027-02",),
    ]


def test_a_running_or_unexplained_run_is_neither_good_nor_wasted() -> None:
    _, total = sums([run(0, 5, RUNNING), run(5, 9, ENDED, job="1.1")], ["cluster"], *ALL_TIME)
    assert (total.used // MINUTE, total.good, total.wasted, len(total.jobs)) == (9, 0, 0, 2)


RUNS = st.lists(
    st.builds(
        lambda begin, lasts, outcome, user, slot, job: run(begin, begin + lasts, outcome, user, slot, job),
        st.integers(0, 5000),
        st.integers(0, 4000),
        st.sampled_from([COMPLETED, EVICTED, RUNNING, ENDED]),
        st.sampled_from(["alice@h", "bob@h", ""]),
        st.sampled_from(["slot1@m", "slot2@m", "slot1@n", ""]),
        st.sampled_from(["1.0", "1.1", "2.0"]),
    ),
    max_size=12,
)


@given(
    RUNS, st.lists(st.sampled_from(BY), min_size=1, max_size=3, unique=True), st.lists(st.integers(0, 9000), max_size=4)
)
def test_rows_and_windows_add_up_to_the_total(runs: list[JobRun], columns: list[str], cuts: list[int]) -> None:
    whole = sums(runs, columns, *ALL_TIME)[1]
    edges = [0, *(NIGHT + cut * MINUTE for cut in sorted(set(cuts))), 1 << 62]
    parts = []
    for begin, end in pairwise(edges):
        runs_inside = [counted_run for counted_run in runs if counted_run.began < end and counted_run.ended >= begin]
        rows, total = sums(runs_inside, columns, begin, end)
        assert sum(row.used for row in rows.values()) == total.used
        assert sum(row.evictions for row in rows.values()) == total.evictions
        parts.append(total)
    for name in ("used", "good", "wasted", "evictions"):
        assert sum(getattr(share, name) for share in parts) == getattr(whole, name), name
