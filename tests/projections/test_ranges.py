"""Golden: the rows of the queue and the history for jobs that are changed together, separately, and together again."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.projections import queue_view as queue_fold
from poolbook.projections.projector import apply
from poolbook.projections.queue_view import QueuedRange, _QueuedCluster, _Texts
from poolbook.projections.views import Views

from ..together import together
from .pools import folded

NAMED = ("JobStatus", "Colour")
IDLE, RUNNING, REMOVED, COMPLETED, HELD = 1, 2, 3, 4, 5
MANY = 100_000
WHY = (7_000_000, "user_edit", "s")


def submitted(count: int) -> e.Event:
    return e.ClusterSubmitted(*WHY, 1, "alice@x", {"JobStatus": "1"}, count, (), "Idle")


def moved(row: str, source: str, target: str, *procs: tuple[int, int]) -> e.JobsTransitioned:
    return e.JobsTransitioned(*WHY, 1, procs, row, source, target, {})


def painted(colour: str, *procs: tuple[int, int]) -> e.Event:
    return e.JobsEdited(*WHY, 1, procs, {"Colour": f'"{colour}"'})


def held(*procs: tuple[int, int]) -> e.Event:
    return moved("hold", "Idle", "Held", *procs)


def removed(*procs: tuple[int, int], source: str = "Idle") -> e.JobsTransitioned:
    return moved("remove", source, "Removed", *procs)


def left(*procs: tuple[int, int], source: str = "Removed") -> e.Event:
    return moved("leave", source, "Left", *procs)


def of_old(event: e.JobsTransitioned | e.JobExited) -> e.Event:
    """Return an event of a log of format 1, in which jobs leave the queue with their end."""
    return replace(event, left=True)


def began(proc: int) -> e.Event:
    return e.JobActivated(*WHY, 1, proc, "slot1@h", "claim")


def ended(proc: int, target: str) -> e.JobExited:
    row = {"Completed": "complete", "Idle": "evict", "": ""}[target]
    return e.JobExited(*WHY, 1, proc, "slot1@h", "1", "exited", row, target, {})


Rows = list[tuple[int, int, int]]


@together(
    ("happens", "queue", "history"),
    [
        ([], [(0, 9, IDLE)], []),
        # All jobs, and a part of them.
        ([held((0, 9))], [(0, 9, HELD)], []),
        ([held((3, 4))], [(0, 2, IDLE), (3, 4, HELD), (5, 9, IDLE)], []),
        ([held((0, 0), (9, 9))], [(0, 0, HELD), (1, 8, IDLE), (9, 9, HELD)], []),
        ([held((4, 50))], [(0, 3, IDLE), (4, 9, HELD)], []),
        # One after the other: jobs that become equal share a row again.
        ([held((0, 4)), held((5, 9))], [(0, 9, HELD)], []),
        ([held((5, 9)), held((0, 4))], [(0, 9, HELD)], []),
        ([held((0, 2)), held((7, 9)), held((3, 6))], [(0, 9, HELD)], []),
        ([painted("red", (2, 3)), painted("red", (0, 9))], [(0, 9, IDLE)], []),
        ([painted("red", (2, 3)), painted("blue", (4, 9))], [(0, 1, IDLE), (2, 3, IDLE), (4, 9, IDLE)], []),
        # Jobs with different changes stay separate.
        ([painted("red", (2, 3)), held((0, 9))], [(0, 1, HELD), (2, 3, HELD), (4, 9, HELD)], []),
        # Removed: jobs stay in the queue until they leave it.
        ([removed((0, 9))], [(0, 9, REMOVED)], []),
        ([removed((0, 9)), left((0, 9))], [], [(0, 9, REMOVED)]),
        ([removed((1, 8)), left((1, 8))], [(0, 0, IDLE), (9, 9, IDLE)], [(1, 8, REMOVED)]),
        ([removed((0, 9)), left((0, 4)), left((5, 9))], [], [(0, 4, REMOVED), (5, 9, REMOVED)]),
        (
            [painted("red", (3, 3)), removed((0, 9)), left((0, 9))],
            [],
            [(0, 2, REMOVED), (3, 3, REMOVED), (4, 9, REMOVED)],
        ),
        ([removed((0, 9)), left((0, 9)), held((0, 9)), painted("red", (3, 3)), began(3)], [], [(0, 9, REMOVED)]),
        # A running job has its own row until its processes are gone.
        ([began(0)], [(0, 0, RUNNING), (1, 9, IDLE)], []),
        ([began(9), began(5)], [(0, 4, IDLE), (5, 5, RUNNING), (6, 8, IDLE), (9, 9, RUNNING)], []),
        ([began(0), ended(0, "Completed")], [(0, 0, COMPLETED), (1, 9, IDLE)], []),
        ([began(0), ended(0, "Completed"), left((0, 0), source="Completed")], [(1, 9, IDLE)], [(0, 0, COMPLETED)]),
        ([began(0), ended(0, "Idle")], [(0, 0, IDLE), (1, 9, IDLE)], []),
        (
            [began(4), removed((4, 4), source="Running"), ended(4, ""), left((4, 4))],
            [(0, 3, IDLE), (5, 9, IDLE)],
            [(4, 4, REMOVED)],
        ),
        # In logs of format 1, idle jobs are gone immediately, and running ones with their processes.
        ([of_old(removed((0, 9)))], [], [(0, 9, REMOVED)]),
        ([of_old(removed((1, 8)))], [(0, 0, IDLE), (9, 9, IDLE)], [(1, 8, REMOVED)]),
        ([of_old(removed((0, 4))), of_old(removed((5, 9)))], [], [(0, 4, REMOVED), (5, 9, REMOVED)]),
        ([began(0), of_old(ended(0, "Completed"))], [(1, 9, IDLE)], [(0, 0, COMPLETED)]),
        ([began(4), of_old(removed((0, 9)))], [(4, 4, REMOVED)], [(0, 3, REMOVED), (5, 9, REMOVED)]),
        (
            [began(4), of_old(removed((4, 4), source="Running")), of_old(ended(4, ""))],
            [(0, 3, IDLE), (5, 9, IDLE)],
            [(4, 4, REMOVED)],
        ),
        (
            [began(4), moved("hold", "Running", "Held", (4, 4)), ended(4, "")],
            [(0, 3, IDLE), (4, 4, HELD), (5, 9, IDLE)],
            [],
        ),
        ([began(4), ended(4, "Idle"), removed((4, 4)), left((4, 4))], [(0, 3, IDLE), (5, 9, IDLE)], [(4, 4, REMOVED)]),
        # Two running jobs are two rows, however similar their ads are.
        (
            [began(4), began(5), painted("red", (0, 9))],
            [(0, 3, IDLE), (4, 4, RUNNING), (5, 5, RUNNING), (6, 9, IDLE)],
            [],
        ),
        # Its activation determines whether a job runs, not a status that a user wrote into its ad.
        (
            [e.JobsEdited(*WHY, 1, ((4, 4),), {"RemoteHost": '"slot1@h"'}), of_old(removed((4, 4)))],
            [(0, 3, IDLE), (5, 9, IDLE)],
            [(4, 4, REMOVED)],
        ),
        (
            [began(4), e.JobsEdited(*WHY, 1, ((4, 4),), {"RemoteHost": ""}), of_old(removed((4, 4), source="Running"))],
            [(0, 3, IDLE), (4, 4, REMOVED), (5, 9, IDLE)],
            [],
        ),
    ],
)  # fmt: skip
def test_rows_are_split_and_joined(happens: list[e.Event], queue: Rows, history: Rows) -> None:
    events = list(enumerate([submitted(10), *happens], 1))
    for sizes in ([], [1] * len(events)):
        tables = folded(events, sizes)
        assert tables.execute("SELECT first, last, status FROM jobs ORDER BY first").fetchall() == queue
        assert tables.execute("SELECT first, last, status FROM history ORDER BY id").fetchall() == history


@pytest.mark.parametrize(
    ("happens", "statements"),
    [
        (held((0, MANY - 1)), 2),
        (painted("red", (0, MANY - 1)), 2),
        (removed((0, MANY - 1)), 2),
        (held((50, 50)), 4),
        (began(0), 4),
    ],
)
def test_a_change_of_all_jobs_or_of_one_writes_few_rows(happens: e.Event, statements: int) -> None:
    tables = folded([(1, submitted(MANY))])
    before = tables.total_changes
    apply(tables, [(2, happens)])
    assert tables.total_changes - before - 2 <= statements  # except the row with the views' position
    assert (
        sum(
            last - first + 1
            for first, last in tables.execute("SELECT first, last FROM jobs UNION ALL SELECT first, last FROM history")
        )
        == MANY
    )


def test_usage_may_exceed_64_bits() -> None:
    claimed = e.ClaimMade(*WHY, "slot1@h", "c", "alice@x", 1000)
    ends = [e.ClaimEnded(*WHY, "slot1@h", "c", "alice@x", 2**62) for _ in range(8)]
    events = [event for end in ends for event in (claimed, end)]
    for sizes in ([], [1] * len(events)):
        (row,) = Views(folded(list(enumerate(events, 1)), sizes)).submitters()
        assert (row.name, row.ended_usage, row.ended_claims, row.slots, row.last_used) == (
            "alice@x",
            2**65,
            8,
            0,
            7_000_000,
        )


RANGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6)
"""How many processes lie before each range, and how many more than one are in it."""


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from("ab")), max_size=8),
    st.lists(st.tuples(RANGES, st.sampled_from("abcd")), min_size=1, max_size=3),
)
def test_many_ranges_changed_at_once_equal_ranges_changed_one_by_one(
    stretches: list[tuple[int, int, str]], events: list[tuple[list[tuple[int, int]], str]]
) -> None:
    with closing(sqlite3.connect(":memory:")) as nothing_stored:
        at_once, one_by_one = (_QueuedCluster(nothing_stored, _Texts(), 1, {}) for _ in range(2))
        for cluster in (at_once, one_by_one):
            at = 0
            for gap, more, value in stretches:
                cluster.add_range(QueuedRange(at + gap, at + gap + more, 1, "", {"A": value}))
                at += gap + more + 1
        for ranges, value in events:
            procs, at = [], 0
            for gap, more in ranges:
                procs.append((at + gap, at + gap + more))
                at += gap + more + 1

            def change(stretch: QueuedRange, value: str = value) -> bool:
                stretch.changes = {"A": value}
                return value != "d"

            at_once.change_all(tuple(procs), change)
            for first, last in procs:
                one_by_one.change(first, last, change)
            assert shown(at_once) == shown(one_by_one)


ABOUT_MANY = st.one_of(
    st.builds(lambda procs: held(*procs), RANGES),
    st.builds(lambda procs: removed(*procs), RANGES),
    st.builds(lambda procs: left(*procs), RANGES),
    st.builds(lambda procs: of_old(removed(*procs)), RANGES),
    st.builds(lambda procs, colour: painted(colour, *procs), RANGES, st.sampled_from("ab")),
    st.builds(began, st.integers(0, 29)),
)


@given(st.lists(ABOUT_MANY, min_size=1, max_size=6), st.lists(st.integers(1, 3), max_size=4))
def test_many_ranges_changed_by_columns_equal_ranges_changed_one_by_one(
    happens: list[e.Event], sizes: list[int]
) -> None:
    events = list(enumerate([submitted(30), *map(placed, happens)], 1))
    rows_found = []
    for fewest in (1, MANY):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(queue_fold, "MANY_RANGES", fewest)
            tables = folded(events, sizes)
        rows = [tables.execute(f"SELECT * FROM {name} ORDER BY {key}") for name, key in (("jobs", 2), ("history", 1))]
        rows_found.append([row.fetchall() for row in rows])
    assert rows_found[0] == rows_found[1]


def placed(event: e.Event) -> e.Event:
    """Return the event with its ranges built from the number of processes before each, and that in each minus one."""
    if not isinstance(event, e.JobsTransitioned | e.JobsEdited):
        return event
    procs, at = [], 0
    for gap, more in event.procs:
        procs.append((at + gap, at + gap + more))
        at += gap + more + 1
    return replace(event, procs=tuple(procs))


def shown(cluster: _QueuedCluster) -> list[tuple[int, int, str]]:
    rows: list[tuple[object, ...]] = []
    cluster.flush([], rows)
    return sorted((row[1], row[2], row[5]) for row in rows)  # type: ignore[misc]
