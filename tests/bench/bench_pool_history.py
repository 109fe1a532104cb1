"""Measure the history files of KEEP_POOL_HISTORY in virtual time: their size, and the time per sample.

    python tests/bench/bench_pool_history.py [DAYS [SLOTS [USERS [MAX_STORAGE]]]]

By default a week of a pool with 1,000 slots and 50 users, with samples every 60 s and 100 MB for the files. Slots are
claimed for one to eleven hours, their load and the numbers of jobs vary. The script prints the bytes in the files, how
far back each data set reaches, and CPU seconds.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent.parent / ".path")]

from poolbook.adapters.metrics.history_files import HistoryFiles  # noqa: E402
from poolbook.projections.pool_history import (  # noqa: E402
    GROUPS,
    SLOTS,
    SUBMITTERS,
    USERS,
    PoolHistory,
    SlotSample,
    SubmitterSample,
    values_of,
)

DAY, INTERVAL, BEGAN = 86400, 60, 1_800_000_000
SETS = {"slots": SLOTS, "states": GROUPS, "users": USERS, "submitters": SUBMITTERS}


def slot_samples(count: int, seconds: int, rng: random.Random) -> Iterator[list[SlotSample]]:
    """Yield the slots at regular intervals. A slot changes when its job or its pause ends."""
    names = [f"slot1_{number % 16 + 1}@ep{number // 16:04d}.pool.example" for number in range(count)]
    slots = [SlotSample(name, "X86_64/LINUX", "Unclaimed", 0, 0.0) for name in names]
    ends = [0] * count
    for now in range(0, seconds, INTERVAL):
        for number, end in enumerate(ends):
            if end <= now:
                is_claimed = rng.random() < 0.9
                ends[number] = now + (rng.randrange(3600, 11 * 3600) if is_claimed else rng.randrange(60, 3600))
                state, load = ("Claimed", 0.9 + 0.2 * rng.random()) if is_claimed else ("Unclaimed", rng.random() / 50)
                slots[number] = SlotSample(names[number], "X86_64/LINUX", state, now + number, load)
        yield slots


def main(days: int = 7, slots: int = 1000, users: int = 50, storage: int = 100_000_000) -> None:
    rng, history = random.Random(1), PoolHistory()
    jobs = [SubmitterSample(f"user{number}@pool.example", "ap1.pool.example", 0, 0) for number in range(users)]
    with tempfile.TemporaryDirectory() as folder:
        files, spent, largest = HistoryFiles(Path(folder), storage), 0.0, 0
        for number, of_slots in enumerate(slot_samples(slots, days * DAY, rng)):
            user = rng.randrange(users)
            jobs[user] = jobs[user]._replace(running=rng.randrange(100), idle=rng.randrange(10_000))
            now, began = BEGAN + number * INTERVAL, time.process_time()
            files.append(history.sample(now, values_of(jobs, of_slots)))
            spent += time.process_time() - began
            if number % 1000 == 0:
                largest = max(largest, sum(path.stat().st_size for path in Path(folder).iterdir()))
        samples = number + 1
        began = time.process_time()
        entries = {name: files.entries(data_set, BEGAN, now) for name, data_set in SETS.items()}
        query = (time.process_time() - began) / len(SETS)
        largest = max(largest, sum(path.stat().st_size for path in Path(folder).iterdir()))
    print(f"{days} days, {slots:,} slots, {users} users, {samples:,} samples: {largest / 1e6:.1f} MB", flush=True)
    for name, of_set in entries.items():
        reach = (now - of_set[0].time) / DAY if of_set else 0
        times = sorted({entry.time for entry in of_set})
        step = (times[-1] - times[0]) / max(1, len(times) - 1) / 3600 if times else 0
        print(f"{name}: {reach:.1f} days back, every {step:.1f} h")
    print(f"per sample: {1000 * spent / samples:.2f} ms; query of the whole period: {query:.2f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
