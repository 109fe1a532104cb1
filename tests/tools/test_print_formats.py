"""Golden: -print-format prints what HTCondor's tools printed by the same files of the same ads.

Table: what a print format may not ask for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.adapters.condor_tools import history, queue_table, status
from poolbook.adapters.condor_tools.cells import FUNCTIONS, UNSUPPORTED
from poolbook.adapters.condor_tools.options import ToolError, UsageError
from poolbook.adapters.condor_tools.print_format import read_format

from ..together import together
from .captures import NOVEMBER_23, capture, printed, setting, whole

FORMATS = Path(__file__).resolve().parent.parent / "data" / "print_formats"


@pytest.fixture(autouse=True)
def _there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FORMATS)


@pytest.mark.parametrize(
    "name",
    [
        "q_pf_1", "q_pf_2", "q_pf_3", "q_pf_4", "q_pf_6", "q_pf_7", "q_pf_8", "q_pf_constraint", "q_pf_totals",
    ],
)  # fmt: skip
def test_the_queue_is_printed_by_the_format_of_a_file(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    real = capture(name)
    here = setting()._replace(now=NOVEMBER_23 + 50)
    out = printed(queue_table.render(whole("q_now_long"), queue_table.read(real.argv), here))
    assert (out, capsys.readouterr().err) == (real.out, real.err)


@pytest.mark.parametrize("name", ["status_pf_1", "status_pf_2"])
def test_slots_are_printed_by_the_format_of_a_file(name: str) -> None:
    real = capture(name)
    here = setting()._replace(now=NOVEMBER_23 + 52)
    assert printed(status.render(whole("status_now_long"), status.read(real.argv), here)) == real.out


def test_the_history_is_printed_by_the_format_of_a_file() -> None:
    real = capture("history_pf")
    here = setting()._replace(now=NOVEMBER_23 + 53)
    assert printed(history.render(whole("history_now_long"), history.read(real.argv), here)) == real.out


@pytest.mark.parametrize(("tool", "name"), [(queue_table, "q_pf_missing"), (status, "status_pf_missing")])
def test_a_file_that_cannot_be_read_is_told_as_by_the_real_one(tool: object, name: str) -> None:
    real = capture(name)
    with pytest.raises(ToolError) as refused:
        tool.read(real.argv)  # type: ignore[attr-defined]
    assert f"{refused.value}\n" == real.err


def test_rows_are_sorted_by_the_expressions_of_group_by(tmp_path: Path) -> None:
    (tmp_path / "f.cpf").write_text("SELECT BARE\n  ClusterId\nGROUP BY\n  RequestMemory\n")
    out = queue_table.render(whole("q_now_long"), queue_table.read(["-pr", str(tmp_path / "f.cpf")]), setting())
    assert [line.strip() for line in out] == ["3", "3", "4", "4", "2", "2", "2", "5"]


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
def test_what_a_format_may_not_ask_for_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_format(text, "f.cpf")
    assert why in str(refused.value)


def test_what_is_not_understood_is_told_in_the_words_of_the_tools() -> None:
    found = read_format("SELECT LOUD\n Owner OR x\n Cmd PRINTAS NOTHING\n", "f.cpf")
    assert found.complaints == (
        "Warning: Unknown header argument LOUD for SELECT",
        "Unknown argument x for OR",
        "Unknown argument NOTHING for PRINTAS",
    )


@together("function", sorted(FUNCTIONS))
def test_a_function_finds_nothing_in_an_ad_without_its_attributes_and_does_not_fail(function: str) -> None:
    from poolbook.domain.classad import UNDEFINED, ClassAd

    assert (FUNCTIONS[function].written(UNDEFINED, ClassAd(), setting()) or "").strip() == ""


def test_a_table_has_one_description_of_its_columns() -> None:
    with pytest.raises(UsageError, match="-pr defines all columns"):
        queue_table.read(["-pr", "q2.cpf", "-af", "Owner"])
