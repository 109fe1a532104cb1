"""docs/holds.md, made from the table of hold codes."""

from __future__ import annotations

from pathlib import Path

from poolbook.domain.state_machines.hold_codes import HOLD_CODES, hold_advice

PAGE = Path(__file__).parent.parent.parent / "docs" / "holds.md"
HEAD = """# Why jobs are held

HoldReasonCode says why a job is held. `poolbook why JOB` prints the advice of this table with the job's own commands:
Poolbook's for its own jobs, HTCondor's for imported ones. `python docs/generate_holds.py` writes this page.

A job's owner and the queue's super users can release it. If it was held more often than SYSTEM_MAX_RELEASES says, only
super users can. `periodic_release` releases no job that is held with code 1 or 16.

| code | name | the job is held because | subcode | what can be done |
|---|---|---|---|---|
"""


def page() -> str:
    rows = (
        f"| {code.number} | {code.name} | {code.words} | {code.subcode} | "
        f"{hold_advice(str(code.number), 'condor', 'JOB')} |\n"
        for code in HOLD_CODES.values()
    )
    return HEAD + "".join(rows)
