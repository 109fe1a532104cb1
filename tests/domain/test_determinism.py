"""Property: a decision depends only on its arguments: the same story gives the same bytes under any PYTHONHASHSEED."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

STORY = """
import sys
sys.path[:0] = [{tests!r}]
import hashlib, msgspec
from tests.domain.test_enforcement import everything
for dialect in ("manual", "htcondor-25"):
    text = b"\\n".join(msgspec.json.encode(event) for event in everything(dialect).events())
    print(dialect, len(text), hashlib.sha256(text).hexdigest())
"""


def events_of_story(seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", STORY.format(tests=str(ROOT))],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / ".path")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_the_same_story_gives_the_same_events_under_any_hash_seed() -> None:
    first = events_of_story("0")
    assert first.count("\n") == 2
    assert events_of_story("4242") == first
