"""property: an execution point and an access point exchange datagrams over HTTPS while the broker does not."""

from __future__ import annotations

import select
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from poolbook.adapters.fabric.carrier import Carrier
from poolbook.adapters.fabric.datagrams import ENCODE, FileAccess, Hint, Page, Read
from poolbook.adapters.fabric.second_path import AccessPointPaths, ExecutionPointPaths
from poolbook.adapters.security.private_files import make_private_folder

from ..files.site import authority_in, serve_files
from .local_carriers import LocalCarriers

AP, EP = "access-point/ap1", "execution-point/ep/1"
READ, HINT, PAGE = ENCODE(Read(1, 0, 0, "log", 0)), ENCODE(Hint("log", 1)), ENCODE(Page(1, 0, 1, b"page", 0))


class Broker:
    """A broker that can be stopped."""

    def __init__(self) -> None:
        self._carriers = LocalCarriers()
        self.is_stopped = False

    def carrier(self, name: str) -> Carrier:
        return _BrokerCarrier(self, self._carriers.carrier(name))


class _BrokerCarrier:
    def __init__(self, broker: Broker, carrier: Carrier) -> None:
        self._broker, self._carrier = broker, carrier
        self.receive, self.fileno, self.close = carrier.receive, carrier.fileno, carrier.close

    def send(self, peer: str, data: bytes) -> None:
        if not self._broker.is_stopped:
            self._carrier.send(peer, data)


class Pair:
    """An access point and an execution point, which knows the second path."""

    def __init__(self, folder: Path) -> None:
        make_private_folder(folder / "private")
        self.file = folder / "private" / "access-points.json"
        self.broker = Broker()
        self.ap = AccessPointPaths(self.broker.carrier(AP))
        offers, self.service = serve_files(folder, self.ap.exchange)
        url = f"https://{self.service.address}/files"
        self.ca = authority_in(folder).certificate_path
        self.access = FileAccess(("https://127.0.0.1:1", url), self.ca.read_text(), {}, offers.datagram_key("ep/1"))
        self.ep = self.execution_point()
        self.ep.learn(AP, self.access)

    def execution_point(self) -> ExecutionPointPaths:
        return ExecutionPointPaths(self.broker.carrier(EP), "ep/1", self.file)

    def close(self) -> None:
        self.ep.close()
        self.ap.close()
        self.service.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    yield pair
    pair.close()


def wait_for(carrier: Carrier) -> list[tuple[str, bytes]]:
    assert select.select([carrier.fileno()], [], [], 60)[0], "nothing arrives"
    return carrier.receive()


def test_datagrams_arrive_although_the_broker_is_stopped(pair: Pair) -> None:
    pair.broker.is_stopped = True
    pair.ep.send(AP, HINT)
    assert wait_for(pair.ap) == [(EP, HINT)]
    pair.ap.send(EP, READ)
    assert wait_for(pair.ep) == [(AP, READ)]
    pair.ep.send(AP, PAGE)
    assert wait_for(pair.ap) == [(EP, PAGE)]


def test_the_broker_is_used_alone_when_it_carries_answers_again(pair: Pair) -> None:
    pair.broker.is_stopped = True
    pair.ep.send(AP, HINT)
    assert wait_for(pair.ap) == [(EP, HINT)]
    pair.broker.is_stopped = False
    pair.ap.send(EP, PAGE)
    assert (AP, PAGE) in wait_for(pair.ep)
    pair.ep.send(AP, READ)
    pair.ap.send(EP, PAGE)
    wait_for(pair.ep)
    pair.broker.is_stopped = True
    pair.ep.send(AP, HINT)
    arrived = [datagram for _, datagram in wait_for(pair.ap)]
    while HINT not in arrived:
        arrived += [datagram for _, datagram in wait_for(pair.ap)]
    assert arrived.count(READ) == 1  # a second path that was still used would have carried it, too


def test_an_execution_point_that_starts_again_knows_the_second_path(pair: Pair) -> None:
    pair.ep.close()
    pair.broker.is_stopped = True
    pair.ep = pair.execution_point()
    pair.ep.send(AP, READ)
    assert wait_for(pair.ap) == [(EP, READ)]


def test_only_the_holder_of_its_key_sends_in_the_name_of_an_execution_point(pair: Pair) -> None:
    context = ssl.create_default_context(cafile=pair.ca)
    url = f"{pair.access.urls[1]}/datagrams"
    statuses = [
        httpx.post(f"{url}/{name}", headers={"Authorization": f"Bearer {key}"}, content=b"\x90", verify=context)
        for name, key in [("ep%2F1", pair.access.datagram_key), ("ep2", pair.access.datagram_key), ("ep%2F1", "x")]
    ]
    assert [response.status_code for response in statuses] == [200, 403, 403]


def test_a_malformed_request_is_rejected(pair: Pair) -> None:
    context = ssl.create_default_context(cafile=pair.ca)
    headers = {"Authorization": f"Bearer {pair.access.datagram_key}"}
    url = f"{pair.access.urls[1]}/datagrams/ep%2F1"
    assert httpx.post(url, headers=headers, content=b"{}", verify=context).status_code == 400
    assert pair.ap.receive() == []
