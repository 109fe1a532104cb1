"""golden: the example in docs/submit.md prints the output on the page."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_the_example_on_the_submit_page_prints_its_output() -> None:
    page = Path(__file__).parent.parent.parent / "docs" / "submit.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS, verbose=False)
    assert tried > 5
    assert failed == 0
