"""Golden: a job's environment when it starts, and the report about one that cannot be started."""

from __future__ import annotations

import errno
import os
import pwd
import re
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.machine.execution.activation import Exited, Failed, LaunchRequest, Started
from poolbook.adapters.machine.execution.client import Supervisor, SupervisorError

from .. import forked
from ..together import together
from .bench import Bench

STARTER = (Path(__file__).parent.parent / "data" / "execution" / "starter_environment.txt").read_text()

# The variables that HTCondor's starter of 25.14 sets and Poolbook does not, and why.
NOT_SET = {
    "CONDOR_STARTER_PID": "no starter process",
    "CUDA_VISIBLE_DEVICES": "the pool adds it",
    "GPU_DEVICE_ORDINAL": "the pool adds it",
    "NVIDIA_VISIBLE_DEVICES": "the pool adds it",
    "_CHIRP_DELAYED_UPDATE_PREFIX": "the pool adds it",
    "_CONDOR_AssignedGPUs": "the pool adds it",
    "_CONDOR_BIN": "there are no HTCondor programs",
    "_CONDOR_CHIRP_CONFIG": "no chirp configuration",
}
OWN = {"_POOLBOOK_ACTIVATION", "_POOLBOOK_EXECUTE"}


def environment_of(bench: Bench, **fields: Any) -> dict[str, str]:
    bench.start("1", "/usr/bin/env", "-0", stdout="env", **fields)
    assert bench.end("1").code == 0
    return dict(line.split("=", 1) for line in (bench.home / "env").read_text().split("\0")[:-1])


def test_a_job_inherits_its_own_variables_and_those_of_the_starter_and_nothing_else(bench: Bench) -> None:
    variables = environment_of(bench, environment={"MINE": "a b\nc"})
    starters = dict(item.split("=", 1) for item in STARTER.split())
    assert variables.keys() == (starters.keys() - NOT_SET.keys()) | OWN | {"MINE"}
    assert variables["MINE"] == "a b\nc"


def test_the_starters_variables_have_the_values_that_htcondors_starter_gives_them(bench: Bench) -> None:
    variables = environment_of(bench, cpus=3)
    scratch = f"{bench.folder}/execute/dir_1/scratch"
    documented = dict(item.split("=", 1) for item in STARTER.split() if item.split("=", 1)[0] not in NOT_SET)
    # HTCondor's job had one CPU, slot1, the home /home/bob and, /tmp being private to it, its temporary files there.
    expected = {name: re.sub("^1$", "3", value) for name, value in documented.items()} | {
        "HOME": pwd.getpwuid(os.getuid()).pw_dir,
        "TEMP": scratch,
        "TMP": scratch,
        "TMPDIR": scratch,
        "_CONDOR_JOB_IWD": str(bench.home),
        "_CONDOR_SLOT": "slot1_1",
    }
    real = "/var/lib/condor/execute/dir_91505/scratch"
    expected = {name: value.replace(real, scratch) for name, value in expected.items()}
    assert {name: value for name, value in variables.items() if name not in OWN} == expected


HOME = pwd.getpwuid(os.getuid()).pw_dir
# The job's variables, other fields of the activation, and the resulting environment.
SET: list[tuple[dict[str, str], dict[str, Any], dict[str, str | None]]] = [
    ({"OMP_NUM_THREADS": "7"}, {}, {"OMP_NUM_THREADS": "7", "NUMEXPR_NUM_THREADS": "1", "OMP_THREAD_LIMIT": None}),
    ({"MKL_NUM_THREADS": "7", "OMP_NUM_THREADS": ""}, {}, {"NUMEXPR_NUM_THREADS": None, "OMP_NUM_THREADS": "1"}),
    ({}, {"counts": ("MINE",), "cpus": 3}, {"MINE": "3", "OMP_NUM_THREADS": None}),
    ({"HOME": "/elsewhere"}, {}, {"HOME": HOME}),
    ({"HOME": "/elsewhere"}, {"sets_home": False}, {"HOME": "/elsewhere"}),
    ({}, {"sets_home": False}, {"HOME": None}),
    ({"BATCH_SYSTEM": "mine"}, {}, {"BATCH_SYSTEM": "HTCondor"}),
    ({"_CONDOR_SLOT": "mine"}, {}, {"_CONDOR_SLOT": "slot1_1"}),
    ({"MINE": "1"}, {"inherited": {"MINE": "2", "THEIRS": "3"}}, {"MINE": "1", "THEIRS": "3"}),
    ({"MINE": "1"}, {"added": {"MINE": "2"}}, {"MINE": "2"}),
    ({"MINE": "#CoNdOrScRaTcHdIr#/x"}, {}, {"MINE": "SCRATCH/x"}),
]


@together("expected_changes, fields, expected", SET)
def test_the_starter_decides_which_of_its_variables_a_job_may_set(
    bench: Bench, expected_changes: dict[str, str], fields: dict[str, Any], expected: dict[str, str | None]
) -> None:
    key = str(len(bench.reports))
    bench.start(key, "/usr/bin/env", "-0", stdout="env", environment=expected_changes, **fields)
    assert bench.end(key).code == 0
    variables = dict(line.split("=", 1) for line in (bench.home / "env").read_text().split("\0")[:-1])
    scratch = variables["_CONDOR_SCRATCH_DIR"]
    assert {name: variables.get(name, "").replace(scratch, "SCRATCH") or None for name in expected} == expected


def test_a_job_runs_in_its_scratch_directory_where_the_two_ads_are(bench: Bench) -> None:
    script = 'pwd; cat .job.ad "$_CONDOR_MACHINE_AD"; ls -A'
    bench.sh("7", script, stdout="out", job_ad="ClusterId = 1\n", machine_ad='Name = "ö"\n')
    assert bench.end("7").code == 0
    shown_output = f'{bench.folder}/execute/dir_7/scratch\nClusterId = 1\nName = "ö"\n.job.ad\n.machine.ad\n'
    assert (bench.home / "out").read_text() == shown_output


def test_a_job_runs_in_the_initial_directory_if_that_is_requested(bench: Bench) -> None:
    bench.sh("7", "pwd", stdout="out", run_in_iwd=True)
    assert bench.end("7").code == 0
    assert (bench.home / "out").read_text() == f"{bench.home}\n"


def test_a_directory_that_is_used_again_shows_nothing_of_the_previous_job(bench: Bench) -> None:
    for key, ad in (("1", "a long ad\n" * 1000), ("2", "short\n"), ("3", "")):
        bench.sh(key, "ls -A; cat .job.ad", stdout=f"out{key}", job_ad=ad)
        assert bench.end(key).code == 0
        assert (bench.home / f"out{key}").read_text() == f".job.ad\n.machine.ad\n{ad}"
        bench.supervisor.acknowledge([key])
        bench.until(lambda: not bench.supervisor.claimed_keys())


@pytest.mark.parametrize(
    ("fields", "files"),
    [
        ({"stdout": "o", "stderr": "e"}, {"o": "out in\n", "e": "err\n"}),
        ({"stdout": "o", "stderr": "o"}, {"o": "out in\nerr\n"}),
        ({"stdout": "", "stderr": "e"}, {"o": "old\n", "e": "err\n"}),
        ({"stdout": "/dev/null", "stderr": "/dev/null"}, {"o": "old\n"}),
        ({"stdout": "o", "append_stdout": True}, {"o": "old\nout in\n"}),
        ({"stderr": "o", "append_stderr": True}, {"o": "old\nerr\n"}),
    ],
)
def test_a_jobs_streams_are_files_relative_to_the_initial_directory(
    bench: Bench, fields: dict[str, Any], files: dict[str, str]
) -> None:
    (bench.home / "o").write_text("old\n")
    (bench.home / "i").write_text("in\n")
    bench.sh("1", "echo out $(cat); echo err >&2", stdin="i", **fields)
    assert bench.end("1").code == 0
    assert {name: (bench.home / name).read_text() for name in files} == files


def test_without_an_input_a_job_reads_end_of_file_immediately(bench: Bench) -> None:
    bench.start("1", "/bin/cat")
    assert bench.end("1").code == 0


def test_a_job_inherits_no_open_file_of_the_supervisor_and_has_default_signals(bench: Bench) -> None:
    bench.sh("1", "ls /proc/self/fd; grep -hE 'SigIgn|SigBlk' /proc/self/status", stdout="out")
    bench.end("1")
    *descriptors, blocked, ignored = (bench.home / "out").read_text().splitlines()
    assert descriptors == ["0", "1", "2", "3"]  # the last is that with which ls reads the directory
    assert int(blocked.split()[1], 16) == 0
    # Signals 32 and 33 are the C library's own: its posix_spawn ignores them.
    assert int(ignored.split()[1], 16) & (1 << 31) - 1 == 0


def test_a_job_has_default_signals_whatever_the_pool_was_started_with(bench: Bench) -> None:
    """For example with `nohup poolbook serve &` in a script, or with another program that ignores signals."""
    code = """
import sys
from pathlib import Path
from poolbook.adapters.machine.execution.activation import LaunchRequest
from poolbook.adapters.machine.execution.client import Supervisor
with Supervisor(Path(sys.argv[1])) as supervisor:
    supervisor.start([LaunchRequest(key="1", job="1", slot="s", executable="/bin/grep",
        arguments=("-E", "SigIgn|SigBlk", "/proc/self/status"), iwd=sys.argv[2], stdout="out", run_in_iwd=True)])
"""
    ignored = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD})
    forked.run(["-c", code, str(bench.folder), str(bench.home)], ignored=ignored, check=True)
    bench.until(lambda: isinstance(bench.supervisor.recover(["1"])["1"], Exited))
    # Signals 32 and 33 are the C library's own: its posix_spawn ignores them.
    masks = [int(line.split()[1], 16) & ~(3 << 31) for line in (bench.home / "out").read_text().splitlines()]
    assert masks == [0, 0]


def test_a_started_job_is_reported_before_its_end(bench: Bench) -> None:
    bench.sh("1", "echo $$", stdout="out")
    end = bench.end("1")
    (started_report,) = bench.of("1", Started)
    assert started_report.pid == int((bench.home / "out").read_text())
    assert bench.reports.index(started_report) < bench.reports.index(end)
    assert started_report.at <= end.at


NOT_THERE = "No such file or directory"
TOO_LARGE = "arguments and environment are larger than this system takes"


@pytest.mark.parametrize(
    ("fields", "part", "number", "hold_code", "text"),
    [
        ({"executable": "gone"}, "executable", errno.ENOENT, 6, f"{{home}}/gone: {NOT_THERE}"),
        ({"executable": "plain"}, "executable", errno.EACCES, 6, "{home}/plain: Permission denied"),
        ({"executable": "/etc"}, "executable", errno.EACCES, 6, "/etc: Permission denied"),
        ({"executable": "script"}, "executable", errno.ENOEXEC, 6, "needs a first line such as #!/bin/sh"),
        ({"arguments": ("x" * 10_000_000,)}, "executable", errno.E2BIG, 6, TOO_LARGE),
        ({"arguments": ("x" * 1000,) * 10_000}, "executable", errno.E2BIG, 6, TOO_LARGE),
        ({"environment": {"X": "x" * 10_000_000}}, "executable", errno.E2BIG, 6, TOO_LARGE),
        ({"arguments": ("a\0b",)}, "executable", 0, 6, "embedded null byte in arguments or environment"),
        ({"environment": {"A=B": ""}}, "executable", 0, 6, "in arguments or environment"),
        ({"stdin": "gone"}, "stdin", errno.ENOENT, 8, f"{{home}}/gone: {NOT_THERE}"),
        ({"stdout": "no/where"}, "stdout", errno.ENOENT, 7, f"{{home}}/no/where: {NOT_THERE}"),
        ({"stdout": "plain/out"}, "stdout", errno.ENOTDIR, 7, "{home}/plain/out: Not a directory"),
        ({"stderr": "folder"}, "stderr", errno.EISDIR, 7, "{home}/folder: Is a directory"),
        ({"stdout": "fifo"}, "stdout", errno.ENXIO, 7, "no process reads from this FIFO"),
        ({"stdout": "a\0b"}, "stdout", 0, 7, "embedded null byte"),
        ({"job_ad": "\ud800"}, "scratch", 0, 6, "an ad cannot be written"),
        ({"iwd": "/a\0b", "run_in_iwd": True}, "iwd", 0, 14, "embedded null byte"),
        ({"iwd": "/gone", "run_in_iwd": True}, "iwd", errno.ENOENT, 14, f"/gone: {NOT_THERE}"),
    ],
)
def test_a_job_that_cannot_be_started_is_reported_and_the_next_one_runs(
    bench: Bench, fields: dict[str, Any], part: str, number: int, hold_code: int, text: str
) -> None:
    (bench.home / "plain").write_text("#!/bin/sh\n")
    (bench.home / "script").write_text("true\n")
    (bench.home / "script").chmod(0o755)
    (bench.home / "folder").mkdir()
    os.mkfifo(bench.home / "fifo")
    fields = {"key": "1", "job": "1.0", "slot": "s", "executable": "/bin/true", "iwd": str(bench.home)} | fields
    bench.supervisor.start([LaunchRequest(**fields), bench.activation("2", "/bin/true")])
    failed_end = bench.end("1")
    assert isinstance(failed_end, Failed)
    assert (failed_end.part, failed_end.errno, failed_end.hold_code) == (part, number, hold_code)
    assert failed_end.reason.startswith(part)
    assert text.format(home=bench.home) in failed_end.reason
    assert isinstance(bench.end("2"), Exited)


def test_only_the_owner_may_read_the_folder(bench: Bench) -> None:
    bench.start("1", "/bin/true")
    bench.end("1")
    assert stat.S_IMODE(bench.folder.stat().st_mode) == 0o700


@together("key", ["", "../x", "a/b", ".", "-x", "a b", "x" * 201])
def test_a_key_with_a_special_meaning_in_a_path_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="take the position of the event that started it"):
        LaunchRequest(key=key, job="1.0", slot="s", executable="/bin/true", iwd="/")


def test_a_relative_initial_directory_is_refused() -> None:
    with pytest.raises(ValueError, match="iwd 'here' is relative"):
        LaunchRequest(key="1", job="1.0", slot="s", executable="/bin/true", iwd="here")


def test_a_folder_may_have_a_path_longer_than_a_socket_may(tmp_path: Path) -> None:
    home = tmp_path / ("long" * 50)
    home.mkdir()
    with Bench(home) as bench:
        bench.start("1", "/bin/true")
        assert bench.end("1").code == 0


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        SupervisorError, match=r"no supervisor can be reached in .*Not a directory.*you must own this directory"
    ):
        Supervisor(tmp_path / "file" / "pool").start([])
