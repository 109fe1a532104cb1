"""Property: a role that has joined several managers reaches each peer while one broker connects them, and knows each
manager by one name."""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.adapters.fabric import many_brokers
from poolbook.adapters.fabric.carrier import Carrier
from poolbook.adapters.fabric.many_brokers import RECENT_S, ManyBrokers

from .local_carriers import LocalCarriers
from .pool import PATIENCE, receive, running_pool

AP, EP = "access-point/ap1", "execution-point/ep1"
CM2, CM3 = "manager/cm2", "manager/cm3"
MANAGERS = ("manager", CM2, CM3)


class Clock:
    now = 1000.0


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    monkeypatch.setattr(many_brokers, "monotonic", lambda: Clock.now)
    return Clock


class Cuttable:
    """A carrier whose connection to its broker can be cut. The broker keeps nothing for it meanwhile."""

    def __init__(self, carrier: Carrier) -> None:
        self.carrier, self.is_cut = carrier, False

    def send(self, peer: str, data: bytes) -> None:
        if not self.is_cut:
            self.carrier.send(peer, data)

    def receive(self) -> list[tuple[str, bytes]]:
        received = self.carrier.receive()
        return [] if self.is_cut else received

    def fileno(self) -> int:
        return self.carrier.fileno()

    def close(self) -> None:
        self.carrier.close()


class Brokers:
    """Three managers with a broker each, and two roles that have joined all of them."""

    def __init__(self) -> None:
        self.hubs = {name: LocalCarriers() for name in MANAGERS}
        self.managers = {name: hub.carrier("manager") for name, hub in self.hubs.items()}
        self.links = {(role, name): Cuttable(hub.carrier(role)) for name, hub in self.hubs.items() for role in (AP, EP)}
        self.roles = {AP: ManyBrokers(), EP: ManyBrokers()}
        for (role, name), link in self.links.items():
            self.roles[role].add(name, link)

    def close(self) -> None:
        for carrier in (*self.roles.values(), *self.managers.values()):
            carrier.close()


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    pool = Brokers()
    yield pool
    pool.close()


ROLE = st.sampled_from((AP, EP))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("cut"), ROLE, st.sampled_from(MANAGERS)),
        st.tuples(st.just("heal"), ROLE, st.sampled_from(MANAGERS)),
        st.tuples(st.just("send"), ROLE, st.sampled_from((*MANAGERS, "other role"))),
        st.tuples(st.just("answer"), st.sampled_from(MANAGERS), ROLE),
        st.tuples(st.just("wait"), ROLE, st.just("")),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_each_datagram_arrives_if_a_broker_connects_both_and_the_last_answer_is_old(
    steps: list[tuple[str, str, str]],
) -> None:
    pool = Brokers()
    try:
        for number, (action, one, other) in enumerate(steps):
            data = b"%d" % number
            if action in ("cut", "heal"):
                pool.links[one, other].is_cut = action == "cut"
            elif action == "wait":
                Clock.now += 2 * RECENT_S
            elif action == "answer":
                pool.managers[one].send(other, data)
                arrived = [(one, data)] if not pool.links[other, one].is_cut else []
                assert pool.roles[other].receive() == arrived
            elif other in MANAGERS:
                pool.roles[one].send(other, data)
                arrived = [] if pool.links[one, other].is_cut else [(one, data)]
                assert {name: manager.receive() for name, manager in pool.managers.items()} == {
                    name: arrived if name == other else [] for name in MANAGERS
                }
            else:
                peer = EP if one == AP else AP
                heard = pool.roles[one]._heard.get(peer, (0.0, ""))
                pool.roles[one].send(peer, data)
                received = pool.roles[peer].receive()
                common = [n for n in MANAGERS if not (pool.links[one, n].is_cut or pool.links[peer, n].is_cut)]
                is_recent = Clock.now < heard[0] + RECENT_S
                routes = [n for n in common if n == heard[1]] if is_recent else common
                assert received == [(one, data)] * len(routes)
    finally:
        pool.close()


def test_an_answer_takes_the_way_of_the_question(brokers: Brokers) -> None:
    brokers.roles[AP].send(EP, b"question")
    assert brokers.roles[EP].receive() == 3 * [(AP, b"question")]
    brokers.roles[EP].send(AP, b"answer")
    assert brokers.roles[AP].receive() == [(EP, b"answer")]


def test_the_descriptor_is_readable_while_a_datagram_waits_at_any_broker(brokers: Brokers) -> None:
    role = brokers.roles[AP]
    for manager in brokers.managers.values():
        assert not select.select([role.fileno()], [], [], 0)[0]
        manager.send(AP, b"hello")
        assert select.select([role.fileno()], [], [], 0)[0]
        role.receive()


def test_a_datagram_to_a_manager_that_the_role_has_not_joined_is_lost(brokers: Brokers) -> None:
    brokers.roles[AP].send("manager/unknown", b"lost")
    assert [manager.receive() for manager in brokers.managers.values()] == [[], [], []]


def test_a_manager_uses_its_own_broker_for_roles_and_those_of_other_managers_only_for_them() -> None:
    own, other = LocalCarriers(), LocalCarriers()
    first, point = ManyBrokers(other.carrier("manager")), own.carrier(EP)
    second = ManyBrokers(own.carrier("manager"))
    second.add("manager/cm1", other.carrier(CM2))
    assert second.managers == ("manager", "manager/cm1")
    second.send(EP, b"match")
    assert point.receive() == [("manager", b"match")]
    point.send("manager", b"thanks")
    assert second.receive() == [(EP, b"thanks")]
    second.send("manager/cm1", b"alive")  # over both brokers, since it was not heard; in its own, there is no cm1
    assert first.receive() == [(CM2, b"alive")]
    first.send(CM2, b"alive, too")
    assert second.receive() == [("manager/cm1", b"alive, too")]
    other.carrier(EP).send(CM2, b"forged")
    assert second.receive() == []
    for carrier in (first, second, point):
        carrier.close()


def test_roles_reach_each_other_while_one_of_two_real_brokers_is_down(tmp_path: Path, clock: type[Clock]) -> None:
    with ExitStack() as stack:
        pools = {}
        for name in ("manager", CM2):
            folder = tmp_path / name.replace("/", "-")
            folder.mkdir()
            pools[name] = stack.enter_context(running_pool(folder))
        managers = {name: pool.join("manager") for name, pool in pools.items()}
        roles = {role: ManyBrokers() for role in (AP, EP)}
        for role, many in roles.items():
            for name, pool in pools.items():
                many.add(name, pool.join(role))
        roles[AP].send(CM2, b"hello")
        assert receive(managers[CM2]) == [(AP, b"hello")]
        managers[CM2].send(AP, b"hello, too")
        assert receive(roles[AP]) == [(CM2, b"hello, too")]
        for stopped in pools:
            pools[stopped].broker.stop()
            clock.now += 2 * RECENT_S
            roles[AP].send(EP, stopped.encode())
            wait_for(roles[EP], (AP, stopped.encode()))
            roles[EP].send(AP, b"answer to " + stopped.encode())
            wait_for(roles[AP], (EP, b"answer to " + stopped.encode()))
            pools[stopped].broker.ensure_running(PATIENCE)
            for many in roles.values():
                many._brokers[stopped].wait_ready(PATIENCE)  # type: ignore[attr-defined]
            clock.now += 2 * RECENT_S
            for many in roles.values():
                many.receive()


def wait_for(carrier: Carrier, datagram: tuple[str, bytes]) -> None:
    """Wait until a datagram arrives; datagrams that waited for a broker may arrive before."""
    while datagram not in receive(carrier):
        pass


def test_a_broker_of_another_pool_cannot_send_in_the_name_of_a_peer_of_the_own_pool() -> None:
    hubs = {pool: LocalCarriers() for pool in ("", CM2)}
    access_point, points = ManyBrokers(), {pool: hub.carrier(EP) for pool, hub in hubs.items()}
    for pool, hub in hubs.items():
        access_point.add(pool or "manager", hub.carrier(AP), pool)
    points[CM2].send(AP, b"the first")
    assert access_point.receive() == [(EP, b"the first")]
    points[""].send(AP, b"the own")
    assert access_point.receive() == [(EP, b"the own")]
    points[CM2].send(AP, b"forged")
    assert access_point.receive() == []
    Clock.now += 2 * RECENT_S
    access_point.send(EP, b"for the own")
    assert {pool: point.receive() for pool, point in points.items()} == {"": [(AP, b"for the own")], CM2: []}
    for carrier in (access_point, *points.values()):
        carrier.close()
