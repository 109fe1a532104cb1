"""Writes docs/events.md anew: every kind of event, with its fields and their units."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".path")]

from tests.domain.events_page import PAGE, page  # noqa: E402

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
