"""Writes docs/coverage.md anew: what happens to every name of the five documents."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".path")]

from tests.coverage.page import PAGE, page  # noqa: E402

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
