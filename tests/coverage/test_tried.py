"""Golden: the pages docs/tried/*.md show how each implemented feature was tried; their commands are typed again."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ..front.transcript import Step, equal
from ..together import together
from .page import features, tried_page
from .tried import PAGES, Group, Section, groups, rows, steps_to_type, type_group, updated

GROUPS = [
    (name, group)
    for name, path in PAGES.items()
    for group in groups(path.read_text(encoding="utf-8"))
    if group.sections
]
SECTIONS = [(name, section) for name, group in GROUPS for section in group.sections]


@together("name", PAGES)
def test_a_page_has_the_name_of_a_document(name: str) -> None:
    assert list(rows(name))


@together(("page", "section"), SECTIONS)
def test_a_section_is_about_a_row_of_the_features(page: str, section: Section) -> None:
    assert section.row in dict(rows(page))


def test_every_implemented_feature_has_a_section() -> None:
    documents = {tried_page(feature.document).stem for feature in features()}
    implemented = [(name, row) for name in documents for row, feature in rows(name) if feature.status == "implemented"]
    tried_rows = [(page, section.row) for page, section in SECTIONS]
    assert len(implemented) > 200
    assert sorted(set(implemented) - set(tried_rows)) == []
    assert len(tried_rows) == len(set(tried_rows))


@together(("page", "section"), SECTIONS)
def test_a_section_shows_a_command_and_its_output(page: str, section: Section) -> None:
    assert any(step.came.strip() and not step.typed[0].startswith("cat ") for step in section.steps), section.row


@together(("page", "section"), SECTIONS)
def test_a_section_that_is_not_run_says_why(page: str, section: Section) -> None:
    assert section.not_run is None or len(section.not_run.split()) > 3


@pytest.mark.timeout(900)  # on a slow disk, managers take long to begin their logs
@pytest.mark.parametrize(
    ("page", "group"),
    [pytest.param(*case, id=f"{case[0]}-{case[1].name}") for case in GROUPS if case[1].is_typed_here],
)
def test_the_commands_of_a_group_print_what_the_page_shows(page: str, group: Group) -> None:
    with TemporaryDirectory() as folder:
        outputs = type_group(group, Path(folder))
        written = "".join(f"{path.name}:\n{path.read_text()}" for path in Path(folder).glob("home/*.out"))
    for step, output in zip(steps_to_type(group), outputs, strict=True):
        assert equal(step, output), (
            f"$ {step.typed[0]}\n{output}\nIf this is intended, run python docs/generate.py tried/{page}\n{written}"
        )


# Tests of the comparison


@together(
    ("typed", "shown", "output", "result"),
    [
        ("poolbook q", "1.0 runs\n", "2.0 runs\n", True),
        ("poolbook q", "1.0 runs\n", "1.0 waits\n", False),
        ("sleep 1; poolbook q -af JobStatus", "4\n", "2\n", False),
        ("sleep 1; poolbook history -af ProcId ExitCode | sort", "1 0\n", "1 1\n", False),
        ("poolbook q -af JobStatus QDate", "4 1799999999\n", "4 1800000000\n", True),
        ("poolbook play a | tail -1", "transitions: 6\n", "transitions: 6\n", True),
        ("poolbook play a | tail -1", "transitions: 6\n", "transitions: 7\n", False),
        ("poolbook play a", "...\ntransitions: 6\n", "0:10 slot1\ntransitions: 6\n", True),
    ],
)
def test_numbers_are_compared_where_they_are_the_same_each_time(
    typed: str, shown: str, output: str, result: bool
) -> None:
    assert equal(Step((typed,), shown), output) is result


def test_a_page_gets_the_new_output_of_the_sections_that_are_run() -> None:
    one, two = (
        "## A\n\n### H: f\n\n```console\n$ ls > a; ls\n{}```\n",
        "## B\n\n### H: `g`\n{}\n```console\n$ : poolbook play; ls; echo 7\n{}```\n",
    )
    wrong = one.format("b\n") + two.format("", "6\n")
    assert updated(wrong) == one.format("a\n") + two.format("", "7\n")
    not_run = two.format("\nNot run by the tests: it needs a file.\n", "c\n")
    assert updated(not_run) == not_run
    assert [(section.row, section.not_run) for group in groups(not_run) for section in group.sections] == [
        ("H: g", "it needs a file.")
    ]
