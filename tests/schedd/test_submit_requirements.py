"""Golden: the manual's submit requirements and warnings, with its messages ("condor_schedd Policy Configuration")."""

from __future__ import annotations

from typing import Any

from poolbook.domain.events import ClusterSubmitted, EvaluationRecorded, SubmissionRefused

from ..together import together
from .policy_pool import PolicyPool

MANUAL = """
SUBMIT_REQUIREMENT_NAMES = NotStandardUniverse, MinimalRequestMemory, NotChris
SUBMIT_REQUIREMENT_NotStandardUniverse = JobUniverse != 1
SUBMIT_REQUIREMENT_MinimalRequestMemory = RequestMemory > 512
SUBMIT_REQUIREMENT_NotChris = Owner != "chris"
SUBMIT_REQUIREMENT_NotStandardUniverse_REASON = "This pool does not accept standard universe jobs."
SUBMIT_REQUIREMENT_MinimalRequestMemory_REASON = strcat( "The job only requested ", \\
  RequestMemory, " Megabytes.  If that small amount is really enough, please contact ..." )
SUBMIT_REQUIREMENT_NotChris_REASON = "Chris, you may only submit jobs to the instructional pool."
"""
WARNS = """
SUBMIT_REQUIREMENT_NAMES = $(SUBMIT_REQUIREMENT_NAMES) OneGig, First
SUBMIT_REQUIREMENT_OneGig = RequestMemory > 1024
SUBMIT_REQUIREMENT_OneGig_REASON = "As of <date>, the minimum requested memory will be 1024."
SUBMIT_REQUIREMENT_OneGig_IS_WARNING = true
SUBMIT_REQUIREMENT_First = RequestCpus < 8
SUBMIT_REQUIREMENT_First_IS_WARNING = true
"""
FAILED = "Failed to commit job submission into the queue.\nERROR: "


@together(
    ("user", "ad", "reason"),
    [
        ("alice", {"JobUniverse": "1"}, "This pool does not accept standard universe jobs."),
        (
            "chris",
            {"RequestMemory": "100"},
            "The job only requested 100 Megabytes.  If that small amount is really enough, please contact ...",
        ),
        ("chris", {"RequestMemory": "1000"}, "Chris, you may only submit jobs to the instructional pool."),
        (
            "alice",
            {"RequestMemory": "NoSuch"},
            "Submit requirement MinimalRequestMemory evaluated to non-boolean.\n",
        ),
    ],
)
def test_the_first_requirement_that_is_not_met_rejects_with_the_manuals_message(
    user: str, ad: dict[str, Any], reason: str
) -> None:
    assert PolicyPool(MANUAL, "manual").submit(user=user, **ad).refusal == f"{FAILED}{reason}"


def test_without_a_reason_the_requirements_name_is_reported() -> None:
    config = "SUBMIT_REQUIREMENT_NAMES = Small\nSUBMIT_REQUIREMENT_Small = RequestCpus < 4"
    assert PolicyPool(config).submit(RequestCpus="5").refusal == f"{FAILED}Submit requirement Small not met.\n"


def test_if_any_job_is_rejected_all_of_the_cluster_are() -> None:
    pool = PolicyPool(MANUAL)
    answer = pool.submit(count=3, columns={"RequestMemory": ["600", "100", "700"]})
    assert "only requested 100 Megabytes" in answer.refusal
    (event,) = pool.of(SubmissionRefused)
    assert (event.job, event.setting) == ("1.1", "SUBMIT_REQUIREMENT_MinimalRequestMemory")
    note = pool.events[event.evidence - 1]
    assert isinstance(note, EvaluationRecorded)
    assert note.read == {"TARGET.RequestMemory": "100"}
    assert pool.engine.state.clusters == {}


@together(
    ("dialect", "memory", "cores", "warning"),
    [
        ("manual", "2048", "1", ""),
        (
            "manual",
            "600",
            "1",
            "Committed job submission into the queue with the following warning:\n"
            "As of <date>, the minimum requested memory will be 1024.",
        ),
        (
            "manual",
            "600",
            "8",
            "Committed job submission into the queue with the following warning:\nSubmit requirement First not met.",
        ),
        (
            "htcondor-25",
            "600",
            "8",
            "Committed job submission into the queue with the following warning(s):\n"
            "QMGMT:0:Submit requirement First not met.\n"
            "|QMGMT:0:As of <date>, the minimum requested memory will be 1024.",
        ),
    ],
)
def test_a_warning_accepts_the_jobs_and_is_reported(dialect: str, memory: str, cores: str, warning: str) -> None:
    pool = PolicyPool(MANUAL + WARNS, dialect)
    answer = pool.submit(RequestMemory=memory, RequestCpus=cores)
    assert answer.value.get("warning", "") == warning
    assert len(pool.of(ClusterSubmitted)) == 1


@together(
    ("requirement", "met"),
    [
        ('MY.MyType == "Scheduler" && TARGET.RequestCpus == 1', True),
        ("JOB.RequestCpus == 1 && SCHEDD.TotalIdleJobs == 0", True),
        ("SCHEDD.TotalIdleJobs > 0", False),
        ("1", True),
        ("0.0", False),
    ],
)
def test_a_requirement_sees_the_schedd_as_my_and_the_job_as_target(requirement: str, met: bool) -> None:
    pool = PolicyPool(f"SUBMIT_REQUIREMENT_NAMES = R\nSUBMIT_REQUIREMENT_R = {requirement}")
    assert (pool.submit().refusal == "") == met


IGNORED = "is not a valid expression and is ignored, as in HTCondor"


def test_an_invalid_requirement_is_ignored_with_a_warning() -> None:
    pool = PolicyPool("SUBMIT_REQUIREMENT_NAMES = R S\nSUBMIT_REQUIREMENT_R = 1 +\nSUBMIT_REQUIREMENT_S = false")
    (warning,) = pool.warnings
    assert warning.startswith(f"<text>:2: SUBMIT_REQUIREMENT_R {IGNORED}")
    assert "Submit requirement S not met" in pool.submit().refusal


def test_an_invalid_reason_leaves_the_requirement_in_effect() -> None:
    pool = PolicyPool("SUBMIT_REQUIREMENT_NAMES = R\nSUBMIT_REQUIREMENT_R = false\nSUBMIT_REQUIREMENT_R_REASON = (")
    (warning,) = pool.warnings
    assert warning.startswith(f"<text>:3: SUBMIT_REQUIREMENT_R_REASON {IGNORED}")
    assert "Submit requirement R not met" in pool.submit().refusal


def test_an_undefined_requirement_is_reported() -> None:
    assert PolicyPool("SUBMIT_REQUIREMENT_NAMES = R").warnings == [
        "SUBMIT_REQUIREMENT_R is not defined: define it, or remove R from SUBMIT_REQUIREMENT_NAMES"
    ]
