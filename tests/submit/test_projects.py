"""golden: submit descriptions in the shapes that public projects write, as a real condor_submit makes their jobs."""

from __future__ import annotations

from typing import Any

from ..together import together
from .recording import Recording, known
from .world import DATA

PROJECTS = Recording("projects.json.gz")
CASES = {case["name"]: case for case in PROJECTS.cases if case["name"] != "first"}
ROWS = [line.split("\t") for line in (DATA / "projects.tsv").read_text().splitlines()[1:]]


@together("case", list(CASES.values()))
def test_a_projects_submit_description_becomes_the_jobs_that_condor_submit_makes(case: dict[str, Any]) -> None:
    assert PROJECTS.differences(case) == known(case)


def test_each_project_of_the_table_is_recorded() -> None:
    files = {path.stem: path.read_text() for path in (DATA / "projects").iterdir()}
    assert {name: case["submit"] for name, case in CASES.items()} == files
    assert {name: sorted(case.get("files", {})) for name, case in CASES.items()} == {
        name: sorted(lying.split()) for name, _, lying in ROWS
    }
