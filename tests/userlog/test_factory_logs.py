"""Golden: the logs of clusters with factories equal the real ones: those of trace 21, and one that was held, released
and removed (recorded with HTCondor 25.14.1)."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from poolbook.domain.ports import stimuli as s
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import Behaviour, VirtualWorld

from ..job_commands import job_command
from .pool import JOB, Pool, events_of

TRACE = Path(__file__).parents[1] / "data" / "traces" / "21-factory-limits" / "bob-job.log.gz"


def factory(pool: Pool, count: int, **limits: str) -> None:
    (answer,) = pool.ask(s.Submit(f"submit-{len(pool.happened)}", "alice", 0, {**JOB, **limits}, count, ()))
    assert not answer.refusal


def events_of_cluster(log: str, cluster: int) -> list[str]:
    """Return the events of a cluster, without sizes: the event of each process, and the cluster's own in full."""
    texts = []
    for event in events_of(log):
        number, event_cluster, proc, remainder = re.match(
            r"(\d+) \((\d+)\.(-?\d+)\.000\) \S+ \S+ (.*)", event, re.DOTALL
        ).groups()  # type: ignore[union-attr]
        if int(event_cluster) == cluster and number != "006":
            texts.append(f"{number} {re.sub('<[^>]*>', '', remainder)}" if proc == "-01" else f"{number} {int(proc)}")
    return texts


def test_the_factories_logs_of_the_trace_equal_the_real_ones() -> None:
    real_logs = gzip.decompress(TRACE.read_bytes()).decode()
    for cluster, count, limits in (
        (5, 5, {"JobMaterializeMaxIdle": "1"}),
        (6, 4, {"JobMaterializeLimit": "2"}),
    ):
        pool = Pool(VirtualWorld(lambda launch: Behaviour(3)))
        factory(pool, count, **limits)
        pool.machine("localhost", 1, Cpus="1", Memory="3013", Disk="9330075")
        pool.until(pool.engine.now() + 60 * SECOND)
        assert sorted(events_of_cluster(pool.log(), 1)) == sorted(events_of_cluster(real_logs, cluster))
        assert events_of_cluster(pool.log(), 1)[0].startswith("035 Cluster submitted from host:")
        assert (
            events_of_cluster(pool.log(), 1)[-1]
            == f"036 Cluster removed\n\tMaterialized {count} jobs from 0 items.\tComplete\n...\n"
        )


def test_the_log_of_a_held_released_and_removed_factory_equals_the_real_one() -> None:
    pool = Pool(VirtualWorld())
    factory(pool, 10, JobMaterializeMaxIdle="2")
    selection = s.Selection(clusters=(1,))
    for command in ("hold", "release", "remove"):
        pool.ask(job_command(command, "alice", command, selection))
    # recorded; there job 2 came between the releases
    assert events_of_cluster(pool.log(), 1) == [
        "035 Cluster submitted from host: \n...\n",
        "000 0",
        "000 1",
        "037 Job Materialization Paused\n\tvia condor_hold (by user alice)\n\tPauseCode 1\n\tHoldCode 1\n...\n",
        "012 0",
        "012 1",
        "038 Job Materialization Resumed\n\tvia condor_release (by user alice)\n...\n",
        "013 0",
        "013 1",
        "009 0",
        "009 1",
        "036 Cluster removed\n\tMaterialized 2 jobs from 0 items.\tIncomplete\n...\n",
    ]
