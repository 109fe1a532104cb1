"""The slots' tables by dialect, and the way back from a transition to its row."""

from __future__ import annotations

from functools import cache
from typing import Final

from .rows import HTCONDOR_25, MANUAL, Row, check_dialect, states
from .slot_rows import NUMBERED, PAIRS
from .slot_rows_htcondor_25 import NUMBERED_HTCONDOR_25

SLOT_TABLES: Final[dict[str, tuple[Row, ...]]] = {MANUAL: NUMBERED, HTCONDOR_25: NUMBERED_HTCONDOR_25}
"""Dialect -> table."""

SLOT_PAIRS: Final[dict[str, tuple[str, ...]]] = {MANUAL: PAIRS, HTCONDOR_25: states(NUMBERED_HTCONDOR_25, *PAIRS)}
"""Dialect -> every pair in which a slot may be, those of the manual first."""


@cache
def _rows_by_step(dialect: str) -> dict[tuple[str, str], tuple[Row, ...]]:
    found: dict[tuple[str, str], tuple[Row, ...]] = {}
    for row in SLOT_TABLES[check_dialect(dialect)]:
        for step in row.steps:
            found[step] = (*found.get(step, ()), row)
    return found


def classify(dialect: str, source: str, target: str) -> tuple[Row, ...]:
    """The rows by which a slot may have gone from one pair to another: one, or none if the dialect does not allow it.

    Raises ``UnknownDialectError``.
    """
    return _rows_by_step(dialect).get((source, target), ())
