"""Golden: submit -spool copies a job's files to the spool, and condor_transfer_data fetches its outputs."""

from __future__ import annotations

from .real import Folder
from .test_checkpoints import spooled
from .test_transfers import ad

JOB = """
executable = job.sh
should_transfer_files = YES
transfer_input_files = in/a, b
request_memory = 16
request_disk = 100 MB
output = o/out
error = err
log = job.log
{more}
queue 2
"""
SCRIPT = "#!/bin/sh\ncat a b; echo made > made.$$; echo wrong >&2; echo changed > b\n"
LEAVE = (
    "JobStatus == 4 && (time() - (CompletionDate ?: time())) < 864000 && (StageOutFinish ?: 0) < EnteredCurrentStatus"
)


def submit(folder: Folder, more: str = "") -> None:
    for name in ("in", "o"):
        (folder.path / name).mkdir()
    for name, text in {"in/a": "alpha\n", "b": "beta\n", "job.sh": SCRIPT}.items():
        (folder.path / name).write_text(text)
    folder.write("job.sub", JOB.format(more=more))
    folder.call("submit", "-spool", "job.sub")


def test_files_go_to_the_spool_at_submission_and_come_back_when_fetched(folder: Folder) -> None:
    submit(folder, 'transfer_output_files = b\ntransfer_output_remaps = "b = new"')
    names = ("JobStatus", "HoldReasonCode", "LastHoldReasonCode", "Cmd", "Out", "TransferInput")
    values = folder.call("q", "1.0", "-af:t", *names).strip().split("\t")
    assert values == [
        "1", "undefined", "16", "job.sh", "_condor_stdout", "a,b",
    ]  # fmt: skip
    assert "Data files spooled" in folder.call("q", "1.0", "-af", "ReleaseReason")
    (folder.path / "b").write_text("it is read no more\n")
    (folder.path / "in/a").unlink()
    with folder.served():
        folder.wait_for(lambda: folder.call("q", "-af", "JobStatus").split() == ["4", "4"])
        assert folder.call("q", "1.0", "-af:r", "LeaveJobInQueue").strip() == LEAVE
        assert not (folder.path / "o/out").exists()
        assert folder.call("condor_transfer_data", "1.0") == "Fetching data files...\n"
        assert (folder.path / "o/out").read_text() == "alpha\nbeta\n"
        assert (folder.path / "new").read_text() == "changed\n"
        assert (folder.path / "err").read_text() == "wrong\n"
        folder.wait_for(lambda: folder.call("q", "-af", "ProcId").split() == ["1"])
        folder.call("condor_transfer_data", "-all")
        folder.wait_for(lambda: folder.call("q", "-af", "ProcId") == "")
        folder.wait_for(lambda: not spooled(folder))
    assert "sound" in folder.call("verify")


def test_without_a_list_new_and_changed_files_are_fetched(folder: Folder) -> None:
    submit(folder)
    with folder.served():
        folder.wait_for(lambda: folder.call("q", "-af", "JobStatus").split() == ["4", "4"])
        folder.call("condor_transfer_data", "1")
    assert (folder.path / "b").read_text() == "changed\n"
    assert len(list(folder.path.glob("made.*"))) == 2
    assert not (folder.path / "a").exists() and not list(folder.path.glob(".poolbook-*"))


def test_a_missing_input_leaves_the_jobs_held_and_hold_contradicts_it(folder: Folder) -> None:
    folder.write("job.sub", "executable = /bin/true\ntransfer_input_files = missing\nlog = job.log\nqueue")
    output = folder.call("submit", "-spool", "job.sub", code=1)
    assert "missing" in output and "ERROR: Failed to spool job files." in output
    assert ad(folder, "JobStatus", "HoldReasonCode", "HoldReason") == ["5", "16", "Spooling input data files"]
    folder.write("job.sub", "executable = /bin/true\nhold = true\nqueue")
    assert "Cannot set hold to 'true' when using -remote or -spool" in folder.call(
        "submit", "-spool", "job.sub", code=1
    )
