"""Which of many similar cases `make test` takes: always the same, spread evenly. `make soak` takes the others.

A rule, row or kind of record that only one case has is named in `always`, so that its case is not left out.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

import pytest

ALL = sys.maxsize
WHOLE_SOAK = 20_000
SOAK_EXAMPLES = int(os.environ.get("POOLBOOK_SOAK_EXAMPLES", WHOLE_SOAK))
"""How many examples a soak takes of a cheap property."""
SHARE = min(1.0, SOAK_EXAMPLES / WHOLE_SOAK)
"""Of the cases that are left to the soak, how many it takes."""
Case = TypeVar("Case")


def soak_examples(cost: int = 1) -> int:
    """Return how many examples a soak takes of a property whose examples cost this many times as much: at least one."""
    return max(1, SOAK_EXAMPLES // cost)


def soak_cases(count: int) -> int:
    """Return how many of a test's cases for the soak a soak runs: all, in a short one at least eight."""
    return min(count, max(8, math.ceil(count * SHARE)))


def examples(few: int, cost: int) -> int:
    """Return how many examples of a property to take in a test that is also part of `make test`: `few`, or more if
    POOLBOOK_SOAK_EXAMPLES asks for more."""
    return max(few, soak_examples(cost)) if "POOLBOOK_SOAK_EXAMPLES" in os.environ else few


def spread(cases: Iterable[Case], most: int) -> list[Case]:
    """Return this many of the cases, or all if there are no more."""
    all_cases = list(cases)
    count = min(most, len(all_cases))
    return [all_cases[number * len(all_cases) // count] for number in range(count)]


def some(cases: Iterable[Any], most: int, always: Collection[Any] = ()) -> list[Any]:
    """Return cases for ``pytest.mark.parametrize``: `most` of them and those in `always`, and the others marked `soak`.
    In a short soak, the latter are only a part."""
    all_cases = list(cases)
    assert all(case in all_cases for case in always), "a case that is always taken is one of the cases"
    kept_numbers = {
        *spread(range(len(all_cases)), most),
        *(number for number, case in enumerate(all_cases) if case in always),
    }
    other_numbers = [number for number in range(len(all_cases)) if number not in kept_numbers]
    soaked = {*spread(other_numbers, math.ceil(len(other_numbers) * SHARE))}
    return [
        case if number in kept_numbers else marked(case)
        for number, case in enumerate(all_cases)
        if number in kept_numbers or number in soaked
    ]


def marked(case: Any) -> Any:
    """Return one case, or a tuple of values, marked for the soak alone."""
    values: Sequence[Any] = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.soak)


def thorough(few: int) -> list[Any]:
    """Return values of a parameter for the number of cases in a test: `few`, and in the soak all, in a short one twice
    as many."""
    return [few, marked(ALL if SHARE == 1 else 2 * few)]
