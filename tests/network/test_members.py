"""Property: roles that join over real networks reach the manager again, whatever happened to the network."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from .machines import PATIENCE, Daemon, Machine, Network, missing_requirements

pytestmark = pytest.mark.skipif(bool(missing_requirements()), reason=missing_requirements())

MANAGER = """
import select, time
from pathlib import Path
from poolbook.adapters.https.manager import ManagerServices
from poolbook.adapters.https.service import Address, HttpsService
from poolbook.adapters.runtime.configuration import load
from poolbook.adapters.security.pool_security import pool_security
from poolbook.domain.state.state import State

state = State(name="pool", settings={"UID_DOMAIN": "poola.example"})
security = lambda: pool_security(Path("m.db").absolute(), "poola.example", load(text=""))
services = ManagerServices(HttpsService(Address("0.0.0.0", 9618)), lambda: state, security, 4222, print, print, "m.db")
carrier = services.start()
print("ready", services.url, security().issue("condor@poola.example", time.time(), (), None), flush=True)
while True:
    select.select([carrier], [], [])
    for peer, data in carrier.receive():
        carrier.send(peer, data)
"""
"""Runs a manager's services, which return each datagram to its sender."""

MEMBER = """
import select, sys, time
from pathlib import Path
from poolbook.adapters.https.joining import join
from poolbook.adapters.https.membership import MemberFiles

url, token, role, name = sys.argv[1:]
files = MemberFiles(Path("role.db").absolute())
join(url, token, role, name, files)
carrier = files.carrier()
number = 0
while True:
    number += 1
    carrier.send("manager", str(number).encode())
    if select.select([carrier], [], [], 0.05)[0]:
        print(*(data.decode() for _, data in carrier.receive()), flush=True)
"""
"""Joins, and sends the manager a number 20 times a second."""


class Pool(NamedTuple):
    network: Network
    manager: Machine
    invitation: list[str]  #: the URL and the token with which roles join
    members: dict[str, Daemon]  #: the program on each machine that has joined


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with Network(tmp_path_factory.mktemp("network")) as network:
        manager = network.machine("cm1")
        invitation = start_manager(manager)
        members = {}
        for role, machine in (
            ("access-point", network.machine("ap1")),
            ("execution-point", network.machine("ep1", behind_nat=True)),
        ):
            program = [sys.executable, "-c", MEMBER, *invitation, role, machine.name]
            members[machine.name] = machine.start(program, "member")
        yield Pool(network, manager, invitation, members)


@pytest.fixture
def pool(joined: Pool) -> Iterator[Pool]:
    """Return the pool when all members receive the manager's answers."""
    for daemon in joined.members.values():
        wait_for_answers(daemon)
    yield joined
    joined.network.heal()


def start_manager(machine: Machine) -> list[str]:
    """Start the manager; return its URL and a token."""
    daemon = machine.start([sys.executable, "-c", MANAGER], f"manager-{time.monotonic_ns()}")
    wait_until(lambda: "ready" in daemon.text(), daemon)
    return daemon.text().rpartition("ready ")[2].split()[:2]


def wait_until(condition: Callable[[], bool], daemon: Daemon) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert daemon.running() and time.monotonic() < until, daemon.text()
        time.sleep(0.02)


def wait_for_answers(daemon: Daemon) -> None:
    """Wait until a member has received answers, from now on."""
    size = len(daemon.text())
    wait_until(lambda: len(daemon.text()) > size, daemon)


def is_silent(daemon: Daemon) -> bool:
    """Return True if a member receives nothing for half a second, after what is still under way."""
    time.sleep(0.2)
    size = len(daemon.text())
    time.sleep(0.5)
    return len(daemon.text()) == size


def test_roles_behind_nat_and_others_join_and_receive_answers(pool: Pool) -> None:
    assert all(daemon.text().split()[0] == "1" for daemon in pool.members.values())


def test_a_role_that_was_cut_off_receives_answers_again(pool: Pool) -> None:
    ep1, ap1 = pool.members["ep1"], pool.members["ap1"]
    pool.network.cut(pool.manager, pool.network.machines["ep1"])
    assert is_silent(ep1) and not is_silent(ap1)
    pool.network.heal()
    wait_for_answers(ep1)


def test_a_cut_of_one_direction_stops_the_answers_until_it_heals(pool: Pool) -> None:
    ap1 = pool.members["ap1"]
    pool.network.cut_one_way(pool.manager, pool.network.machines["ap1"])
    assert is_silent(ap1)
    pool.network.heal()
    wait_for_answers(ap1)


def test_answers_arrive_over_a_slow_link_that_loses_packets(pool: Pool) -> None:
    pool.network.slow(pool.network.machines["ep1"], bytes_per_second=50_000, delay=0.05, jitter=0.02, loss=0.05)
    for _ in range(3):
        wait_for_answers(pool.members["ep1"])


def test_a_role_with_a_wrong_clock_is_rejected_with_the_reason(pool: Pool) -> None:
    machine = pool.network.machine("ep2", movable_clock=True)
    for offset, direction in ((-7200, "behind"), (7200, "ahead")):
        machine.set_clock(offset)
        program = [sys.executable, "-c", MEMBER, *pool.invitation, "execution-point", machine.name]
        result = machine.run(program, check=False)
        assert "ManagerError" in result.stderr and direction in result.stderr
    machine.power_off()


def test_roles_connect_again_to_a_manager_that_lost_power(pool: Pool) -> None:
    pool.manager.power_off()
    assert all(is_silent(daemon) for daemon in pool.members.values())
    pool.manager.power_on()
    start_manager(pool.manager)
    for daemon in pool.members.values():
        wait_for_answers(daemon)


def test_the_broker_continues_while_the_manager_restarts(pool: Pool) -> None:
    assert pool.manager.kill("ManagerServices") == 1
    assert any("nats-server" in process.name() for process in pool.manager.processes())
    start_manager(pool.manager)
    for daemon in pool.members.values():
        wait_for_answers(daemon)
