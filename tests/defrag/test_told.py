"""golden: what `status -defrag`, `why`, `log` and `verify` say of a pool that defragments."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.runtime.pool_ads import PoolInstant as Named
from poolbook.adapters.runtime.pool_ads import defrag_ads
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.projections.views import Views
from poolbook.replay.listing import entries, line, wanted
from poolbook.replay.why import UnknownThingError
from poolbook.replay.why.answer import why

from ..projections.pools import folded
from .pools import DefragPool
from .recorded import FOLDERS, recorded

SECOND = 1_000_000

NEVER_TOLD = {
    "CondorVersion", "CondorPlatform",  # as every daemon's
    "LastHeardFrom",  # the collector's
}  # fmt: skip


@pytest.fixture(scope="module")
def pool() -> DefragPool:
    """Two machines; one is drained, of the other the drain is canceled."""
    pool = DefragPool(INTERVAL=60, DRAINING_MACHINES_PER_HOUR=60, CANCEL_REQUIREMENTS="Cpus == 1", RANK="Cpus")
    pool.machines("m1", "m2", retirement=1000)
    pool.run(50, cpus=1)
    pool.run(36_000, count=6)
    pool.advance(190)
    return pool


@pytest.fixture
def url(pool: DefragPool, tmp_path: Path) -> str:
    found = str(tmp_path / "pool.db")
    open_log(found, create=True).append(pool.events())
    return found


def test_the_ad_has_the_attributes_of_the_real_one(pool: DefragPool) -> None:
    (ad,) = defrag_ads(Named("pool", pool.world.clock // SECOND, None), pool.state.defrag, pool.state.settings)
    real = next(seen.daemon for seen in recorded(FOLDERS[0]) if seen.daemon is not None)
    assert set(real) - NEVER_TOLD == set(ad) - NEVER_TOLD
    assert ad.eval("Name") == "DEFRAG@cm"


def test_the_ad_counts_what_was_drained_and_canceled(pool: DefragPool) -> None:
    (ad,) = defrag_ads(Named("pool", pool.world.clock // SECOND, None), pool.state.defrag, pool.state.settings)
    polls = list(pool.polls())
    drains = [drain.slot for poll in polls for drain in poll.drains]
    assert ad.eval("DrainSuccesses") == ad.eval("RecentDrainSuccesses") == len(drains) == 3
    assert [one.eval("who") for one in ad.eval("RecentDrainsList")] == drains[::-1]
    assert [one.eval("what") for one in ad.eval("RecentDrainsList")] == ["graceful"] * 3
    assert [one.eval("who") for one in ad.eval("RecentCancelsList")] == ["slot1@m2", "slot1@m1"]
    assert ad.eval("MachinesDraining") == polls[-1].draining
    assert ad.eval("MachinesDrainingPeak") == max(poll.draining for poll in polls)
    assert ad.eval("DaemonStartTime") == ad.eval("DaemonLastReconfigTime") == pool.events()[0].at // SECOND


def test_what_is_recent_is_of_ten_intervals(pool: DefragPool) -> None:
    later = pool.world.clock // SECOND + 11 * 60
    (ad,) = defrag_ads(Named("pool", later, None), pool.state.defrag, pool.state.settings)
    assert (ad.eval("DrainSuccesses"), ad.eval("RecentDrainSuccesses")) == (3, 0)
    assert ad.eval("RecentStatsLifetime") == 600


def test_the_views_keep_what_the_state_has_wherever_a_batch_ends(pool: DefragPool) -> None:
    log = list(enumerate(pool.events(), 1))
    known = Views(folded(log)).defrag()
    assert known == (pool.state.defrag, pool.state.settings)
    assert Views(folded(log, [7, 20])).defrag() == known


def test_status_shows_it_as_condor_status_does(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "-defrag", "-log", url]) == 0
    heading, _, row, *_ = capsys.readouterr().out.splitlines()
    real = (FOLDERS[0] / "status_defrag.txt").read_text().splitlines()
    assert heading.split() == real[0].split() == ["Name", "Draining", "Peak", "TotalDrained"]
    assert row.split()[0] == "DEFRAG@cm"
    assert main(["status", "-any", "-af", "MyType", "-log", url]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "Defrag"


def test_why_names_the_choice_of_a_slot_that_is_drained(pool: DefragPool) -> None:
    at = next(poll.at for poll in pool.polls() if poll.drains)
    told = why(pool.log, "slot1@m1", at)
    assert any(
        "The defragmentation drained its machine, Graceful: it was number 1 of 2 by DEFRAG_RANK (1), and" in text
        for text in told.texts
    )
    full = " ".join(sentence.full for sentence in told.life)
    assert "0 draining and 0 whole machines; 2 could be drained, 1 at most" in full
    assert "DEFRAG_RANK = Cpus was 1, with TARGET.Cpus = 1" in full


def test_why_names_the_decision_that_canceled_a_drain(pool: DefragPool) -> None:
    told = why(pool.log, "slot1@m1")
    full = " ".join(sentence.full for sentence in told.life)
    assert "The defragmentation canceled the drain of its machine: DEFRAG_CANCEL_REQUIREMENTS was true" in full
    assert "MY.Cpus = 1" in full


def test_why_says_of_a_machine_that_was_left_alone_what_the_poll_did(pool: DefragPool) -> None:
    at = next(poll.at for poll in pool.polls() if poll.drains)
    text = " ".join(why(pool.log, "slot1@m2", at).texts)
    assert "The defragmentation left its machine alone at " in text
    assert "drained: m1 (rank 1)" in text
    with pytest.raises(UnknownThingError):
        why(pool.log, "slot1@m3", at)


def test_why_tells_a_large_job_that_waits_what_the_defragmentation_saw_last() -> None:
    pool = DefragPool(INTERVAL=60, DRAINING_MACHINES_PER_HOUR=1)
    pool.machines("m1")
    pool.run(36_000)
    pool.run(10, cpus=4, user="bob")
    pool.run(10, cpus=40, user="bob")
    pool.advance(70)
    assert any("the defragmentation saw 0 draining and 0 whole machines" in text for text in why(pool.log, "2.0").texts)
    assert not any("defragmentation" in text for text in why(pool.log, "3.0").texts)  # no machine is that large


def test_the_log_has_a_line_for_each_poll(pool: DefragPool) -> None:
    lines = [line(member) for member in entries(pool.log, wanted("defrag"))]
    assert len(lines) == len(list(pool.polls())) == 4
    assert "canceled: m1" in lines[2]


def test_verify_takes_the_polls_again(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "-decisions", "-log", url]) == 0
    assert "and 4 polls of the defragmentation were taken again, and decided the same" in capsys.readouterr().out


def test_a_job_that_a_drain_ended_is_told_so(pool: DefragPool) -> None:
    pool = DefragPool(INTERVAL=60, DRAINING_MACHINES_PER_HOUR=60)
    pool.machines("m1")
    pool.run(36_000)
    pool.advance(70)
    ended = next(event for event in pool.events() if isinstance(event, e.JobExited))
    assert ended.changes["VacateReasonCode"] == "1014"  # DrainMachine
    assert fold(pool.log.read()).machines["m1"].badput == 60 == pool.state.machines["m1"].badput
    assert not isinstance(pool.handle(s.Drain(pool.id(), "root", "m1")).value, str)
