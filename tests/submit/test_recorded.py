"""golden: the ads that condor_submit made of the same descriptions, attribute by attribute."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from poolbook.domain.classad import parse
from poolbook.domain.classad.old_form import printed
from poolbook.domain.submit import SubmitError, dry_run, parse_submit

from ..together import together
from .world import DATA, Disk, facts, recorded

RUNS = recorded("dry-runs.json.gz")
GOOD = [case for case in RUNS["cases"] if case["rc"] == 0 and "jobs queued" not in case["stderr"]]
REFUSED = [case for case in RUNS["cases"] if case not in GOOD]
TRACES = recorded("trace-jobs.json.gz")

# What the pool changes in a job's ad once it has it.
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


def ads(text: str) -> list[dict[str, str]]:
    blocks = re.split(r"\n\n+", text.strip("\n"))
    return [dict(line.split(" = ", 1) for line in block.split("\n")) for block in blocks]


def run(case: dict[str, Any]) -> str:
    real = case["stdout"]
    asked = facts(
        now=int(found[1]) if (found := re.search(r"QDate = (\d+)", real)) else 1,
        filesystem_domain=found[1] if (found := re.search(r'FileSystemDomain = "(.*)"', real)) else "vm",
        submit_file="x.sub",
        settings={"SCHEDD_INTERVAL": "5", "SUBMIT_PREVENT_MULTI_QUEUE": "true"},
    )
    return "".join(dry_run(parse_submit(case["submit"], asked, Disk(RUNS["files"]))))


@together("case", GOOD)
def test_a_dry_run_writes_what_condor_submit_writes(case: dict[str, Any]) -> None:
    theirs = ads(case["stdout"].partition(".\n")[2].partition(".\n")[2])
    ours = ads(run(case))
    assert len(ours) == len(theirs)
    for mine, real in zip(ours, theirs, strict=True):
        # An attribute that only some of the jobs have is undefined in the others.
        lacking = dict.fromkeys(mine.keys() - real.keys(), "undefined")
        if case["name"] == "varied streams" and real["ProcId"] == "1":
            assert real.pop("StreamErr") == "false"  # there it is the first job's
            lacking["StreamErr"] = "undefined"
        assert mine == {**real, **lacking}
        assert len(lacking) <= (1 if case["name"].startswith("varied") else 0)


@together("case", REFUSED)
def test_what_condor_submit_refuses_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(SubmitError):
        run(case)


@together("case", TRACES)
def test_a_real_pools_jobs_have_the_attributes_that_their_descriptions_give(case: dict[str, Any]) -> None:
    for ad in case["ads"]:
        asked = facts(
            now=int(ad["QDate"]),
            owner=case["user"],
            iwd=json.loads(ad["Iwd"]),
            submit_file=case["file"],
            cluster=int(ad["ClusterId"]),
            settings={"SCHEDD_INTERVAL": ad.get("ScheddInterval", "5")},
        )
        made = parse_submit(case["submit"], asked, Disk()).ad_of(int(ad["ProcId"]))
        # A later run of a recurring job is due at another time than the first.
        changed = CHANGED_BY_THE_POOL | ({"DeferralTime"} if "CronMinute" in ad else set())
        wanted = {name: ad.get(name) for name in made if name not in changed}
        assert {name: printed(text) for name, text in made.items() if name in wanted} == wanted


@pytest.mark.parametrize(("name", "verbose"), [("submit_dryrun_full.txt", False), ("submit_verbose.txt", True)])
def test_the_smallest_description_gives_the_captured_text(name: str, verbose: bool) -> None:
    captured = (DATA / name).read_text()
    asked = facts(submit_file="min.sub", cluster=39 if verbose else 1)
    (text,) = dry_run(parse_submit("executable = /bin/sleep\narguments = 1\nqueue\n", asked, Disk()), verbose=verbose)
    assert text.strip("\n") in captured


@together("case", GOOD)
def test_every_text_of_an_ad_is_an_expression(case: dict[str, Any]) -> None:
    submission = parse_submit(case["submit"], facts(), Disk(RUNS["files"]))
    for proc in range(submission.count):
        for text in submission.ad_of(proc).values():
            parse(text)
