"""Chromium at the web page: it records every problem, and axe-core checks the accessibility."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

from playwright.sync_api import Browser, Locator, Page, sync_playwright

PATIENCE_MS = 120_000
DATA = Path(__file__).parent.parent / "data" / "page"
LIGHT, DARK, PHONE = "light", "dark", "phone"
MODES: dict[str, dict[str, Any]] = {
    LIGHT: {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    DARK: {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    PHONE: {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "has_touch": True},
}
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync")


@contextmanager
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium")
    assert program is not None, "the tests of the page need chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        yield browser
        browser.close()


class Visit:
    """A visit of the page at a URL, as a context manager. Its exit fails if the console had an error, a request went to
    another site, a response failed, or the content security policy was violated."""

    def __init__(self, browser: Browser, url: str, mode: str = LIGHT) -> None:
        self.url = url.rstrip("/")
        self._context = browser.new_context(**MODES[mode], timezone_id="UTC", locale="en-GB", reduced_motion="reduce")
        self._context.set_default_timeout(PATIENCE_MS)
        self.page: Page = self._context.new_page()
        self.problems: list[str] = []
        self.page.on("console", lambda message: self._note(message.type in ("error", "warning"), message.text))
        self.page.on("pageerror", lambda error: self._note(True, f"{error}"))
        self.page.on("request", lambda request: self._note(not self._is_ours(request.url), request.url))
        self.page.on("response", lambda answer: self._note(answer.status >= 400, f"{answer.status} {answer.url}"))

    def _is_ours(self, url: str) -> bool:
        return url.startswith((f"{self.url}/", "data:"))

    def _note(self, is_problem: bool, text: str) -> None:
        if is_problem:
            self.problems.append(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._context.close()
        if error is None:
            assert self.problems == []

    def open(self, path: str) -> Page:
        """Open a path of the page, and wait until it shows its data."""
        self.page.goto(f"{self.url}{path}")
        self.wait()
        return self.page

    def wait(self) -> None:
        """Wait until the page shows its data."""
        self.page.wait_for_selector("article:not([aria-busy]):not(.loading)")

    @property
    def sentence(self) -> str:
        """The sentence with which the page begins, without its hidden title."""
        title, text = self.page.locator("h1 > .hidden").text_content(), self.page.locator("h1").text_content()
        return (text or "").removeprefix(title or "")

    def rows(self, caption: str) -> list[list[str]]:
        """Return the texts of a table's visible rows."""
        table: Locator = self.page.get_by_role("table", name=caption, exact=True)
        script = (
            "body => [...body.querySelectorAll('tr[data-row]')].map(row => [...row.cells].map(cell => cell.innerText))"
        )
        rows: list[list[str]] = table.locator("tbody").evaluate(script)
        return rows

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        width: int = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return width

    def accessibility(self) -> list[str]:
        """Return the findings of axe-core by the rules of WCAG 2.2 AA and its best practices."""
        self.page.evaluate(_axe())
        rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        found = self.page.evaluate("rules => axe.run({runOnly: rules})", rules)
        return [
            f"{finding['id']}: {node['html'][:150]} {node['failureSummary'][:300]}"
            for finding in found["violations"]
            for node in finding["nodes"]
        ]


@cache
def _axe() -> str:
    return gzip.decompress((DATA / "axe.min.js.gz").read_bytes()).decode()
