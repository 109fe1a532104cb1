"""Table: an attribute that no job has is named, with a similar one; one that is merely absent now is not."""

from __future__ import annotations

import pytest

from poolbook.adapters.cli.queries import warn_of_unknown_attributes
from poolbook.domain.classad import ClassAd, parse

JOBS = [ClassAd({"ClusterId": 1, "JobStatus": 1, "Owner": "alice"}), ClassAd({"ClusterId": 2, "Batch": "x"})]


@pytest.mark.parametrize(
    ("constraint", "jobs", "expected"),
    [
        ("JobStatuss == 1", JOBS, "no job has the attribute JobStatuss; did you mean JobStatus?"),
        ("MY.Ownr == \"bob\"", JOBS, "no job has the attribute Ownr; did you mean Owner?"),
        ("Xyzzy == 1", JOBS, "no job has the attribute Xyzzy"),
        ("JobStatus == 2 && batch == \"y\"", JOBS, ""),
        ("HoldReasonCode == 1", JOBS, ""),
        ("JobStatuss == 1", [], ""),
        ("true", JOBS, ""),
    ],
)  # fmt: skip
def test_an_attribute_that_no_job_has_is_named(
    constraint: str, jobs: list[ClassAd], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    warn_of_unknown_attributes("q", [parse(constraint)], jobs)
    assert capsys.readouterr().err == (f"poolbook q: {expected}\n" if expected else "")
