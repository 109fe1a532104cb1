"""Measures a year of a CronTab job of ten minutes in virtual time. `python tests/bench/bench_year.py [DAYS]`: with a
run a day, and with a run an hour; runs, events of the log, and seconds of a processor."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent.parent / ".path")]

from poolbook import Behaviour, Pool  # noqa: E402

DAY = 86400


def main(days: int) -> None:
    for name, schedule in (("a day", {"cron_minute": "0", "cron_hour": "4"}), ("an hour", {"cron_minute": "0"})):
        with Pool.open("memory:", user="alice", behave=lambda launch: Behaviour(seconds=600)) as pool:
            pool.add_machine("node1", cpus=1)
            pool.submit({"executable": "/bin/report", "on_exit_remove": "false", **schedule})
            began = time.process_time()
            pool.advance(days * DAY)
            took = time.process_time() - began
            (job,) = pool.jobs()
            events = sum(1 for _ in pool.events())
        print(f"{days} days, a run {name}: {job['NumJobStarts']} runs, {events:,} events, {took:.1f} s", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 365)
