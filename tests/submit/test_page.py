"""golden: the example of the page on submit descriptions prints what stands there."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_the_example_of_the_submit_page_prints_what_it_says() -> None:
    page = Path(__file__).parent.parent.parent / "docs" / "submit.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS, verbose=False)
    assert tried > 5
    assert failed == 0
