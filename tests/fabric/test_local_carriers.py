"""property: a carrier within one process delivers what was sent, with its sender, and has bounded memory."""

import select
from threading import Thread

import pytest

from poolbook.adapters.fabric.carrier import LARGEST, Carrier

from .local_carriers import LocalCarriers


def is_readable(carrier: Carrier) -> bool:
    return bool(select.select([carrier.fileno()], [], [], 0)[0])


def test_datagrams_arrive_in_order_with_their_sender() -> None:
    hub = LocalCarriers()
    manager, point = hub.carrier("manager"), hub.carrier("execution-point/ep1")
    assert not is_readable(manager) and manager.receive() == []
    point.send("manager", b"first")
    point.send("manager", b"second")
    manager.send("manager", b"third")
    assert is_readable(manager) and not is_readable(point)
    sender = "execution-point/ep1"
    assert manager.receive() == [(sender, b"first"), (sender, b"second"), ("manager", b"third")]
    assert not is_readable(manager) and manager.receive() == []


def test_datagrams_to_unknown_and_closed_peers_are_lost() -> None:
    hub = LocalCarriers()
    manager, point = hub.carrier("manager"), hub.carrier("execution-point/ep1")
    manager.send("access-point/ap1", b"lost")
    point.send("manager", b"lost")
    point.close()
    point.close()
    manager.send("execution-point/ep1", b"lost")
    manager.receive()
    point.send("manager", b"lost")
    assert point.receive() == manager.receive() == []


def test_a_restarted_role_receives_in_place_of_its_predecessor() -> None:
    hub = LocalCarriers()
    manager, before = hub.carrier("manager"), hub.carrier("execution-point/ep1")
    after = hub.carrier("execution-point/ep1")
    before.close()
    manager.send("execution-point/ep1", b"hello")
    assert after.receive() == [("manager", b"hello")]


def test_a_datagram_over_the_limit_is_an_error_of_the_caller() -> None:
    manager = LocalCarriers().carrier("manager")
    manager.send("manager", bytes(LARGEST))
    with pytest.raises(AssertionError, match="at most 900000 bytes, but this one has 900001"):
        manager.send("manager", bytes(LARGEST + 1))
    assert len(manager.receive()) == 1


def test_a_sender_can_fill_only_its_share_of_the_memory() -> None:
    hub = LocalCarriers()
    manager, noisy, quiet = (
        hub.carrier(name) for name in ("manager", "execution-point/noisy", "execution-point/quiet")
    )
    for _ in range(1000):
        noisy.send("manager", bytes(500_000))
    quiet.send("manager", b"heard")
    datagrams = manager.receive()
    assert sum(len(data) for _, data in datagrams) < 17 << 20
    assert datagrams[-1] == ("execution-point/quiet", b"heard")
    noisy.send("manager", b"again")
    assert manager.receive() == [("execution-point/noisy", b"again")]


def test_threads_can_send_at_once() -> None:
    hub = LocalCarriers()
    manager = hub.carrier("manager")

    def work(name: str) -> None:
        carrier = hub.carrier(name)
        for number in range(500):
            carrier.send("manager", b"%d" % number)

    names = [f"execution-point/ep{number}" for number in range(4)]
    threads = [Thread(target=work, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    numbers: dict[str, list[int]] = {name: [] for name in names}
    while sum(map(len, numbers.values())) < 2000:
        assert select.select([manager.fileno()], [], [], 30)[0]
        for sender, data in manager.receive():
            numbers[sender].append(int(data))
    for thread in threads:
        thread.join()
    assert all(of_sender == list(range(500)) for of_sender in numbers.values())
