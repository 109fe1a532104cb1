"""What the end of a job costs, by the shape of the queue: one cluster, many, many users, many kinds, held jobs beside.

    python tests/bench/bench_shapes.py [JOBS] [SHAPE ...]

Each shape has as many jobs that run (5,000 unless it is said), each for a minute on one of 16 slots, in virtual time:
what is measured is what the pool decides and writes, and nothing else. Measured is the processor time of the process;
each shape has one of its own. "By one cluster": its time in that of the same jobs in one cluster. "Last": the rate of
the last thousand ends by that of the first. "Submit": a thousand submissions through ``Pool`` to a queue of so many
clusters, by the first thousand. Ends with 1 where an aim is missed.

    python tests/bench/bench_shapes.py -flat [MOST [SHAPE ...]]

The rate of a thousand ends while 1,000, 10,000, 100,000 jobs, and so on to MOST (1,000,000), wait behind them, by the
rate while a thousand do: each in a process of its own, with five hundred ends before what is measured. The first of
these is measured again before each, since a shared machine is not the same for long.
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
MOST, LEAST = 1.3, 0.9
AD = {
    "Cmd": '"/bin/sleep"', "Args": '"60"', "JobUniverse": "5", "JobPrio": "0", "Rank": "0.0", "RequestCpus": "1",
    "RequestMemory": "100", "RequestDisk": "1", "TransferExecutable": "false",
    "Requirements": "TARGET.Memory >= RequestMemory && TARGET.Disk >= RequestDisk",
}  # fmt: skip
Group = tuple[int, str, dict[str, str]]
"""A submission: how many jobs, whose, and what differs from ``AD``."""

SHAPES: dict[str, Callable[[int], Iterator[Group]]] = {
    "one cluster": lambda jobs: iter([(jobs, "alice", {})]),
    "clusters of one job": lambda jobs: ((1, "alice", {}) for _ in range(jobs)),
    "clusters of five jobs": lambda jobs: ((5, "alice", {}) for _ in range(jobs // 5)),
    "a thousand priorities": lambda jobs: ((1, "alice", {"JobPrio": str(n * 7919 % 1000)}) for n in range(jobs)),
    "every priority": lambda jobs: ((1, "alice", {"JobPrio": str(n * 7919 % jobs)}) for n in range(jobs)),
    "as many held beside": lambda jobs: iter([*[(1, "alice", {"JobStatus": "5"})] * jobs, (jobs, "alice", {})]),
    "a hundred kinds": lambda jobs: ((1, "alice", {"RequestMemory": str(n % 100 + 1)}) for n in range(jobs)),
    "a thousand kinds": lambda jobs: ((1, "alice", {"RequestMemory": str(n % 1000 + 1)}) for n in range(jobs)),
    "every kind": lambda jobs: (
        (1, "alice", {"Requirements": f"{AD['Requirements']} && {n} >= 0"}) for n in range(jobs)
    ),
    "users of one job": lambda jobs: ((1, f"user{n}", {}) for n in range(jobs)),
    "users of a hundred jobs": lambda jobs: ((1, f"user{n % (jobs // 100)}", {}) for n in range(jobs)),
}

FLAT = ["one cluster", "clusters of one job", "every priority", "a thousand kinds", "users of one job"]


def opened() -> Pool:
    pool = Pool.open(user="alice", uid_domain="example.org")
    pool.add_machine("m", cpus=SLOTS, static=SLOTS, memory=SLOTS * 2000)
    return pool


def ends(shape: str, jobs: int) -> tuple[float, float, float]:
    """Processor seconds for all ends, for the first thousand and for the last."""
    with opened() as pool:
        marks: list[float] = []

        def follow(position: int, event: Event) -> None:
            if isinstance(event, JobExited):
                marks.append(time.process_time())

        submissions = [
            Submit(f"{number}", user, 0, {**AD, **own}, count, (), "")
            for number, (count, user, own) in enumerate(SHAPES[shape](jobs))
        ]
        pool._engine.handle(submissions)
        pool.subscribe(follow)
        gc.collect()
        gc.freeze()
        began = time.process_time()
        while len(marks) < jobs:
            pool.advance(60)
        return marks[-1] - began, marks[THOUSAND - 1] - began, marks[-1] - marks[-THOUSAND - 1]


def deep(shape: str, waiting: int) -> float:
    """Processor seconds of a thousand ends while so many jobs wait behind them."""
    gc.disable()  # what is submitted stays: looking through it for cycles makes submissions slower and slower
    with opened() as pool:
        marks: list[float] = []
        for _, many in groupby(enumerate(SHAPES[shape](waiting + THOUSAND * 3 // 2)), lambda one: one[0] // 10_000):
            pool._engine.handle(
                [Submit(f"{n}", user, 0, {**AD, **own}, count, (), "") for n, (count, user, own) in many]
            )

        def follow(position: int, event: Event) -> None:
            if isinstance(event, JobExited):
                marks.append(time.process_time())

        pool.subscribe(follow)
        gc.freeze()
        gc.enable()
        while len(marks) < THOUSAND * 3 // 2:
            pool.advance(60)
        return marks[THOUSAND * 3 // 2 - 1] - marks[THOUSAND // 2 - 1]


def submissions(jobs: int) -> tuple[float, float]:
    """Processor seconds of the first thousand submissions of one job through ``Pool``, and of the last."""
    marks = [time.process_time()]
    with opened() as pool:
        for _ in range(jobs):
            pool.submit({"executable": "/bin/sleep", "arguments": "60"})
            marks.append(time.process_time())
    return marks[THOUSAND] - marks[0], marks[-1] - marks[-THOUSAND - 1]


def measured(*arguments: str) -> list[float]:
    """What this script measures in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["-measure"]:
        what, jobs = arguments[1], int(arguments[2])
        print(*(submissions(jobs) if what == "submit" else ends(what, jobs)))
        return 0
    if arguments[:1] == ["-deep"]:
        print(deep(arguments[1], int(arguments[2])))
        return 0
    if arguments[:1] == ["-flat"]:
        return flatness(int(arguments[1]) if arguments[1:] else 1_000_000, arguments[2:] or FLAT)
    jobs = int(arguments.pop(0)) if arguments and arguments[0].isdigit() else JOBS
    missed = 0
    print(f"{jobs:,} jobs{'':24} ends a second   by one cluster      last thousand by first", flush=True)
    one = 0.0
    for shape in dict.fromkeys(["one cluster", *(arguments or SHAPES)]):
        whole, first, last = measured("-measure", shape, str(jobs))
        one = one or whole
        ratio, rate = whole / one, first / last
        missed += ratio > MOST or rate < LEAST
        verdicts = [f"{ratio:8.2f} {_met(ratio <= MOST)}", f"{rate:8.2f} {_met(rate >= LEAST)}"]
        print(f"{shape:34} {jobs / whole:12,.0f}/s {'      '.join(verdicts)}", flush=True)
    first, last = measured("-measure", "submit", str(jobs))
    flat = last <= first / LEAST
    missed += not flat
    print(f"{'submit, one by one':34} {THOUSAND / first:12,.0f}/s {'':14}{first / last:14.2f} {_met(flat)}")
    return missed > 0


def flatness(most: int, shapes: list[str]) -> int:
    missed = 0
    for shape in shapes:
        waiting = 10 * THOUSAND
        while waiting <= most:
            least, many = (min(measured("-deep", shape, str(each)) for _ in range(2)) for each in (THOUSAND, waiting))
            missed += least[0] / many[0] < LEAST
            words = f"{waiting:>10,} wait {THOUSAND / many[0]:8,.0f} ends a second"
            print(
                f"{shape:24}{words}{least[0] / many[0]:8.2f} of a thousand's {_met(least[0] / many[0] >= LEAST)}",
                flush=True,
            )
            waiting *= 10
    return missed > 0


def _met(is_so: bool) -> str:
    return "met   " if is_so else "MISSED"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
