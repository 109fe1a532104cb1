"""The section of docs/fidelity.md on the same jobs in Poolbook and in HTCondor."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from .cases import cases
from .differences import ABSENT, Known, known

PAGE = Path(__file__).parents[2] / "docs" / "fidelity.md"
HEAD = "## The same jobs in both pools"
TRACES = Path(__file__).parents[1] / "data" / "userlog" / "trace-differences.txt"


def _rows(table: list[Known]) -> str:
    return "".join(
        f"| {_text(whats)} | {why} |\n" for why, group in groupby(table, lambda row: row.why) for whats in [list(group)]
    )


def section() -> str:
    """Return the section, with its heading."""
    return f"""{HEAD}

Tests run {len(cases())} submit files (`tests/data/beside`) in an HTCondor pool and in Poolbook, and hold, vacate
and remove their jobs. They compare the jobs' event logs, ads and files completely, except for times, measurements
and names. These are all differences:

| difference (in which jobs) | reason |
|---|---|
{_rows(known())}
The actions of the recordings 12 (what the schedd allows), 13 (deferred jobs and policies) and 21 (factories) are
repeated in virtual time, with the same submit files and configuration. Rejections, the ads of queue and history, and
event logs have the differences above and these (12-15 means the recording and the job's cluster):

| difference (in which jobs) | reason |
|---|---|
{_rows(known(TRACES))}"""


def _text(rows: list[Known]) -> str:
    return "; ".join(_row(row) for row in rows)


def _row(row: Known) -> str:
    names = ", ".join(f"`{what}`" if what != "*" else "everything" for what in row.whats)
    where = "" if row.jobs == ("*",) else f" in {', '.join(row.jobs)}"
    said = "" if "*" in row.there + row.here else f" (HTCondor: {_said(row.there)}, Poolbook: {_said(row.here)})"
    return f"{names}{where}{'' if row.always else ', sometimes'}{said}"


def _said(text: str) -> str:
    return "nothing" if text == ABSENT else text
