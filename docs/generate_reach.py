"""Writes docs/reach.md anew: which transitions the tests reach through policy."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".path")]

from tests.policy.reach import PAGE, page  # noqa: E402

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
