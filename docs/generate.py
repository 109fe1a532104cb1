"""Generate the pages and sections of docs/ that come from the code: ``python docs/generate.py [PAGE ...]``.

Without a page, all but the tutorial and the pages tried/NAME: their commands run, which takes minutes.
"""

import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".path")]

from tests.audit import rules_page  # noqa: E402
from tests.beside import page as fidelity_page  # noqa: E402
from tests.coverage import page as coverage_page  # noqa: E402
from tests.coverage import tried  # noqa: E402
from tests.domain import events_page  # noqa: E402
from tests.exports import page as export_page  # noqa: E402
from tests.front.installed import environment, install, wheel  # noqa: E402
from tests.front.transcript import steps, type_steps, updated_page  # noqa: E402
from tests.lifecycle import diagrams  # noqa: E402
from tests.negotiation import settings_page  # noqa: E402
from tests.policy import page as policy_page  # noqa: E402
from tests.projections import page as views_page  # noqa: E402
from tests.replay import hold_page, why_page  # noqa: E402
from tests.tools import tools_page  # noqa: E402


def _fidelity(page: str) -> str:
    old = re.compile(rf"^{fidelity_page.HEAD}\n.*?(?=^## )", re.MULTILINE | re.DOTALL)
    return old.sub(lambda _: fidelity_page.section() + "\n", page)


def _tutorial(page: str) -> str:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name, "home")
        home.mkdir()
        commands = install(wheel(Path(name)), Path(name, "environment"))
        return updated_page(page, type_steps(steps(page), home, environment(commands, home)))


PAGES: Mapping[str, Callable[[str], str]] = {
    "configuration": settings_page.fill,
    "coverage": lambda page: coverage_page.page(),
    "events": lambda page: events_page.page(),
    "execution-point": policy_page.fill,
    "export": export_page.fill,
    "fidelity": _fidelity,
    "import": rules_page.fill,
    "job-policy": hold_page.fill,
    "log": views_page.fill,
    "state-machines": diagrams.fill,
    "tools": tools_page.fill,
    "tutorial": _tutorial,
    "why": why_page.fill,
    **{f"tried/{name}": tried.updated for name in tried.PAGES},
}


if __name__ == "__main__":
    for name in sys.argv[1:] or [name for name in PAGES if not name.startswith(("tried/", "tutorial"))]:
        path = ROOT / "docs" / f"{name}.md"
        path.write_text(PAGES[name](path.read_text(encoding="utf-8")), encoding="utf-8")
