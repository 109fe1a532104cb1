"""Golden, real: condor_tail, condor_ssh_to_job and condor_who on a running job, and condor_run and condor_qsub, which
submit, print what HTCondor's printed for the same job."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from .. import forked
from ..tools.captures import capture
from .real import PATIENCE, POOLBOOK, Folder, environment

JOB = """\
#!/bin/sh
echo first line; echo second line; echo an error >&2
seq 1 400 > data.txt; touch written
sleep 3000
"""
SUBMIT = """\
executable = j.sh
output = j.out
error = j.err
+TransferOutput = "data.txt"
should_transfer_files = no
queue
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    """Return a directory whose pool runs job 1.0."""
    test_folder = Folder(tmp_path_factory.mktemp("work"))
    (test_folder.path / "j.sh").write_text(JOB)
    (test_folder.path / "j.sh").chmod(0o700)
    test_folder.write("j.sub", SUBMIT)
    test_folder.write("q.sh", "echo hi from qsub\n")
    with test_folder.served("-cpus", "2"):
        test_folder.call("submit", "j.sub")
        test_folder.wait_for((test_folder.path / "written").exists)
        yield test_folder
        test_folder.call("rm", "-all")
    test_folder.kill_everything()


def run_tool(folder: Folder, tool: str, *arguments: str) -> tuple[str, int]:
    """Return the output and exit code of a tool."""
    completed = forked.run(
        [*POOLBOOK, f"condor_{tool}", *arguments], cwd=folder.path, env=environment(), timeout=PATIENCE
    )
    return completed.stdout + completed.stderr, completed.returncode


@pytest.mark.parametrize(
    "name",
    ["tail_stdout", "tail_cluster", "tail_stderr", "tail_nostdout_file", "tail_maxbytes", "tail_other", "tail_abs"],
)
def test_the_end_of_a_jobs_files_is_printed(name: str, folder: Folder) -> None:
    real = capture(name)
    assert run_tool(folder, "tail", *real.argv) == (real.out + real.err, real.exit_code)


def test_a_file_other_than_the_output_is_printed_although_htcondor_loses_count(folder: Folder) -> None:
    real = capture("tail_file")
    out, code = run_tool(folder, "tail", *real.argv)
    assert out.split() == real.out.split()[:4] + out.split()[4:]
    assert (out.splitlines()[-1], code, real.exit_code) == ("400", 0, 1)
    assert len(out) <= 1024


def test_discarded_output_cannot_be_printed(folder: Folder) -> None:
    folder.write("null.sub", "executable = /bin/sleep\narguments = 300\noutput = /dev/null\nqueue\n")
    job = re.findall(r"\d+", folder.call("submit", "-terse", "null.sub"))[0]
    folder.wait_for(lambda: folder.call("q", job, "-af", "JobStatus") == "2\n")
    out, code = run_tool(folder, "tail", job)
    real = capture("tail")
    assert re.sub(r"\(/\S*/scratch\)", "()", out) == re.sub(r"\(/\S*/scratch\)", "()", real.err)
    assert code == real.exit_code
    folder.call("rm", job)


def test_a_shell_runs_in_the_jobs_directory_with_its_environment(folder: Folder) -> None:
    out, code = run_tool(folder, "ssh_to_job", "1.0", "pwd; echo $_CONDOR_SLOT $_CONDOR_SCRATCH_DIR; exit 3")
    place, line = out.splitlines()
    slot, scratch = line.split()
    assert (place, slot, code) == (scratch, "slot1_1", 3)


def test_an_interactive_shell_has_htcondors_greeting(folder: Folder) -> None:
    out, code = run_tool(folder, "ssh_to_job", "-shells", "nosuchshell,true", "1")
    assert re.match(r"Welcome to slot1_1@\S+!\nYour condor job is running with pid\(s\) \d+\.\n", out)
    assert code == 0


@pytest.mark.parametrize("name", ["who_af", "who_constraint"])
def test_the_jobs_on_this_machine_are_listed(name: str, folder: Folder) -> None:
    real = capture(name)
    out, code = run_tool(folder, "who", *real.argv)
    assert (re.sub(r"\S+@\S+|Startd : \S+", "X", out), code) == (re.sub(r"\S+@\S+|Startd : \S+", "X", real.out), 0)


def test_the_table_has_the_processes_and_directories(folder: Folder) -> None:
    out, code = run_tool(folder, "who")
    heads, row = out.splitlines()[2:4]
    _, _, slot, job, runtime, _, directory = row.split()
    assert (slot, job, directory, code) == ("1_1", "1.0", str(folder.path), capture("who").exit_code)
    for real in (capture("who"), capture("who_now")):  # the columns are where they are there, for values of that length
        lines = real.out.splitlines()
        texts = [lines[2][m.start() :].split()[0] for m in re.finditer(r"\S+", lines[2])]
        assert heads.split() == texts
        assert lines[3].index(lines[3].split()[4]) - lines[2].index("RUNTIME") == row.index(runtime) - heads.index(
            "RUNTIME"
        )


@pytest.mark.parametrize("name", ["run_echo", "run_exit", "run_append"])
def test_a_command_is_run_as_a_job(name: str, folder: Folder) -> None:
    real = capture(name)
    assert run_tool(folder, "run", *real.argv) == (real.out + real.err, real.exit_code)
    assert not list(folder.path.glob(".condor_*"))


@pytest.mark.parametrize("name", ["qsub_script", "qsub_named"])
def test_a_script_is_submitted(name: str, folder: Folder) -> None:
    real = capture(name)
    out, code = run_tool(folder, "qsub", *real.argv)
    assert re.sub(r"\d+", "N", out) == re.sub(r"\d+", "N", real.out + real.err)
    (job,) = set(re.findall(r"\d+", out))
    output = folder.path / ("o.txt" if name == "qsub_named" else f"q.sh.o{job}")
    folder.wait_for(lambda: output.exists() and output.read_text() == "hi from qsub\n")
    assert code == real.exit_code


def test_a_script_that_waits_for_another_is_released_when_that_has_ended(folder: Folder) -> None:
    folder.write("first.sh", f"until test -e {folder.path}/go; do sleep 0.05; done\n")
    first = re.findall(r"\d+", run_tool(folder, "qsub", "first.sh")[0])[0]
    folder.write("second.sh", "echo the second\n")
    second = re.findall(r"\d+", run_tool(folder, "qsub", "-hold_jid", first, "second.sh")[0])[0]
    assert folder.call("q", second, "-af", "JobStatus") == "5\n"
    folder.write("go", "")
    output = folder.path / f"second.sh.o{second}"
    folder.wait_for(lambda: output.exists() and output.read_text() == "the second\n")


def test_a_missing_script_is_reported_and_submitted_as_by_htcondor(folder: Folder) -> None:
    real = capture("qsub_noscript")
    out, code = run_tool(folder, "qsub", *real.argv)
    last = real.err.partition("/usr/bin/condor_qsub: line 453: ")[2]
    assert re.sub(r"\d+", "N", out).endswith(f"condor_qsub: {re.sub(r'[0-9]+', 'N', last)}")
    assert re.sub(r"\d+", "N", out).startswith(re.sub(r"\d+", "N", real.out))
    assert code == real.exit_code


def test_nothing_remains_to_be_fetched(folder: Folder) -> None:
    assert capture("transfer_data_job").out == capture("transfer_data_all").out == "Fetching data files...\n"
    for name in ("transfer_data_job", "transfer_data_all"):
        assert run_tool(folder, "transfer_data", *capture(name).argv) == (capture(name).out, 0)


def test_a_file_is_followed_until_its_job_ends(folder: Folder) -> None:
    folder.write("talks.sh", f"echo one; until test -e {folder.path}/talk; do sleep 0.05; done; echo two\n")
    folder.write("talks.sub", "executable = /bin/sh\narguments = talks.sh\noutput = talks.out\nqueue\n")
    job = re.findall(r"\d+", folder.call("submit", "-terse", "talks.sub"))[0]
    folder.wait_for(lambda: folder.call("q", job, "-af", "JobStatus") == "2\n")
    tail = folder.start("condor_tail", "-f", job)
    assert tail.stdout is not None and tail.stdout.readline() == "one\n"
    folder.write("talk", "")
    assert (tail.communicate(timeout=PATIENCE)[0], tail.returncode) == ("two\n", 0)


def test_an_interactive_job_gives_its_user_a_shell_in_its_directory(folder: Folder) -> None:
    typed = "pwd; ls -a; echo $_CONDOR_SLOT $TMOUT; exit 3\n"
    completed = forked.run(
        [*POOLBOOK, "condor_submit", "-interactive"], cwd=folder.path, env=environment(), timeout=PATIENCE, typed=typed
    )
    output = completed.stdout + completed.stderr
    number = re.search(r"submitted to cluster (\d+)\.", output)
    assert completed.returncode == 3 and number, output
    assert "Welcome to slot1" in output and "/scratch\n" in output and ".condor_ssh_to_job_1\n" in output
    assert re.search(r"^slot1_\d+ 7200$", completed.stdout, re.MULTILINE) and "condor_watch_q" not in output
    ad = folder.json("q", number[1], "-long")[0]
    assert (ad["InteractiveJob"], ad["Cmd"], ad["JobDescription"]) == (True, "/bin/sh", "interactive job")
    folder.call("rm", number[1])
