"""The state machines as text: Markdown tables and Mermaid diagrams, drawn from the rows and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from poolbook.domain.state_machines.claim import CLAIM
from poolbook.domain.state_machines.dialects import HTCONDOR_25, MANUAL
from poolbook.domain.state_machines.drain import DRAIN
from poolbook.domain.state_machines.hold_codes import VACATE_CODES, ReasonCode
from poolbook.domain.state_machines.job_rows import LEFT, UNSUBMITTED
from poolbook.domain.state_machines.match import MATCH
from poolbook.domain.state_machines.rows import TransitionRow
from poolbook.domain.state_machines.slot_rows import INITIAL_PAIR, LETTERED, activity, state

from .. import markdown_tables
from ..policy import reach


def table(rows: Sequence[TransitionRow], number: str = "no.") -> str:
    """The rows as a Markdown table; a column of names or letters is left out where no row has one of its own."""
    lettered = any(row.letter and row.letter != row.number for row in rows)
    named = any(row.name != row.number for row in rows)
    heads = [number, *(["name"] if named else []), *(["letter"] if lettered else []), "from", "to", "cause", "place"]
    return markdown_tables.table(
        heads,
        [
            [
                row.number,
                *([row.name] if named else []),
                *([row.letter] if lettered else []),
                ", ".join(row.sources),
                " or ".join(row.targets),
                f"{row.cause} {row.when}".strip(),
                row.place,
            ]
            for row in rows
        ],
    )


def codes(some: Sequence[ReasonCode]) -> str:
    """The codes as a Markdown table."""
    return markdown_tables.table(
        ["code", "name", "why", "subcode"], [[str(code.number), code.name, code.meaning, code.subcode] for code in some]
    )


def statuses() -> str:
    """JobStatus by number; the dialect's own are marked."""
    manual = set(MANUAL.job_status_numbers)
    every = HTCONDOR_25.job_status_numbers
    lines = [[str(number), name, "both" if name in manual else HTCONDOR_25.name] for name, number in every.items()]
    return markdown_tables.table(["JobStatus", "status", "dialect"], lines)


def _arrows(rows: Sequence[TransitionRow], node: Callable[[str], str]) -> list[str]:
    """One arrow for each way from a state to another, with the numbers of its rows."""
    labels: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for step in row.steps:
            labels.setdefault(step, []).append(row.number)
    return [
        f'    {node(source)} -->|"{", ".join(numbers)}"| {node(target)}' for (source, target), numbers in labels.items()
    ]


def diagram(rows: Sequence[TransitionRow], *ends: str) -> str:
    """The rows as a Mermaid diagram. ``ends`` are the states that are drawn round: where a life begins and ends."""
    lines = ["```mermaid", "flowchart LR", *(f"    {end}(({end}))" for end in ends)]
    return "\n".join([*lines, *_arrows(rows, str), "```"])


def slot_diagram(rows: Sequence[TransitionRow]) -> str:
    """The rows of slots as a Mermaid diagram: a box for each state, with its activities within."""
    activities: dict[str, dict[str, None]] = {}
    for row in rows:
        for pair in (*row.sources, *row.targets):
            activities.setdefault(state(pair), {})[activity(pair)] = None

    def node(pair: str) -> str:
        return pair.replace("/", "_")

    lines = ["```mermaid", "flowchart LR", f"    born(( )) --> {node(INITIAL_PAIR)}"]
    for name, within in activities.items():
        if "" in within:  # no activity: the end of a dynamic slot
            lines.append(f"    {name}(({name}))")
            continue
        lines += [f"    subgraph {name}", *(f'    {name}_{act}["{act}"]' for act in within), "    end"]
    return "\n".join([*lines, *_arrows(rows, node), "```"])


def _differences(rows: Sequence[TransitionRow], manual: Sequence[TransitionRow]) -> list[TransitionRow]:
    return [row for row in rows if row not in manual]


def sections() -> dict[str, str]:
    """Name -> text of every section of docs/state-machines.md that is drawn from the tables."""
    return {
        "slot-lettered": table(LETTERED, "letter"),
        "slot-lettered-diagram": diagram(LETTERED),
        "slot-numbered": table(MANUAL.slot_rows),
        "slot-numbered-diagram": slot_diagram(MANUAL.slot_rows),
        "slot-htcondor-25": table(_differences(HTCONDOR_25.slot_rows, MANUAL.slot_rows)),
        "slot-htcondor-25-diagram": slot_diagram(HTCONDOR_25.slot_rows),
        "job-statuses": statuses(),
        "job": table(MANUAL.job_rows, "row"),
        "job-diagram": diagram(MANUAL.job_rows, UNSUBMITTED, LEFT),
        "job-htcondor-25": table(_differences(HTCONDOR_25.job_rows, MANUAL.job_rows), "row"),
        "vacate-codes": codes(list(VACATE_CODES.values())),
        "claim": table(CLAIM, "row"),
        "claim-diagram": diagram(CLAIM),
        "match": table(MATCH, "row"),
        "match-diagram": diagram(MATCH),
        "drain": table(DRAIN, "row"),
        "drain-diagram": diagram(DRAIN),
        "reach-manual": reach.table(MANUAL.name),
        "reach-htcondor-25": reach.table(HTCONDOR_25.name),
    }


def fill(page: str) -> str:
    """Return docs/state-machines.md with each of its sections drawn anew."""
    return markdown_tables.fill(page, sections())
