"""Property: every change is a row of the tables: without a row, the live pool rejects whatever needs it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from transitions.core import Event as Trigger

from poolbook.domain.decide import Tables
from poolbook.domain.events import ClusterSubmitted, Event, JobActivated, JobExited, JobsTransitioned, SlotTransitioned
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state_machines import (
    CLAIM,
    MATCH,
    NotAllowed,
    job_machine,
    slot_machine,
)
from poolbook.domain.state_machines.machine import MACHINES
from poolbook.replay.listing.members import members as members_of
from poolbook.replay.virtual_world import Behaviour

from ..together import together
from .pools import JOB, TestPool

# The rows that the live pool uses.
DRIVEN_SLOT_ROWS = {
    "manual": {"1", "6", "8", "9", "10", "11", "12", "13", "14", "15", "16", "18", "21", "22", "25"},
    "htcondor-25": {"1", "5", "5a", "10", "11", "12", "12a", "13", "13b", "14", "15", "16", "18", "22", "25"},
}
DRIVEN_JOB_ROWS = {
    "submit", "submit_on_hold", "activate", "suspend", "continue", "complete", "evict", "hold", "release", "remove",
    "requeue", "remove_x", "leave",
}  # fmt: skip


def everything(dialect: str, tables: Tables | None = None) -> TestPool:
    """Run a story that uses every row of the live pool."""
    kinds = {2: Behaviour(900, grace=None), 3: Behaviour(900, grace=1), 4: Behaviour(failure="no such file")}
    pool = TestPool(
        dialect=dialect, tables=tables, settings={"MachineMaxVacateTime": "5"},
        behave=lambda launch: kinds.get(launch.cluster, Behaviour(1)),
    )  # fmt: skip
    pool.machine("p", cpus=2)
    pool.machine("s", static=1, cpus=1)
    pool.submit(2)
    pool.advance(30)
    pool.submit(5, JobStatus="5")
    pool.act("release", "2")
    pool.advance(1)
    pool.act("suspend", "2.0")
    pool.act("continue", "2.0")
    pool.act("vacate", "2.0")
    pool.act("suspend", "2.1")
    pool.vacate_slot(
        next(
            slot.name
            for slot in pool.state.slots.values()
            if slot.activation and (slot.activation.cluster, slot.activation.proc) == (2, 1)
        )
    )
    pool.act("vacate", "2.2", fast=True)
    pool.advance(60)
    pool.act("remove", "2")
    pool.advance(60)
    pool.submit(3)
    pool.advance(1)
    pool.act("hold", "3.0")
    pool.advance(60)
    pool.act("remove", "3", user="root")
    pool.advance(60)
    pool.submit(1)
    pool.advance(1)
    never_claimed(pool)
    pool.submit(1, OnExitRemove="NumJobCompletions > 1", LeaveJobInQueue="true")
    pool.advance(10)
    for action in ("remove", "remove now"):
        pool.act(action, str(pool.state.next_cluster - 1))
    return pool


def never_claimed(pool: TestPool) -> None:
    """Make a match whose job is held before the claim: the access point was slow."""
    pool.engine.executing = False
    answer = pool.submit(2)
    pool.handle(s.Negotiate("by-hand"))
    pool.act("hold", f"{answer.value['cluster']}.0")
    pool.handle(s.ClaimMatches("late"))
    pool.engine.executing = True
    pool.act("remove", str(answer.value["cluster"]))
    pool.advance(20)


def fired(pool: TestPool) -> tuple[set[str], set[str]]:
    return {event.row for event in pool.events() if isinstance(event, SlotTransitioned)}, rows_of_jobs(pool.events())


def rows_of_jobs(events: Iterable[Event]) -> set[str]:
    """Return the rows of the jobs' table that these events took."""
    rejected = set()
    for event in events:
        if isinstance(event, JobsTransitioned | JobExited) and event.row:
            rejected.add(event.row)
        elif isinstance(event, JobActivated):
            rejected.add("activate")
        elif isinstance(event, ClusterSubmitted):
            rejected.add("submit_on_hold" if event.status == "Held" else "submit")
    return rejected


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_the_story_uses_the_listed_rows(dialect: str) -> None:
    slots, jobs = fired(everything(dialect))
    assert slots == DRIVEN_SLOT_ROWS[dialect]
    assert jobs == DRIVEN_JOB_ROWS


@together(
    ("dialect", "table", "row"),
    [
        (dialect, table, row)
        for dialect, slot_rows in DRIVEN_SLOT_ROWS.items()
        for table, rows in (("slot", slot_rows), ("job", DRIVEN_JOB_ROWS))
        for row in sorted(rows)
    ],
)
def test_without_a_row_the_live_pool_rejects_the_change_and_appends_nothing_of_it(
    dialect: str, table: str, row: str
) -> None:
    tables = Tables(dialect, **{table: MACHINES[table](dialect).without_row(row)})
    with pytest.raises(NotAllowed, match=f"row {row} "):
        everything(dialect, tables)


def ties(dialect: str, tables: Tables | None = None) -> TestPool:
    """Run a story with all transitions of claims and matches: besides ``everything``, and those by an outside access
    point and negotiator."""
    pool = everything(dialect, tables)
    pool.machine("o", static=1, cpus=1, Start="TARGET.Bad isnt true")
    slot = "slot1@o"
    pool.handle(s.NotifyMatch(pool.id(), slot))
    pool.handle(s.FailClaim(pool.id(), slot))
    pool.handle(s.NotifyMatch(pool.id(), slot))
    pool.advance(600)
    for claim, ad in (("first", {}), ("better", {"Bad": "true"})):
        pool.handle(s.RequestClaim(pool.id(), slot, claim, "elsewhere", "eve@example.org", claim, ad))
    pool.handle(s.ReleaseClaim(pool.id(), slot))
    pool.submit(1)
    pool.advance(0)
    pool.vacate_slot("p", fast=True)
    pool.vacate_slot("s", fast=True)
    pool.vacate_slot("o", fast=True)
    pool.advance(600)
    return pool


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
@pytest.mark.parametrize(
    ("table", "row"), [*(("claim", row.number) for row in CLAIM), *(("match", row.number) for row in MATCH)]
)
def test_without_a_row_no_claim_or_match_takes_it(dialect: str, table: str, row: str) -> None:
    tables = Tables(dialect, **{table: MACHINES[table](dialect).without_row(row)})
    with pytest.raises(NotAllowed, match=f"row {row} "):
        ties(dialect, tables)


def test_each_decision_fires_each_distinct_transition_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is called again in each decision, but not for each job within one."""
    fired: list[tuple[str, str]] = []
    trigger = Trigger.trigger

    def count(event: Trigger, model: Any) -> bool:
        fired.append((event.name, model.state))
        return bool(trigger(event, model))

    monkeypatch.setattr(Trigger, "trigger", count)
    pool = TestPool()
    pool.submit(6)
    for _ in range(2):
        fired.clear()
        for proc in (1, 3):
            pool.act("hold", f"1.{proc}")
        pool.act("hold", "1")
        pool.act("release", "1")
        assert fired == [("hold", "Idle"), ("hold", "Idle"), ("hold", "Idle"), ("release", "Held")]


def test_a_rejected_change_leaves_the_log_and_the_state_unchanged() -> None:
    pool = TestPool(tables=Tables(slot=slot_machine("manual").without_row("11")))
    pool.machine()
    before = len(pool.events())
    with pytest.raises(NotAllowed):
        pool.submit()
    assert len(pool.events()) == before
    assert pool.state.position == fold(pool.log.read()).position == before
    assert not pool.state.clusters


def test_an_event_about_many_jobs_equals_one_event_for_each() -> None:
    """A command over a cluster has the same effect on each job as a command for that job alone."""
    lives = []
    for one_by_one in (False, True):
        pool = TestPool(behave=lambda launch: Behaviour(900, grace=None))
        pool.machine(cpus=2)
        pool.submit(6)
        pool.act("hold", "1.4")
        before = len(pool.events())
        for action in ("hold", "release", "remove"):
            for target_name in [f"1.{proc}" for proc in range(6)] if one_by_one else ["1"]:
                pool.act(action, target_name)
        members = [
            (member.thing, member.what, member.source, member.target)
            for position, event in pool.log.read(before)
            if isinstance(event, JobsTransitioned)
            for member in members_of(position, event)
        ]
        machine = job_machine("manual")
        assert all(machine.fire(source, row) == target for _, row, source, target in members)
        lives.append(sorted(members))
    assert lives[0] == lives[1]
    assert len(lives[0]) == 5 + 6 + 6 + 4  # the processes of two jobs have not ended yet: these stay in the queue


def test_commands_that_wait_together_share_one_append() -> None:
    pool = TestPool()
    appended: list[int] = []
    pool.engine.subscribe(lambda first, events: appended.append(len(events)))
    answers = pool.engine.handle([s.Submit(pool.id(), "alice", 0, JOB, 1, ()) for _ in range(5)])
    assert [answer.value["cluster"] for answer in answers] == [1, 2, 3, 4, 5]
    assert len(appended) == 1
    assert pool.log.head.position == 1 + appended[0]
