"""Golden: for whom runs were evicted, whether that one used what was freed, and what was lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.domain.ports import stimuli as s
from poolbook.replay.usage.preemptions import Preemption, preemptions, totals
from poolbook.replay.virtual_world import Behaviour

from ..domain.pools import TestPool
from ..domain.preempting import DIALECTS, contested, give
from ..domain.test_pslot_preemption import contested as fragmented
from ..replay.contested_pool import contested_pool as busy


def told(pool: TestPool) -> list[tuple[str, str, str, int, int]]:
    """Of each eviction: the job, for whom, what became of the slot, for how long it was used, core-seconds lost."""
    return [(one.run.job, one.whom, one.used, one.lasted // 1_000_000, one.lost // 1_000_000) for one in found(pool)]


def found(pool: TestPool) -> list[Preemption]:
    return preemptions(pool.log)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_job_that_it_was_for_used_the_slot(dialect: str) -> None:
    pool = contested(dialect, Behaviour(900), Behaviour(20))
    give(pool, "2.0")
    pool.advance(25)
    ((job, whom, used, lasted, lost),) = told(pool)
    assert (job, whom, used, lasted) == ("1.0", "2.0", "used", 20)
    assert 2 * 10 <= lost <= 2 * 12
    (one,) = found(pool)
    assert (one.run.cause.name, one.user) == ("rank", "bob@example.org")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_another_job_of_the_same_user_used_it(dialect: str) -> None:
    pool = contested(dialect, Behaviour(900, grace=3), Behaviour(20))
    give(pool, "2.0")
    pool.advance(1)
    pool.act("hold", "2.0", user="bob")
    give(pool, "2.1", reason="priority")
    pool.advance(60)
    ((job, whom, used, _, _),) = told(pool)
    assert (job, whom, used) == ("1.0", "2.1", "used")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nobody_used_it_where_the_one_that_it_was_for_had_gone(dialect: str) -> None:
    pool = contested(dialect, Behaviour(900, grace=3), Behaviour(20))
    give(pool, "2.0")
    pool.advance(1)
    pool.act("remove", "2.0", user="bob")
    pool.act("remove", "2.1", user="bob")
    pool.advance(60)
    assert [(job, whom, used) for job, whom, used, _, _ in told(pool)] == [("1.0", "2.0", "not used")]
    assert totals(found(pool)).unused == 1
    assert totals(found(pool)).in_vain == totals(found(pool)).lost > 0


def test_what_still_runs_has_used_the_slot_so_far_and_a_slot_that_is_not_free_yet_nobody() -> None:
    pool = contested("manual", Behaviour(900, grace=3), Behaviour(500))
    give(pool, "2.0")
    pool.advance(1)
    assert told(pool) == []
    pool.advance(30)
    pool.act("hold", "2.1", user="bob")
    ((*_, used, lasted, _),) = told(pool)
    assert (used, lasted) == ("used", 28)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("grace", [0, 3])
def test_parts_of_a_slot_went_for_the_job_that_took_their_resources(dialect: str, grace: int) -> None:
    pool = fragmented(dialect, grace)
    pool.advance(200)
    assert [(job, whom, used, lasted) for job, whom, used, lasted, _ in told(pool)] == [
        ("2.0", "5.0", "used", 60),
        ("1.0", "5.0", "used", 60),
    ]


def test_parts_of_a_slot_were_used_for_as_long_as_the_job_ran() -> None:
    pool = fragmented("htcondor-25", 3)
    pool.advance(0)
    pool.act("remove", "5.0", user="alice")
    pool.advance(200)
    evicted = {(job, whom, lasted) for job, whom, used, lasted, _ in told(pool)}
    assert evicted == {("2.0", "5.0", 3), ("1.0", "5.0", 3)}


def test_of_an_eviction_for_no_job_it_is_said_who_asked() -> None:
    pool = contested("manual", Behaviour(900), Behaviour(20))
    pool.act("vacate", "1.0", user="alice")
    pool.advance(10)
    assert [(job, whom, used) for job, whom, used, _, _ in told(pool)] == [("1.0", "alice", "")]


def test_a_drain_that_is_complete_used_what_it_freed() -> None:
    pool = contested("manual", Behaviour(900), Behaviour(20))
    pool.handle(s.Drain(pool.id(), "root", "h", "Quick"))
    pool.advance(120)
    assert [one[:3] for one in told(pool)] == [("1.0", "the drain of h, which root asked for", "used")]


def test_every_preemption_of_a_busy_pool_is_for_a_job_of_its_user() -> None:
    pool = busy()
    some = [one for one in preemptions(pool.log) if one.run.cause.name in ("rank", "priority")]
    assert len(some) > 5
    assert all(one.whom and one.user and one.user != one.run.user for one in some)
    assert {one.used for one in some} <= {"used", "used by another job", "not used", "not yet"}


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
    out = capsys.readouterr().out
    assert "rank" in out and "2.0 of bob@" in out and "used for 1 min" in out
    assert "1 eviction: " in out
    assert main(["audit", "-preemptions", "-json", "-log", str(tmp_path / "a.db")]) == 0
    (one,) = json.loads(capsys.readouterr().out)["evictions"]
    assert (one["job"], one["for"], one["used"], one["used_for"], one["slot"]) == (
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
    given = [one for one in json.loads(capsys.readouterr().out)["evictions"] if one["cause"] == "priority"]
    assert [(one["job"], one["for"], one["used"]) for one in given] == [("1.0", "4.0", "used"), ("1.1", "5.0", "used")]
