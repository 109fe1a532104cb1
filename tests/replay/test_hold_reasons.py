"""Specification: the lines of `log` print a hold reason in full, or the beginning of a very long one."""

from __future__ import annotations

import pytest

from poolbook.domain.ports import stimuli as s
from poolbook.replay.listing.members import entries, line

from ..domain.pools import TestPool
from ..job_commands import job_command


@pytest.mark.parametrize(
    ("length", "shortened"), [(5, False), (101, False), (900, False), (5000, True)], ids=lambda value: str(value)
)
def test_log_prints_the_same_part_of_a_hold_reason_as_q_hold(length: int, shortened: bool) -> None:
    pool = TestPool()
    pool.submit(1)
    reason = "x" * length
    pool.handle(job_command(pool.id(), "alice", "hold", s.Selection(jobs=((1, 0),)), reason))
    text = "\n".join(line(entry) for entry in entries(pool.log))
    assert ("x" * min(length, 1000) in text, "x" * 1001 in text, "more characters)" in text) == (True, False, shortened)
