"""Print the counters of each workload per job. After an intended change of them, run
`python -m tests.counters > tests/data/counters.txt`."""

from __future__ import annotations

import tempfile
from collections import Counter

from tests.counters.counting import COUNTED, count
from tests.counters.workloads import WORKLOADS, Workload
from tests.peers.simulated import SimulatedPool

from poolbook import Pool


def run_workload(workload: Workload, folder: str) -> Counter[str]:
    """Run a workload in a new pool and return its counters, including the opening of the pool."""
    events = 0

    def work() -> None:
        nonlocal events
        with Pool.open(
            f"{folder}/pool.db", user="alice", uid_domain="example.org", dialect=workload.dialect,
            config=workload.config or None,
        ) as pool:  # fmt: skip
            workload.work(pool)
            assert not pool.jobs(), "the workload leaves jobs in the queue"
            events = pool.state.position

    counts = count(work)
    counts["events"] = events
    return counts


def run_roles_apart(jobs: int) -> Counter[str]:
    """Run jobs in a pool whose roles have separate logs, in memory: a manager, an access point, and four execution
    points. The commits are counted as fsyncs."""
    pools: list[SimulatedPool] = []

    def work() -> None:
        pool = SimulatedPool(execution_points=4, slots=4)
        pools.append(pool)
        pool.submit(jobs)
        pool.advance(300)
        assert not pool.ap().state.clusters, "the workload leaves jobs in the queue"

    counts = count(work)
    counts["events"] = sum(node.state.position for node in pools[0].nodes.values())
    return counts


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_workload(next(iter(WORKLOADS.values())), folder)  # excludes imports and compilation from the counters
    run_roles_apart(1)
    print(f"{'workload':<40} {'jobs':>5}", *(f"{name:>12}" for name in COUNTED))
    for name, workload in WORKLOADS.items():
        with tempfile.TemporaryDirectory() as folder:
            counts = run_workload(workload, folder)
        _print_row(name, workload.jobs, counts)
    _print_row("80 jobs on four execution points", 80, run_roles_apart(80))


def _print_row(name: str, jobs: int, counts: Counter[str]) -> None:
    print(f"{name:<40} {jobs:>5}", *(f"{counts[kind] / jobs:>12.3f}" for kind in COUNTED))


if __name__ == "__main__":
    main()
