"""Golden: which parts of a machine's configuration and of a job's ad the starter uses, with real jobs."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from poolbook import Pool, UnknownThingError
from poolbook.adapters.machine import cron
from poolbook.adapters.machine.starter import Starter
from poolbook.domain.config import ConfigError, read

from .real import Folder

pytestmark = pytest.mark.usefixtures("told_speed")

PLAIN = "UPDATE_INTERVAL = 1\n"
SMALL = {"request_memory": "16", "request_disk": "1 MB"}
TRAPS = 'for s in INT USR1 USR2 TERM; do trap "echo $s > signal; exit 0" $s; done; echo > ready; '
WAITS = "while :; do sleep 0.05; done"


def shell(script: str, **commands: str) -> str:
    lines = [f"{name} = {text}" for name, text in {"executable": "/bin/sh", **SMALL, **commands}.items()]
    quoted = script.replace('"', '""')
    return "\n".join([*lines, f"arguments = \"-c '{quoted}'\"", "queue"])


def until(pool: Pool, holds: Callable[[], object]) -> None:
    for _ in range(600):
        if holds():
            return
        pool.advance(0.1)
    raise AssertionError("it did not come to pass")


def output_of_job(tmp_path: Path, config: str, script: str, **commands: str) -> str:
    """Return what a job wrote to its standard output, under a configuration."""
    with Pool.open(f"{tmp_path}/pool.db", execute=True, config=PLAIN + config) as pool:
        pool.add_machine("here", cpus=2)
        pool.submit(shell(script, output="out", **commands), folder=tmp_path)
        assert pool.run(60) and not pool.jobs()
    return (tmp_path / "out").read_text()


def test_a_pool_holds_the_cycle_that_is_due_when_its_benchmarks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause after the first cycle is as long as the cycle, and a benchmark may end within it."""
    for name, result in (("mips", "Mips = 3000"), ("kflops", "KFlops = 20000")):
        monkeypatch.setitem(cron.OWN_PROGRAMS, f"condor_{name}", ("/bin/echo", result))
    assert output_of_job(tmp_path, "", "echo hello") == "hello\n"


# Signals


@pytest.mark.parametrize(
    ("commands", "act", "message"),
    [
        ({}, Pool.hold, "TERM"),
        ({"kill_sig": "SIGINT"}, Pool.remove, "INT"),
        ({"kill_sig": "SIGINT", "hold_kill_sig": "SIGUSR1", "remove_kill_sig": "SIGUSR2"}, Pool.hold, "USR1"),
        ({"kill_sig": "SIGINT", "hold_kill_sig": "SIGUSR1", "remove_kill_sig": "SIGUSR2"}, Pool.remove, "USR2"),
        ({"kill_sig": "SIGINT", "hold_kill_sig": "SIGUSR1", "remove_kill_sig": "SIGUSR2"}, Pool.vacate, "INT"),
    ],
)
def test_a_job_gets_its_own_signal_when_it_is_held_removed_or_vacated(
    tmp_path: Path, commands: dict[str, str], act: Callable[..., object], message: str
) -> None:
    with Pool.open(f"{tmp_path}/pool.db", execute=True) as pool:
        pool.add_machine("here")
        cluster = pool.submit(shell(TRAPS + WAITS, **commands), folder=tmp_path)
        until(pool, (tmp_path / "ready").exists)
        act(pool, cluster)
        until(pool, lambda: (tmp_path / "signal").exists() and (tmp_path / "signal").read_text() == f"{message}\n")
        with suppress(UnknownThingError):  # it was removed
            pool.remove(cluster)
        until(pool, lambda: not pool.state.activations)


# JOB_RENICE_INCREMENT


@pytest.mark.parametrize(
    ("written", "nice"),
    [
        ("7", 7),
        ("0", 0),
        ("", 0),
        ("ifThenElse(RequestMemory > 100, 15, 3)", 3),
        ("30", 19),
        ("-5", 0),
        ("4.9", 4),
        ('"many"', 10),
        ("NoSuchAttribute", 10),
        ("1 / 0", 10),
    ],
)
def test_the_increment_is_an_expression_in_the_jobs_ad(tmp_path: Path, written: str, nice: int) -> None:
    starter = Starter.from_configuration(read(f"JOB_RENICE_INCREMENT = {written}"), tmp_path)
    assert starter.nice({"RequestMemory": "16"}) == nice


def test_jobs_and_their_children_have_the_configured_niceness(tmp_path: Path) -> None:
    assert output_of_job(tmp_path, "JOB_RENICE_INCREMENT = 7", "nice; sh -c nice").split() == [str(os.nice(0) + 7)] * 2


# EXECUTE


def test_jobs_have_their_directories_below_execute_where_no_one_else_can_look(tmp_path: Path) -> None:
    fast, slow = tmp_path / "fast", tmp_path / "slow"
    for place in (fast, slow):
        place.mkdir(mode=0o777)
    config = (
        f"EXECUTE = {slow}\nSLOT2_EXECUTE = {fast}\nNUM_SLOTS = 2\nSLOT_TYPE_0_PARTITIONABLE = false\n"
        "SLOT2_START = TARGET.Fast =?= true\nSLOT1_START = TARGET.Fast =!= true\nSTART = true\n"
    )
    script = "echo $_CONDOR_SCRATCH_DIR $TMPDIR; stat -c %a $_CONDOR_SCRATCH_DIR/../.."
    for slow_cluster, commands in ((slow, {}), (fast, {"+Fast": "true"})):
        scratch, temporary, mode = output_of_job(tmp_path / slow_cluster.name, config, script, **commands).split()
        assert scratch == temporary and Path(scratch).parts[: len(slow_cluster.parts)] == slow_cluster.parts
        assert mode == "700"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nowhere", "nowhere: No such file or directory: jobs run below it; create it, or name another"),
        ("file", "file: Not a directory"),
    ],
)
def test_a_directory_that_cannot_be_used_is_reported_before_any_job_is_started(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=rf"EXECUTE = {tmp_path}/{text}"):
        Pool.open(f"{tmp_path}/pool.db", execute=True, config=f"EXECUTE = {tmp_path}/{name}")
    with Pool.open(f"{tmp_path}/pool.db", execute=True, config=PLAIN) as pool:
        pool.add_machine("here")
        with pytest.raises(ConfigError, match="SLOT1_EXECUTE = slot1: the path is not absolute"):
            pool.reconfigure("here", "SLOT1_EXECUTE = slot1")


def test_a_directory_that_another_user_made_is_not_used(tmp_path: Path) -> None:
    execute, folder = tmp_path / "execute", tmp_path / "pool.db.d"
    execute.mkdir()
    config = read(f"EXECUTE = {execute}")
    scratch = Path(Starter.from_configuration(config, folder).directory(1))
    scratch.rmdir()
    scratch.symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="is not a private directory of this user"):
        Starter.from_configuration(config, folder)


# The directory and the wrapper, compared with what HTCondor 25.14.1 did


REMOTE = 'pwd; echo "$_CONDOR_JOB_IWD"'


@pytest.mark.parametrize("should", ["YES", "NO"])
def test_remote_initialdir_is_where_the_job_runs_but_not_where_its_output_goes(tmp_path: Path, should: str) -> None:
    remote = tmp_path / "remote"
    remote.mkdir()
    output = output_of_job(tmp_path, "", REMOTE, remote_initialdir=str(remote), should_transfer_files=should)
    assert output == f"{remote}\n{remote}\n"
    assert list(remote.iterdir()) == []


def test_a_relative_executable_that_is_not_transferred_is_in_the_remote_initialdir(tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    remote.mkdir()
    (remote / "tool").write_text("#!/bin/sh\necho tool of the machine\n")
    (remote / "tool").chmod(0o755)
    commands = {"executable": "tool", "transfer_executable": "false", "remote_initialdir": str(remote)}
    assert output_of_job(tmp_path, "", "", **commands) == "tool of the machine\n"


def test_a_missing_remote_initialdir_holds_the_job(tmp_path: Path) -> None:
    with Pool.open(f"{tmp_path}/pool.db", execute=True) as pool:
        pool.add_machine("here")
        pool.submit(shell("true", remote_initialdir=str(tmp_path / "none")), folder=tmp_path)
        pool.run(60)
        (job,) = pool.jobs()
        assert (job["JobStatus"], job["HoldReasonCode"], job["HoldReasonSubCode"]) == (5, 6, 2)


WRAPPER = '#!/bin/sh\necho "$# $1 $_CONDOR_WRAPPER_ERROR_FILE"\nexec "$@"\n'


@pytest.mark.parametrize("should", ["YES", "NO"])
def test_user_job_wrapper_runs_instead_of_the_job_with_its_command_line(tmp_path: Path, should: str) -> None:
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(WRAPPER)
    wrapper.chmod(0o755)
    config = f"USER_JOB_WRAPPER = {wrapper}\n"
    first, second = output_of_job(
        tmp_path, config, 'echo "$_CONDOR_SCRATCH_DIR"', should_transfer_files=should
    ).splitlines()
    program = f"{second}/sh" if should == "YES" else "/bin/sh"
    assert first == f"3 {program} {second}/.job_wrapper_failure"


def test_a_missing_wrapper_is_the_machines_fault(tmp_path: Path) -> None:
    with Pool.open(f"{tmp_path}/pool.db", execute=True, config="USER_JOB_WRAPPER = /no/such/wrapper\n") as pool:
        pool.add_machine("here")
        pool.submit(shell("true"), folder=tmp_path)
        until(pool, lambda: "VacateReasonCode" in pool.jobs()[0])
        assert pool.jobs()[0]["JobStatus"] != 5


# Jobs that need not run


@pytest.mark.parametrize(
    ("ages", "runs"),
    [
        ({"in": 9, "out": 5}, False),
        ({"in": 9, "out": 5, "out2": 4}, False),
        ({"in": 5, "out": 9}, True),
        ({"in": 5, "out": 5}, True),
        ({"in": 7, "out": 5, "out2": 8}, True),
        ({"in": 9, "out": None}, True),
        ({"in": None, "out": 5}, False),
    ],
)
def test_a_job_is_skipped_if_all_its_outputs_are_newer_than_its_inputs(
    tmp_path: Path, ages: dict[str, int | None], runs: bool
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho ran > ran\ntouch out out2\n")
    program.chmod(0o755)
    os.utime(program, (1, 1))
    for name, age in ages.items():
        if age is not None:
            (tmp_path / name).write_text("old")
            os.utime(tmp_path / name, (2_000_000 - age, 2_000_000 - age))
    outputs = ", ".join(name for name in ages if name != "in")
    commands = {"executable": "program", "transfer_input_files": "in", "transfer_output_files": outputs}
    commands |= {
        "skip_if_dataflow": "true",
        "leave_in_queue": "true",
        "log": "log",
        "should_transfer_files": "IF_NEEDED",
    }
    with Pool.open(f"{tmp_path}/pool.db", execute=True) as pool:
        pool.add_machine("here")
        pool.submit(
            "\n".join([f"{name} = {text}" for name, text in (SMALL | commands).items()]) + "\nqueue", folder=tmp_path
        )
        assert pool.run(60)
        (job,) = pool.jobs()
    counts = {name: job.get(name) for name in ("ExitCode", "DataflowJobSkipped", "NumJobStarts", "NumJobCompletions")}
    expected = (0, None, 1, 1) if runs else (0, True, 0, 0)  # as in HTCondor 25.14.1
    assert tuple(counts.values()) == expected
    assert (tmp_path / "ran").exists() == runs
    numbers = [line[:3] for line in (tmp_path / "log").read_text().splitlines() if line[:3].isdecimal()]
    assert [number for number in numbers if number != "006"] == ["000", "001" if runs else "046", "005"]


def test_the_pool_limits_its_core_files_as_configured_and_again_at_a_reconfiguration(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    folder.write("poolbook.conf", "CREATE_CORE_FILES = false\n")
    with folder.served() as server:
        assert resource.prlimit(server.pid, resource.RLIMIT_CORE) == (0, hard)
        folder.write("poolbook.conf", "CREATE_CORE_FILES = true\n")
        folder.call("reconfig")
        assert resource.prlimit(server.pid, resource.RLIMIT_CORE) == (hard, hard)
