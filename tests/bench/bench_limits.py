"""Measure how much concurrency limits add to a negotiation cycle: 10,000 jobs, with five limits each and without.

    python -m tests.bench.bench_limits [--times 5]

Slots and jobs are as in bench_negotiation.py. Each number is the CPU time of the fastest of several cycles. Each
cycle has a separate process; cycles with and without limits alternate.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from typing import NamedTuple

from poolbook.adapters.stores.codec import CODEC
from poolbook.domain.decide import decide
from poolbook.domain.events import ClusterSubmitted, PoolConfigured
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.caches import Caches
from poolbook.domain.state.proc_ads import pack

from .bench_negotiation import (
    BEGAN,
    NEVER_TRUE_CLAUSE,
    REQUIREMENTS,
    SECOND,
    TABLES,
    add_jobs,
    add_slots,
    change_ads,
    count_matches,
    empty_pool,
)

SLOTS, JOBS = 20_000, 10_000
HEADER = (BEGAN + SECOND, "reconfigured", "bench")


class Case(NamedTuple):
    description: str
    kinds: int
    limits: str  #: ConcurrencyLimits of a job of kind {0}
    capacity: str  #: CONCURRENCY_LIMIT_DEFAULT


CASES = {
    "roomy": Case("limits that are not reached", 100, '"a,b,c:2,d,e:0.5"', "30000"),
    "reached": Case("limits that reject half of the jobs", 100, '"a,b,c:2,d,e:0.5"', "10000"),
    "sets": Case("1,000 kinds, each with five of 50 limits", 1000, '"set.a{0},set.b{1},set.c{2},set.d{3},x"', "100000"),
    "by slot": Case("an expression of the slot names one of 8", 100, 'strcat("a,b,c,d,of.n", TARGET.SlotID)', "30000"),
}


def measure(name: str, limited: bool) -> tuple[float, int]:
    case = CASES[name]
    state, caches = empty_pool(), Caches()
    add_slots(state, SLOTS)
    add_jobs(state, 1, 1, REQUIREMENTS + NEVER_TRUE_CLAUSE)
    decide(state, s.Negotiate("cycle-1"), BEGAN + 60 * SECOND, TABLES["htcondor-25"], caches=caches)
    change_ads(state, 2)
    evolve(state, PoolConfigured(*HEADER, {"CONCURRENCY_LIMIT_DEFAULT": case.capacity}))
    ad = {"Requirements": REQUIREMENTS, "RequestCpus": "1", "RequestDisk": "1024", "Rank": "0.0", "JobUniverse": "5"}
    ad |= {"JobPrio": "0", "Owner": '"user"', "User": '"user@example.org"'}
    kinds = [number * case.kinds // JOBS for number in range(JOBS)]
    columns = {"RequestMemory": [str(2048 + kind) for kind in kinds]}
    if limited and "{" in case.limits:
        limits = [
            case.limits.format(kind % 10, kind // 10 % 10, kind % 13 % 10, kind % 7) for kind in range(case.kinds)
        ]
        columns["ConcurrencyLimits"] = [limits[kind] for kind in kinds]
    elif limited:
        ad["ConcurrencyLimits"] = case.limits
    submitted = ClusterSubmitted(*HEADER, state.next_cluster, "user@example.org", ad, JOBS, pack(columns), "Idle")
    evolve(state, submitted)
    gc.collect()
    gc.disable()
    start = time.process_time()
    events = decide(state, s.Negotiate("cycle-2"), BEGAN + 120 * SECOND, TABLES["htcondor-25"], caches=caches)
    CODEC.encode(events)
    return time.process_time() - start, count_matches(events)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=5, metavar="N", help="cycles with and without limits (default 5)")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], options.one[1] == "limited")))
        return
    print(f"{SLOTS:,} slots, {JOBS:,} jobs               without       with  added   matches")
    for name, case in CASES.items():
        results: dict[str, list[tuple[float, int]]] = {"plain": [], "limited": []}
        for _ in range(options.times):
            for variant, values in results.items():
                command = [sys.executable, "-m", "tests.bench.bench_limits", "--one", name, variant]
                values.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        (plain, _), (limited, matches) = (min(values) for values in results.values())
        added = (limited / plain - 1) * 100
        print(f"{case.description:<38} {plain:8.3f} s {limited:8.3f} s {added:5.0f} % {matches:8,}")


if __name__ == "__main__":
    main()
