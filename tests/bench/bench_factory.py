"""Measure the memory of a job factory, and how many jobs per second it materializes.

    python tests/bench/bench_factory.py [ITEMS] [JOBS]

The factory has ITEMS items (1,000,000) with different arguments, on a machine of 100 slots in virtual time. The script
prints the growth of its memory after the submission, and after JOBS jobs (100,000) have run. The log is a file.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time

from tests.domain.pools import JOB, MACHINE

from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.proc_ads import pack
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import Behaviour, VirtualWorld

SLOTS = 100


def memory_mib() -> float:
    """Return this process's memory in MiB."""
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def submission(items: int) -> s.Submit:
    columns = pack({"Args": [f'"input.{number}"' for number in range(items)]})
    ad = {name: text for name, text in JOB.items() if name != "Args"} | {"JobMaterializeMaxIdle": "100"}
    return s.Submit("submit", "alice", 0, ad, items, columns)


def main(items: int = 1_000_000, jobs: int = 100_000) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(
            open_log(os.path.join(folder, "pool.db"), create=True), VirtualWorld(lambda launch: Behaviour(60))
        )
        engine.handle([s.FoundPool("found", "pool", "manual", "example.org", "0", {})])
        slot = {"Cpus": "1", "Memory": "1024", "Disk": "100000"}
        plans = tuple(s.SlotPlan(f"slot{number}@h", "static", slot) for number in range(1, SLOTS + 1))
        engine.handle([s.AddMachine("machine", "h", MACHINE | {"Machine": '"h"'}, plans)])
        before = memory_mib()
        engine.handle([submission(items)])
        print(f"{items:,} items: {memory_mib() - before:.1f} MiB more than the {before:.1f} MiB of an empty pool")
        factory = engine.state.clusters[1].factory
        assert factory is not None
        began, world = time.process_time(), engine.world
        while factory.materialized < min(jobs, items):
            engine.step(world.now() + 3600 * SECOND)
        duration = time.process_time() - began
        jobs_run = factory.materialized
        print(f"{jobs_run:,} jobs run in {duration:.1f} s of CPU time: {jobs_run / duration:,.0f} per second")
        print(f"after that: {memory_mib() - before:.1f} MiB more than the empty pool")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
