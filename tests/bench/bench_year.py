"""Measure a year of a ten-minute CronTab job in virtual time: `python tests/bench/bench_year.py [DAYS]`.

The job runs once a day, and then once an hour. The script prints runs, events in the log, and CPU seconds.
"""

from __future__ import annotations

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


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 365)
