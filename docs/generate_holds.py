"""Write docs/holds.md: why jobs are held, and what can be done, from the table that `why` reads."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".path")]

from tests.replay.hold_page import PAGE, page  # noqa: E402

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
