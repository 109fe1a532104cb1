"""Golden: condor_submit's options, and what it prints (HTCondor 25.14)."""

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
def submits(tmp_path: Path) -> Folder:
    """A folder with submit files."""
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


def ran(folder: Folder, words: str, typed: str | None = None) -> tuple[int, str, str]:
    """Call submit; return its exit code, and what it prints on standard output and standard error."""
    done = forked.run([*POOLBOOK, "submit", *words.split()], cwd=folder.path, env=environment(), typed=typed)
    return done.returncode, done.stdout, done.stderr


SENT = """\

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
    ("words", "pattern"),
    [
        ("-dry-run - job.sub", rf"Dry-Run job\(s\){SENT}\.\n3 job\(s\) dry-run to cluster 1\.\n"),
        ("-dump - job.sub", rf"{SENT}\n"),
        ("-terse -dry-run - job.sub", rf"{SENT}1\.0 - 1\.2\n"),
        ("-dump told job.sub", r"Storing job ClassAd\(s\)\.\.\.\n3 job\(s\) submitted to cluster 1\.\n"),
        ("-dry-run told job.sub", r"Dry-Run job\(s\)\.\.\.\n3 job\(s\) dry-run to cluster 1\.\n"),
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
def test_an_option_does_what_it_does_to_condor_submit(submits: Folder, words: str, pattern: str) -> None:
    code, found, err = ran(submits, words)
    assert (code, re.fullmatch(pattern, found, re.DOTALL) is not None) == (0, True), found + err


@together(
    ("words", "says"),
    [
        ("-maxjobs 2 job.sub", "Number of submitted jobs would exceed -maxjobs (2)"),
        ("-dump a -dry-run b job.sub", "-dump <file> and -dry-run <file> cannot be used together"),
        ("-dump a", "no submit file was named, and 'a' was given as the file to write"),
        ("-dry-run:hash - job.sub", "unknown option hash for -dry-run:<opts>"),
        ("-name elsewhere job.sub", "unknown host elsewhere: a log is one pool"),
        ("-pool elsewhere job.sub", "unknown host elsewhere: a log is one pool"),
        ("job.sub -queue 2", "-queue argument conflicts with queue statement in submit file"),
        (
            "plain.sub -queue 2 -table items.csv",
            "only one of -queue, -iterate, -table and -append 'queue ...', and once",
        ),
        ("-dry-run - noted.sub", "it asks to run `touch ran`, and runs and writes nothing unless it is trusted"),
        ("dos.sub", "is a script with CRLF (DOS/Windows) line endings."),
        ("empty.sub", "empty.sh has zero length"),
        ("job.sub -file plain.sub", "one submit file at a time"),
    ],
)
def test_what_an_option_rules_out_is_refused(submits: Folder, words: str, says: str) -> None:
    code, out, err = ran(submits, words)
    assert (code in (1, 2), out, says in err) == (True, "", True), err


def test_programs_run_where_the_file_is_submitted_and_in_a_dry_run_that_trusts_it(submits: Folder) -> None:
    kept = submits.path / "kept"
    for words in ("-dry-run - -trust noted.sub", "noted.sub"):
        code, _, err = ran(submits, words)
        assert (code, kept.exists(), "no jobs queued" in err) == (0, True, True)
        kept.unlink()


def test_what_is_unused_is_told_or_not(submits: Folder) -> None:
    told = {words: "'bogus = 1' was unused" in ran(submits, f"{words} job.sub")[2] for words in _UNUSED}
    assert told == _UNUSED


_UNUSED = {"-terse": True, "-unused": False, "-unused -u": True, "-append WARN=1 -u": False}


def test_a_description_on_standard_input_is_no_file_and_its_items_may_follow(submits: Folder) -> None:
    text = "executable = /bin/sleep\narguments = $(x)$(SUBMIT_FILE)\nqueue x from -\na\nb\n"
    found = ran(submits, "-", text)[1]
    assert re.findall(r"^Args = .*|^\*\* Proc .*|^JobSubmitFile.*|^.*submitted.*", found, re.MULTILINE) == [
        "** Proc 1.0:", 'Args = "a"', "** Proc 1.1:", 'Args = "b"',
    ]  # fmt: skip
    assert "2 job(s) submitted to cluster 2." in ran(submits, "", text)[1]
