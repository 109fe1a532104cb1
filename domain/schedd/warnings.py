"""What is said of a submission that does not meet submit requirements which only warn."""

from __future__ import annotations

from collections.abc import Sequence

from ..state_machines import dialect_named


def warnings_text(warnings: Sequence[str], dialect: str) -> str:
    """What the user is told of warnings, without the heading: the last one, as the manual has it; all of them, the last
    one first, as HTCondor 25 writes its stack of errors."""
    if not warnings:
        return ""
    if dialect_named(dialect).tells_last_warning_alone:
        return warnings[-1].rstrip("\n")
    return "|".join(f"QMGMT:0:{text}" for text in reversed(warnings))


def heading(dialect: str) -> str:
    """What stands before warnings."""
    plural = "" if dialect_named(dialect).tells_last_warning_alone else "(s)"
    return f"Committed job submission into the queue with the following warning{plural}:"
