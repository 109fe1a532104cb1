"""Measure the CPU time of a defragmentation poll: `python tests/bench/bench_defrag.py [MACHINES]`.

Each machine has a partitionable slot of eight cores, and four dynamic slots that run jobs; ten machines are drained.
As in a running pool, an earlier poll has compiled the ads.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import process_time

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".path")]

from tests.defrag.pools import DefragPool  # noqa: E402

from poolbook.domain.classad import Context  # noqa: E402
from poolbook.domain.defrag.defrag_settings import policy_in_force  # noqa: E402
from poolbook.domain.defrag.poll import decide_poll  # noqa: E402
from poolbook.domain.ports import stimuli as s  # noqa: E402
from poolbook.domain.startd.public_ad import PublishedSlots  # noqa: E402
from poolbook.domain.state.caches import Caches  # noqa: E402

SECOND = 1_000_000


def measure(machines: int) -> tuple[float, float]:
    """Return the CPU seconds of a poll before any drain, and of one after each machine was drained once."""
    pool = DefragPool(INTERVAL=100_000, DRAINING_MACHINES_PER_HOUR=0, REQUIREMENTS="Cpus < TotalSlotCpus")
    names = [f"m{number}" for number in range(machines)]
    pool.machines(*names, cpus=8)
    pool.run(100_000, count=4 * machines, cpus=2)
    pool.advance(2)
    before = _time_poll(pool)
    for name in names:
        pool.handle(s.Drain(pool.id(), "root", name))
        pool.handle(s.CancelDrain(pool.id(), "root", name))
    pool.run(100_000, count=4 * machines, cpus=2, user="bob")
    pool.advance(10)
    return before, _time_poll(pool)


def _time_poll(pool: DefragPool) -> float:
    policy = policy_in_force({**pool.state.settings, "DEFRAG_DRAINING_MACHINES_PER_HOUR": "0.36"})
    assert policy is not None
    now = pool.world.clock
    context = Context(now=now // SECOND, seed=1)
    times, caches = [], Caches()
    for _ in range(3):
        began = process_time()
        decide_poll(pool.state, caches, PublishedSlots, lambda cause: (now, cause, "poll"), context, 0, policy)
        times.append(process_time() - began)
    return min(times)


if __name__ == "__main__":
    for count in map(int, sys.argv[1:] or ["100", "1000"]):
        first, later = measure(count)
        print(f"{count:>6} machines: {first:.3f} s; {later:.3f} s after each was drained once")
