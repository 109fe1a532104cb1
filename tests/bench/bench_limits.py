"""What concurrency limits add to a negotiation cycle: 10,000 jobs with five limits each, and the same without.

    python -m tests.bench.bench_limits [--times 5]

Slots and jobs are those of bench_negotiation.py. Each figure is the least of so many cycles, each in a process of its
own, by processor time, with and without limits in turns.
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
    LAST_CLAUSE,
    NEVER,
    SECOND,
    TABLES,
    change,
    founded,
    matched,
    with_jobs,
    with_slots,
)

SLOTS, JOBS = 20_000, 10_000
WHY = (BEGAN + SECOND, "reconfigured", "bench")


class Case(NamedTuple):
    words: str
    kinds: int
    limits: str  #: what a job of kind {0} takes
    most: str  #: units that there are of each


CASES = {
    "roomy": Case("limits that are not reached", 100, '"a,b,c:2,d,e:0.5"', "30000"),
    "reached": Case("half of the jobs are refused", 100, '"a,b,c:2,d,e:0.5"', "10000"),
    "sets": Case("a thousand kinds, five of 50 limits each", 1000, '"set.a{0},set.b{1},set.c{2},set.d{3},x"', "100000"),
    "by slot": Case(
        "an expression that names one of 8 by the slot", 100, 'strcat("a,b,c,d,of.n", TARGET.SlotID)', "30000"
    ),
}


def measure(name: str, limited: bool) -> tuple[float, int]:
    case = CASES[name]
    state, caches = founded(), Caches()
    with_slots(state, SLOTS)
    with_jobs(state, 1, 1, LAST_CLAUSE + NEVER)
    decide(state, s.Negotiate("cycle-1"), BEGAN + 60 * SECOND, TABLES, caches=caches)
    change(state, 2)
    evolve(state, PoolConfigured(*WHY, {"CONCURRENCY_LIMIT_DEFAULT": case.most}))
    ad = {"Requirements": LAST_CLAUSE, "RequestCpus": "1", "RequestDisk": "1024", "Rank": "0.0", "JobUniverse": "5"}
    ad |= {"JobPrio": "0", "Owner": '"user"', "User": '"user@example.org"'}
    kind = [number * case.kinds // JOBS for number in range(JOBS)]
    columns = {"RequestMemory": [str(2048 + one) for one in kind]}
    if limited and "{" in case.limits:
        of = [case.limits.format(one % 10, one // 10 % 10, one % 13 % 10, one % 7) for one in range(case.kinds)]
        columns["ConcurrencyLimits"] = [of[one] for one in kind]
    elif limited:
        ad["ConcurrencyLimits"] = case.limits
    submitted = ClusterSubmitted(*WHY, state.next_cluster, "user@example.org", ad, JOBS, pack(columns), "Idle")
    evolve(state, submitted)
    gc.collect()
    gc.disable()
    start = time.process_time()
    events = decide(state, s.Negotiate("cycle-2"), BEGAN + 120 * SECOND, TABLES, caches=caches)
    CODEC.encode(events)
    return time.process_time() - start, matched(events)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--times", type=int, default=5)
    options.add_argument("--one", nargs=2)
    given = options.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], given.one[1] == "limited")))
        return
    print(f"{SLOTS:,} slots, {JOBS:,} jobs               without       with  added   matches")
    for name, case in CASES.items():
        found: dict[str, list[tuple[float, int]]] = {"plain": [], "limited": []}
        for _ in range(given.times):
            for which, values in found.items():
                command = [sys.executable, "-m", "tests.bench.bench_limits", "--one", name, which]
                values.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        (plain, _), (limited, matches) = (min(values) for values in found.values())
        added = (limited / plain - 1) * 100
        print(f"{case.words:<38} {plain:8.3f} s {limited:8.3f} s {added:5.0f} % {matches:8,}")


if __name__ == "__main__":
    main()
