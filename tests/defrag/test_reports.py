"""golden: the output of `status -defrag`, `why`, `log` and `verify` for a pool with defragmentation."""

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
from poolbook.replay.listing.members import entries, line, parse_filter
from poolbook.replay.narration.sentences import UnknownThingError
from poolbook.replay.why.answer import why

from ..projections.pools import folded
from .pools import DefragPool
from .recorded import FOLDERS, recorded_polls

SECOND = 1_000_000

NOT_COMPARED = {
    "CondorVersion", "CondorPlatform",  # the same in every daemon's ad
    "LastHeardFrom",  # set by the collector
}  # fmt: skip


@pytest.fixture(scope="module")
def pool() -> DefragPool:
    """A pool of two machines; one is drained, and the drain of the other is canceled."""
    pool = DefragPool(INTERVAL=60, DRAINING_MACHINES_PER_HOUR=60, CANCEL_REQUIREMENTS="Cpus == 1", RANK="Cpus")
    pool.machines("m1", "m2", retirement=1000)
    pool.run(50, cpus=1)
    pool.run(36_000, count=6)
    pool.advance(190)
    return pool


@pytest.fixture
def url(pool: DefragPool, tmp_path: Path) -> str:
    path = str(tmp_path / "pool.db")
    open_log(path, create=True).append(pool.events())
    return path


def test_the_ad_has_the_attributes_of_htcondor_s_ad(pool: DefragPool) -> None:
    (ad,) = defrag_ads(Named("pool", pool.world.clock // SECOND, None), pool.state.defrag, pool.state.settings).values()
    htcondor_ad = next(poll.daemon for poll in recorded_polls(FOLDERS[0]) if poll.daemon is not None)
    assert set(htcondor_ad) - NOT_COMPARED == set(ad) - NOT_COMPARED
    assert ad.eval("Name") == "DEFRAG@cm"


def test_the_ad_counts_drains_and_cancellations(pool: DefragPool) -> None:
    (ad,) = defrag_ads(Named("pool", pool.world.clock // SECOND, None), pool.state.defrag, pool.state.settings).values()
    polls = list(pool.polls())
    drains = [drain.slot for poll in polls for drain in poll.drains]
    assert ad.eval("DrainSuccesses") == ad.eval("RecentDrainSuccesses") == len(drains) == 3
    assert [entry.eval("who") for entry in ad.eval("RecentDrainsList")] == drains[::-1]
    assert [entry.eval("what") for entry in ad.eval("RecentDrainsList")] == ["graceful"] * 3
    assert [entry.eval("who") for entry in ad.eval("RecentCancelsList")] == ["slot1@m2", "slot1@m1"]
    assert ad.eval("MachinesDraining") == polls[-1].draining
    assert ad.eval("MachinesDrainingPeak") == max(poll.draining for poll in polls)
    assert ad.eval("DaemonStartTime") == ad.eval("DaemonLastReconfigTime") == pool.events()[0].at // SECOND


def test_recent_statistics_cover_ten_intervals(pool: DefragPool) -> None:
    later = pool.world.clock // SECOND + 11 * 60
    (ad,) = defrag_ads(Named("pool", later, None), pool.state.defrag, pool.state.settings).values()
    assert (ad.eval("DrainSuccesses"), ad.eval("RecentDrainSuccesses")) == (3, 0)
    assert ad.eval("RecentStatsLifetime") == 600


def test_the_views_have_the_same_data_as_the_state_for_any_batch_size(pool: DefragPool) -> None:
    log = list(enumerate(pool.events(), 1))
    known = Views(folded(log)).defrag()
    assert known == (pool.state.defrag, pool.state.settings)
    assert Views(folded(log, [7, 20])).defrag() == known


def test_status_lists_the_ad_as_condor_status_does(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "-defrag", "-log", url]) == 0
    heading, _, row, *_ = capsys.readouterr().out.splitlines()
    real = (FOLDERS[0] / "status_defrag.txt").read_text().splitlines()
    assert heading.split() == real[0].split() == ["Name", "Draining", "Peak", "TotalDrained"]
    assert row.split()[0] == "DEFRAG@cm"
    assert main(["status", "-any", "-af", "MyType", "-log", url]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "Defrag"


def test_why_explains_the_drain_of_a_slot(pool: DefragPool) -> None:
    at = next(poll.at for poll in pool.polls() if poll.drains)
    answer = why(pool.log, "slot1@m1", at)
    assert any(
        "The defragmentation drained its machine, Graceful: it was number 1 of 2 by DEFRAG_RANK (1), with" in text
        for text in answer.texts
    )
    full = " ".join(sentence.full for sentence in answer.life)
    assert "0 draining and 0 whole machines; 2 could be drained, 1 at most" in full
    assert "DEFRAG_RANK = Cpus was 1, with TARGET.Cpus = 1" in full


def test_why_explains_the_cancellation_of_a_drain(pool: DefragPool) -> None:
    answer = why(pool.log, "slot1@m1")
    full = " ".join(sentence.full for sentence in answer.life)
    assert "The defragmentation canceled the drain of its machine: DEFRAG_CANCEL_REQUIREMENTS was true" in full
    assert "MY.Cpus = 1" in full


def test_why_explains_that_a_poll_drained_another_machine(pool: DefragPool) -> None:
    at = next(poll.at for poll in pool.polls() if poll.drains)
    text = " ".join(why(pool.log, "slot1@m2", at).texts)
    assert "The defragmentation did not drain its machine at " in text
    assert "drained: m1 (rank 1)" in text
    with pytest.raises(UnknownThingError):
        why(pool.log, "slot1@m3", at)


def test_why_reports_the_last_poll_for_a_large_job_that_waits() -> None:
    pool = DefragPool(INTERVAL=60, DRAINING_MACHINES_PER_HOUR=1)
    pool.machines("m1")
    pool.run(36_000)
    pool.run(10, cpus=4, user="bob")
    pool.run(10, cpus=40, user="bob")
    pool.advance(70)
    assert any(
        "the defragmentation found 0 draining and 0 whole machines" in text for text in why(pool.log, "2.0").texts
    )
    assert not any("defragmentation" in text for text in why(pool.log, "3.0").texts)  # no machine is that large


def test_the_log_has_a_line_for_each_poll(pool: DefragPool) -> None:
    lines = [line(member) for member in entries(pool.log, parse_filter("defrag"))]
    assert len(lines) == len(list(pool.polls())) == 4
    assert "canceled: m1" in lines[2]


def test_verify_rechecks_the_polls(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "-decisions", "-log", url]) == 0
    assert "and 4 polls of the defragmentation were repeated, with the same results" in capsys.readouterr().out


def test_a_job_evicted_by_a_drain_has_the_reason_in_its_ad(pool: DefragPool) -> None:
    pool = DefragPool(INTERVAL=60, DRAINING_MACHINES_PER_HOUR=60)
    pool.machines("m1")
    pool.run(36_000)
    pool.advance(70)
    ended = next(event for event in pool.events() if isinstance(event, e.JobExited))
    assert ended.changes["VacateReasonCode"] == "1014"  # DrainMachine
    assert fold(pool.log.read()).machines["m1"].badput == 60 == pool.state.machines["m1"].badput
    assert not isinstance(pool.handle(s.Drain(pool.id(), "root", "m1")).value, str)
