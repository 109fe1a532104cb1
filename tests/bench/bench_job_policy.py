"""Measures the periodic policies: one pass over many jobs, of which none, all, or a tenth do anything, and finding out
when the time may change an answer. `python tests/bench/bench_job_policy.py [JOBS]`; what is decided and folded, without
a disk, in seconds of a processor."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent.parent / ".path"), str(Path(__file__).parent.parent.parent)]

from tests.schedd.policy_pool import PolicyPool  # noqa: E402

from poolbook.domain.classad.allowance import Allowance  # noqa: E402
from poolbook.domain.decide import Tables, decide  # noqa: E402
from poolbook.domain.decision.draft import context_at  # noqa: E402
from poolbook.domain.ports import stimuli as s  # noqa: E402
from poolbook.domain.schedd.policy_times import waiting_change  # noqa: E402

OWN = {
    "PeriodicHold": "JobStatus == 2 && time() - JobStartDate > 86400",
    "PeriodicRelease": "NumHolds < 3 && HoldReasonCode == 34",
    "PeriodicRemove": "time() - QDate > 7 * 86400 || (NumShadowStarts ?: 0) > 10",
}
SYSTEM = """
SYSTEM_PERIODIC_HOLD_NAMES = Memory Disk
SYSTEM_PERIODIC_HOLD_Memory = MemoryUsage > 2 * RequestMemory
SYSTEM_PERIODIC_HOLD_Disk = DiskUsage > 10000000
SYSTEM_PERIODIC_REMOVE = JobStatus == 5 && time() - EnteredCurrentStatus > 30 * 86400
"""
CASES: Sequence[tuple[str, str, Mapping[str, str], bool]] = (
    ("no policy", "", {}, False),
    ("three of their own, none holds", "", OWN, False),
    ("three of their own and four of the access point's, none holds", SYSTEM, OWN, False),
    ("the same, arguments that differ are read", SYSTEM, {**OWN, "PeriodicHold": "Size > 200000"}, True),
    ("one that holds a tenth of them", "", {"PeriodicHold": "Size % 10 == 0"}, True),
    ("one that holds all of them", "", {"PeriodicHold": "QDate > 0"}, False),
)


def best(times: list[float]) -> str:
    return f"{min(times):.3f} s (of {len(times)})"


def main(jobs: int) -> None:
    for name, config, policy, differ in CASES:
        passes, agendas = [], []
        for _ in range(3):
            pool = PolicyPool(config)
            sizes = {"Size": [str(number) for number in range(jobs)]} if differ else {}
            pool.submit(count=jobs, columns=sizes, QDate="1800000000", Requirements="false", **policy)
            state, now = pool.engine.state, pool.engine.now()
            began = time.process_time()
            events = decide(state, s.EvaluateJobPolicies("pass", (1,)), now, Tables(dialect="htcondor-25"))
            passes.append(time.process_time() - began)
            began = time.process_time()
            waiting_change(state, state.clusters[1], now, context_at(state, now, UTC, Allowance()))
            agendas.append(time.process_time() - began)
        print(f"a pass over {jobs:,} jobs, {name}: {best(passes)}, {len(events):,} events; when next: {best(agendas)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
