"""Property: every reader of a log of changes sees each change once it happened, whoever else reads, or hears that it
has to look at everything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.state.caches import ChangeLog


class ShortLog(ChangeLog):
    KEPT = 6


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sets(st.integers(0, 2)))))
def test_each_reader_sees_all_changes_since_it_looked(steps: list[tuple[str, set[int]]]) -> None:
    log, cursors = ShortLog(), [0, 0, 0]
    missed: list[list[str]] = [[], [], []]
    for name, readers in steps:
        log.add(name)
        for mine in missed:
            mine.append(name)
        for reader in readers:
            seen = log.since(cursors[reader])
            assert seen == dict.fromkeys(missed[reader]) or (seen is None and len(missed[reader]) > ShortLog.KEPT // 2)
            cursors[reader], missed[reader] = log.count, []


@pytest.mark.parametrize("cursor", [-1, 3])
def test_who_is_too_far_behind_looks_at_everything(cursor: int) -> None:
    log = ShortLog()
    for name in "abcdefgh":
        log.add(name)
    assert (log.since(cursor) is None) == (cursor < 0)
    assert log.count == 8
