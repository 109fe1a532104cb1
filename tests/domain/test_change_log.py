"""Property: every reader of a log of changes sees each change once, whatever other readers do, or must look at
everything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.state.caches import ChangeLog


class ShortLog(ChangeLog[str]):
    MAX_LENGTH = 6


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sets(st.integers(0, 2)))))
def test_each_reader_sees_all_changes_since_its_last_read(steps: list[tuple[str, set[int]]]) -> None:
    log, cursors = ShortLog(), [0, 0, 0]
    missed: list[list[str]] = [[], [], []]
    for name, readers in steps:
        log.append(name)
        log.trim()
        for change in missed:
            change.append(name)
        for reader in readers:
            changes = log.since(cursors[reader])
            assert changes == dict.fromkeys(missed[reader]) or (
                changes is None and len(missed[reader]) > ShortLog.MAX_LENGTH // 2
            )
            cursors[reader], missed[reader] = log.total, []


@pytest.mark.parametrize(("cursor", "value"), [(-1, None), (3, None), (4, "efgh"), (8, "")])
def test_a_reader_too_far_behind_looks_at_everything(cursor: int, value: str | None) -> None:
    log = ShortLog()
    for name in "abcdefgh":
        log.append(name)
        log.trim()
    assert log.since(cursor) == (None if value is None else dict.fromkeys(value))
    assert log.total == 8
