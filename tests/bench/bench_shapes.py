"""Measure the end of a job by the queue's shape: one cluster, many clusters, users or kinds of jobs, or held jobs.

    python tests/bench/bench_shapes.py [JOBS] [SHAPE ...]

In each shape, JOBS jobs (5,000) run for a minute each on one of 16 slots in virtual time, so only the pool's decisions
and its log are measured, as CPU time of a separate process. "Relative to one cluster" divides the shape's time by that
of the same jobs in one cluster. "Last / first thousand" compares the rates of the last and the first thousand ends.
"Submit" does so for single submissions through ``Pool``. The exit code is 1 if an aim is missed.

    python tests/bench/bench_shapes.py -flat [MOST [SHAPE ...]]

This measures the rate of a thousand ends while 10,000, 100,000 and so on up to MOST (1,000,000) other jobs wait,
relative to the rate while 1,000 wait. Each measurement has a separate process and starts after 500 ends. The rate with
1,000 waiting jobs is measured again each time, because a shared machine's speed changes.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent.parent / ".path")]

from poolbook import Pool  # noqa: E402
from poolbook.domain.events import Event, JobExited  # noqa: E402
from poolbook.domain.ports.stimuli import Submit  # noqa: E402

JOBS, SLOTS, THOUSAND = 5_000, 16, 1_000
MAX_TIME_RATIO, MIN_RATE_RATIO = 1.3, 0.9
AD = {
    "Cmd": '"/bin/sleep"', "Args": '"60"', "JobUniverse": "5", "JobPrio": "0", "Rank": "0.0", "RequestCpus": "1",
    "RequestMemory": "100", "RequestDisk": "1", "TransferExecutable": "false",
    "Requirements": "TARGET.Memory >= RequestMemory && TARGET.Disk >= RequestDisk",
}  # fmt: skip
Group = tuple[int, str, dict[str, str]]
"""A submission: the number of jobs, the user, and attributes that override ``AD``."""

SHAPES: dict[str, Callable[[int], Iterator[Group]]] = {
    "one cluster": lambda jobs: iter([(jobs, "alice", {})]),
    "clusters of one job": lambda jobs: ((1, "alice", {}) for _ in range(jobs)),
    "clusters of five jobs": lambda jobs: ((5, "alice", {}) for _ in range(jobs // 5)),
    "a thousand priorities": lambda jobs: ((1, "alice", {"JobPrio": str(n * 7919 % 1000)}) for n in range(jobs)),
    "every priority": lambda jobs: ((1, "alice", {"JobPrio": str(n * 7919 % jobs)}) for n in range(jobs)),
    "as many held jobs": lambda jobs: iter([*[(1, "alice", {"JobStatus": "5"})] * jobs, (jobs, "alice", {})]),
    "a hundred kinds": lambda jobs: ((1, "alice", {"RequestMemory": str(n % 100 + 1)}) for n in range(jobs)),
    "a thousand kinds": lambda jobs: ((1, "alice", {"RequestMemory": str(n % 1000 + 1)}) for n in range(jobs)),
    "every kind": lambda jobs: (
        (1, "alice", {"Requirements": f"{AD['Requirements']} && {n} >= 0"}) for n in range(jobs)
    ),
    "users of one job": lambda jobs: ((1, f"user{n}", {}) for n in range(jobs)),
    "users of a hundred jobs": lambda jobs: ((1, f"user{n % (jobs // 100)}", {}) for n in range(jobs)),
}

FLAT = ["one cluster", "clusters of one job", "every priority", "a thousand kinds", "users of one job"]


def open_pool() -> Pool:
    pool = Pool.open(user="alice", uid_domain="example.org")
    pool.add_machine("m", cpus=SLOTS, static=SLOTS, memory=SLOTS * 2000)
    return pool


def measure_ends(shape: str, jobs: int) -> tuple[float, float, float]:
    """Return the CPU seconds for all ends, for the first thousand and for the last thousand."""
    with open_pool() as pool:
        end_times: list[float] = []

        def record_run_end(position: int, event: Event) -> None:
            if isinstance(event, JobExited):
                end_times.append(time.process_time())

        measure_submissions = [
            Submit(f"{number}", user, 0, {**AD, **attributes}, count, (), "")
            for number, (count, user, attributes) in enumerate(SHAPES[shape](jobs))
        ]
        pool._engine.handle(measure_submissions)
        pool.subscribe(record_run_end)
        gc.collect()
        gc.freeze()
        began = time.process_time()
        while len(end_times) < jobs:
            pool.advance(60)
        return end_times[-1] - began, end_times[THOUSAND - 1] - began, end_times[-1] - end_times[-THOUSAND - 1]


def measure_ends_with_waiting_jobs(shape: str, waiting: int) -> float:
    """Return the CPU seconds of a thousand ends while ``waiting`` more jobs wait."""
    gc.disable()  # submissions are never garbage; searching them would take longer and longer
    with open_pool() as pool:
        end_times: list[float] = []
        groups = enumerate(SHAPES[shape](waiting + THOUSAND * 3 // 2))
        for _, batch in groupby(groups, lambda numbered: numbered[0] // 10_000):
            pool._engine.handle(
                [Submit(f"{n}", user, 0, {**AD, **attributes}, count, (), "") for n, (count, user, attributes) in batch]
            )

        def record_run_end(position: int, event: Event) -> None:
            if isinstance(event, JobExited):
                end_times.append(time.process_time())

        pool.subscribe(record_run_end)
        gc.freeze()
        gc.enable()
        while len(end_times) < THOUSAND * 3 // 2:
            pool.advance(60)
        return end_times[THOUSAND * 3 // 2 - 1] - end_times[THOUSAND // 2 - 1]


def measure_submissions(jobs: int) -> tuple[float, float]:
    """Return the CPU seconds of the first and the last thousand single submissions through ``Pool``."""
    submission_times = [time.process_time()]
    with open_pool() as pool:
        for _ in range(jobs):
            pool.submit({"executable": "/bin/sleep", "arguments": "60"})
            submission_times.append(time.process_time())
    return submission_times[THOUSAND] - submission_times[0], submission_times[-1] - submission_times[-THOUSAND - 1]


def run_separately(*arguments: str) -> list[float]:
    """Run this script in a separate process and return its measurements."""
    process = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return [float(word) for word in process.stdout.split()]


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["-measure"]:
        measurement, jobs = arguments[1], int(arguments[2])
        print(*(measure_submissions(jobs) if measurement == "submit" else measure_ends(measurement, jobs)))
        return 0
    if arguments[:1] == ["-deep"]:
        print(measure_ends_with_waiting_jobs(arguments[1], int(arguments[2])))
        return 0
    if arguments[:1] == ["-flat"]:
        return print_rates_by_waiting(int(arguments[1]) if arguments[1:] else 1_000_000, arguments[2:] or FLAT)
    jobs = int(arguments.pop(0)) if arguments and arguments[0].isdigit() else JOBS
    missed = 0
    print(f"{jobs:,} jobs{'':19} ends per second   relative to one cluster   last / first thousand", flush=True)
    one_cluster = 0.0
    for shape in dict.fromkeys(["one cluster", *(arguments or SHAPES)]):
        total, first, last = run_separately("-measure", shape, str(jobs))
        one_cluster = one_cluster or total
        ratio, rate = total / one_cluster, first / last
        missed += ratio > MAX_TIME_RATIO or rate < MIN_RATE_RATIO
        verdicts = [
            f"{ratio:8.2f} {verdict(ratio <= MAX_TIME_RATIO)}",
            f"{rate:8.2f} {verdict(rate >= MIN_RATE_RATIO)}",
        ]
        print(f"{shape:34} {jobs / total:12,.0f}/s {'      '.join(verdicts)}", flush=True)
    first, last = run_separately("-measure", "submit", str(jobs))
    flat = last <= first / MIN_RATE_RATIO
    missed += not flat
    print(f"{'submit, one by one':34} {THOUSAND / first:12,.0f}/s {'':14}{first / last:14.2f} {verdict(flat)}")
    return missed > 0


def print_rates_by_waiting(max_waiting: int, shapes: list[str]) -> int:
    missed = 0
    for shape in shapes:
        waiting = 10 * THOUSAND
        while waiting <= max_waiting:
            few, many = (
                min(run_separately("-deep", shape, str(count))[0] for _ in range(2)) for count in (THOUSAND, waiting)
            )
            missed += few / many < MIN_RATE_RATIO
            print(
                f"{shape:24}{waiting:>10,} wait {THOUSAND / many:8,.0f} ends per second {few / many:8.2f} of the rate"
                f" with 1,000 waiting  {verdict(few / many >= MIN_RATE_RATIO)}",
                flush=True,
            )
            waiting *= 10
    return missed > 0


def verdict(is_met: bool) -> str:
    return "met   " if is_met else "MISSED"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
