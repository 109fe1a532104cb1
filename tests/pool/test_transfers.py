"""Golden: jobs with file transfer in a running pool: their results when the pool is killed or a disk is full, and their
ads and logs. The transfers themselves: tests/execution/test_transfers.py."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from .real import Folder
from .test_full_disks import disk

JOB = """
executable = /bin/sh
transfer_executable = false
arguments = "-c '{script}'"
should_transfer_files = YES
request_memory = 16
request_disk = 100 MB
log = job.log
{more}
queue
"""
MANY = "i=0; while test $i -lt {count}; do echo $i > f$i; i=$((i+1)); done"
COUNT = 400


def submit(folder: Folder, script: str, more: str = "") -> None:
    folder.write("job.sub", JOB.format(script=script, more=more))
    folder.call("submit", "job.sub")


def ad(folder: Folder, *names: str) -> list[str]:
    """Return the job's ad, from the queue or the history."""
    arguments = ("-af:t", *names)
    return (folder.call("q", *arguments) or folder.call("history", *arguments)).strip().split("\t")


def has_ended(folder: Folder) -> bool:
    return folder.call("history", "-af", "ClusterId") == "1\n"


def test_files_move_with_every_run_and_the_sizes_are_summed_up(folder: Folder) -> None:
    folder.write("a", "alpha\n")
    with folder.served():
        submit(folder, "cat a > b; sleep 1000", "transfer_input_files = a\non_exit_remove = NumJobStarts > 1")
        folder.wait_for(lambda: "001 (" in (folder.path / "job.log").read_text())
        folder.call("vacate", "1")
        folder.wait_for(lambda: (folder.path / "job.log").read_text().count("001 (") == 2)
        folder.call("rm", "1")
        folder.wait_for(lambda: has_ended(folder))
    names = ("NumInputTransferStarts", "BytesRecvd", "BytesSent", "TransferInputStats")
    assert ad(folder, *names) == [
        "2",
        "12.0",
        "0.0",
        "[ CedarSizeBytesTotal = 12; CedarFilesCountTotal = 2; CedarSizeBytesLastRun = 6; CedarFilesCountLastRun = 1 ]",
    ]
    assert not (folder.path / "b").exists()
    assert "sound" in folder.call("verify")


@pytest.mark.parametrize("whom", ["pool", "supervisor"])
@pytest.mark.parametrize("moment", ["Started transferring output", "001 ("])
def test_a_kill_during_a_transfer_leaves_no_partial_file_and_the_job_ends_correctly(
    folder: Folder, whom: str, moment: str
) -> None:
    with folder.served() as pool:
        submit(folder, MANY.format(count=COUNT))
        folder.wait_for(lambda: moment in (folder.path / "job.log").read_text())
        if whom == "supervisor":
            os.kill(int((folder.path / "pool.db.d/lock").read_text()), signal.SIGKILL)
        if whom == "pool":
            pool.kill()
        else:
            folder.wait_for(lambda: has_ended(folder))
    if whom == "pool":
        with folder.served():
            folder.wait_for(lambda: has_ended(folder))
    assert [(folder.path / f"f{number}").read_text() for number in range(COUNT)] == [f"{n}\n" for n in range(COUNT)]
    folder.wait_for(lambda: not list(folder.path.glob(".poolbook-*")))
    assert ad(folder, "ExitCode", "JobStatus") == ["0", "4"]
    assert "sound" in folder.call("verify")
    log = (folder.path / "job.log").read_text()
    assert log.count("Finished transferring output") == log.count("\n005 (") == 1


@pytest.mark.parametrize(
    ("full", "way", "code", "arguments"),
    [
        ("execute", "input", "13", "Transfer input files failure at execution point slot1_1@"),
        ("submit", "output", "12", "Transfer output files failure at access point "),
    ],
)
def test_a_full_disk_at_either_end_holds_the_job_and_leaves_no_partial_file(
    folder: Folder, full: str, way: str, code: str, arguments: str
) -> None:
    with disk(folder.path / "disk", "size=1m") as place:
        (folder.path / "big").write_bytes(b"x" * 600_000)
        execute = f"EXECUTE = {place}\n" if full == "execute" else ""
        folder.write("poolbook.conf", f"{execute}RUNBENCHMARKS = false\nNUM_CPUS = 1\nSTART = true\n")
        with folder.served():
            remaps = f'transfer_output_files = big\ntransfer_output_remaps = "big = {place}/big"'
            (place / "filler").write_bytes(b"x" * 700_000)
            more = f"request_disk = 1 MB\ntransfer_input_files = big\n{remaps if way == 'output' else ''}"
            submit(folder, "true", more)
            folder.wait_for(lambda: ad(folder, "JobStatus") == ["5"])
            assert ad(folder, "HoldReasonCode", "HoldReasonSubCode") == [code, "28"]
            assert arguments in ad(folder, "HoldReason")[0]
            assert {path.name for path in place.iterdir()} - {"filler"} <= {
                path.name for path in place.glob("poolbook-*")
            }
            (place / "filler").unlink()
            folder.call("release", "1")
            folder.wait_for(lambda: has_ended(folder))
        assert way == "input" or (place / "big").stat().st_size == 600_000


def test_a_job_removed_during_its_output_transfer_leaves_no_partial_file(folder: Folder) -> None:
    with folder.served():
        submit(folder, MANY.format(count=1500))
        folder.wait_for(lambda: "Started transferring output" in (folder.path / "job.log").read_text())
        folder.call("rm", "1")
        folder.wait_for(lambda: has_ended(folder))
        folder.wait_for(lambda: not list(folder.path.glob(".poolbook-*")))
    assert len(list(folder.path.glob("f*"))) in (0, 1500)


def test_two_jobs_of_a_cluster_never_see_each_others_files(folder: Folder) -> None:
    script = "test ! -e mine && echo $0 > mine; sleep 0.2; cat mine > made.$0"
    text = JOB.format(script=script, more="transfer_output_files = made.$(Process)").replace("queue\n", "queue 4\n")
    folder.write("job.sub", text.replace("'\"\n", "' $(Process)\"\n"))
    with folder.served("-cpus", "4"):
        folder.call("submit", "job.sub")
        folder.wait_for(lambda: folder.call("history", "-af", "ExitCode").split() == ["0"] * 4)
    assert [Path(folder.path / f"made.{proc}").read_text() for proc in range(4)] == [f"{proc}\n" for proc in range(4)]


IN_PLACE_OF_STDOUT = (
    # script; what HTCondor 25.14 leaves in the output file, with transfer and streamed (not tried there: /dev/zero)
    ("rm -f S", None, "hi\n"),
    ("rm -f S; rm -rf ./* ./.[a-z]*", None, "hi\n"),
    ("rm -f S; mkdir S; touch S/in", None, "hi\n"),
    ("rm -f S; mkfifo S", None, "hi\n"),
    ("rm -f S; ln -s nowhere S", None, "hi\n"),
    ("rm -f S; echo linked > other; ln -s other S", "linked\n", "linked\n"),
    ("rm -f S; ln -s /dev/null S", "", ""),
    ("rm -f S; ln -s /dev/zero S", "", ""),
    ("rm -f S; echo new > S", "new\n", "new\n"),
)


def test_a_job_may_remove_or_replace_its_own_standard_output(folder: Folder) -> None:
    """As in HTCondor 25.14, it is Completed, and its output is the file that is in the scratch directory at its end."""
    text = ["executable = /bin/sh", "transfer_executable = false", "request_memory = 16", "should_transfer_files = YES"]
    for number, (script, _, _) in enumerate(IN_PLACE_OF_STDOUT):
        for kind in ("brought", "streamed"):
            text.append(f"output = {kind}{number}")
            text.append(f"error = {kind}{number}.err")
            text.append(f"stream_output = {str(kind == 'streamed').lower()}")
            text.append(f"arguments = \"-c 'echo hi; {script.replace('S', '_condor_stdout')}'\"\nqueue")
    folder.write("job.sub", "\n".join(text))
    folder.call("run", "job.sub", "-slots", "4")
    count = 2 * len(IN_PLACE_OF_STDOUT)
    assert folder.call("history", "-af", "JobStatus", "ExitCode").splitlines() == ["4 0"] * count
    for number, (script, brought_size, streamed) in enumerate(IN_PLACE_OF_STDOUT):
        for name, expected in ((f"brought{number}", brought_size), (f"streamed{number}", streamed)):
            path = folder.path / name
            assert (path.read_text() if path.exists() else None) == expected, (script, name)
    assert not list(folder.path.glob("_condor*"))


def test_a_jobs_ad_has_the_times_of_its_output_while_it_runs_and_the_names_of_its_outputs_at_its_end(
    folder: Folder,
) -> None:
    names = ("StdoutMtime", "StderrMtime", "ScratchDirFileCount")
    with folder.served():
        folder.write("go", "")
        script = "mkdir -p d/e; touch y d/e/f x; echo a; while test -e $0; do sleep 0.05; done"
        more = f"output = out\nerror = err\narguments = \"-c '{script}' {folder.path}/go\"\n"
        submit(folder, "", f"{more}transfer_output_files = x, d, y")
        folder.wait_for(lambda: "undefined" not in ad(folder, *names))
        out, err, count = map(int, ad(folder, *names))
        assert os.stat(folder.path).st_mtime - 60 < err <= out
        assert count >= 7
        assert ad(folder, "SpooledOutputFiles") == ["undefined"]
        (folder.path / "go").unlink()
        folder.wait_for(lambda: has_ended(folder))
    assert ad(folder, "SpooledOutputFiles", "StdoutMtime") == ["x,d,y", str(out)]
    assert "sound" in folder.call("verify")
