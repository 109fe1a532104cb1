"""Property: jobs flock between two pools whose roles are on several machines. They run as nobody in the other pool, and
when the network between the pools fails, each job runs once at a time and ends."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final

import pytest

from .beats import BEAT_S, BEATS, Run, assert_no_two_runs_at_once, prepare, runs_of
from .machines import Machine, Network, missing_requirements
from .recorded import JobEvent, job_events
from .roles import POOL_A, POOL_B, RolePool, wait_until

pytestmark = pytest.mark.skipif(bool(missing_requirements()), reason=missing_requirements())

LEASE_S: Final = 20  #: the shortest that a submission accepts
INTERVALS: Final[dict[str, object]] = {
    "NEGOTIATOR_INTERVAL": 5, "NEGOTIATOR_CYCLE_DELAY": 1, "SCHEDD_INTERVAL": 2, "UPDATE_INTERVAL": 5,
    "ALIVE_INTERVAL": 5,
}  # fmt: skip
AP1: Final[dict[str, object]] = {"FLOCK_TO": "cmb.poolb.example"}
CMB: Final[dict[str, object]] = {
    "FLOCK_FROM": "ap1.poola.example", "ACCOUNTANT_LOCAL_DOMAIN": "poolb.example", "REMOTE_PRIO_FACTOR": 5000,
}  # fmt: skip
PROGRAM: Final = f"#!/bin/sh\n{BEATS}id -un\n"
SUBMIT: Final = """\
executable = work.sh
arguments = {tag}$(Process) {beats}
should_transfer_files = YES
output = out.$(Process)
log = job.log
job_lease_duration = {lease}
queue {count}
"""
OWNERS: Final = {"ep1.poola.example undefined": "alice", "epb.poolb.example cmb.poolb.example": "nobody"}
"""The user as whom alice's jobs run, by the machine and by LastRemotePool."""
LOST, TERMINATED = (22, 24, 4), (5,)  #: the numbers of the events after a run


class TwoPools(RolePool):
    """Pool A with cm1, ap1 and ep1, and pool B with cmb, apb and epb. The access point of A flocks to B."""

    def __init__(self, network: Network, names: str, slots: int = 2, **settings: object) -> None:
        share = f"cpus=1,memory={100 // slots}%,disk={100 // slots}%"
        equal_slots = {"NUM_CPUS": slots, "NUM_SLOTS_TYPE_1": slots, "SLOT_TYPE_1": share}
        super().__init__(network, INTERVALS | equal_slots | settings)
        for name in names.split():
            machine = self.add_machine(name, {"ap1": AP1, "cmb": CMB}.get(name))
            prepare(machine)
            self.start(machine)
        self.flock(network.machines["ap1"], POOL_B)
        for pool, name in ((POOL_A, "ep1"), (POOL_B, "epb")):
            self.wait_for_slots(pool, slots if name in self.daemons else 0)

    def submit(self, name: str, user: str, count: int, seconds: float) -> None:
        """Submit jobs whose tags are their user and number."""
        machine = self.network.machines[name]
        program = machine.home(user) / "work.sh"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        beats = round(seconds / BEAT_S)
        text = SUBMIT.format(tag=user, beats=beats, lease=LEASE_S, count=count)
        (machine.home(user) / "job.sub").write_text(text)
        self.run(machine, "submit", "job.sub", user=user)

    def runs(self) -> dict[str, list[Run]]:
        """Return the runs of each job, which must not overlap."""
        runs = runs_of(machine for name, machine in self.network.machines.items() if name.startswith("ep"))
        assert_no_two_runs_at_once(runs)
        return runs

    def wait_for_runs(self, machine: str, tag: str, count: int) -> None:
        """Wait until so many jobs with such tags have run on a machine, or run there."""
        place = self.network.machines[machine]
        wait_until(lambda: sum(each.startswith(tag) for each in runs_of([place])) >= count, self.texts)

    def cut(self) -> None:
        """Lose all packets between both pools."""
        machines = self.network.machines.values()
        for one in machines:
            for other in machines:
                if one.domain != other.domain:
                    self.network.cut_one_way(one, other)


def endings(machine: Machine, user: str) -> dict[str, list[tuple[int, ...]]]:
    """Return the numbers of the events after the start of each run, by job."""
    runs: dict[str, list[list[JobEvent]]] = {}
    for event in job_events((machine.home(user) / "job.log").read_bytes()):
        if event.number == 1:
            runs.setdefault(event.job, []).append([])
        elif event.number in (4, 5, 22, 23, 24):
            runs[event.job][-1].append(event)
    return {job: [tuple(event.number for event in run) for run in each] for job, each in runs.items()}


def test_jobs_that_find_no_slot_run_as_nobody_on_the_machines_of_another_pool(tmp_path: Path) -> None:
    with Network(tmp_path) as network:
        pools = TwoPools(network, "cm1 cmb ap1 ep1 epb")
        ap1 = network.machines["ap1"]
        pools.submit("ap1", "alice", count=4, seconds=3)
        pools.wait_for_empty_queue(ap1)
        history = pools.run(ap1, "history", "-autoformat", "ProcId", "LastRemoteHost", "LastRemotePool")
        users = {proc: OWNERS[place] for proc, place in re.findall(r"(?m)^(\d+) \w+@(.*)$", history)}
        assert sorted(users.values()) == ["alice", "alice", "nobody", "nobody"]
        assert {proc: (ap1.home("alice") / f"out.{proc}").read_text().strip() for proc in users} == users
        pools.stop_and_check_logs()


@pytest.mark.network
def test_jobs_flock_while_their_own_pool_has_no_machines_or_no_manager(tmp_path: Path) -> None:
    with Network(tmp_path) as network:
        pools = TwoPools(network, "cm1 cmb ap1 epb")
        pools.submit("ap1", "alice", count=2, seconds=1)
        pools.wait_for_empty_queue(network.machines["ap1"])
        network.machines["cm1"].power_off()
        pools.submit("ap1", "alice", count=2, seconds=1)
        pools.wait_for_empty_queue(network.machines["ap1"])
        assert {run.machine for runs in pools.runs().values() for run in runs} == {"epb"}
        pools.start(network.machines["cm1"])
        pools.wait_until_serving(network.machines["cm1"])
        pools.stop_and_check_logs()


@pytest.mark.network
def test_jobs_of_the_other_pools_own_users_are_preferred(tmp_path: Path) -> None:
    with Network(tmp_path) as network:
        pools = TwoPools(network, "cm1 cmb ap1 apb epb", slots=6, CLAIM_WORKLIFE=0)
        pools.submit("ap1", "alice", count=12, seconds=8)
        pools.wait_for_runs("epb", "alice", 6)
        pools.submit("apb", "carol", count=5, seconds=2)
        for name in ("ap1", "apb"):
            pools.wait_for_empty_queue(network.machines[name])
        starts = sorted((run.begin, tag[:5]) for tag, runs in pools.runs().items() for run in runs)
        users = [user for _, user in starts]
        begin = users.index("carol")
        assert users[begin : begin + 6].count("carol") >= 4, "carol's share is five of six slots"
        report = pools.run(network.machines["cmb"], "userprio", "-allusers")
        assert re.findall(r"(\w+)@\S+ +[\d.]+ +(\d+)\.", report) == [("carol", "1000"), ("alice", "5000")]
        pools.stop_and_check_logs()


@pytest.mark.network
def test_flocked_jobs_end_with_their_leases_when_the_pools_lose_each_other(tmp_path: Path) -> None:
    with Network(tmp_path) as network:
        pools = TwoPools(network, "cm1 cmb ap1 apb ep1 epb")
        ap1, apb = network.machines["ap1"], network.machines["apb"]
        pools.submit("ap1", "alice", count=6, seconds=60)
        pools.wait_for_runs("epb", "alice", 2)
        pools.submit("apb", "carol", count=2, seconds=2)
        pools.cut()
        pools.wait_for_empty_queue(apb)  # when the leases are over, the slots of epb are free for its own pool
        wait_until(lambda: sum(LOST in each for each in endings(ap1, "alice").values()) == 2, pools.texts)
        network.heal()
        pools.wait_for_empty_queue(ap1)
        runs = pools.runs()
        lost = {tag for tag, each in runs.items() if len(each) > 1}
        assert {tag: each[0].machine for tag, each in runs.items() if tag in lost} == dict.fromkeys(lost, "epb")
        assert sorted(endings(ap1, "alice").values()) == [[TERMINATED]] * 4 + [[LOST, TERMINATED]] * 2
        pools.stop_and_check_logs()


@pytest.mark.network
def test_flocked_jobs_continue_after_a_cut_shorter_than_their_leases(tmp_path: Path) -> None:
    with Network(tmp_path) as network:
        pools = TwoPools(network, "cm1 cmb ap1 ep1 epb")
        ap1 = network.machines["ap1"]
        pools.submit("ap1", "alice", count=4, seconds=25)
        pools.wait_for_runs("epb", "alice", 2)
        pools.cut()
        time.sleep(LEASE_S / 2)
        network.heal()
        pools.wait_for_empty_queue(ap1)
        assert {len(runs) for runs in pools.runs().values()} == {1}
        assert {run for runs in endings(ap1, "alice").values() for run in runs} <= {TERMINATED, (22, 23, *TERMINATED)}
        pools.stop_and_check_logs()
