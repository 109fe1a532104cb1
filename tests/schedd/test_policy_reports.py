"""Golden: what users read about the schedd's policy: `why`, the jobs' own logs, the messages of submit."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.runtime.userlog.fold import UserLogs
from poolbook.domain.events import ClusterSubmitted
from poolbook.replay.why.cluster import why_cluster
from poolbook.replay.why.job import why_job

from ..together import together
from .policy_pool import PolicyPool

POLICY = """
JOB_TRANSFORM_NAMES = Memory
JOB_TRANSFORM_Memory @=end
  REQUIREMENTS RequestMemory < 512
  SET RequestMemory 512
@end
SUBMIT_REQUIREMENT_NAMES = Cores, Warns
SUBMIT_REQUIREMENT_Cores = RequestCpus <= 16
SUBMIT_REQUIREMENT_Cores_REASON = strcat(RequestCpus, " cores are too many.")
SUBMIT_REQUIREMENT_Warns = RequestCpus < 8
SUBMIT_REQUIREMENT_Warns_IS_WARNING = true
SUBMIT_REQUIREMENT_Warns_REASON = "Next year: 8 at most."
"""


def test_why_reports_which_transform_changed_a_job_and_the_old_value() -> None:
    pool = PolicyPool(POLICY)
    pool.submit()
    texts = why_job(pool.log.read(), 1, 0).texts
    assert "The transform Memory changed job 1.0 at submission: RequestMemory = 512 (was 128)." in texts


def test_why_reports_which_requirement_rejected_a_cluster_and_what_it_read() -> None:
    pool = PolicyPool(POLICY)
    pool.submit(RequestCpus="64")
    message = (
        "The access point rejected cluster 1, which alice submitted, because of SUBMIT_REQUIREMENT_Cores and job 1.0: "
        "64 cores are too many.; RequestCpus <= 16 was not true (TARGET.RequestCpus = 64)."
    )
    assert why_cluster(pool.log, 1, None, pool.engine.zone).texts == [message]
    assert why_job(pool.log.read(), 1, 0).texts == [message]


@together(
    ("dialect", "line"),
    [
        (
            "manual",
            "    WARNING: Committed job submission into the queue with the following warning: Next year: 8 at most.",
        ),
        (
            "htcondor-25",
            "    WARNING: Committed job submission into the queue with the following warning(s): "
            "QMGMT:0:Next year: 8 at most.",
        ),
    ],
)
def test_a_jobs_own_log_has_the_warning(dialect: str, line: str) -> None:
    pool = PolicyPool(POLICY, dialect)
    pool.submit(RequestCpus="9", UserLog='"/tmp/job.log"')
    logs = UserLogs()
    written_texts = [text for position, event in pool.log.read() for _, text in logs.fold(position, event)]
    assert pool.of(ClusterSubmitted)[0].warnings == ("Next year: 8 at most.",)
    assert line in written_texts[0].split("\n")


def test_submit_prints_what_condor_submit_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "poolbook.conf").write_text(POLICY)
    (tmp_path / "job.sub").write_text("executable = /bin/true\nrequest_cpus = $(cores:1)\nqueue\n")
    monkeypatch.setenv("POOLBOOK_LOG", str(tmp_path / "pool.db"))
    assert main(["submit", "cores=64", "job.sub"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: Failed to commit job submission into the queue.\nERROR: 64 cores are too many.\n"
    )
    assert main(["submit", "cores=9", "job.sub"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(
        "WARNING: Committed job submission into the queue with the following warning:\nWARNING: Next year: 8 at most.\n"
    )
    assert captured.out.endswith("1 job(s) submitted to cluster 2.\n")
