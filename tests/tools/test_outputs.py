"""Golden: every capture of an HTCondor command is tested, or listed in docs/tools.md as not implemented."""

import ast
import re
from pathlib import Path

from . import tools_page
from .captures import DATA, index
from .tools_page import fill

HERE = Path(__file__).resolve().parent
PAGE = tools_page.PAGE.read_text(encoding="utf-8")


def section(heading: str) -> str:
    """Return a section of the page."""
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def first_cells(text: str) -> set[str]:
    """Return the names of captures in the first column of a section's tables."""
    rows = re.findall(r"^\| ([a-z0-9_, -]+) \|", text, re.MULTILINE)
    return {name for row in rows for name in row.split(", ")} - {"capture", "command", "---"}


def mentioned_captures() -> set[str]:
    """Return the captures that the other test modules name."""
    modules = [path for path in HERE.glob("test_*.py") if path != Path(__file__)]
    modules.append(HERE.parent / "pool" / "test_tools_of_running_jobs.py")
    texts = {
        node.value
        for path in modules
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return texts & set(index())


NOT_IMPLEMENTED = first_cells(section("Not implemented"))


def test_a_capture_is_tested_or_listed_on_the_page_as_not_implemented() -> None:
    tested = mentioned_captures()
    assert tested | NOT_IMPLEMENTED == set(index())
    assert tested & NOT_IMPLEMENTED == set()


def test_captures_that_differ_are_tested() -> None:
    different = first_cells(section("Differences from HTCondor"))
    assert len(different) > 15
    assert different <= mentioned_captures()


def test_only_tested_captures_are_copied() -> None:
    copied = {path.name.partition(".")[0] for path in DATA.glob("*.txt*")}
    assert copied == set(index()) - NOT_IMPLEMENTED


def test_the_page_counts_the_captures() -> None:
    assert f"{len(index())} captures" in PAGE.replace("\n", " ")


def test_the_page_lists_every_option_that_is_rejected() -> None:
    assert fill(PAGE) == PAGE, "docs/tools.md is out of date: run python docs/generate.py"
