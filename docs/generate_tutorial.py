"""Types docs/tutorial.md again, with Poolbook installed from its wheel, and writes what came into the page."""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".path")]

from tests.front.installed import environment, install, wheel  # noqa: E402
from tests.front.transcript import redrawn, steps, typed  # noqa: E402

PAGE = ROOT / "docs" / "tutorial.md"

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        home = Path(name, "home")
        home.mkdir()
        commands = install(wheel(Path(name)), Path(name, "environment"))
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(redrawn(page, typed(steps(page), home, environment(commands, home))), encoding="utf-8")
