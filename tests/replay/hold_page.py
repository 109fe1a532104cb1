"""The table of hold codes in docs/job-policy.md."""

from __future__ import annotations

from pathlib import Path

from poolbook.domain.state_machines.hold_codes import HOLD_CODES, hold_advice

from .. import markdown_tables

PAGE = Path(__file__).parent.parent.parent / "docs" / "job-policy.md"


def fill(page: str) -> str:
    """Return docs/job-policy.md with its table of hold codes regenerated."""
    rows = [
        (str(code.number), code.name, code.meaning, code.subcode, hold_advice(str(code.number), "condor", "JOB"))
        for code in HOLD_CODES.values()
    ]
    headings = ("code", "name", "the job is held because", "subcode", "what you can do")
    return markdown_tables.fill(page, {"hold-codes": markdown_tables.table(headings, rows)})
