"""Measure long virtual times: a year of a ten-minute CronTab job, and 20 days of a busy pool.

    python tests/bench/bench_year.py [DAYS]
    python tests/bench/bench_year.py busy [DAYS [MACHINES]]

The CronTab job runs once a day, and then once an hour. The script prints runs, events in the log, and CPU seconds. The
busy pool has 1,000 machines with one partitionable slot of eight cores, and receives 25 jobs per machine and day. The
jobs run for one to eleven hours.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent.parent / ".path")]

from poolbook import Behaviour, Pool  # noqa: E402

DAY = 86400


def main(days: int) -> None:
    for name, schedule in (("per day", {"cron_minute": "0", "cron_hour": "4"}), ("per hour", {"cron_minute": "0"})):
        with Pool.open("memory:", user="alice", behave=lambda launch: Behaviour(seconds=600)) as pool:
            pool.add_machine("node1", cpus=1)
            pool.submit({"executable": "/bin/report", "on_exit_remove": "false", **schedule})
            began = time.process_time()
            pool.advance(days * DAY)
            duration = time.process_time() - began
            (job,) = pool.jobs()
            events = sum(1 for _ in pool.events())
        print(
            f"{days} days, one run {name}: {job['NumJobStarts']} runs, {events:,} events, {duration:.1f} s", flush=True
        )


def measure_busy_pool(days: int, machines: int) -> None:
    rng, hours = random.Random(1), days * 24
    job = {"executable": "/bin/work", "request_memory": "1 GB", "request_cpus": "1"}

    def behave(launch: object) -> Behaviour:
        return Behaviour(seconds=rng.randrange(3600, 11 * 3600))

    with Pool.open("memory:", user="alice", behave=behave) as pool:
        for number in range(machines):
            pool.add_machine(f"node{number}", cpus=8, memory="16 GB")
        began = time.process_time()
        for _ in range(hours):
            pool.submit(job, count=25 * machines // 24)
            pool.advance(3600)
        duration = time.process_time() - began
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
    jobs = hours * (25 * machines // 24)
    print(f"{days} days, {8 * machines:,} slots, {jobs:,} jobs: {duration:.1f} s, peak memory {memory} MB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["busy"]:
        measure_busy_pool(*map(int, (sys.argv[2:] + ["20", "1000"][len(sys.argv) - 2 :])))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 365)
