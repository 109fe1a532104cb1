"""The state machines as text: Markdown tables and Mermaid diagrams, drawn only from the rows."""

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
    """Return the rows as a Markdown table; omit a column of names or letters in which no row has a separate one."""
    has_letters = any(row.letter and row.letter != row.number for row in rows)
    has_names = any(row.name != row.number for row in rows)
    headings = [
        number,
        *(["name"] if has_names else []),
        *(["letter"] if has_letters else []),
        "from",
        "to",
        "cause",
        "place",
    ]
    return markdown_tables.table(
        headings,
        [
            [
                row.number,
                *([row.name] if has_names else []),
                *([row.letter] if has_letters else []),
                ", ".join(row.sources),
                " or ".join(row.targets),
                f"{row.cause} {row.when}".strip(),
                row.reference,
            ]
            for row in rows
        ],
    )


def code_table(listed_codes: Sequence[ReasonCode]) -> str:
    """Return the codes as a Markdown table."""
    return markdown_tables.table(
        ["code", "name", "why", "subcode"],
        [[str(code.number), code.name, code.meaning, code.subcode] for code in listed_codes],
    )


def status_table() -> str:
    """Return JobStatus by number; the dialect's own statuses are marked."""
    manual = set(MANUAL.job_status_numbers)
    numbers = HTCONDOR_25.job_status_numbers
    lines = [[str(number), name, "both" if name in manual else HTCONDOR_25.name] for name, number in numbers.items()]
    return markdown_tables.table(["JobStatus", "status", "dialect"], lines)


def _arrows(rows: Sequence[TransitionRow], node: Callable[[str], str]) -> list[str]:
    """Yield one arrow for each pair of states, with the numbers of its rows."""
    labels: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for step in row.steps:
            labels.setdefault(step, []).append(row.number)
    return [
        f'    {node(source)} -->|"{", ".join(numbers)}"| {node(target)}' for (source, target), numbers in labels.items()
    ]


def diagram(rows: Sequence[TransitionRow], *ends: str) -> str:
    """Return the rows as a Mermaid diagram. ``ends`` are the states drawn as circles: where a life begins and ends."""
    lines = ["```mermaid", "flowchart LR", *(f"    {end}(({end}))" for end in ends)]
    return "\n".join([*lines, *_arrows(rows, str), "```"])


def slot_diagram(rows: Sequence[TransitionRow]) -> str:
    """Return the rows of slots as a Mermaid diagram: a box for each state, with its activities inside."""
    activities: dict[str, dict[str, None]] = {}
    for row in rows:
        for pair in (*row.sources, *row.targets):
            activities.setdefault(state(pair), {})[activity(pair)] = None

    def node(pair: str) -> str:
        return pair.replace("/", "_")

    lines = ["```mermaid", "flowchart LR", f"    born(( )) --> {node(INITIAL_PAIR)}"]
    for name, activity_names in activities.items():
        if "" in activity_names:  # no activity: the end of a dynamic slot
            lines.append(f"    {name}(({name}))")
            continue
        lines += [f"    subgraph {name}", *(f'    {name}_{act}["{act}"]' for act in activity_names), "    end"]
    return "\n".join([*lines, *_arrows(rows, node), "```"])


def _differences(rows: Sequence[TransitionRow], manual: Sequence[TransitionRow]) -> list[TransitionRow]:
    return [row for row in rows if row not in manual]


def sections() -> dict[str, str]:
    """Return name -> text of every section of docs/state-machines.md that is drawn from the tables."""
    return {
        "slot-lettered": table(LETTERED, "letter"),
        "slot-lettered-diagram": diagram(LETTERED),
        "slot-numbered": table(MANUAL.slot_rows),
        "slot-numbered-diagram": slot_diagram(MANUAL.slot_rows),
        "slot-htcondor-25": table(_differences(HTCONDOR_25.slot_rows, MANUAL.slot_rows)),
        "slot-htcondor-25-diagram": slot_diagram(HTCONDOR_25.slot_rows),
        "job-statuses": status_table(),
        "job": table(MANUAL.job_rows, "row"),
        "job-diagram": diagram(MANUAL.job_rows, UNSUBMITTED, LEFT),
        "job-htcondor-25": table(_differences(HTCONDOR_25.job_rows, MANUAL.job_rows), "row"),
        "vacate-codes": code_table(list(VACATE_CODES.values())),
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
    """Return docs/state-machines.md with each of its sections redrawn."""
    return markdown_tables.fill(page, sections())
