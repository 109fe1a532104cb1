"""Count events, calls and other operations of a workload. Unlike times, they are the same on every machine."""

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
_SYNC_FUNCTIONS: Final = (os.fsync, os.fdatasync)
_EVALUATIONS: Final = {
    scalar.evaluate.__code__,
    scalar.evaluate_in.__code__,
    columnar.Columnar.evaluate.__code__,
    next(c for c in scalar.evaluator_of_several.__code__.co_consts if getattr(c, "co_name", "") == "value_of"),
}


def count(work: Callable[[], None]) -> Counter[str]:
    """Run a function and return its counters.

    - ``transitions``: transitions of state machines
    - ``evaluations``: evaluations of whole expressions, for a slot or for a column of slots
    - ``statements``: SQLite statements; ``fsyncs``: commits, and files flushed to the disk
    - ``calls``: calls of the product's named functions; comprehensions and lambdas are excluded, because it depends on
      Python's version whether they are calls
    """
    counts: Counter[str] = Counter()
    kinds: dict[Any, tuple[str, ...]] = {}

    def kinds_of(code: Any) -> tuple[str, ...]:
        if not code.co_filename.startswith(PRODUCT) or code.co_filename.startswith(f"{PRODUCT}/tests/"):
            return ()
        calls = () if code.co_name.startswith("<") else ("calls",)
        special = ("transitions",) if code in _TRANSITIONS else ("evaluations",) if code in _EVALUATIONS else ()
        return calls + special

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            code = frame.f_code
            code_kinds = kinds.get(code)
            if code_kinds is None:
                code_kinds = kinds[code] = kinds_of(code)
            for kind in code_kinds:
                counts[kind] += 1
        elif event == "c_call" and argument in _SYNC_FUNCTIONS:
            counts["fsyncs"] += 1

    def count_statement(statement: str) -> None:
        if statement.startswith("--"):  # a statement of a trigger
            return
        counts["statements"] += 1
        counts["fsyncs"] += statement.lstrip().upper().startswith("COMMIT")

    connect = sqlite3.connect

    def connect_with_trace(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(count_statement)
        return connection

    old_profile = sys.getprofile()
    with patch("sqlite3.connect", connect_with_trace):
        sys.setprofile(profile)
        try:
            work()
        finally:
            sys.setprofile(old_profile)
    return counts
