"""golden: the ads that condor_submit makes of jobs in containers, and what it refuses in its words (HTCondor 25.14)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from poolbook.domain.submit import SubmitError, dry_run, parse_submit

from ..together import together
from .test_recorded import ads
from .world import Disk, facts, recorded

RUNS = recorded("containers.json.gz")
BY_NAME = {case["name"]: case for case in RUNS["cases"]}
OTHERWISE = {
    "container sif quoted",  # there the quotes become a part of the image's name, and no such file is found
    "container docker quoted",
    "container docker colon alone",
    "container common",  # there a catalog of common files brings the image; here it comes with each job
    "container images of each job and kind",  # there the first job's WantDockerImage stays in all later ones
    "docker override entrypoint yes",  # a word for true here, as of all such commands
}
GOOD = [case for case in RUNS["cases"] if case["rc"] == 0 and case["name"] not in OTHERWISE]
REFUSED = [case for case in RUNS["cases"] if case["rc"] != 0 and case["name"] not in OTHERWISE]


def made(case: dict[str, Any]) -> list[dict[str, str]]:
    found = re.search(r"QDate = (\d+)", case["stdout"])
    asked = facts(now=int(found[1]) if found else 1, submit_file="x.sub", settings={"JOB_DEFAULT_REQUESTMEMORY": "100"})
    return ads("".join(dry_run(parse_submit(case["submit"], asked, Disk(RUNS["files"])))))


@together("case", GOOD)
def test_a_job_in_a_container_has_the_ad_that_condor_submit_gives_it(case: dict[str, Any]) -> None:
    assert made(case) == ads(case["stdout"].partition(".\n")[2].partition(".\n")[2])


@together("case", REFUSED)
def test_what_condor_submit_refuses_of_a_container_is_refused_in_its_words(case: dict[str, Any]) -> None:
    with pytest.raises(SubmitError) as refused:
        made(case)
    words = re.sub(r"'[^']*' is ", "it is ", case["stderr"].replace("ERROR: ", "").strip().splitlines()[0]).rstrip(".")
    words = re.sub(" file .*", " file", words)
    own = {"docker_override_entrypoint=maybe is invalid, must eval to a boolean": "this must eval to a boolean",
           "you specified files you want Condor to transfer via": "it needs should_transfer_files = YES"}  # fmt: skip
    assert own.get(words.strip(), words) in str(refused.value)
