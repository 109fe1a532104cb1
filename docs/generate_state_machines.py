"""Draws the tables and diagrams of docs/state-machines.md anew from the rows that the code enforces."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".path")]

from tests.lifecycle.diagrams import fill  # noqa: E402

PAGE = ROOT / "docs" / "state-machines.md"

if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
