"""Draws the tables of docs/execution-point.md anew from the rules of the owner's policy."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".path")]

from tests.policy.page import fill  # noqa: E402

PAGE = ROOT / "docs" / "execution-point.md"

if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
