"""Draws the tables of docs/log.md anew from the description of the views' tables."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".path")]

from tests.projections.page import fill  # noqa: E402

PAGE = ROOT / "docs" / "log.md"

if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
