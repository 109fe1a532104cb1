"""Golden: jobs that are evicted or take checkpoints, in a running pool: their results, ads and logs, and the files that
the pool stores for them. What the supervisor stores, and when: tests/execution/test_spool.py."""

from __future__ import annotations

import os
from pathlib import Path

from .real import Folder
from .test_transfers import ad, has_ended

GOAL = 11

COUNT = f"""#!/bin/sh
trap 'exit 9' TERM
n=$(cat state 2>/dev/null || echo 0)
echo "from $n"
n=$((n+1)); echo $n > state; echo "step $n" >> steps
test $n -ge {GOAL} && exit 0
"""
WAITS = COUNT + "sleep 1000 & wait\n"
CHECKPOINTS = COUNT + "test $n -eq 5 && test ! -e HOME/go && { sleep 1000 & wait; }\nexit 85\n"

JOB = """
executable = job.sh
should_transfer_files = YES
request_memory = 16
request_disk = 100 MB
output = out
log = job.log
{more}
queue
"""


def submit(folder: Folder, script: str, more: str) -> None:
    (folder.path / "job.sh").write_text(script.replace("HOME", str(folder.path)))
    folder.write("job.sub", JOB.format(more=more))
    folder.call("submit", "job.sub")


def log(folder: Folder) -> str:
    return (folder.path / "job.log").read_text()


def spooled(folder: Folder) -> list[str]:
    """Return the contents of the pool's spool."""
    root = folder.path / "pool.db.d/spool"
    paths = (os.path.join(place, name) for place, _, names in os.walk(root) for name in names)
    return sorted(os.path.relpath(path, root) for path in paths)


HOME = "1/0/cluster1.proc0.subproc0"


def test_a_job_evicted_ten_times_ends_like_one_that_was_not(folder: Folder) -> None:
    more = "when_to_transfer_output = ON_EXIT_OR_EVICT\nerase_output_and_error_on_restart = false"
    with folder.served():
        submit(folder, WAITS, more)
        for run in range(1, GOAL):
            folder.wait_for(lambda run=run: log(folder).count("\n001 (") == run)
            steps = Path(log(folder).rpartition('CondorScratchDir = "')[2].partition('"')[0], "steps")
            folder.wait_for(lambda run=run, steps=steps: steps.exists() and f"step {run}\n" in steps.read_text())
            folder.call("vacate", "1")
        folder.wait_for(lambda: has_ended(folder))
        folder.wait_for(lambda: not spooled(folder))
    assert (folder.path / "state").read_text() == f"{GOAL}\n"
    assert (folder.path / "steps").read_text() == "".join(f"step {n}\n" for n in range(1, GOAL + 1))
    assert (folder.path / "out").read_text() == "".join(f"from {n}\n" for n in range(GOAL))
    names = ("ExitCode", "NumJobStarts", "NumVacates", "NumOutputTransferStarts", "NumInputTransferStarts")
    assert ad(folder, *names) == ["0", "11", "10", "11", "11"]
    assert "sound" in folder.call("verify")
    assert log(folder).count("\n040 (") == 4 * GOAL and log(folder).count("\n004 (") == 10
    assert "Saving its output for the next run took " in folder.call("why", "1.0", "-verbose")


def test_a_job_continues_in_its_slot_after_each_checkpoint_and_from_the_last_one_in_its_next_run(
    folder: Folder,
) -> None:
    more = "checkpoint_exit_code = 85\ntransfer_checkpoint_files = state, steps\ntransfer_output_files = steps"
    with folder.served():
        submit(folder, CHECKPOINTS, more)
        folder.wait_for(lambda: log(folder).count("Finished transferring output") == 4)
        folder.call("hold", "1")
        folder.wait_for(lambda: ad(folder, "JobStatus") == ["5"])
        folder.wait_for(lambda: "\n004 (" in log(folder))
        assert spooled(folder) == [f"{HOME}/{name}" for name in (".poolbook-kept", "_condor_stdout", "state", "steps")]
        assert folder.call("condor_evicted_files", "list", "1.0") == "\t_condor_stdout\n\tstate\n\tsteps\n"
        assert folder.call("condor_evicted_files", "get", "1.0") == "Copied to '1.0'.\n"
        assert (folder.path / "1.0/state").read_text() == "4\n"
        before = ad(folder, "NumJobStarts", "NumOutputTransferStarts", "CheckpointNumber", "SuccessCheckpointExitCode")
        folder.write("go", "")
        folder.call("release", "1")
        folder.wait_for(lambda: has_ended(folder))
        folder.wait_for(lambda: not spooled(folder))
    assert before == ["1", "4", "3", "85"]
    assert (folder.path / "steps").read_text() == "".join(f"step {n}\n" for n in range(1, GOAL + 1))
    assert (folder.path / "out").read_text() == "".join(f"from {n}\n" for n in [*range(4), *range(4, GOAL)])
    assert ad(folder, "NumJobStarts", "CheckpointNumber", "JobRunCount") == ["2", "9", "2"]
    assert not (folder.path / "state").exists()
    assert "sound" in folder.call("verify")


def test_a_checkpoint_that_lacks_a_file_holds_the_job(folder: Folder) -> None:
    with folder.served():
        submit(folder, CHECKPOINTS, "checkpoint_exit_code = 85\ntransfer_checkpoint_files = state, missing")
        folder.wait_for(lambda: ad(folder, "JobStatus") == ["5"])
    assert ad(folder, "HoldReasonCode", "HoldReasonSubCode") == ["36", "-1"]
    assert "Starter failed to upload checkpoint" in ad(folder, "HoldReason")[0]
    assert "missing" in ad(folder, "HoldReason")[0]
    assert "021 (" in log(folder)


def test_a_pool_removes_the_spool_of_jobs_that_left_while_it_was_not_served(folder: Folder) -> None:
    folder.write("poolbook.conf", f"SPOOL = {folder.path}\nRUNBENCHMARKS = false\nNUM_CPUS = 1\nSTART = true\n")
    with folder.served():
        submit(folder, WAITS, "when_to_transfer_output = ON_EXIT_OR_EVICT")
        folder.wait_for(lambda: "\n001 (" in log(folder))
        folder.call("hold", "1")
        folder.wait_for(lambda: bool(spooled(folder)))
    assert list(folder.path.glob("poolbook-*/1/0/cluster1.proc0.subproc0/_condor_stdout"))
    folder.call("rm", "1")
    with folder.served():
        folder.wait_for(lambda: not spooled(folder))
