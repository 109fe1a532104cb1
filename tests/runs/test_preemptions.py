"""Golden: for which job runs were evicted, whether that job used the freed resources, and what was lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.domain.ports import stimuli as s
from poolbook.replay.usage.preemptions import Preemption, preemptions, totals
from poolbook.replay.virtual_world import Behaviour

from ..domain.pools import TestPool
from ..domain.preempting import DIALECTS, contested, match_slot
from ..domain.test_pslot_preemption import contested as fragmented
from ..replay.contested_pool import contested_pool as busy


def summaries(pool: TestPool) -> list[tuple[str, str, str, int, int]]:
    """Return for each eviction: the job, for which job, what became of the slot, for how long it was used, core-seconds
    lost."""
    return [
        (
            preemption.run.job,
            preemption.beneficiary_job,
            preemption.used,
            preemption.lasted // 1_000_000,
            preemption.lost // 1_000_000,
        )
        for preemption in preemptions_of(pool)
    ]


def preemptions_of(pool: TestPool) -> list[Preemption]:
    return preemptions(pool.log)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_preempting_job_used_the_slot(dialect: str) -> None:
    pool = contested(dialect, Behaviour(900), Behaviour(20))
    match_slot(pool, "2.0")
    pool.advance(25)
    ((job, beneficiary, use, seconds_used, core_seconds_lost),) = summaries(pool)
    assert (job, beneficiary, use, seconds_used) == ("1.0", "2.0", "used", 20)
    assert 2 * 10 <= core_seconds_lost <= 2 * 12
    (preemption,) = preemptions_of(pool)
    assert (preemption.run.cause.name, preemption.user) == ("rank", "bob@example.org")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_another_job_of_the_same_user_used_it(dialect: str) -> None:
    pool = contested(dialect, Behaviour(900, grace=3), Behaviour(20))
    match_slot(pool, "2.0")
    pool.advance(1)
    pool.act("hold", "2.0", user="bob")
    match_slot(pool, "2.1", reason="priority")
    pool.advance(60)
    ((job, beneficiary, use, _, _),) = summaries(pool)
    assert (job, beneficiary, use) == ("1.0", "2.1", "used")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_slot_is_unused_if_the_preempting_job_has_left(dialect: str) -> None:
    pool = contested(dialect, Behaviour(900, grace=3), Behaviour(20))
    match_slot(pool, "2.0")
    pool.advance(1)
    pool.act("remove", "2.0", user="bob")
    pool.act("remove", "2.1", user="bob")
    pool.advance(60)
    assert [(job, beneficiary, use) for job, beneficiary, use, _, _ in summaries(pool)] == [("1.0", "2.0", "not used")]
    assert totals(preemptions_of(pool)).unused == 1
    assert totals(preemptions_of(pool)).in_vain == totals(preemptions_of(pool)).lost > 0


def test_a_running_job_has_used_the_slot_so_far_and_a_slot_not_yet_free_is_unused() -> None:
    pool = contested("manual", Behaviour(900, grace=3), Behaviour(500))
    match_slot(pool, "2.0")
    pool.advance(1)
    assert summaries(pool) == []
    pool.advance(30)
    pool.act("hold", "2.1", user="bob")
    ((*_, use, seconds_used, _),) = summaries(pool)
    assert (use, seconds_used) == ("used", 28)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("grace", [0, 3])
def test_parts_of_a_slot_were_preempted_for_the_job_that_took_their_resources(dialect: str, grace: int) -> None:
    pool = fragmented(dialect, grace)
    pool.advance(200)
    assert [(job, beneficiary, use, seconds_used) for job, beneficiary, use, seconds_used, _ in summaries(pool)] == [
        ("2.0", "5.0", "used", 60),
        ("1.0", "5.0", "used", 60),
    ]


def test_parts_of_a_slot_were_used_for_as_long_as_the_job_ran() -> None:
    pool = fragmented("htcondor-25", 3)
    pool.advance(0)
    pool.act("remove", "5.0", user="alice")
    pool.advance(200)
    evictions = {(job, beneficiary, seconds_used) for job, beneficiary, use, seconds_used, _ in summaries(pool)}
    assert evictions == {("2.0", "5.0", 3), ("1.0", "5.0", 3)}


def test_an_eviction_for_no_job_names_the_requester() -> None:
    pool = contested("manual", Behaviour(900), Behaviour(20))
    pool.act("vacate", "1.0", user="alice")
    pool.advance(10)
    assert [(job, beneficiary, use) for job, beneficiary, use, _, _ in summaries(pool)] == [("1.0", "alice", "")]


def test_a_completed_drain_used_the_freed_slots() -> None:
    pool = contested("manual", Behaviour(900), Behaviour(20))
    pool.handle(s.Drain(pool.id(), "root", "h", "Quick"))
    pool.advance(120)
    assert [eviction[:3] for eviction in summaries(pool)] == [("1.0", "the drain of h, which root asked for", "used")]


def test_every_preemption_of_a_busy_pool_is_for_a_job_of_its_user() -> None:
    pool = busy()
    for_jobs = [preemption for preemption in preemptions(pool.log) if preemption.run.cause.name in ("rank", "priority")]
    assert len(for_jobs) > 5
    assert all(
        preemption.beneficiary_job and preemption.user and preemption.user != preemption.run.user
        for preemption in for_jobs
    )
    assert {preemption.used for preemption in for_jobs} <= {"used", "used by another job", "not used", "not yet"}


STORY = """\
machine h cores=1
config
    use FEATURE : StaticSlots
    RANK = TARGET.Owner == "bob"
end
at 0:10 submit alice run=1:00:00
at 5:00 submit bob run=60
until 20:00
"""


def test_the_command_prints_a_table_and_the_sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = tmp_path / "a.play"
    story.write_text(STORY)
    assert main(["play", str(story), "-quiet", "-log", str(tmp_path / "a.db")]) == 0
    capsys.readouterr()
    assert main(["audit", "-preemptions", "-log", str(tmp_path / "a.db")]) == 0
    output = capsys.readouterr().out
    assert "rank" in output and "2.0 of bob@" in output and "used for 1 min" in output
    assert "1 eviction: " in output
    assert main(["audit", "-preemptions", "-json", "-log", str(tmp_path / "a.db")]) == 0
    (eviction,) = json.loads(capsys.readouterr().out)["evictions"]
    assert (eviction["job"], eviction["for"], eviction["used"], eviction["used_for"], eviction["slot"]) == (
        "1.0",
        "2.0",
        "used",
        60.0,
        "slot1@h",
    )


def test_an_imported_log_names_the_next_run_of_another_job_on_the_slot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = Path(__file__).resolve().parent.parent / "data" / "cycles" / "limits"
    assert main(["import", str(trace), "-log", str(tmp_path / "b.db")]) == 0
    capsys.readouterr()
    assert main(["audit", "-preemptions", "-json", "-log", str(tmp_path / "b.db")]) == 0
    evictions = [
        eviction for eviction in json.loads(capsys.readouterr().out)["evictions"] if eviction["cause"] == "priority"
    ]
    assert [(eviction["job"], eviction["for"], eviction["used"]) for eviction in evictions] == [
        ("1.0", "4.0", "used"),
        ("1.1", "5.0", "used"),
    ]
