"""Golden: the options of condor_submit and their output (HTCondor 25.14)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolbook.adapters.machine.host import host_name

from .. import forked
from ..pool.real import POOLBOOK, Folder, environment
from ..together import together

SUB = "executable = /bin/sleep\narguments = $(Process)\npriority = $(Process)\nbatch_name = own\nbogus = 1\nqueue 3\n"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Return a folder with submit files."""
    folder = Folder(tmp_path)
    folder.write("job.sub", SUB)
    folder.write("items.csv", "arguments, priority\na b, 4\nc, 5\n")
    folder.write("plain.sub", "executable = /bin/sleep\n")
    folder.write("noted.sub", "include : touch ran |\nexecutable = /bin/sleep\nqueue x from touch kept |\n")
    folder.write("dos.sh", "#!/bin/sh\r\nexit 0\r\n")
    folder.write("empty.sh", "")
    folder.write("dos.sub", "executable = dos.sh\nqueue\n")
    folder.write("empty.sub", "executable = empty.sh\nqueue\n")
    return folder


def run_submit(folder: Folder, arguments: str, typed: str | None = None) -> tuple[int, str, str]:
    """Run submit; return its exit code, standard output and standard error."""
    process = forked.run([*POOLBOOK, "submit", *arguments.split()], cwd=folder.path, env=environment(), typed=typed)
    return process.returncode, process.stdout, process.stderr


SENT_ADS = """\

ClusterId=1
In="/dev/null"
Cmd="/bin/sleep"
.*
Args="0"
Rank=0.0
.*
CumulativeSuspensionTime=0
ProcId=0
JobStatus=1
.?
ProcId=1
JobStatus=1
Args="1"
JobPrio=1
.?
ProcId=2
JobStatus=1
Args="2"
JobPrio=2
"""


@together(
    ("arguments", "pattern"),
    [
        ("-dry-run - job.sub", rf"Dry-Run job\(s\){SENT_ADS}\.\n3 job\(s\) dry-run to cluster 1\.\n"),
        ("-dump - job.sub", rf"{SENT_ADS}\n"),
        ("-terse -dry-run - job.sub", rf"{SENT_ADS}1\.0 - 1\.2\n"),
        ("-dump ads job.sub", r"Storing job ClassAd\(s\)\.\.\.\n3 job\(s\) submitted to cluster 1\.\n"),
        ("-dry-run ads job.sub", r"Dry-Run job\(s\)\.\.\.\n3 job\(s\) dry-run to cluster 1\.\n"),
        ("-dry-run:full - job.sub", r"Dry-Run job\(s\)\.\.\.\n3 job\(s\) dry-run to cluster 1\.\n\nArgs = \"0\"\n.*"),
        ("-dry-run:full - -file job.sub", r".*\nJobBatchName = \"own\"\n.*"),
        ("-dry-run:full - -batch-name mine job.sub", r".*\nJobBatchName = \"mine\"\n.*"),
        ("-dry-run:full - -batch-id 7 job.sub", r".*\nJobBatchId = \"7\"\n.*"),
        ("-dry-run - -table items.csv plain.sub", r".*Args=\"a b\".*ProcId=1.*Args=\"c\"\nJobPrio=5\n.*"),
        ("-dry-run - -iterate arguments in 8 9 - plain.sub", r".*Args=\"8\".*ProcId=1.*Args=\"9\"\n.*"),
        ("-dry-run - executable=/bin/true -queue 2 -file plain.sub", r".*ProcId=1\n.*"),
        ("-capabilities", rf"Schedd {host_name()}\n Has Late Materialization enabled\n"),
        ("-maxjobs 3 -terse job.sub", r"\d+\.0 - \d+\.2\n"),
        ("-maxjobs 0 -disable -single-cluster job.sub", r"Submitting job\(s\)\.\.\.\n3 job\(s\) submitted to .*\n"),
        (f"-name {host_name()} -pool localhost:9618 -terse job.sub", r"\d+\.0 - \d+\.2\n"),
        ("-verbose job.sub", r"Submitting job\(s\)\n\*\* Proc \d+\.0:\nArgs = \"0\"\n.*\n\* ?\* Proc \d+\.2:.*\n\n\n"),
    ],
)
def test_an_option_works_as_in_condor_submit(folder: Folder, arguments: str, pattern: str) -> None:
    code, out, err = run_submit(folder, arguments)
    assert (code, re.fullmatch(pattern, out, re.DOTALL) is not None) == (0, True), out + err


@together(
    ("arguments", "message"),
    [
        ("-maxjobs 2 job.sub", "Number of submitted jobs would exceed -maxjobs (2)"),
        ("-dump a -dry-run b job.sub", "-dump <file> and -dry-run <file> cannot be used together"),
        ("-dump a", "no submit file is named, because 'a' is the output file"),
        ("-dry-run:hash - job.sub", "unknown option hash for -dry-run:<opts>"),
        ("-name elsewhere job.sub", "unknown host elsewhere: a log is one pool"),
        ("-pool elsewhere job.sub", "unknown host elsewhere: a log is one pool"),
        ("job.sub -queue 2", "-queue argument conflicts with queue statement in submit file"),
        (
            "plain.sub -queue 2 -table items.csv",
            "use only one of -queue, -iterate, -table and -append 'queue ...', once",
        ),
        ("-dry-run - noted.sub", "it would run `touch ran`, which an untrusted configuration may not do"),
        ("dos.sub", "is a script with CRLF (DOS/Windows) line endings."),
        ("empty.sub", "empty.sh has zero length"),
        ("job.sub -file plain.sub", "specify only one submit file, not"),
    ],
)
def test_an_invalid_use_of_an_option_is_rejected(folder: Folder, arguments: str, message: str) -> None:
    code, out, err = run_submit(folder, arguments)
    assert (code in (1, 2), out, message in err) == (True, "", True), err


def test_programs_run_at_submission_and_in_a_trusted_dry_run(folder: Folder) -> None:
    kept = folder.path / "kept"
    for arguments in ("-dry-run - -trust noted.sub", "noted.sub"):
        code, _, err = run_submit(folder, arguments)
        assert (code, kept.exists(), "no jobs queued" in err) == (0, True, True)
        kept.unlink()


def test_the_options_select_whether_an_unused_line_is_reported(folder: Folder) -> None:
    reported = {
        options: "'bogus = 1' was unused" in run_submit(folder, f"{options} job.sub")[2] for options in _REPORTS_UNUSED
    }
    assert reported == _REPORTS_UNUSED


_REPORTS_UNUSED = {"-terse": True, "-unused": False, "-unused -u": True, "-append WARN=1 -u": False}


def test_a_description_and_its_items_may_come_from_standard_input(folder: Folder) -> None:
    text = "executable = /bin/sleep\narguments = $(x)$(SUBMIT_FILE)\nqueue x from -\na\nb\n"
    output = run_submit(folder, "-", text)[1]
    assert re.findall(r"^Args = .*|^\*\* Proc .*|^JobSubmitFile.*|^.*submitted.*", output, re.MULTILINE) == [
        "** Proc 1.0:", 'Args = "a"', "** Proc 1.1:", 'Args = "b"',
    ]  # fmt: skip
    assert "2 job(s) submitted to cluster 2." in run_submit(folder, "", text)[1]
