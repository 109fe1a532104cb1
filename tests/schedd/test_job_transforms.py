"""Golden: transforms have the same results as in HTCondor 25.14.1: statements, macros, conditions, regular expressions,
invalid lines; and the trace with the manual's two transforms."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from poolbook.domain import events as e
from poolbook.domain.schedd.submit_policy import convert_old_syntax

from ..together import together
from .policy_pool import PolicyPool

DATA = Path(__file__).parents[1] / "data"
HELD: dict[str, Any] = {"JobStatus": "5", "HoldReasonCode": "15", "HoldReasonSubCode": "0"}
HELD["HoldReason"] = '"submitted on hold at user\'s request"'
MORE: dict[str, dict[str, Any]] = {
    "a": {"Alpha": "1", "Gamma": "2", "Flag": "false"},
    "b": {"Alpha": "1", "Gamma": "2"},
}


@cache
def recorded() -> dict[str, dict[str, Any]]:
    return json.loads((DATA / "schedd" / "transforms.json").read_text())  # type: ignore[no-any-return]


@cache
def pool() -> PolicyPool:
    folder = DATA / "schedd"
    files = {path.name: path.read_text() for path in folder.glob("*.map")}
    return PolicyPool((folder / "transforms.conf").read_text(), files=files)


def pool_with_submissions(which: str) -> PolicyPool:
    count = {"c": 2, "n1": 3}.get(which, 1)
    columns = {"Vary": ["0", "1"]} if which == "c" else {}
    pool().submit(count=count, columns=columns, Which=f'"{which}"', **HELD, **MORE.get(which, {}))
    return pool()


@together("job", sorted(recorded()["ads"]))
def test_a_job_gets_the_same_attributes_as_in_htcondor(job: str) -> None:
    which, _, proc = job.partition(".")
    job_ad = pool_with_submissions(which).ads()[int(proc)]
    expected = recorded()["ads"][job]
    assert {name: job_ad.get(name) for name in expected} == expected


@together("which", ["d", "f", "h"])
def test_a_transform_with_a_protected_attribute_or_an_invalid_line_fails_the_submission(which: str) -> None:
    refusal = pool().submit(Which=f'"{which}"', **HELD).refusal
    assert [f"ERROR: {line}" if at == 0 else line for at, line in enumerate(refusal.split("\n"))] == recorded()["said"][
        which
    ]


def test_a_transform_without_effect_is_reported_when_the_configuration_is_read() -> None:
    assert [warning.partition(":")[0] for warning in pool().warnings] == [
        "JOB_TRANSFORM_E",
        "JOB_TRANSFORM_F",
        "CLASSAD_USER_MAPFILE_groups, line 10",
    ]


@together(
    ("line", "message"),
    [
        ("SET", "is not a statement"),
        ("FROB Alpha 1", "is not a statement"),
        ("FROB", "is not a statement"),
        ("SET Alpha )", "is not an expression"),
        ("set Alpha 1", ""),
        ("DELETE Alpha", ""),
        ("Mine = 3", ""),
        ("if defined MY.Alpha", ""),
        ("ELIF true", ""),
        ("else", ""),
        ("endif", ""),
    ],
)
def test_an_invalid_line_of_a_transform_is_reported(line: str, message: str) -> None:
    config = f"JOB_TRANSFORM_NAMES = One\nJOB_TRANSFORM_One @=end\n  {line}\n@end\n"
    warnings = [warning for warning in PolicyPool(config).warnings if warning.startswith("JOB_TRANSFORM_One")]
    assert len(warnings) == bool(message)
    assert message in "".join(warnings)


def test_the_old_syntax_becomes_statements_in_the_routers_order() -> None:
    old = """[ Requirements = Which == "old"; set_OldSet = 3; copy_Alpha = "OldCopy"; delete_Gamma = true;
               eval_set_OldEval = RequestCpus + k; k = 3; s = "x"; Name = "n"; TargetUniverse = 5 ]"""
    assert convert_old_syntax(old).split("\n") == [
        'REQUIREMENTS Which == "old"',
        "UNIVERSE 5",
        "k = 3",
        "s = x",
        "COPY Alpha OldCopy",
        "DELETE Gamma",
        "SET OldSet 3",
        "SET k 3",
        "EVALSET OldEval RequestCpus + k",
        "DELETE k",
    ]


def test_a_transform_in_the_old_syntax_changes_jobs() -> None:
    changed_pool = pool_with_submissions("old").submit(Which='"old"', Alpha="1", Gamma="2")
    assert changed_pool.refusal == ""
    ad = pool().ad()
    assert [ad.get(name) for name in ("OldSet", "OldCopy", "OldEval", "Gamma")] == ["3", "1", "2", "undefined"]


REGEX = "JOB_TRANSFORM_NAMES = T\nJOB_TRANSFORM_T @=end\nCOPY /^Request(.+)/ Original\\1\nDELETE /^rank$/\n@end"


def test_regular_expressions_see_all_attributes_in_the_manual_and_only_the_jobs_own_in_htcondor() -> None:
    manual, real = PolicyPool(REGEX, "manual"), PolicyPool(REGEX)
    manual.submit()
    real.submit()
    assert (manual.ad()["OriginalCpus"], manual.ad()["Rank"]) == ("1", "undefined")
    assert "OriginalCpus" not in real.ad()
    assert real.ad()["Rank"] == "0.0"


def test_each_change_is_an_event_with_the_old_value_and_its_evidence() -> None:
    pool = PolicyPool("JOB_TRANSFORM_NAMES = T\nJOB_TRANSFORM_T @=end\nEVALSET JobPrio ProcId + RequestCpus\n@end")
    pool.submit(count=3)
    (event,) = pool.of(e.JobsTransformed)
    assert (event.transform, event.procs, event.changes) == ("T", ((0, 2),), {})
    assert [ad["JobPrio"] for ad in pool.ads()] == ["1", "2", "3"]
    note = pool.events[event.evidence[0] - 1]
    assert isinstance(note, e.EvaluationRecorded)
    assert note.read == {"MY.ProcId": "0", "MY.RequestCpus": "1"}


# The trace: the manual's AssignGroup and SL6ToDocker, and its requirements

TRACE = DATA / "traces" / "12-submit-policy"
GROUPS = "* alice group_physics\n* bob group_atlas\n* carol group_chemistry,group_physics\n"
TOLD = ("AcctGroup", "AccountingGroup", "DockerImage", "WantDockerX", "WantSL6")


def traced() -> dict[str, dict[str, str]]:
    ads = {}
    for block in gzip.decompress((TRACE / "q-1.ads.gz").read_bytes()).decode().split("\n\n"):
        ad = dict(line.split(" = ", 1) for line in block.splitlines() if " = " in line)
        if "ClusterId" in ad:
            ads[ad["ClusterId"]] = ad
    return ads


def test_the_manuals_transforms_change_the_traces_jobs_as_recorded() -> None:
    config = (TRACE / "scenario.conf").read_text().replace("/etc/condor/", "")
    pool = PolicyPool(config, files={"groups.map": GROUPS})
    for number, expected in sorted(traced().items(), key=lambda entry: int(entry[0])):
        attributes: dict[str, Any] = {
            name: expected[name] for name in ("WantSL6", "AcctGroupUser", "RequestMemory") if name in expected
        }
        if number in ("9",):
            attributes["DockerImage"] = '"mine"'
        if number in ("11", "12"):
            attributes["AcctGroup"] = '"group_physics"' if number == "11" else '"group_atlas"'
        answer = pool.submit(user=expected["Owner"].strip('"'), Requirements='(TARGET.Arch == "X86_64")', **attributes)
        assert answer.refusal == "", number
        ad = pool.ad()
        assert {name: ad.get(name) for name in TOLD} == {name: expected.get(name) for name in TOLD}, number
        if "WantDockerX" in expected:
            assert ad["Requirements"].startswith("TARGET.HasDockerX && ")


MANUAL = """
SCHEDD_CLASSAD_USER_MAP_NAMES = Groups
CLASSAD_USER_MAPFILE_Groups = groups.map
JOB_TRANSFORM_NAMES = AssignGroup, SL6ToDocker
JOB_TRANSFORM_AssignGroup @=end
   # map Owner to group using the existing accounting group attribute as requested group
   EVALSET AcctGroup = userMap("Groups",Owner,AcctGroup)
   EVALSET AccountingGroup = join(".",AcctGroup,Owner)
@end
JOB_TRANSFORM_SL6ToDocker @=end
   # match only vanilla jobs that have WantSL6 and do not already have a DockerImage
   REQUIREMENTS JobUniverse==5 && WantSL6 && DockerImage =?= undefined
   SET  WantDocker = true
   SET  DockerImage = "SL6"
   SET  Requirements = TARGET.HasDocker && $(MY.Requirements)
@end
"""


@together(
    ("user", "ad", "expected"),
    [
        ("alice", {}, {"AccountingGroup": '"group_physics.alice"'}),
        ("carol", {"AcctGroup": '"group_physics"'}, {"AccountingGroup": '"group_physics.carol"'}),
        ("alice", {"WantSL6": "true", "Requirements": "(TARGET.Cpus > 1)"},
         {"WantDocker": "true", "DockerImage": '"SL6"', "Requirements": "TARGET.HasDocker && (TARGET.Cpus > 1)"}),
        ("alice", {"WantSL6": "true", "DockerImage": '"mine"'}, {"DockerImage": '"mine"', "WantDocker": None}),
        ("alice", {"WantSL6": "true", "JobUniverse": "12"}, {"DockerImage": None, "WantDocker": None}),
        ("alice", {"WantSL6": "false"}, {"DockerImage": None, "WantDocker": None}),
    ],
)  # fmt: skip
def test_the_manuals_two_transforms_as_printed(user: str, ad: dict[str, Any], expected: dict[str, str | None]) -> None:
    for dialect in ("manual", "htcondor-25"):
        pool = PolicyPool(MANUAL, dialect, files={"groups.map": GROUPS})
        assert pool.warnings == []
        assert pool.submit(user=user, **ad).refusal == ""
        assert {name: pool.ad().get(name) for name in expected} == expected


def test_a_requirement_rejects_and_warns_with_the_traces_messages() -> None:
    config = (TRACE / "scenario.conf").read_text().replace("/etc/condor/", "")
    pool = PolicyPool(config, files={"groups.map": GROUPS})
    cases: list[tuple[dict[str, Any], str, str]] = [
        (
            {"RequestMemory": "100"},
            "alice",
            "The job only requested 100 Megabytes.  If that small",
        ),
        ({"RequestMemory": "2048"}, "bob", "Bob, you may only submit jobs to the instructional pool."),
        ({"RequestMemory": "2048", "RequestCpus": "8"}, "alice", "Submit requirement NoReason not met."),
        ({"RequestMemory": "2048", "JobUniverse": "1"}, "alice", "This pool does not accept standard universe jobs."),
    ]
    for ad, user, arguments in cases:
        refusal = pool.submit(user=user, **ad).refusal
        assert re.match("Failed to commit job submission into the queue.\nERROR: " + re.escape(arguments), refusal)
    answer = pool.submit(RequestMemory="600")
    assert answer.value["warning"] == (
        "Committed job submission into the queue with the following warning(s):\n"
        "QMGMT:0:As of <date>, the minimum requested memory will be 1024."
    )
    assert answer.value["cluster"] == 5  # rejected clusters used up their numbers
