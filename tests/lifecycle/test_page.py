"""Golden: docs/state-machines.md shows the rows that the code enforces."""

from pathlib import Path

import pytest

from poolbook.domain.state_machines.rows import make_row

from .diagrams import diagram, fill, slot_diagram, table

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "state-machines.md").read_text(encoding="utf-8")


def test_the_page_equals_the_drawn_tables() -> None:
    assert fill(PAGE) == PAGE, "docs/state-machines.md is out of date: run python docs/generate.py"


def test_filling_restores_drawn_parts_and_keeps_prose() -> None:
    assert fill(PAGE.replace("IS_OWNER is", "IS_OWNER was")) == PAGE
    assert fill(PAGE.replace("# State machines", "# Tables")) == PAGE.replace("# State machines", "# Tables")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<!-- drawn: claim -->", "", "claim"),
        ("<!-- drawn: claim -->", "<!-- drawn: klaim -->", "claim, klaim"),
        ("<!-- drawn: claim -->", "<!-- drawn: match -->", "claim, match"),
    ],
)
def test_a_page_without_a_place_for_each_section_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"each section once: see {message}$"):
        fill(PAGE.replace(old, new))


TWO_ROWS = [
    make_row("1", "Here/Idle", "There/Idle, There/Busy", "the place", "A cause.", "Busy if so."),
    make_row("2", "There/Busy", "Gone", "the place", "An end."),
]


def test_a_table_has_a_line_for_each_row_with_the_condition_of_each_target() -> None:
    assert table(TWO_ROWS).splitlines() == [
        "| no. | from | to | cause | place |",
        "| --- | --- | --- | --- | --- |",
        "| 1 | Here/Idle | There/Idle or There/Busy | A cause. Busy if so. | the place |",
        "| 2 | There/Busy | Gone | An end. | the place |",
    ]


def test_a_diagram_of_slots_has_a_box_for_each_state_and_an_arrow_for_each_step() -> None:
    assert slot_diagram(TWO_ROWS).splitlines() == [
        "```mermaid",
        "flowchart LR",
        "    born(( )) --> Owner_Idle",
        "    subgraph Here",
        '    Here_Idle["Idle"]',
        "    end",
        "    subgraph There",
        '    There_Idle["Idle"]',
        '    There_Busy["Busy"]',
        "    end",
        "    Gone((Gone))",
        '    Here_Idle -->|"1"| There_Idle',
        '    Here_Idle -->|"1"| There_Busy',
        '    There_Busy -->|"2"| Gone',
        "```",
    ]


def test_rows_with_the_same_source_and_target_share_an_arrow() -> None:
    rows = [make_row("go", "A", "B", "p", "c"), make_row("run", "A", "B", "p", "c")]
    assert diagram(rows, "B").splitlines() == [
        "```mermaid",
        "flowchart LR",
        "    B((B))",
        '    A -->|"go, run"| B',
        "```",
    ]
