"""Which of many cases of one kind `make test` takes: always the same, spread evenly. `make soak` takes the others.

What each rule, row or kind of record has alone is named as `always`, so that a test of it is not left out."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

import pytest

ALL = sys.maxsize
Case = TypeVar("Case")


def spread(cases: Iterable[Case], most: int) -> list[Case]:
    """Return so many of the cases, or all if there are no more."""
    told = list(cases)
    taken = min(most, len(told))
    return [told[number * len(told) // taken] for number in range(taken)]


def some(cases: Iterable[Any], most: int, always: Collection[Any] = ()) -> list[Any]:
    """Return all cases for ``pytest.mark.parametrize``, marked `soak` but for `most` of them and those of `always`."""
    told = list(cases)
    assert all(case in told for case in always), "a case that is always taken is one of the cases"
    kept = {number * len(told) // min(most, len(told)) for number in range(min(most, len(told)))}
    return [case if number in kept or case in always else marked(case) for number, case in enumerate(told)]


def marked(case: Any) -> Any:
    """One case, or a tuple of values, for the soak alone."""
    values: Sequence[Any] = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.soak)


def thorough(few: int) -> list[Any]:
    """Values of a parameter that says how many cases a test takes: `few`, and all of them in the soak."""
    return [few, marked(ALL)]
