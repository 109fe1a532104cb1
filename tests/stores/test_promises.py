"""Golden: each promise of docs/log.md names the tests that verify it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "log.md").read_text(encoding="utf-8")
TESTS = {
    name
    for folder in ("stores", "golden", "attack", "projections")
    for path in (ROOT / "tests" / folder).glob("test_*.py")
    for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
}


def test_every_promise_is_numbered_and_names_existing_tests() -> None:
    promises = re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert [int(number) for number, _ in promises] == list(range(1, len(promises) + 1))
    assert len(promises) > 15
    for number, text in promises:
        assert "SHALL" in text, number
        assert re.findall(r"`(test_\w+)`", text), number
    assert set(re.findall(r"`(test_\w+)`", PAGE)) <= TESTS
