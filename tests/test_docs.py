"""What README and docs say is true: their examples run and print what stands there."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_examples_of_the_classad_page_print_what_it_says() -> None:
    page = ROOT / "docs" / "classads.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS, verbose=False)
    assert tried > 20
    assert failed == 0


def test_make_run_prints_what_the_readme_shows() -> None:
    printed = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "examples" / "match.py")],
        env={"PYTHONPATH": str(ROOT / ".path")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed in (ROOT / "README.md").read_text()


def test_the_readmes_program_gives_the_values_in_its_comments() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}
    setup, _, shown = program.partition("\n\nslot.eval")
    exec(setup, names)  # the README's own program
    lines = [line.split("#") for line in ("slot.eval" + shown).strip().split("\n")]
    assert len(lines) == 3
    for expression, value in lines:
        assert repr(eval(expression, names)) == value.strip()


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
