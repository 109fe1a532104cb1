"""The cost of a job's end does not grow with the number of idle jobs, whatever the queue looks like. The test counts
executed lines, which are the same on any machine; tests/bench/bench_shapes.py measures the time."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

from poolbook import Pool
from poolbook.domain.events import Event, JobExited
from poolbook.domain.ports.stimuli import Submit

FEW, MANY = 120, 600
SLOTS, ENDS = 8, 24
AD = {
    "Cmd": '"/bin/sleep"', "JobUniverse": "5", "JobPrio": "0", "Rank": "0.0", "RequestCpus": "1", "RequestMemory": "50",
    "RequestDisk": "1", "Requirements": "TARGET.Memory >= RequestMemory",
}  # fmt: skip
Groups = Iterator[tuple[int, str, dict[str, str]]]
"""Submissions: how many jobs, whose, and what differs from ``AD``."""


SHAPES: dict[str, Callable[[int], Groups]] = {
    "one cluster": lambda jobs: iter([(jobs, "alice", {})]),
    "clusters of one job": lambda jobs: ((1, "alice", {}) for _ in range(jobs)),
    "clusters of five jobs": lambda jobs: ((5, "alice", {}) for _ in range(jobs // 5)),
    "every priority": lambda jobs: ((1, "alice", {"JobPrio": str(-(n ^ 63))}) for n in range(jobs)),
    "fifty kinds": lambda jobs: ((1, "alice", {"RequestMemory": str(n % 50 + 1)}) for n in range(jobs)),
    "as many held beside": lambda jobs: iter([*[(1, "alice", {"JobStatus": "5"})] * jobs, (jobs, "alice", {})]),
    "users of one job": lambda jobs: ((1, f"user{n}", {}) for n in range(jobs)),
    "users of many jobs": lambda jobs: ((1, f"user{n % 20}", {}) for n in range(jobs)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_job_end_visits_nothing_that_grows_with_the_queue(shape: str) -> None:
    few, lines_with_many = (executed_lines(SHAPES[shape](jobs + 2 * ENDS)) for jobs in (FEW, MANY))
    walk = (MANY - FEW) // 4  # more than the logarithm of all jobs, less than a part of one walk along the queue
    assert {name: (few[name], count) for name, count in lines_with_many.items() if count > few[name] + walk} == {}


def executed_lines(groups: Groups) -> Counter[str]:
    """Run this many jobs to their ends; return how many lines of each function run for as many further ends. Each
    iteration of a loop counts its lines again."""
    counts: Counter[CodeType] = Counter()

    def count(frame: FrameType, measure: str, argument: Any) -> Any:
        counts[frame.f_code] += 1
        return count

    ended_jobs = 0

    def follow(position: int, event: Event) -> None:
        nonlocal ended_jobs
        ended_jobs += isinstance(event, JobExited)

    with Pool.open(user="alice", uid_domain="example.org") as pool:
        pool.add_machine("m", cpus=SLOTS, static=SLOTS, memory=SLOTS * 100)
        pool._engine.handle(
            [Submit(f"{n}", user, 0, {**AD, **group}, count, (), "") for n, (count, user, group) in enumerate(groups)]
        )
        pool.subscribe(follow)
        while ended_jobs < ENDS:
            pool.advance(60)
        before = sys.gettrace()
        sys.settrace(count)
        try:
            while ended_jobs < 2 * ENDS:
                pool.advance(60)
        finally:
            sys.settrace(before)
    return Counter({f"{code.co_filename}:{code.co_qualname}": number for code, number in counts.items()})
