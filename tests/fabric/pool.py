"""A broker with TLS for tests, its keys, and carriers of roles that have joined."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poolbook.adapters.fabric.broker import Broker
from poolbook.adapters.fabric.carrier import Carrier
from poolbook.adapters.fabric.credentials import LIFETIME_S, BrokerKeys, Credentials, UserKey
from poolbook.adapters.fabric.nats_carrier import NatsCarrier
from poolbook.adapters.security.authority import Authority

from ..ports import free_port

PATIENCE = 150.0


class BrokerPool:
    """A pool's broker in a directory, and its roles."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder / "ca", "pool.example", time.time())
        self.port = free_port()
        self.url = f"tls://127.0.0.1:{self.port}"
        self.keys = BrokerKeys(folder / "keys")
        self.broker = self.make_broker()
        self.carriers: list[NatsCarrier] = []

    def make_broker(self) -> Broker:
        """Return the broker as a restarted manager sees it."""
        certificate = self.authority.certificate_for(["127.0.0.1"], time.time())
        return Broker(self.folder / "broker", "127.0.0.1", self.port, certificate, certificate, self.keys)

    def credentials(self, peer: str, lifetime: int = LIFETIME_S) -> Path:
        """Return the file of a role's credentials, which are issued at the first call."""
        path = self.folder / f"{peer.replace('/', '-')}.creds"
        if not path.exists():
            key = UserKey.create()
            Credentials(self.keys.issue(peer, key.public, time.time(), lifetime), key.seed).write(path)
        return path

    def start(self, peer: str) -> NatsCarrier:
        """Return the carrier of a role, before it is connected."""
        carrier = NatsCarrier([self.url], peer, self.credentials(peer), self.authority.certificate_path)
        self.carriers.append(carrier)
        return carrier

    def join(self, peer: str) -> NatsCarrier:
        carrier = self.start(peer)
        carrier.wait_ready(PATIENCE)
        return carrier

    @property
    def server_pid(self) -> int:
        return int((self.folder / "broker" / "nats-server.pid").read_text())


@contextmanager
def running_pool(folder: Path) -> Iterator[BrokerPool]:
    """Run a broker; close all carriers and end the broker at the end."""
    pool = BrokerPool(folder)
    try:
        pool.broker.ensure_running(PATIENCE)
        yield pool
    finally:
        for carrier in pool.carriers:
            carrier.close()
        pool.broker.stop()


def receive(carrier: Carrier, count: int = 1) -> list[tuple[str, bytes]]:
    """Return the next datagrams, at least `count`."""
    datagrams: list[tuple[str, bytes]] = []
    end = time.monotonic() + PATIENCE
    while len(datagrams) < count:
        assert select.select([carrier.fileno()], [], [], max(0, end - time.monotonic()))[0], datagrams[-3:]
        datagrams += carrier.receive()
    return datagrams
