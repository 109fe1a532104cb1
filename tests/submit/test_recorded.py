"""golden: each attribute is the same as in the ads that condor_submit made of the same descriptions."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from poolbook.domain.classad import parse
from poolbook.domain.classad.old_form import printed_form
from poolbook.domain.submit import SubmitError, dry_run, parse_submit

from ..together import together
from .fakes import DATA, FakeFiles, facts, recorded

RUNS = recorded("dry-runs.json.gz")
ACCEPTED = [case for case in RUNS["cases"] if case["rc"] == 0 and "jobs queued" not in case["stderr"]]
REJECTED = [case for case in RUNS["cases"] if case not in ACCEPTED]
TRACES = recorded("trace-jobs.json.gz")

# Attributes that the pool changes after the submission.
CHANGED_BY_THE_POOL = {
    "CommittedSlotTime",
    "CommittedSuspensionTime",
    "CommittedTime",
    "CumulativeRemoteSysCpu",
    "CumulativeRemoteUserCpu",
    "CumulativeSlotTime",
    "CumulativeSuspensionTime",
    "CurrentHosts",
    "DiskUsage",
    "EnteredCurrentStatus",
    "ExecutableSize",
    "ExitBySignal",
    "ExitStatus",
    "HoldReason",
    "HoldReasonCode",
    "ImageSize",
    "JobPrio",
    "JobStatus",
    "LastSuspensionTime",
    "NumCkpts",
    "NumJobCompletions",
    "NumJobStarts",
    "NumRestarts",
    "NumSystemHolds",
    "Owner",
    "RemoteSysCpu",
    "RemoteUserCpu",
    "RemoteWallClockTime",
    "TotalSuspensions",
}


def parse_ads(text: str) -> list[dict[str, str]]:
    blocks = re.split(r"\n\n+", text.strip("\n"))
    return [dict(line.split(" = ", 1) for line in block.split("\n")) for block in blocks]


def run(case: dict[str, Any]) -> str:
    output = case["stdout"]
    submit_facts = facts(
        now=int(match[1]) if (match := re.search(r"QDate = (\d+)", output)) else 1,
        filesystem_domain=match[1] if (match := re.search(r'FileSystemDomain = "(.*)"', output)) else "vm",
        submit_file="x.sub",
        settings={"SCHEDD_INTERVAL": "5", "SUBMIT_PREVENT_MULTI_QUEUE": "true"},
    )
    return "".join(dry_run(parse_submit(case["submit"], submit_facts, FakeFiles(RUNS["files"]))))


@together("case", ACCEPTED)
def test_a_dry_run_has_the_same_output_as_in_condor_submit(case: dict[str, Any]) -> None:
    expected_ads = parse_ads(case["stdout"].partition(".\n")[2].partition(".\n")[2])
    our_ads = parse_ads(run(case))
    assert len(our_ads) == len(expected_ads)
    for ours, expected in zip(our_ads, expected_ads, strict=True):
        # An attribute that only some of the jobs have is undefined in the others.
        missing = dict.fromkeys(ours.keys() - expected.keys(), "undefined")
        if case["name"] == "varied streams" and expected["ProcId"] == "1":
            assert expected.pop("StreamErr") == "false"  # condor_submit keeps the first job's value
            missing["StreamErr"] = "undefined"
        assert ours == {**expected, **missing}
        assert len(missing) <= (1 if case["name"].startswith("varied") else 0)


@together("case", REJECTED)
def test_a_description_that_condor_submit_rejects_is_rejected(case: dict[str, Any]) -> None:
    with pytest.raises(SubmitError):
        run(case)


@together("case", TRACES)
def test_a_recorded_pool_s_jobs_have_the_attributes_of_their_descriptions(case: dict[str, Any]) -> None:
    for ad in case["ads"]:
        submit_facts = facts(
            now=int(ad["QDate"]),
            owner=case["user"],
            iwd=json.loads(ad["Iwd"]),
            submit_file=case["file"],
            cluster=int(ad["ClusterId"]),
            settings={"SCHEDD_INTERVAL": ad.get("ScheddInterval", "5")},
        )
        job_ad = parse_submit(case["submit"], submit_facts, FakeFiles()).ad_of(int(ad["ProcId"]))
        # A later run of a recurring job has another start time than the first.
        changed = CHANGED_BY_THE_POOL | ({"DeferralTime"} if "CronMinute" in ad else set())
        expected = {name: ad.get(name) for name in job_ad if name not in changed}
        assert {name: printed_form(text) for name, text in job_ad.items() if name in expected} == expected


@pytest.mark.parametrize(("name", "verbose"), [("submit_dryrun_full.txt", False), ("submit_verbose.txt", True)])
def test_a_minimal_description_has_the_captured_output(name: str, verbose: bool) -> None:
    captured = (DATA / name).read_text()
    submit_facts = facts(submit_file="min.sub", cluster=39 if verbose else 1)
    submission = parse_submit("executable = /bin/sleep\narguments = 1\nqueue\n", submit_facts, FakeFiles())
    (text,) = dry_run(submission, verbose=verbose)
    assert text.strip("\n") in captured


@together("case", ACCEPTED)
def test_every_text_of_an_ad_is_an_expression(case: dict[str, Any]) -> None:
    submission = parse_submit(case["submit"], facts(), FakeFiles(RUNS["files"]))
    for proc in range(submission.count):
        for text in submission.ad_of(proc).values():
            parse(text)
