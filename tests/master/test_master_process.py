"""property: a real master starts its daemons again, mails, accepts commands, and ends at signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from poolbook.adapters.machine.host import host_name
from poolbook.domain.events import DaemonReported
from poolbook.domain.master import transitions as t
from poolbook.replay.forensics.audit.examine import examine

from ..importing.folders import imported
from ..pool.real import PATIENCE, POOLBOOK, ROOT, environment
from ..ports import free_port
from .machine import Machine, is_alive

SLEEP = "trap 'exit 0' TERM\nwhile :; do sleep 0.1; done"


def test_a_daemon_that_exits_is_started_again_and_mailed_four_times(machine: Machine) -> None:
    flaky = machine.program("flaky", "echo about to fail\nexit 3")
    machine.configure(f"DAEMON_LIST = MASTER FLAKY\nFLAKY = {flaky}")
    machine.master()
    machine.started("FLAKY", 6)
    printed = machine.end()
    assert "FLAKY is started again in 2 s" in printed and "the master ends (Exit)" in printed
    mails = (machine.path / "mails").read_text()
    assert mails.count("flaky exited (3) admin@example.org\n") == 4
    assert f'"{flaky}" on ' in mails and "exited with status 3.\nCondor will automatically restart" in mails
    assert "about to fail\n*** End of file FLAKY.log" in mails
    assert "FLAKY is started again in 2 s" in machine.call("master", "-events")


def test_a_job_survives_the_death_of_its_pool_which_is_started_again(machine: Machine) -> None:
    machine.configure("NUM_CPUS = 1")
    machine.write(
        "job.sub",
        f"executable = /bin/sh\narguments = \"-c 'while [ ! -e {machine.path}/go ]; do sleep 0.1; done'\"\nqueue\n",
    )
    machine.master()
    pid = machine.started("POOL")
    machine.wait_for(lambda: (machine.path / "pool.db.sock").exists())
    machine.call("submit", "job.sub")
    machine.wait_for(lambda: "2" in machine.call("q", "-af", "JobStatus"))
    os.kill(pid, signal.SIGKILL)
    machine.started("POOL", 2)
    (machine.path / "go").touch()
    machine.wait_for(lambda: machine.call("history", "-af", "NumJobStarts", "ExitCode") == "1 0\n")
    assert machine.count(t.ObituaryDue) == 0, "an administrator sends signal 9"
    assert machine.end(signal.SIGQUIT).count("POOL was started") == 2


def test_the_master_log_has_each_start_and_death_once_even_if_the_master_is_killed(machine: Machine) -> None:
    flaky = machine.program("flaky", "exit 3")
    missing = machine.path / "missing"
    daemons = "MASTER COLLECTOR NEGOTIATOR SCHEDD STARTD FLAKY MISSING"
    machine.configure(f"LOG = {machine.path}/log\nDAEMON_LIST = {daemons}\nFLAKY = {flaky}\nMISSING = {missing}")
    master = machine.master()
    machine.started("FLAKY", 2)
    pool = machine.started("POOL")
    os.kill(pool, signal.SIGKILL)
    machine.started("POOL", 2)
    master.kill()
    master.wait(PATIENCE)
    machine.master()
    machine.started("POOL", 3)
    machine.end()
    lines = (machine.path / "log" / "MasterLog").read_text().splitlines()
    texts = [line.split(" ", 2)[2] for line in lines]
    expected = []
    for each in machine.transitions():
        match each:
            case t.DaemonStarted(_, "FLAKY", pid):
                expected.append(f'Started process "{flaky}", pid and pgroup = {pid}')
            case t.DaemonStarted(_, "POOL", pid):
                expected.append(f'Started DaemonCore process "condor_pool", pid and pgroup = {pid}')
            case t.DaemonExited(_, daemon, pid, code):
                expected.append(f"The {daemon} (pid {pid}) {t.describe_end(code)}")
            case t.RestartScheduled(_, daemon, seconds):
                program = {"FLAKY": flaky, "POOL": "condor_pool", "MISSING": missing}[daemon]
                expected.append(f"restarting {program} in {seconds} seconds")
    assert [text for text in texts if text.startswith(("Started ", "The ", "restarting "))] == expected
    assert f"The POOL (pid {pool}) died due to signal 9 (Killed)" in texts
    assert [text for text in texts if text.startswith(f"{missing}: Cannot execute (")] != []
    assert [text for text in texts if "STARTING UP" in text] == ["** condor_master (CONDOR_MASTER) STARTING UP"] * 2
    assert texts[-2] == "All daemons are gone.  Exiting."
    assert re.fullmatch(r"\*{4} condor_master \(condor_MASTER\) pid \d+ EXITING WITH STATUS 0", texts[-1])
    log, result = imported(machine.path / "log")
    deaths = [
        event.facts["pid"] for _, event in log.read() if isinstance(event, DaemonReported) and event.said == "died"
    ]
    assert (str(pool) in deaths, result.refused, examine(log).violations) == (True, [], [])


def test_a_daemon_that_cannot_start_is_started_when_it_can(machine: Machine) -> None:
    late = machine.path / "late"
    machine.configure(f"DAEMON_LIST = MASTER LATE\nLATE = {late}")
    machine.master()
    machine.wait_for(lambda: machine.count(t.DaemonNotStarted, "LATE") >= 2)
    machine.program("late", SLEEP)
    machine.started("LATE")
    assert "LATE cannot be started: [Errno 2] No such file or directory" in machine.end()


def test_commands_stop_start_and_restart_single_daemons(machine: Machine) -> None:
    a, b = machine.program("a", SLEEP), machine.program("b", SLEEP)
    machine.configure(
        f"DAEMON_LIST = MASTER A B\nA = {a}\nB = {b}\nMASTER_SHUTDOWN_BYE = {machine.program('bye', 'echo bye')}"
    )
    machine.master()
    first, other = machine.started("A"), machine.started("B")
    assert machine.call("condor_off", "-daemon", "a") == 'Sent "Kill-Daemon" command for "a" to local master\n'
    machine.wait_for(lambda: not is_alive(first))
    assert machine.call("on", "-subsystem", "A") == 'Sent "Spawn-Daemon" command for "A" to local master\n'
    second = machine.started("A", 2)
    assert machine.call("restart", "-daemon", "A", "-fast") == 'Sent "Restart-Fast" command to local A\n'
    machine.wait_for(lambda: not is_alive(second))
    machine.started("A", 3)
    assert is_alive(other)
    assert machine.call("off", "-all") == 'Sent "Kill-All-Daemons" command to local master\n'
    machine.wait_for(lambda: not is_alive(other))
    assert "B is not running" in machine.call("restart", "-daemon", "B", code=1)
    assert "there is no daemon C here; the daemons of this machine are A, B" in machine.call(
        "off", "-daemon", "C", code=1
    )
    machine.call("on", "-all")
    machine.started("B", 2)
    assert "MASTER_SHUTDOWN_NO is not set" in machine.call("set_shutdown", "-exec", "no", code=1)
    machine.call("condor_set_shutdown", "-exec", "BYE")
    assert machine.call("off", "-master") == 'Sent "Kill-Daemon" command for "master" to local master\n'
    assert machine.process is not None and machine.process.stdout is not None
    assert machine.process.stdout.read().endswith("bye\n")
    assert "no master is running for this log" in machine.call("off", "-master", code=1)


def test_restarting_the_master_keeps_its_process_and_forgets_deaths(machine: Machine) -> None:
    a = machine.program("a", SLEEP)
    machine.configure(f"DAEMON_LIST = MASTER A\nA = {a}")
    process = machine.master()
    machine.started("A")
    assert machine.call("condor_restart") == 'Sent "Restart" command to local master\n'
    machine.started("A", 2)
    assert process.poll() is None and machine.count(t.MasterBegan) == 2


def test_sighup_reads_the_configuration_again(machine: Machine) -> None:
    a = machine.program("a", f"trap 'touch {machine.path}/hup' HUP\n{SLEEP}")
    machine.configure(f"DAEMON_LIST = MASTER A\nA = {a}")
    process = machine.master()
    pid = machine.started("A")
    machine.configure(f"DAEMON_LIST = MASTER A B\nA = {a}\nB = {machine.program('b', SLEEP)}")
    process.send_signal(signal.SIGHUP)
    machine.started("B")
    machine.wait_for_file("hup")
    machine.configure("MASTER_BACKOFF_CONSTANT = 0")
    assert "it must be at least 1" in machine.call("reconfig", code=1)
    machine.configure(f"DAEMON_LIST = MASTER B\nB = {machine.path}/b")
    assert machine.call("reconfig") == 'Sent "Reconfig" command to local master\n'
    machine.wait_for(lambda: not is_alive(pid))
    assert machine.count(t.DaemonStarted, "A") == 1


@pytest.mark.parametrize(
    ("number", "how"), [(signal.SIGTERM, "Graceful"), (signal.SIGQUIT, "Fast"), (signal.SIGUSR1, "Peaceful")]
)
def test_a_signal_ends_the_master_and_its_daemons(machine: Machine, number: int, how: str) -> None:
    machine.configure(f"DAEMON_LIST = MASTER A\nA = {machine.program('a', SLEEP)}")
    machine.master()
    pid = machine.started("A")
    assert f"all daemons are being stopped ({how}); then: Exit" in machine.end(number)
    assert not is_alive(pid)


def test_a_daemon_that_ignores_signals_is_killed(machine: Machine) -> None:
    deaf = machine.program("deaf", f"trap '' TERM QUIT\ntouch {machine.path}/ready\nwhile :; do sleep 0.1; done")
    machine.configure(
        f"DAEMON_LIST = MASTER DEAF\nDEAF = {deaf}\nSHUTDOWN_GRACEFUL_TIMEOUT = 1\nSHUTDOWN_FAST_TIMEOUT = 1"
    )
    machine.master()
    pid = machine.started("DEAF")
    machine.wait_for_file("ready")
    printed = machine.end()
    assert "DEAF is being stopped (Kill)" in printed and not is_alive(pid)


def test_the_daemons_of_a_killed_master_end_and_a_new_master_starts_them(machine: Machine) -> None:
    machine.configure(f"DAEMON_LIST = MASTER A\nA = {machine.program('a', SLEEP)}")
    process = machine.master()
    pid = machine.started("A")
    assert "another master runs in" in machine.call("master", "-config", "pool.conf", code=1)
    process.kill()
    machine.wait_for(lambda: not is_alive(pid))
    process.wait(10)
    assert process.stdout is not None
    process.stdout.close()
    machine.master()
    machine.started("A", 2)


def test_no_daemon_starts_if_the_configuration_says_so(machine: Machine) -> None:
    machine.configure(f"DAEMON_LIST = MASTER A\nA = {machine.program('a', SLEEP)}\nSTART_DAEMONS = False")
    machine.master()
    assert machine.count(t.DaemonStarted) == 0
    machine.call("on", "-daemon", "A")
    machine.started("A")
    machine.end()
    machine.configure("START_MASTER = False")
    assert "START_MASTER is false: the master is not started" in machine.call("master", "-config", "pool.conf")


def test_a_part_of_a_process_is_not_stopped_alone(machine: Machine) -> None:
    machine.configure("NUM_CPUS = 1")
    machine.master()
    pid = machine.started("POOL")
    machine.wait_for(lambda: (machine.path / "pool.db.sock").exists())
    assert "COLLECTOR, NEGOTIATOR, SCHEDD, STARTD are one process, POOL" in machine.call("off", "-schedd", code=1)
    assert machine.call("off", "-fast") == 'Sent "Kill-Daemon-Fast" command for "startd" to local master\n'
    machine.call("on")
    assert is_alive(pid)
    machine.end()


def test_a_command_reaches_the_pool_after_the_master_was_killed(machine: Machine) -> None:
    """A killed master leaves its socket behind."""
    machine.configure(f"DAEMON_LIST = MASTER A\nA = {machine.program('a', SLEEP)}")
    process = machine.master()
    pid = machine.started("A")
    process.kill()
    process.wait(PATIENCE)
    machine.wait_for(lambda: not is_alive(pid))
    assert "no master is running for this log" in machine.call("restart", code=1)
    with machine.served("-slots", "1"):
        assert machine.call("reconfig") == 'Sent "Reconfig" command to local master\n'


def test_another_version_restarts_the_master_after_the_delay(machine: Machine) -> None:
    """The version is that of the first distribution on Python's path."""
    machine.configure(
        f"DAEMON_LIST = MASTER A\nA = {machine.program('a', SLEEP)}\n"
        "MASTER_CHECK_NEW_EXEC_INTERVAL = 1\nMASTER_NEW_BINARY_DELAY = 1\nMASTER_NEW_BINARY_RESTART = FAST"
    )
    site = machine.path / "site"
    site.mkdir()
    variables = {**environment(), "PYTHONPATH": f"{site}:{ROOT / '.path'}"}
    command = [sys.executable, *POOLBOOK, "master", "-config", "pool.conf"]
    with subprocess.Popen(command, cwd=machine.path, env=variables, stdout=subprocess.PIPE, text=True) as process:
        try:
            machine.started("A")
            (site / "poolbook-9.9.dist-info").mkdir()
            (site / "poolbook-9.9.dist-info" / "METADATA").write_text(
                "Metadata-Version: 2.1\nName: poolbook\nVersion: 9.9\n"
            )
            machine.started("A", 2)
        finally:
            process.terminate()
            process.wait(PATIENCE)
        assert process.stdout is not None
        printed = process.stdout.read()
    assert "Poolbook 9.9 was installed in place of" in printed and "(MASTER_NEW_BINARY_RESTART = Fast)" in printed
    assert "the master of Poolbook 9.9 runs A" in printed
    assert machine.count(t.MasterBegan) == 2 and machine.count(t.StopBegan, "A") == 2


@pytest.mark.parametrize(
    ("number", "job_status"),
    [(signal.SIGQUIT, "1\n"), (signal.SIGTERM, "1\n"), (signal.SIGUSR1, "")],
)
def test_a_pool_ends_its_jobs_as_the_signal_demands(machine: Machine, number: int, job_status: str) -> None:
    """SIGQUIT and SIGTERM return the job to the queue; SIGUSR1 waits until it has ended."""
    ends = machine.path / "end"
    machine.program("job", f"trap '' TERM\ntouch {machine.path}/runs\nwhile [ ! -e {ends} ]; do sleep 0.1; done")
    machine.write("job.sub", "executable = job\nqueue\n")
    with machine.served() as server:
        machine.call("submit", "job.sub")
        machine.wait_for_file("runs")
        server.send_signal(number)
        if number == signal.SIGUSR1:
            machine.wait_for(lambda: "Retiring" in machine.call("status", "-af", "Activity"))
            ends.touch()
        assert server.wait(PATIENCE) == 0
    assert machine.call("q", "-af", "JobStatus") == job_status


def test_had_runs_the_daemon_that_it_controls_only_while_the_manager_is_active(machine: Machine) -> None:
    a = machine.program("a", SLEEP)
    machine.configure(
        "DAEMON_LIST = MASTER COLLECTOR NEGOTIATOR HAD A\nHAD_LIST = $(FULL_HOSTNAME)\nHAD_CONTROLLEE = A\n"
        f"HAD_STABILIZATION_PERIOD = fast\nA = {a}"
    )
    machine.master("-listen", f"127.0.0.1:{free_port()}", "-broker-port", str(free_port()))
    manager = machine.started("COLLECTOR")
    first = machine.started("A")
    assert "LEADER_STATE" in machine.call("status", "-had")
    machine.call("off", "-subsystem", "had")
    machine.wait_for(lambda: not is_alive(first))
    machine.call("on", "-subsystem", "had")
    second = machine.started("A", 2)
    os.kill(manager, signal.SIGKILL)
    machine.wait_for(lambda: not is_alive(second))
    machine.started("COLLECTOR", 2)
    machine.started("A", 3)
    assert "LEADER_STATE" in machine.call("status", "-had")
    machine.end()


def test_roles_join_the_manager_of_their_machine_as_soon_as_there_is_a_token(machine: Machine) -> None:
    port, broker = free_port(), free_port()
    machine.configure(
        f"DAEMON_LIST = MASTER COLLECTOR NEGOTIATOR SCHEDD STARTD\nNUM_CPUS = 1\nCOLLECTOR_HOST = 127.0.0.1:{port}\n"
        f"SEC_TOKEN_SYSTEM_DIRECTORY = {machine.path}/tokens\nSEC_TOKEN_DIRECTORY = {machine.path}/tokens"
    )
    go = machine.path / "go"
    machine.program("job", f"touch {machine.path}/runs\nwhile [ ! -e {go} ]; do sleep 0.1; done")
    machine.write("job.sub", "executable = job\nqueue\n")
    machine.master("-listen", f"127.0.0.1:{port}", "-broker-port", str(broker))
    machine.started("COLLECTOR")
    machine.wait_for(lambda: machine.count(t.DaemonNotStarted, "STARTD") >= 1)
    machine.wait_for(lambda: (machine.path / "pool.db.sock").exists())
    (machine.path / "tokens").mkdir(mode=0o700)
    token = str(machine.path / "tokens" / "pool")
    machine.call("token", "create", "-identity", f"condor@{host_name()}", "-config", "pool.conf", "-file", token)
    machine.started("SCHEDD")
    pid = machine.started("STARTD")
    machine.wait_for(lambda: "slot1@" in machine.call("status", "-af", "Name"))
    submitter = ("-log", "pool.access-point.db")
    machine.call("submit", "job.sub", *submitter)
    machine.wait_for_file("runs")
    os.kill(pid, signal.SIGKILL)
    machine.started("STARTD", 2)
    warning = "COLLECTOR, NEGOTIATOR are one process: this also affects NEGOTIATOR"
    assert warning in machine.call("off", "-collector")
    machine.wait_for(lambda: machine.count(t.DaemonExited, "COLLECTOR") == 1)
    machine.call("on", "-collector")
    machine.started("COLLECTOR", 2)
    go.touch()
    machine.wait_for(lambda: machine.call("history", "-af", "ExitCode", "NumJobStarts", *submitter) == "0 1\n")
    assert machine.call("off") == 'Sent "Kill-Daemon" command for "startd" to local master\n'
    machine.wait_for(lambda: machine.count(t.DaemonExited, "STARTD") == 2)
    assert machine.call("on", "-startd") == 'Sent "Spawn-Daemon" command for "startd" to local master\n'
    machine.started("STARTD", 3)
    machine.end()
