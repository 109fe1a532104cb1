"""property: over a real broker with TLS, datagrams arrive with their sender, and a quiet connection loses nothing."""

from __future__ import annotations

import select
import time
from collections import Counter

import pytest

from poolbook.adapters.fabric import nats_carrier
from poolbook.adapters.fabric.carrier import LARGEST
from poolbook.adapters.fabric.credentials import Credentials, UserKey
from poolbook.adapters.fabric.nats_carrier import NatsCarrier

from .pool import BrokerPool, receive


def test_datagrams_arrive_with_their_sender(shared_pool: BrokerPool) -> None:
    manager, access_point = shared_pool.join("manager"), shared_pool.join("access-point/submit.example.org")
    execution_point = shared_pool.join("execution-point/slots/1@a b*>é%2E.example")
    names = ["manager", "access-point/submit.example.org", "execution-point/slots/1@a b*>é%2E.example"]
    carriers = [manager, access_point, execution_point]
    for sender in carriers:
        for name, receiver in zip(names, carriers, strict=True):
            if sender is not receiver:
                sender.send(name, b"\r\nPUB \x00")
    for name, receiver in zip(names, carriers, strict=True):
        assert sorted(receive(receiver, 2)) == sorted((other, b"\r\nPUB \x00") for other in names if other != name)
        assert not select.select([receiver.fileno()], [], [], 0)[0]


def test_the_longest_names_are_accepted(shared_pool: BrokerPool) -> None:
    manager = shared_pool.join("manager")
    for number, name in enumerate(["a" * 400, "@" * 133, "\N{GRINNING FACE}" * 33, "x." * 100]):
        key = UserKey.create()
        path = shared_pool.folder / f"long-{number}.creds"
        Credentials(shared_pool.keys.issue(f"access-point/{name}", key.public, time.time()), key.seed).write(path)
        carrier = NatsCarrier([shared_pool.url], f"access-point/{name}", path, shared_pool.authority.certificate_path)
        shared_pool.carriers.append(carrier)
        carrier.send("manager", b"hello")
        assert receive(manager) == [(f"access-point/{name}", b"hello")]
        with pytest.raises(ValueError, match="is not a peer"):
            carrier.send(f"execution-point/{name}....", b"hello")
        manager.send(f"access-point/{name}", b"hello")
        assert receive(carrier) == [("manager", b"hello")]


def test_datagrams_to_absent_peers_are_lost(shared_pool: BrokerPool) -> None:
    manager = shared_pool.join("manager")
    manager.send("access-point/absent", b"lost")
    manager.send("manager", b"kept")
    assert receive(manager) == [("manager", b"kept")]


def test_a_quiet_connection_loses_nothing_and_keeps_the_order(shared_pool: BrokerPool) -> None:
    manager, point = shared_pool.join("manager"), shared_pool.join("execution-point/ep1")
    for number in range(10_000):
        point.send("manager", b"%1000d" % number)
    assert [int(data) for _, data in receive(manager, 10_000)] == list(range(10_000))


def test_the_largest_datagrams_pass(shared_pool: BrokerPool) -> None:
    manager, point = shared_pool.join("manager"), shared_pool.join("execution-point/ep1")
    for number in range(5):
        point.send("manager", bytes([number]) * LARGEST)
    assert receive(manager, 5) == [("execution-point/ep1", bytes([number]) * LARGEST) for number in range(5)]
    with pytest.raises(AssertionError, match="at most 900000 bytes"):
        point.send("manager", bytes(LARGEST + 1))


def test_64_carriers_exchange_datagrams(shared_pool: BrokerPool) -> None:
    names = [f"execution-point/ep{number}.example.org" for number in range(63)]
    points = [shared_pool.start(name) for name in names]
    manager = shared_pool.join("manager")
    for point in points:
        point.wait_ready(60)
        for _ in range(10):
            point.send("manager", b"ask")
    senders = Counter(sender for sender, _ in receive(manager, 630))
    assert senders == dict.fromkeys(names, 10)
    for name in names:
        manager.send(name, name.encode())
    assert [receive(point) for point in points] == [[("manager", name.encode())] for name in names]


def test_what_is_sent_before_the_connection_arrives_later_apart_from_the_oldest(
    shared_pool: BrokerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_carrier, "_MOST_UNSENT", 7 * LARGEST)
    manager, path = shared_pool.join("manager"), shared_pool.folder / "execution-point-early.creds"
    carrier = NatsCarrier([shared_pool.url], "execution-point/early", path, shared_pool.authority.certificate_path)
    shared_pool.carriers.append(carrier)
    for number in range(20):
        carrier.send("manager", b"%d" % number + bytes(LARGEST - 10))
    assert shared_pool.credentials("execution-point/early") == path
    assert [int(data.rstrip(b"\0")) for _, data in receive(manager, 6)] == [14, 15, 16, 17, 18, 19]


def test_a_closed_carrier_does_nothing(shared_pool: BrokerPool) -> None:
    carrier = shared_pool.join("execution-point/ep1")
    carrier.close()
    carrier.close()
    carrier.send("manager", b"lost")
    assert carrier.receive() == [] and not carrier.is_connected


def test_what_is_sent_before_a_close_arrives(shared_pool: BrokerPool) -> None:
    manager, point = shared_pool.join("manager"), shared_pool.join("execution-point/leaving")
    for number in range(10):
        point.send("manager", bytes([number]) * 500_000)
    point.close()
    assert [data[0] for _, data in receive(manager, 10)] == list(range(10))
