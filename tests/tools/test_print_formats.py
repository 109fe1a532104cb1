"""Golden: -print-format and HTCondor's tools print the same for the same files and ads. Table: invalid formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.adapters.condor_tools import history, queue_table, status
from poolbook.adapters.condor_tools.cells import FUNCTIONS, UNSUPPORTED
from poolbook.adapters.condor_tools.options import ToolError, UsageError
from poolbook.adapters.condor_tools.print_format import read_format

from ..together import together
from .captures import NOVEMBER_23, capture, captured_ads, printed, surroundings_at

FORMATS = Path(__file__).resolve().parent.parent / "data" / "print_formats"


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FORMATS)


@pytest.mark.parametrize(
    "name",
    [
        "q_pf_1", "q_pf_2", "q_pf_3", "q_pf_4", "q_pf_6", "q_pf_7", "q_pf_8", "q_pf_constraint", "q_pf_totals",
    ],
)  # fmt: skip
def test_the_queue_is_printed_in_the_format_of_a_file(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = capture(name)
    surroundings = surroundings_at()._replace(now=NOVEMBER_23 + 50)
    output = printed(
        queue_table.render(captured_ads("q_now_long"), queue_table.parse_arguments(expected.argv), surroundings)
    )
    assert (output, capsys.readouterr().err) == (expected.out, expected.err)


@pytest.mark.parametrize("name", ["status_pf_1", "status_pf_2"])
def test_slots_are_printed_in_the_format_of_a_file(name: str) -> None:
    expected = capture(name)
    surroundings = surroundings_at()._replace(now=NOVEMBER_23 + 52)
    assert (
        printed(status.render(captured_ads("status_now_long"), status.parse_arguments(expected.argv), surroundings))
        == expected.out
    )


def test_the_history_is_printed_in_the_format_of_a_file() -> None:
    expected = capture("history_pf")
    surroundings = surroundings_at()._replace(now=NOVEMBER_23 + 53)
    assert (
        printed(history.render(captured_ads("history_now_long"), history.parse_arguments(expected.argv), surroundings))
        == expected.out
    )


@pytest.mark.parametrize(("tool", "name"), [(queue_table, "q_pf_missing"), (status, "status_pf_missing")])
def test_an_unreadable_file_is_reported_as_by_htcondor(tool: object, name: str) -> None:
    expected = capture(name)
    with pytest.raises(ToolError) as error:
        tool.parse_arguments(expected.argv)  # type: ignore[attr-defined]
    assert f"{error.value}\n" == expected.err


def test_rows_are_sorted_by_the_expressions_of_group_by(tmp_path: Path) -> None:
    (tmp_path / "f.cpf").write_text("SELECT BARE\n  ClusterId\nGROUP BY\n  RequestMemory\n")
    output = queue_table.render(
        captured_ads("q_now_long"), queue_table.parse_arguments(["-pr", str(tmp_path / "f.cpf")]), surroundings_at()
    )
    assert [line.strip() for line in output] == ["3", "3", "4", "4", "2", "2", "2", "5"]


@together(
    ("text", "why"),
    [
        ("SELECT UNIQUE\n Owner\n", "f.cpf: SELECT UNIQUE is not supported: "),
        ("SELECT FROM AUTOCLUSTER\n Owner\n", "f.cpf: SELECT FROM is not supported: "),
        ("SELECT\n Owner\nJOIN x\n", "f.cpf: JOIN is not supported: "),
        ("SELECT\n Owner\nSUMMARY\n Owner\n", "f.cpf: columns under SUMMARY are not supported: "),
        ("SELECT\n this is no format\n", "f.cpf: not a valid expression: "),
        ("SELECT\n Owner\nWHERE 1 +\n", "f.cpf: not a valid expression: "),
        *((f"SELECT\n Owner PRINTAS {name}\n", f"PRINTAS {name} is not supported: {UNSUPPORTED[name]}")
          for name in UNSUPPORTED),
    ],
)  # fmt: skip
def test_an_unsupported_format_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError) as error:
        read_format(text, "f.cpf")
    assert why in str(error.value)


def test_invalid_lines_are_reported_with_htcondors_messages() -> None:
    print_format = read_format("SELECT LOUD\n Owner OR x\n Cmd PRINTAS NOTHING\n", "f.cpf")
    assert print_format.complaints == (
        "Warning: Unknown header argument LOUD for SELECT",
        "Unknown argument x for OR",
        "Unknown argument NOTHING for PRINTAS",
    )


@together("function", sorted(FUNCTIONS))
def test_a_function_gives_an_empty_value_for_an_ad_without_its_attributes(function: str) -> None:
    from poolbook.domain.classad import UNDEFINED, ClassAd

    assert (FUNCTIONS[function].written(UNDEFINED, ClassAd(), surroundings_at()) or "").strip() == ""


def test_a_table_has_one_description_of_its_columns() -> None:
    with pytest.raises(UsageError, match="-pr defines all columns"):
        queue_table.parse_arguments(["-pr", "q2.cpf", "-af", "Owner"])
