"""Golden: what the pool decides of stories that never change is what it decided when they were recorded."""

from __future__ import annotations

import pytest

from .decided import RECORDED, by_story, difference, stories

TOLD_ELSEWHERE = "policies"
"""Stories that ``tests/policy/test_rules.py`` tells, and compares with what was recorded."""


@pytest.mark.parametrize("name", [name for name in RECORDED if not name.startswith(TOLD_ELSEWHERE)])
def test_what_was_decided_is_decided_again(name: str) -> None:
    recorded, now = stories(name), by_story(RECORDED[name]())
    assert [*now] == [*recorded]
    assert not {story: found for story in now if (found := difference(recorded[story], now[story]))}
