"""golden: the ads of container jobs and the errors are the same as in condor_submit (HTCondor 25.14)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from poolbook.domain.submit import SubmitError, dry_run, parse_submit

from ..together import together
from .fakes import FakeFiles, facts, recorded
from .test_recorded import parse_ads

RUNS = recorded("containers.json.gz")
BY_NAME = {case["name"]: case for case in RUNS["cases"]}
DIFFERENT = {
    "container sif quoted",  # in condor_submit the quotes become part of the image's name, which is not found
    "container docker quoted",
    "container docker colon alone",
    "container common",  # in condor_submit a catalog of common files transfers the image; here each job does
    "container images of each job and kind",  # in condor_submit later jobs keep the first job's WantDockerImage
    "docker override entrypoint yes",  # Poolbook accepts "yes" in all boolean commands
}
ACCEPTED = [case for case in RUNS["cases"] if case["rc"] == 0 and case["name"] not in DIFFERENT]
REJECTED = [case for case in RUNS["cases"] if case["rc"] != 0 and case["name"] not in DIFFERENT]


def job_ads(case: dict[str, Any]) -> list[dict[str, str]]:
    match = re.search(r"QDate = (\d+)", case["stdout"])
    settings = {"JOB_DEFAULT_REQUESTMEMORY": "100"}
    submit_facts = facts(now=int(match[1]) if match else 1, submit_file="x.sub", settings=settings)
    return parse_ads("".join(dry_run(parse_submit(case["submit"], submit_facts, FakeFiles(RUNS["files"])))))


@together("case", ACCEPTED)
def test_a_container_job_has_the_same_ad_as_from_condor_submit(case: dict[str, Any]) -> None:
    assert job_ads(case) == parse_ads(case["stdout"].partition(".\n")[2].partition(".\n")[2])


@together("case", REJECTED)
def test_an_invalid_container_job_is_rejected_with_condor_submit_s_message(case: dict[str, Any]) -> None:
    with pytest.raises(SubmitError) as error_info:
        job_ads(case)
    first_line = case["stderr"].replace("ERROR: ", "").strip().splitlines()[0]
    message = re.sub(r"'[^']*' is ", "it is ", first_line).rstrip(".")
    message = re.sub(" file .*", " file", message)
    rephrased = {"docker_override_entrypoint=maybe is invalid, must eval to a boolean": "this must eval to a boolean",
           "you specified files you want Condor to transfer via": "it needs should_transfer_files = YES"}  # fmt: skip
    assert rephrased.get(message.strip(), message) in str(error_info.value)
