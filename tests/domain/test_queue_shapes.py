"""Property: the cost of an event does not depend on the length of the queue, whatever its shape.

The test counts Python's calls, of Python functions and built-in ones, so that it does not depend on a clock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from poolbook import Pool
from poolbook.domain.events import Event, JobExited

SHORT, LONG = 24, 96
MOST = 1.15
"""How many times the calls of the short queue a long one may take."""
SLOTS, ENDS = 4, 8
JOB = {"executable": "/bin/sleep", "arguments": "60", "request_memory": "100", "request_disk": "1"}
ITEMS = "executable = /bin/sleep\narguments = 60\nrequest_memory = 100\nrequest_disk = 1\n"


def one_cluster(pool: Pool, size: int) -> None:
    pool.submit(JOB, count=size)


def clusters_of_one(pool: Pool, size: int) -> None:
    for _ in range(size):
        pool.submit(JOB)


def clusters_of_five(pool: Pool, size: int) -> None:
    for _ in range(size // 5):
        pool.submit(JOB, count=5)


def priorities_of_clusters(pool: Pool, size: int) -> None:
    for number in range(size):
        pool.submit({**JOB, "priority": number * 7919 % 1000})


def priorities_within_a_cluster(pool: Pool, size: int) -> None:
    values = "\n".join(str(number * 7919 % 1000) for number in range(size))
    pool.submit(f"{ITEMS}priority = $(p)\nqueue p from (\n{values}\n)\n")


def priorities_that_were_edited(pool: Pool, size: int) -> None:
    clusters_of_one(pool, size)
    for number in range(1, size + 1):
        pool.prio(f"{number}.0", value=number * 7919 % 1000)


def held_beside(pool: Pool, size: int) -> None:
    for _ in range(size):
        pool.submit({**JOB, "hold": True})
    pool.submit(JOB, count=2 * ENDS)


def another_submitter_beside(pool: Pool, size: int) -> None:
    pool.submit({**JOB, "request_memory": "1000000"}, count=size, user="bob")
    for _ in range(2 * ENDS):
        pool.submit(JOB)


def users_of_one_job(pool: Pool, size: int) -> None:
    for number in range(size):
        pool.submit(JOB, user=f"user{number}")


SHAPES = (
    one_cluster,
    clusters_of_one,
    clusters_of_five,
    priorities_of_clusters,
    priorities_within_a_cluster,
    priorities_that_were_edited,
    held_beside,
    another_submitter_beside,
    users_of_one_job,
)


def calls(run: Callable[[], object]) -> int:
    call_count = 0

    def count(frame: FrameType, shape: str, argument: object) -> None:
        nonlocal call_count
        call_count += shape in ("call", "c_call")

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return call_count


def ending(shape: Callable[[Pool, int], None], size: int) -> int:
    """Return the number of calls for some ends, after a first few."""
    with Pool.open(user="alice", uid_domain="example.org") as pool:
        shape(pool, size)
        pool.add_machine("m", cpus=SLOTS, static=SLOTS, memory=4000)
        ended_jobs = 0

        def follow(position: int, event: Event) -> None:
            nonlocal ended_jobs
            ended_jobs += isinstance(event, JobExited)

        def until(many: int) -> None:
            while ended_jobs < many:
                pool.advance(60)

        pool.subscribe(follow)
        until(SLOTS)
        before = ended_jobs
        return calls(lambda: until(before + ENDS))


@pytest.mark.parametrize("shape", SHAPES)
def test_an_end_costs_the_same_in_a_long_queue(shape: Callable[[Pool, int], None]) -> None:
    assert ending(shape, LONG) <= MOST * ending(shape, SHORT)


def test_a_submission_costs_the_same_in_a_long_queue() -> None:
    with Pool.open(user="alice", uid_domain="example.org") as pool:
        pool.add_machine("m", cpus=SLOTS, static=SLOTS, memory=4000)
        clusters_of_one(pool, SHORT)
        short = calls(lambda: clusters_of_one(pool, 10))
        clusters_of_one(pool, LONG)
        assert calls(lambda: clusters_of_one(pool, 10)) <= MOST * short
