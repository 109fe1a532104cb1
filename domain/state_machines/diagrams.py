"""The tables as text: Markdown tables and Mermaid diagrams, drawn from the rows and from nothing else.

docs/state-machines.md has a place for each section that ``sections`` draws, between two comments that name it;
``fill`` puts them there. A test fails while the page shows anything else than the rows say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .claim import CLAIM
from .dialects import HTCONDOR_25, MANUAL
from .drain import DRAIN
from .hold_codes import HOLD_CODES, VACATE_CODES, Code
from .job import JOB, JOB_HTCONDOR_25, LEFT, UNSUBMITTED
from .match import MATCH
from .rows import Row
from .slot_rows import BORN, LETTERED, NUMBERED, activity, state
from .slot_rows_htcondor_25 import NUMBERED_HTCONDOR_25

_SECTION = re.compile(r"(<!-- drawn: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(heads)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *lines))


def table(rows: Sequence[Row], number: str = "no.") -> str:
    """The rows as a Markdown table; the column of letters is left out where no row has a letter of its own."""
    lettered = any(row.letter and row.letter != row.number for row in rows)
    heads = [number, *(["letter"] if lettered else []), "from", "to", "cause", "place"]
    return _table(
        heads,
        [
            [
                row.number,
                *([row.letter] if lettered else []),
                ", ".join(row.sources),
                " or ".join(row.targets),
                f"{row.cause} {row.when}".strip(),
                row.place,
            ]
            for row in rows
        ],
    )


def codes(some: Sequence[Code]) -> str:
    """The codes as a Markdown table."""
    return _table(
        ["code", "name", "why", "subcode"], [[str(code.number), code.name, code.words, code.subcode] for code in some]
    )


def statuses() -> str:
    """JobStatus by number; the dialect's own are marked."""
    manual = set(MANUAL.job_status_numbers)
    every = HTCONDOR_25.job_status_numbers
    lines = [[str(number), name, "both" if name in manual else HTCONDOR_25.name] for name, number in every.items()]
    return _table(["JobStatus", "status", "dialect"], lines)


def _arrows(rows: Sequence[Row], node: Callable[[str], str]) -> list[str]:
    """One arrow for each way from a state to another, with the numbers of its rows."""
    labels: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for step in row.steps:
            labels.setdefault(step, []).append(row.number)
    return [
        f'    {node(source)} -->|"{", ".join(numbers)}"| {node(target)}' for (source, target), numbers in labels.items()
    ]


def diagram(rows: Sequence[Row], *ends: str) -> str:
    """The rows as a Mermaid diagram. ``ends`` are the states that are drawn round: where a life begins and ends."""
    lines = ["```mermaid", "flowchart LR", *(f"    {end}(({end}))" for end in ends)]
    return "\n".join([*lines, *_arrows(rows, str), "```"])


def slot_diagram(rows: Sequence[Row]) -> str:
    """The rows of slots as a Mermaid diagram: a box for each state, with its activities within."""
    activities: dict[str, dict[str, None]] = {}
    for row in rows:
        for pair in (*row.sources, *row.targets):
            activities.setdefault(state(pair), {})[activity(pair)] = None

    def node(pair: str) -> str:
        return pair.replace("/", "_")

    lines = ["```mermaid", "flowchart LR", f"    born(( )) --> {node(BORN)}"]
    for name, within in activities.items():
        if "" in within:  # no activity: the end of a dynamic slot
            lines.append(f"    {name}(({name}))")
            continue
        lines += [f"    subgraph {name}", *(f'    {name}_{act}["{act}"]' for act in within), "    end"]
    return "\n".join([*lines, *_arrows(rows, node), "```"])


def _differences(rows: Sequence[Row], manual: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row not in manual]


def sections() -> dict[str, str]:
    """Name -> text of every section of docs/state-machines.md that is drawn from the tables."""
    return {
        "slot-lettered": table(LETTERED, "letter"),
        "slot-lettered-diagram": diagram(LETTERED),
        "slot-numbered": table(NUMBERED),
        "slot-numbered-diagram": slot_diagram(NUMBERED),
        "slot-htcondor-25": table(_differences(NUMBERED_HTCONDOR_25, NUMBERED)),
        "slot-htcondor-25-diagram": slot_diagram(NUMBERED_HTCONDOR_25),
        "job-statuses": statuses(),
        "job": table(JOB, "row"),
        "job-diagram": diagram(JOB, UNSUBMITTED, LEFT),
        "job-htcondor-25": table(_differences(JOB_HTCONDOR_25, JOB), "row"),
        "hold-codes": codes(list(HOLD_CODES.values())),
        "vacate-codes": codes(list(VACATE_CODES.values())),
        "claim": table(CLAIM, "row"),
        "claim-diagram": diagram(CLAIM),
        "match": table(MATCH, "row"),
        "match-diagram": diagram(MATCH),
        "drain": table(DRAIN, "row"),
        "drain-diagram": diagram(DRAIN),
    }


def fill(page: str) -> str:
    """The page with each of its sections drawn anew.

    Raises ValueError if the page lacks a section, has one twice, or names one that there is not.
    """
    drawn = sections()
    named = [found["name"] for found in _SECTION.finditer(page)]
    if sorted(named) != sorted(drawn):
        wrong = sorted({name for name in (*named, *drawn) if named.count(name) != 1 or name not in drawn})
        raise ValueError(f"the page should have each section once: see {', '.join(wrong)}")
    return _SECTION.sub(lambda found: f"{found[1]}\n{drawn[found['name']]}\n\n{found[3]}", page)
