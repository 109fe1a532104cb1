"""The section of docs/fidelity.md that lists what the two pools say of the same jobs otherwise."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from .cases import cases
from .differences import ABSENT, STAYS, Known, known

PAGE = Path(__file__).parents[2] / "docs" / "fidelity.md"
HEAD = "## The same jobs in both pools"


def section() -> str:
    """The section, with its heading."""
    rows = [
        f"| {_text(whats)} | {why} | {'' if owner == STAYS else owner} |\n"
        for (owner, why), group in groupby(known(), lambda row: (row.owner, row.why))
        for whats in [list(group)]
    ]
    return f"""{HEAD}

{len(cases())} submit files (`tests/data/beside`) are run by a real pool and by one of ours, and people hold, vacate and
remove their jobs. The jobs' logs, ads and files are compared whole, but for instants, measurements and names. They
differ in this and nothing else; the last column names the subject with which a difference ends.

| what, in which jobs | why | until |
|---|---|---|
{"".join(rows)}"""


def _text(rows: list[Known]) -> str:
    return "; ".join(_row(row) for row in rows)


def _row(row: Known) -> str:
    names = ", ".join(f"`{what}`" if what != "*" else "all that follows" for what in row.whats)
    where = "" if row.jobs == ("*",) else f" in {', '.join(row.jobs)}"
    said = "" if "*" in row.there + row.here else f" ({_said(row.there)}, here {_said(row.here)})"
    return f"{names}{where}{'' if row.always else ', sometimes'}{said}"


def _said(text: str) -> str:
    return "nothing" if text == ABSENT else text
