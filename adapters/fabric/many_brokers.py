"""The carrier of a role that has joined several managers, each with its own broker.

In the broker of a manager, that manager is called ``manager``. The role knows its pool's manager that it joined
first by this name, and another one as ``manager/NAME``. A manager itself uses its own broker, and the brokers of the
managers that it has joined: there, only their managers receive from it.

An access point that flocks also uses the brokers of other pools. A peer belongs to the pool where it was heard first,
or to the own pool if it is heard there: another pool cannot send in its name, nor receive what is sent to it.
"""

from __future__ import annotations

import select
from threading import Lock
from time import monotonic
from typing import Final

from ...domain.state.peers import MANAGER, role_of
from .carrier import Carrier

RECENT_S: Final = 2.0
"""For this long after a peer was heard over a broker, only that broker is used; then all, since it may be cut off."""


class ManyBrokers:
    """Combines the carriers of several brokers. ``own`` is the carrier of a manager in its own broker."""

    def __init__(self, own: Carrier | None = None) -> None:
        self._is_manager = own is not None
        self._brokers: dict[str, Carrier] = {}  #: by the name that this role gives to the broker's manager
        self._pools: dict[str, str] = {}  #: of the brokers, by manager; empty: the own pool
        self._heard: dict[str, tuple[float, str]] = {}  #: by peer: when it was last heard, and over which broker
        self._pool_of: dict[str, str] = {}  #: of the peers that are not managers
        self._lock = Lock()
        self._any = select.epoll()
        if own is not None:
            self.add(MANAGER, own)

    def add(self, manager: str, broker: Carrier, pool: str = "") -> None:
        """Use another manager's broker from now on. ``pool`` names its pool if that is not the own one. Any thread may
        call this."""
        with self._lock:
            self._pools[manager] = pool
            self._brokers = {**self._brokers, manager: broker}
            self._any.register(broker.fileno(), select.EPOLLIN)

    @property
    def managers(self) -> tuple[str, ...]:
        return (*self._brokers,)

    def send(self, peer: str, data: bytes) -> None:
        brokers, routes = self._brokers, self._routes(peer)
        at, manager = self._heard.get(peer, (0.0, ""))
        if manager in routes and monotonic() < at + RECENT_S:
            routes = {manager: routes[manager]}
        for manager, name in routes.items():
            brokers[manager].send(name, data)

    def _routes(self, peer: str) -> dict[str, str]:
        """Return the brokers that can carry a datagram to a peer, each with the name of the peer there."""
        direct = {peer: MANAGER} if peer in self._brokers else {}
        if self._is_manager:
            return {**direct, MANAGER: peer}
        if role_of(peer) == MANAGER:
            return direct
        pool = self._pool_of.get(peer)
        return {manager: peer for manager in self._brokers if pool in (None, self._pools[manager])}

    def receive(self) -> list[tuple[str, bytes]]:
        received, now = [], monotonic()
        for manager, broker in self._brokers.items():
            for sender, data in broker.receive():
                if sender == MANAGER:
                    peer = manager
                elif self._is_manager and manager != MANAGER:
                    continue  # the broker of another manager, where only that manager sends to this one
                elif not self._is_of_pool(sender, self._pools[manager]):
                    continue
                else:
                    peer = sender
                self._heard[peer] = now, manager
                received.append((peer, data))
        return received

    def _is_of_pool(self, peer: str, pool: str) -> bool:
        if not pool:
            self._pool_of[peer] = pool
        return self._pool_of.setdefault(peer, pool) == pool

    def fileno(self) -> int:
        return self._any.fileno()

    def close(self) -> None:
        with self._lock:
            self._any.close()
            for broker in self._brokers.values():
                broker.close()
