"""Golden: real jobs make way for jobs that the slot prefers, and are run again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from poolbook.adapters.machine.host import host_name
from poolbook.domain.events import ClaimQueued

from .real import Folder
from .test_owner_policy import OwnedMachine

PREFERS = """\
NUM_CPUS = 1
NUM_SLOTS = 1
SLOT_TYPE_0_PARTITIONABLE = false
POLLING_INTERVAL = 1
UPDATE_INTERVAL = 1
MachineMaxVacateTime = 30
RANK = TARGET.Important =?= true
MaxJobRetirementTime = {retirement}
"""
PATIENT = """\
executable = /bin/sh
arguments = "-c 'trap ""echo term >> signals.txt; exit 0"" TERM; while :; do sleep 0.1; done'"
request_memory = 16
request_disk = 1 MB
log = job.log
queue
"""
IMPORTANT = """\
executable = /bin/sh
arguments = "-c 'ls /proc/{pid} > seen.txt 2>&1; echo done >> done.txt'"
request_memory = 16
request_disk = 1 MB
log = important.log
My.Important = true
queue
"""
EARLY = ("-set", "NEGOTIATOR_CONSIDER_EARLY_PREEMPTION=true")
"""Slots may be given away while their jobs still have retirement time."""
SLOT = f"slot1@{host_name()}"


class PreferringPool(OwnedMachine):
    """A directory with a pool whose only slot prefers important jobs."""

    def retirement(self, seconds: int) -> None:
        self.write("poolbook.conf", PREFERS.format(retirement=seconds))

    def runs_patient(self) -> int:
        """Submit the job that will be preempted, and wait until it runs."""
        self.write("job.sub", PATIENT)
        self.call("submit", "job.sub")
        self.wait_for(lambda: self.pid())
        return self.pid()

    def submit_important(self, pid: int) -> None:
        self.write("important.sub", IMPORTANT.format(pid=pid))
        self.call("submit", "important.sub")

    def waits(self) -> bool:
        return any(isinstance(event, ClaimQueued) for event in self.events())


@pytest.fixture
def preferring(folder: Folder) -> PreferringPool:
    return PreferringPool(folder.path)


def numbers(log: Path) -> list[str]:
    return [line[:3] for line in log.read_text().splitlines() if line[3:5] == " (" and line[:3] != "006"]


def test_a_job_makes_way_for_one_that_the_slot_prefers_and_is_run_again(preferring: PreferringPool) -> None:
    preferring.retirement(0)
    with preferring.served():
        pid = preferring.runs_patient()
        preferring.submit_important(pid)
        preferring.wait_for(lambda: (preferring.path / "done.txt").exists())
        preferring.wait_for(lambda: preferring.pid() != pid and preferring.status() == "Running")
        preferring.wait_for(lambda: numbers(preferring.path / "job.log")[3:] == ["001"])
        why = preferring.call("why", "-verbose", "1.0")
    assert (preferring.path / "signals.txt").read_text().startswith("term\n")
    assert "No such file" in (preferring.path / "seen.txt").read_text(), "the one was gone before the other began"
    assert numbers(preferring.path / "job.log")[:4] == ["000", "001", "004", "001"]
    assert numbers(preferring.path / "important.log") == ["000", "001", "005"]
    assert "for job 2.0, is waiting for the slot of job 1.0: the slot's RANK prefers job 2.0 to its current job." in why
    assert "sound" in preferring.call("verify")


def test_a_job_that_retires_for_a_better_match_does_so_when_the_pool_is_killed(preferring: PreferringPool) -> None:
    preferring.retirement(3600)
    server = preferring.start("serve", *EARLY)
    preferring.wait_for(lambda: (preferring.path / "pool.db.sock").exists())
    pid = preferring.runs_patient()
    preferring.submit_important(pid)
    preferring.wait_for(preferring.waits)
    server.send_signal(signal.SIGKILL)
    server.communicate()
    (preferring.path / "pool.db.sock").unlink()  # the rest of a dead server is not to be mistaken for the next one's
    assert preferring.pair() == "Claimed/Retiring"
    assert preferring.state().assigned_slots == {(2, 0): SLOT}
    with preferring.served():
        assert preferring.pid() == pid and Path(f"/proc/{pid}").exists()
        preferring.retirement(0)
        preferring.call("reconfig")
        preferring.wait_for(lambda: (preferring.path / "done.txt").exists())
        preferring.call("rm", "1")
    assert (preferring.path / "seen.txt").read_text().count("No such file") == 1
    assert "sound" in preferring.call("verify")
