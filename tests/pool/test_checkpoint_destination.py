"""Golden: jobs whose checkpoints transfer plugins store at a URL, in a running pool: the files there, the manifests,
what a damaged checkpoint and a failed upload cause, and the deletion of checkpoints. The manifest is the one that an
HTCondor 25.14 pool wrote for the same job."""

from __future__ import annotations

from pathlib import Path

import pytest

from .real import Folder
from .test_checkpoints import HOME, log, spooled
from .test_transfers import ad, has_ended

SCRIPT = """#!/bin/sh
n=$(cat state 2>/dev/null || echo 0)
echo "from $n"
n=$((n+1)); echo $n > state; mkdir -p d/e; echo deep$n > d/e/x; echo "step $n" >> steps
test $n -ge 6 && exit 0
test $n -eq 3 && test ! -e HOME/go && touch HOME/waits && sleep 1000
exit 85
"""
JOB = """
executable = job.sh
should_transfer_files = YES
checkpoint_exit_code = 85
transfer_checkpoint_files = state, steps, d
transfer_output_files = steps
checkpoint_destination = file://{home}/store/
request_memory = 16
request_disk = 10 MB
output = out
error = err
log = job.log
queue
"""
SETTINGS = """RUNBENCHMARKS = false
NUM_CPUS = 1
START = true
CHECKPOINT_DESTINATION_MAPFILE = {home}/map
"""
MANIFEST = """\
53c234e5e8472b6ac51c1ae1cab3fe06fad053beb8ebfd8977b010655bfdd3c3 *state
d26ce1f6dc3fe079724fe9bab06f233e0c792e4728a4e6d1d5d932c81e0e8792 *steps
be5f49c3b08a5c128b027220989eeae2ba0ddda90172e8b2dfaee0e479bc89d6 *d/e/x
190c23be5404d74b9796a292da611350075a464a5bca449917337c56dfbe5fb6 *_condor_stdout
e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 *_condor_stderr
b0728feb873a2944a9b143cd88018cd667a6818be3de863f4df61e82220cd67f *_condor_checkpoint_MANIFEST.0001
"""
FILES = ["_condor_stderr", "_condor_stdout", "d/e/x", "state", "steps"]
MOUNTED = r"*  file://{home}/store  cleanup_locally_mounted_checkpoint,-prefix,\0,-path,{home}/store"
BY_PROGRAM = "*  file://{home}/  {home}/clean,-own,option"
CLEAN = """#!/bin/sh
test -e HOME/fail && . HOME/fail
echo "$*" >> HOME/cleaned
rm "$(echo "$4/$6" | sed 's,^file://,,')"
"""


@pytest.fixture
def pool(folder: Folder) -> Folder:
    home = str(folder.path)
    folder.write("poolbook.conf", SETTINGS.replace("{home}", home))
    for name, text in (("job.sh", SCRIPT), ("clean", CLEAN)):
        (folder.path / name).write_text(text.replace("HOME", home))
        (folder.path / name).chmod(0o755)
    folder.write("job.sub", JOB.replace("{home}", home))
    return folder


def write_map(pool: Folder, text: str) -> None:
    pool.write("map", text.replace("{home}", str(pool.path)) + "\n")


def stored(pool: Folder) -> dict[str, list[str]]:
    """Return the names of the files in each directory of checkpoints at the destination, by number."""
    root = pool.path / "store"
    checkpoints: dict[str, list[str]] = {}
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        _, number, name = str(path.relative_to(root)).split("/", 2)
        checkpoints.setdefault(number, []).append(name)
    return checkpoints


def cleanups(pool: Folder) -> list[str]:
    """Return what the log says about deleted checkpoints."""
    lines = pool.call("log", "1").splitlines()
    return [line.partition("any more (")[2].partition(") [")[0] for line in lines if " cleanup " in line]


def run_to_second_checkpoint(pool: Folder) -> Path:
    """Submit the job, and return the directory of its second checkpoint when the job waits."""
    pool.call("submit", "job.sub")
    pool.wait_for(lambda: (pool.path / "waits").exists())
    (checkpoint,) = (pool.path / "store").glob("*/0001")
    return checkpoint


def end(pool: Folder, how: str = "vacate") -> None:
    pool.write("go", "")
    pool.call(how, "1")


def test_a_job_continues_from_its_last_checkpoint_and_all_are_deleted_when_it_has_left(pool: Folder) -> None:
    write_map(pool, MOUNTED)
    with pool.served():
        checkpoint = run_to_second_checkpoint(pool)
        qdate, queue = ad(pool, "QDate", "GlobalJobId")
        assert (queue, checkpoint.parent.name) == (queue, queue.replace("#", "_")) and queue.endswith(f"#1.0#{qdate}")
        assert stored(pool) == {"0000": FILES, "0001": FILES}
        assert (pool.path / "pool.db.d/spool" / HOME / "_condor_checkpoint_MANIFEST.0001").read_text() == MANIFEST
        end(pool)
        pool.wait_for(lambda: has_ended(pool))
        pool.wait_for(lambda: not spooled(pool))
        pool.wait_for(lambda: cleanups(pool)[-1] == "checkpoints 3, 4 deleted")
    assert (pool.path / "out").read_text() == "".join(f"from {n}\n" for n in range(6))
    assert (pool.path / "steps").read_text() == "".join(f"step {n}\n" for n in range(1, 7))
    assert ad(pool, "NumJobStarts", "CheckpointNumber") == ["2", "4"]
    assert list((pool.path / "store").iterdir()) == []
    assert "sound" in pool.call("verify")


def test_a_damaged_checkpoint_is_reported_and_deleted_and_the_job_continues_from_the_one_before(pool: Folder) -> None:
    write_map(pool, MOUNTED)
    with pool.served():
        checkpoint = run_to_second_checkpoint(pool)
        with open(checkpoint / "state", "a") as file:
            file.write("damaged\n")
        end(pool)
        pool.wait_for(lambda: has_ended(pool))
        pool.wait_for(lambda: not spooled(pool))
    problem = f"checkpoint file file://{checkpoint}/state does not have the checksum in its manifest"
    assert problem in log(pool) and "Code 13 Subcode -1074" in log(pool)
    assert (pool.path / "out").read_text() == "".join(f"from {n}\n" for n in range(6))
    assert cleanups(pool)[0] == "checkpoints 1 deleted"
    assert ad(pool, "CheckpointNumber") == ["5"]


def test_a_damaged_manifest_is_not_used(pool: Folder) -> None:
    write_map(pool, MOUNTED)
    with pool.served():
        run_to_second_checkpoint(pool)
        manifest = pool.path / "pool.db.d/spool" / HOME / "_condor_checkpoint_MANIFEST.0001"
        manifest.write_text(MANIFEST.replace("d/e/x", "d/e/y"))
        end(pool)
        pool.wait_for(lambda: has_ended(pool))
    assert (pool.path / "out").read_text() == "".join(f"from {n}\n" for n in range(6))
    assert ad(pool, "CheckpointNumber") == ["5"]


def test_a_file_that_is_missing_at_the_destination_holds_the_job(pool: Folder) -> None:
    write_map(pool, MOUNTED)
    with pool.served():
        checkpoint = run_to_second_checkpoint(pool)
        (checkpoint / "state").unlink()
        end(pool)
        pool.wait_for(lambda: ad(pool, "JobStatus") == ["5"])
    assert ad(pool, "HoldReasonCode", "HoldReasonSubCode") == ["13", "256"]


def test_a_failed_upload_holds_the_job_and_its_part_is_deleted(pool: Folder) -> None:
    write_map(pool, MOUNTED)
    with pool.served():
        queue = pool.call("status", "-schedd", "-af", "Name").strip()
        pool.call("submit", "job.sub", "-append", "hold = true")
        (qdate,) = ad(pool, "QDate")
        blocked = pool.path / "store" / f"{queue}_1.0_{qdate}" / "0000/steps"
        blocked.mkdir(parents=True)  # the plugin cannot replace a directory by a file
        pool.call("release", "1")
        pool.wait_for(lambda: ad(pool, "HoldReasonCode") == ["36"])
        assert ad(pool, "HoldReasonSubCode", "CheckpointNumber") == ["-1", "0"]
        pool.wait_for(lambda: len(cleanups(pool)) == 1)
        assert "steps cannot be deleted: Is a directory" in pool.call("why", "1.0", "-verbose")
        blocked.rmdir()
        pool.write("go", "")
        pool.call("release", "1")
        pool.wait_for(lambda: has_ended(pool))
        pool.wait_for(lambda: not spooled(pool))
    assert cleanups(pool)[1] == "checkpoints 0 deleted"
    assert (pool.path / "out").read_text() == "".join(f"from {n}\n" for n in range(6))


def test_the_program_of_the_map_deletes_the_checkpoints_of_a_removed_job(pool: Folder) -> None:
    write_map(pool, BY_PROGRAM)
    with pool.served():
        checkpoint = run_to_second_checkpoint(pool)
        end(pool, "rm")
        pool.wait_for(lambda: cleanups(pool) == ["checkpoints 0, 1 deleted"])
        pool.wait_for(lambda: not spooled(pool))
    job = f"file://{checkpoint.parent}"
    spool = pool.path / "pool.db.d/spool" / HOME
    expected = [
        f"-own option -from {job}/{number} -delete {name} -jobad {spool}.ended/.job.ad"
        for number in ("0000", "0001")
        for name in ("state", "steps", "d/e/x", "_condor_stdout", "_condor_stderr")
    ]
    assert (pool.path / "cleaned").read_text().splitlines() == expected
    assert stored(pool) == {}


FAILURES = {"echo refused; exit 3": "ended with 3: refused", "sleep 1000": "did not end in time"}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failed_deletion_is_logged_and_tried_again_when_the_pool_is_served(pool: Folder, failure: str) -> None:
    write_map(pool, BY_PROGRAM)
    pool.write("fail", failure)
    with open(pool.path / "poolbook.conf", "a") as file:
        file.write("CHECKPOINT_CLEANUP_TIMEOUT = 1\n")
    with pool.served():
        run_to_second_checkpoint(pool)
        end(pool, "rm")
        pool.wait_for(lambda: len(cleanups(pool)) == 1)
        assert FAILURES[failure] in pool.call("why", "1.0", "-verbose")
    assert stored(pool) == {"0000": FILES, "0001": FILES}
    (pool.path / "fail").unlink()
    with open(pool.path / "poolbook.conf", "a") as file:
        file.write("CHECKPOINT_CLEANUP_TIMEOUT = 100\n")
    with pool.served():
        pool.wait_for(lambda: cleanups(pool)[1:] == ["checkpoints 0, 1 deleted"])
        pool.wait_for(lambda: not spooled(pool))
    assert stored(pool) == {}


def test_a_failed_deletion_is_tried_again_each_preen_interval(pool: Folder) -> None:
    write_map(pool, BY_PROGRAM)
    pool.write("fail", "exit 1")
    with open(pool.path / "poolbook.conf", "a") as file:
        file.write("PREEN_INTERVAL = 1\n")
    with pool.served():
        run_to_second_checkpoint(pool)
        end(pool, "rm")
        pool.wait_for(lambda: len(cleanups(pool)) == 1)
        (pool.path / "fail").unlink()
        pool.wait_for(lambda: cleanups(pool)[1:] == ["checkpoints 0, 1 deleted"])
    assert stored(pool) == {}


def test_a_destination_that_the_map_does_not_have_keeps_its_checkpoints(pool: Folder) -> None:
    write_map(pool, "* other:// /bin/true")
    with pool.served():
        run_to_second_checkpoint(pool)
        end(pool, "rm")
        pool.wait_for(lambda: len(cleanups(pool)) == 1)
        assert "has no line for file://" in pool.call("why", "1.0", "-verbose")
    assert stored(pool) == {"0000": FILES, "0001": FILES}


def test_a_policy_rejects_destinations_that_the_map_does_not_have(pool: Folder) -> None:
    write_map(pool, BY_PROGRAM)
    (pool.path / "poolbook.conf").write_text(
        SETTINGS.replace("{home}", str(pool.path)) + "use policy:OnlyRegisteredCheckpointDestinations\n"
    )
    with pool.served():
        pool.call("submit", "job.sub", "-append", "hold = true")
        refusal = pool.call("submit", "job.sub", "-append", "checkpoint_destination = other://x", code=1)
    assert "You specified a checkpoint_destination this AP does not know how to clean up." in refusal
