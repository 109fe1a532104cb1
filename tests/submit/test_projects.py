"""golden: submit descriptions of public projects have the same job ads as from condor_submit."""

from __future__ import annotations

from typing import Any

from ..together import together
from .fakes import DATA
from .recording import Recording, known_differences

PROJECTS = Recording("projects.json.gz")
CASES = {case["name"]: case for case in PROJECTS.cases if case["name"] != "first"}
ROWS = [line.split("\t") for line in (DATA / "projects.tsv").read_text().splitlines()[1:]]


@together("case", list(CASES.values()))
def test_a_project_s_submit_description_has_the_same_jobs_as_in_condor_submit(case: dict[str, Any]) -> None:
    assert PROJECTS.differences(case) == known_differences(case)


def test_each_project_in_the_table_is_recorded() -> None:
    files = {path.stem: path.read_text() for path in (DATA / "projects").iterdir()}
    assert {name: case["submit"] for name, case in CASES.items()} == files
    assert {name: sorted(case.get("files", {})) for name, case in CASES.items()} == {
        name: sorted(names.split()) for name, _, names in ROWS
    }
