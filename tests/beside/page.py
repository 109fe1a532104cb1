"""The section of docs/fidelity.md that lists what the two pools say of the same jobs otherwise."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from .cases import cases
from .differences import ABSENT, STAYS, Known, known

PAGE = Path(__file__).parents[2] / "docs" / "fidelity.md"
HEAD = "## The same jobs in both pools"
TRACES = Path(__file__).parents[1] / "data" / "userlog" / "trace-differences.txt"


def _rows(table: list[Known]) -> str:
    return "".join(
        f"| {_text(whats)} | {why} | {'' if owner == STAYS else owner} |\n"
        for (owner, why), group in groupby(table, lambda row: (row.owner, row.why))
        for whats in [list(group)]
    )


def section() -> str:
    """The section, with its heading."""
    return f"""{HEAD}

{len(cases())} submit files (`tests/data/beside`) are run by a real pool and by one of ours, and people hold, vacate and
remove their jobs. The jobs' logs, ads and files are compared whole, but for instants, measurements and names. They
differ in this and nothing else; the last column names the subject with which a difference ends.

| what, in which jobs | why | until |
|---|---|---|
{_rows(known())}
What was done to real pools in the traces 12 (what the schedd allows), 13 (deferred jobs and policies) and 21
(factories) is done in virtual time with the same submit files and configuration: who is refused, the ads of the queue
and of the history, and the jobs' logs differ in the above, and besides in this (12-15: the trace, and the job's
cluster):

| what, in which jobs | why | until |
|---|---|---|
{_rows(known(TRACES))}"""


def _text(rows: list[Known]) -> str:
    return "; ".join(_row(row) for row in rows)


def _row(row: Known) -> str:
    names = ", ".join(f"`{what}`" if what != "*" else "all that follows" for what in row.whats)
    where = "" if row.jobs == ("*",) else f" in {', '.join(row.jobs)}"
    said = "" if "*" in row.there + row.here else f" ({_said(row.there)}, here {_said(row.here)})"
    return f"{names}{where}{'' if row.always else ', sometimes'}{said}"


def _said(text: str) -> str:
    return "nothing" if text == ABSENT else text
