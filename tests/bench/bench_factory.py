"""Factories: what a million items cost, and how many jobs a second go through one.

    python tests/bench/bench_factory.py [items] [jobs]

A factory of so many items (1,000,000), each with arguments of its own, on a machine of 100 slots in virtual time. The
memory is this process's: when nothing is submitted yet, when all items are, and when so many jobs (100,000) have run.
The log is a file.
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


def resident() -> float:
    """This process's memory in MiB."""
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def submitted(items: int) -> s.Submit:
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
        before = resident()
        engine.handle([submitted(items)])
        print(f"{items:,} items: {resident() - before:.1f} MiB more than the {before:.1f} MiB of an empty pool")
        factory = engine.state.clusters[1].factory
        assert factory is not None
        began, world = time.process_time(), engine.world
        while factory.made < min(jobs, items):
            engine.step(world.now() + 3600 * SECOND)
        took = time.process_time() - began
        print(
            f"{factory.made:,} jobs made and run in {took:.1f} s of processor time: {factory.made / took:,.0f} a second"
        )
        print(f"then: {resident() - before:.1f} MiB more than the empty pool")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
