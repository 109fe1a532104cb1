"""Count what a piece of work costs, in things that are the same on every machine: no clock is read."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final
from unittest.mock import patch

from poolbook.domain.classad import columnar, scalar
from poolbook.domain.state_machines.machine import StateMachine

COUNTED: Final = ("events", "transitions", "evaluations", "statements", "fsyncs", "calls")
"""The counters, in the order of the table's columns."""

PRODUCT: Final = str(Path(scalar.__file__).parents[2])
_TRANSITIONS: Final = {StateMachine.fire.__code__}
_FLUSHES: Final = (os.fsync, os.fdatasync)
_EVALUATIONS: Final = {
    scalar.evaluate.__code__,
    scalar.evaluate_in.__code__,
    columnar.Columnar.evaluate.__code__,
    next(c for c in scalar.evaluator_of_several.__code__.co_consts if getattr(c, "co_name", "") == "value_of"),
}


def count(work: Callable[[], None]) -> Counter[str]:
    """Do some work, and return how often it did what.

    - ``transitions``: transitions fired in a state machine
    - ``evaluations``: whole expressions evaluated, by slot or over a column of slots
    - ``statements``: statements run by SQLite; ``fsyncs``: commits, and files that are flushed to the disk
    - ``calls``: calls of the product's named functions; comprehensions and lambdas are left out, because Python's
      releases differ in whether they call
    """
    counts: Counter[str] = Counter()
    kinds: dict[Any, tuple[str, ...]] = {}

    def kinds_of(code: Any) -> tuple[str, ...]:
        if not code.co_filename.startswith(PRODUCT) or code.co_filename.startswith(f"{PRODUCT}/tests/"):
            return ()
        named = () if code.co_name.startswith("<") else ("calls",)
        special = ("transitions",) if code in _TRANSITIONS else ("evaluations",) if code in _EVALUATIONS else ()
        return named + special

    def called(frame: FrameType, what: str, argument: Any) -> None:
        if what == "call":
            code = frame.f_code
            found = kinds.get(code)
            if found is None:
                found = kinds[code] = kinds_of(code)
            for kind in found:
                counts[kind] += 1
        elif what == "c_call" and argument in _FLUSHES:
            counts["fsyncs"] += 1

    def ran(statement: str) -> None:
        if statement.startswith("--"):  # a trigger's own
            return
        counts["statements"] += 1
        counts["fsyncs"] += statement.lstrip().upper().startswith("COMMIT")

    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(ran)
        return connection

    before = sys.getprofile()
    with patch("sqlite3.connect", traced):
        sys.setprofile(called)
        try:
            work()
        finally:
            sys.setprofile(before)
    return counts
