"""Measure the periodic job policies: `python tests/bench/bench_job_policy.py [JOBS]`.

Each case evaluates the policies of many jobs once, and holds none, a tenth or all of them. It also measures the search
for the next time at which a policy may change its value. The CPU times are for decision and fold, without a disk.
"""

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

JOB_POLICIES = {
    "PeriodicHold": "JobStatus == 2 && time() - JobStartDate > 86400",
    "PeriodicRelease": "NumHolds < 3 && HoldReasonCode == 34",
    "PeriodicRemove": "time() - QDate > 7 * 86400 || (NumShadowStarts ?: 0) > 10",
}
SYSTEM_POLICIES = """
SYSTEM_PERIODIC_HOLD_NAMES = Memory Disk
SYSTEM_PERIODIC_HOLD_Memory = MemoryUsage > 2 * RequestMemory
SYSTEM_PERIODIC_HOLD_Disk = DiskUsage > 10000000
SYSTEM_PERIODIC_REMOVE = JobStatus == 5 && time() - EnteredCurrentStatus > 30 * 86400
"""
CASES: Sequence[tuple[str, str, Mapping[str, str], bool]] = (
    ("no policy", "", {}, False),
    ("three job policies, none holds", "", JOB_POLICIES, False),
    ("three job policies and four SYSTEM_PERIODIC policies, none holds", SYSTEM_POLICIES, JOB_POLICIES, False),
    (
        "the same, reading attributes that differ",
        SYSTEM_POLICIES,
        {**JOB_POLICIES, "PeriodicHold": "Size > 200000"},
        True,
    ),
    ("one job policy, holds a tenth", "", {"PeriodicHold": "Size % 10 == 0"}, True),
    ("one job policy, holds all", "", {"PeriodicHold": "QDate > 0"}, False),
)


def format_best(times: list[float]) -> str:
    return f"{min(times):.3f} s (of {len(times)})"


def main(jobs: int) -> None:
    for name, config, policy, sizes_differ in CASES:
        evaluation_times, search_times = [], []
        for _ in range(3):
            pool = PolicyPool(config)
            sizes = {"Size": [str(number) for number in range(jobs)]} if sizes_differ else {}
            pool.submit(count=jobs, columns=sizes, QDate="1800000000", Requirements="false", **policy)
            state, now = pool.engine.state, pool.engine.now()
            began = time.process_time()
            events = decide(state, s.EvaluateJobPolicies("pass", (1,)), now, Tables(dialect="htcondor-25"))
            evaluation_times.append(time.process_time() - began)
            began = time.process_time()
            waiting_change(state, state.clusters[1], now, context_at(state, now, UTC, Allowance()))
            search_times.append(time.process_time() - began)
        evaluation, search = format_best(evaluation_times), format_best(search_times)
        print(f"{jobs:,} jobs, {name}: {evaluation}, {len(events):,} events; next time: {search}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
