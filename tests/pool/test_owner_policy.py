"""Golden: an owner's policy with real processes: jobs make way for the user at the machine, and state survives a killed
pool.

The owner is a file: a sensor in the configuration (STARTD_CRON) publishes its contents.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from poolbook.adapters.machine.host import host_name
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import (
    BenchmarksRan,
    Event,
    JobExecuting,
    JobSignalled,
    JobsTransitioned,
    MachineJoined,
    SlotTransitioned,
)
from poolbook.domain.fold.evolve import fold
from poolbook.domain.state.state import State

from .real import PATIENCE, Folder

SENSOR = """\
#!/bin/sh
# Prints the contents of the owner's file repeatedly; a line with a dash ends each record.
while cat {path}/owner; do echo -; sleep 0.1; done
"""
CONFIGURATION = """\
NUM_CPUS = 1
NUM_SLOTS = 1
SLOT_TYPE_0_PARTITIONABLE = false
POLLING_INTERVAL = 1
UPDATE_INTERVAL = 1
MachineMaxVacateTime = 3
KILLING_TIMEOUT = 100
STARTD_CRON_JOBLIST = OWNER
STARTD_CRON_OWNER_EXECUTABLE = {path}/sensor.sh
STARTD_CRON_OWNER_MODE = WaitForExit
STARTD_CRON_OWNER_PERIOD = 1s
"""
DESKTOP = """\
use POLICY : Desktop
# in seconds what the template has in minutes
CONTINUE = KeyboardIdle > 100
MaxSuspendTime = 1
"""
AWAY = "KeyboardIdle = 1000\nLoadAvg = 0.0\nCondorLoadAvg = 0.0\n"
AT_THE_KEYBOARD = "KeyboardIdle = 0\nLoadAvg = 0.0\nCondorLoadAvg = 0.0\n"
STUBBORN = """\
executable = /bin/sh
arguments = "-c 'trap ""echo term >> signals.txt"" TERM; while :; do sleep 0.1; done'"
request_memory = 16
request_disk = 1 MB
log = job.log
queue
"""


class OwnedMachine(Folder):
    """A directory with a configuration, and an owner who comes and goes."""

    def prepare(self, policy: str) -> None:
        self.owner(AWAY)
        self.write("sensor.sh", SENSOR.format(path=self.path))
        (self.path / "sensor.sh").chmod(0o755)
        self.configure(policy)
        self.write("job.sub", STUBBORN)

    def configure(self, policy: str) -> None:
        self.write("poolbook.conf", CONFIGURATION.format(path=self.path) + policy)

    def owner(self, text: str) -> None:
        """Set what the sensor reports from now on, atomically."""
        self.write("owner.new", text).replace(".new", "")
        (self.path / "owner.new").rename(self.path / "owner")

    def events(self) -> list[Event]:
        log = open_log(str(self.path / "pool.db"), create=False, read_only=True)
        try:
            return [event for _, event in log.read()]
        finally:
            log.close()

    def state(self) -> State:
        return fold(enumerate(self.events(), 1))

    def rows(self, kind: type[JobsTransitioned] | type[SlotTransitioned]) -> list[str]:
        """Return the rows of transitions, in the jobs' table or the slots'."""
        return [event.row for event in self.events() if isinstance(event, kind)]

    def pair(self) -> str:
        """Return the state and activity of the only slot; empty if there is none."""
        return "".join(slot.state_activity for slot in self.state().slots.values())

    def status(self) -> str:
        return self.state().clusters[1].status_of(0)

    def pid(self) -> int:
        """Return the process of the job's latest run; 0 before the first."""
        return next((event.pid for event in reversed(self.events()) if isinstance(event, JobExecuting)), 0)

    def logged(self) -> list[str]:
        """Return the numbers of the events in the job's own log, without those about its size."""
        lines = (self.path / "job.log").read_text().splitlines()
        return [line[:3] for line in lines if line[3:5] == " (" and line[:3] != "006"]


@pytest.fixture
def owned(folder: Folder) -> OwnedMachine:
    return OwnedMachine(folder.path)


def is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def restart_after(owned: OwnedMachine, until: Callable[[], bool]) -> None:
    """Return a pool that was killed without warning after `until` was true."""
    server = owned.start("serve")
    owned.wait_for(lambda: (owned.path / "pool.db.sock").exists())
    owned.call("submit", "job.sub")
    owned.wait_for(until)
    server.send_signal(signal.SIGKILL)
    server.communicate()
    (owned.path / "pool.db.sock").unlink()  # the rest of a dead server is not to be mistaken for the next one's


def test_a_job_makes_way_for_the_owner_of_a_desktop(owned: OwnedMachine) -> None:
    # the sensor says how long it may stay suspended: at first, as long as the test needs to look
    owned.prepare(DESKTOP.replace("MaxSuspendTime = 1", "MaxSuspendTime = Patience"))
    with owned.served():
        owned.call("submit", "job.sub")
        owned.wait_for(lambda: owned.pid())
        pid = owned.pid()
        owned.owner(AT_THE_KEYBOARD + "Patience = 1000\n")
        owned.wait_for(lambda: is_stopped(pid))
        assert owned.status() == "Suspended"
        owned.owner(AWAY)
        owned.wait_for(lambda: not is_stopped(pid))
        owned.owner(AT_THE_KEYBOARD + "Patience = 1\n")
        owned.wait_for(lambda: owned.status() == "Idle")
        assert not Path(f"/proc/{pid}").exists()
        assert owned.pair() == "Owner/Idle"
    assert (owned.path / "signals.txt").read_text() == "term\n", "SIGTERM came first, and once"
    assert owned.logged() == ["000", "001", "010", "011", "010", "011", "004"]
    text = (owned.path / "job.log").read_text()
    assert "Code 1011 Subcode 0" in text and "Reason: PREEMPT expression evaluated to True" in text
    assert [event.how for event in owned.events() if isinstance(event, JobSignalled)] == ["soft", "hard"]
    assert owned.rows(SlotTransitioned)[-7:] == ["14", "15", "14", "16", "18", "21", "25"]
    assert "sound" in owned.call("verify")


def test_a_job_that_the_policy_holds_is_reported_as_on_its_machine(owned: OwnedMachine) -> None:
    owned.prepare(
        'PREEMPT = KeyboardIdle < 10\nWANT_HOLD = true\nWANT_HOLD_REASON = "not here"\nWANT_HOLD_SUBCODE = 77\n'
    )
    with owned.served():
        owned.call("submit", "job.sub")
        owned.wait_for(lambda: owned.pid())
        owned.owner(AT_THE_KEYBOARD)
        owned.wait_for(lambda: owned.logged()[-1] == "012")
        assert "not here" in owned.call("q", "-hold")
    assert owned.logged() == ["000", "001", "021", "004", "012"]
    text = (owned.path / "job.log").read_text()
    assert text.count("Code 21 Subcode 77") == 3
    assert text.count("Error from slot1@") == 2


def test_a_suspended_job_stays_suspended_when_the_pool_is_killed(owned: OwnedMachine) -> None:
    owned.prepare(DESKTOP.replace("MaxSuspendTime = 1", "MaxSuspendTime = 1000"))

    def suspended() -> bool:
        if owned.pid():
            owned.owner(AT_THE_KEYBOARD)
        return is_stopped(owned.pid())

    restart_after(owned, suspended)
    pid = owned.pid()
    with owned.served():
        time.sleep(1.2)  # at least one policy evaluation
        assert is_stopped(pid) and owned.pair() == "Claimed/Suspended"
        owned.owner(AWAY)
        owned.wait_for(lambda: not is_stopped(pid))
        owned.wait_for(lambda: owned.pair() == "Claimed/Busy")
        assert owned.pid() == pid
    assert owned.rows(JobsTransitioned).count("continue") == 1
    assert "sound" in owned.call("verify")


def test_a_drain_and_its_retiring_job_continue_when_the_pool_is_killed(owned: OwnedMachine) -> None:
    owned.prepare("MaxJobRetirementTime = 3600\n")

    def retiring() -> bool:
        if owned.pid():
            owned.call("drain", host_name(), "-reason", "new disk")
        return owned.pair() == "Claimed/Retiring"

    restart_after(owned, retiring)
    pid = owned.pid()
    with owned.served():
        assert "Draining already in progress" in owned.call("drain", f"slot1@{host_name()}", code=1)
        assert owned.pair() == "Claimed/Retiring" and owned.pid() == pid and Path(f"/proc/{pid}").exists()
        owned.configure("MaxJobRetirementTime = 0\n")
        assert owned.call("reconfig") == 'Sent "Reconfig" command to local master\n'
        owned.wait_for(lambda: owned.pair() == "Drained/Idle")
        assert owned.status() == "Idle"
        assert owned.call("drain", "-cancel", host_name()) == f"Sent request to cancel draining on {host_name()}\n"
        owned.wait_for(lambda: owned.pid() != pid)
    assert "Code 1014 Subcode 0" in (owned.path / "job.log").read_text()
    assert "sound" in owned.call("verify")


def test_a_stopped_pool_signals_its_jobs_whatever_retirement_time_they_have(owned: OwnedMachine) -> None:
    owned.prepare("MaxJobRetirementTime = 3600\n")
    with owned.served():
        owned.call("submit", "job.sub")
        owned.wait_for(lambda: owned.pid())
    assert (owned.path / "signals.txt").read_text() == "term\n"
    assert owned.status() == "Idle" and not Path(f"/proc/{owned.pid()}").exists()
    assert "sound" in owned.call("verify")


def test_a_machine_leaves_and_comes_back_on_command(owned: OwnedMachine) -> None:
    owned.prepare("RunBenchmarks = LastBenchmark == 0\n")
    with owned.served() as server:
        owned.wait_for(lambda: any(isinstance(event, BenchmarksRan) for event in owned.events()))
        owned.call("drain", host_name(), "-restart-on-completion")
        owned.wait_for(lambda: sum(isinstance(event, MachineJoined) for event in owned.events()) == 2)
        owned.wait_for(lambda: owned.pair() == "Unclaimed/Idle")
        owned.call("drain", host_name(), "-exit-on-completion")
        owned.wait_for(lambda: owned.pair() == "")
        assert "not in the pool" in owned.call("reconfig", code=1)
        assert owned.call("on") == 'Sent "Spawn-Daemon" command for "startd" to local master\n'
        assert "in the pool already" in owned.call("on", code=1)
        owned.configure("START = false &&\n")
        assert "START" in owned.call("reconfig", code=1)
        owned.configure("START = KeyboardIdle > 5\n")
        server.send_signal(signal.SIGHUP)
        owned.wait_for(lambda: owned.state().slots[f"slot1@{host_name()}"].ad["Start"] == "KeyboardIdle > 5")
        owned.call("off")
        owned.wait_for(lambda: owned.pair() == "")
    assert "sound" in owned.call("verify")


def test_changed_slots_come_after_the_machine_has_been_drained_or_restarted(owned: OwnedMachine) -> None:
    def joined(count: int) -> bool:
        """Return True if the machine has joined so often, and the job runs."""
        is_busy = any(slot.state_activity == "Claimed/Busy" for slot in owned.state().slots.values())
        return is_busy and sum(isinstance(event, MachineJoined) for event in owned.events()) == count

    owned.prepare("MaxJobRetirementTime = 3600\n")
    two_slots = "NUM_SLOTS = 2\nNUM_CPUS = 2\n"
    with owned.served() as server:
        owned.call("submit", "job.sub")
        owned.wait_for(lambda: joined(1))
        owned.configure(two_slots)
        answer = owned.call("reconfig")
        here = host_name()
        assert f"slot2@{here} would be added or removed; {here} is drained, and then has the new slots" in answer
        assert owned.pair() == "Claimed/Retiring"
        server.send_signal(signal.SIGKILL)
    with owned.served():
        assert owned.pair() == "Claimed/Retiring"
        owned.call("vacate", "1.0")
        owned.wait_for(lambda: joined(2))
        assert len(owned.state().slots) == 2
        owned.configure("")
        assert owned.call("condor_restart", "-startd", "-peaceful") == (
            'Sent "Restart-Peaceful" command to local startd\n'
        )
        assert "already shutting down" in owned.call("restart", "-startd", "-peaceful", code=1)
        owned.call("restart", "-startd", "-fast")
        owned.wait_for(lambda: joined(3))
        assert len(owned.state().slots) == 1
    assert "sound" in owned.call("verify")


def test_an_idle_machine_has_its_new_slots_at_once(owned: OwnedMachine) -> None:
    """HTCondor's slots note only at the next update, after five minutes, that all slots are drained."""
    owned.prepare("NUM_SLOTS = 3\nNUM_CPUS = 3\n")
    with owned.served():
        for count in (2, 1):
            owned.configure(f"NUM_SLOTS = {count}\nNUM_CPUS = {count}\n")
            owned.call("reconfig")
            owned.wait_for(lambda count=count: len(owned.state().slots) == count)
    assert "sound" in owned.call("verify")


def test_a_run_waits_for_an_owner_who_is_at_the_keyboard(owned: OwnedMachine) -> None:
    owned.prepare("START = KeyboardIdle > 100\nIS_OWNER = START =?= false\n")
    owned.owner(AT_THE_KEYBOARD)
    owned.write("short.sub", "executable = /bin/true\nrequest_memory = 16\nrequest_disk = 1 MB\nqueue\n")
    run = owned.start("run", "short.sub")
    owned.wait_for(lambda: (owned.path / "pool.db.sock").exists() and bool(owned.state().clusters))
    owned.wait_for(lambda: owned.pair() == "Owner/Idle")
    owned.owner(AWAY)
    output, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, output
    assert "completed" in output


def test_an_invalid_configuration_is_rejected_with_its_line(owned: OwnedMachine) -> None:
    owned.prepare("START = 1 +\n")
    line = (owned.path / "poolbook.conf").read_text().count("\n")
    assert f"poolbook.conf:{line}: START" in owned.call("serve", code=1)
    owned.configure("NUM_SLOTS_TYPE_1 = 3\nSLOT_TYPE_1 = cpus=50%\n")
    assert "SLOT_TYPE_1" in owned.call("serve", code=1)
    assert "NUM_SLOTS" in owned.call("serve", "-slots", "2", code=2)
    assert "No such file" in owned.call("serve", "-config", "nowhere.conf", code=1)
