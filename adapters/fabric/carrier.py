"""The port for datagrams between roles.

A datagram may be lost, delayed, duplicated or reordered: the outboxes in the roles' logs make up for it. A peer is
named after its role: ``manager``, ``access-point/NAME`` or ``execution-point/NAME``.
"""

from __future__ import annotations

import os
from collections import Counter
from threading import Lock
from typing import Protocol

LARGEST = 900_000  #: bytes of a datagram; the broker forwards at most 1 MB
_OVERHEAD = 256  #: bytes of memory that a waiting datagram takes in addition to its data
_MOST_OF_SENDER = 16 << 20  #: bytes that may wait from one sender, so that it cannot crowd out the others
_MOST_WAITING = 128 << 20


class Carrier(Protocol):
    """Carries datagrams to and from one role."""

    def send(self, peer: str, data: bytes) -> None:
        """Send a datagram. Return at once, and never raise for a peer that cannot be reached."""

    def receive(self) -> list[tuple[str, bytes]]:
        """Return the datagrams that have arrived since the last call, each with its sender, whom the carrier has
        authenticated."""

    def fileno(self) -> int:
        """Return a descriptor that is readable while datagrams wait."""

    def close(self) -> None:
        """Stop sending and receiving, and release the descriptor."""


def check_size(data: bytes) -> None:
    """Reject a datagram that a carrier cannot transport; the caller must split it before."""
    assert len(data) <= LARGEST, f"a datagram has at most {LARGEST} bytes, but this one has {len(data)}: split it"


class Inbox:
    """The datagrams that wait for their receiver. Any thread may add some. If the receiver is slow, the rest is
    lost."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: list[tuple[str, bytes]] = []
        self._bytes: Counter[str] = Counter()
        self._total = 0
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_closed = False

    def put(self, sender: str, data: bytes) -> None:
        """Add a datagram, unless the inbox is closed or too much waits."""
        size = len(data) + _OVERHEAD
        with self._lock:
            is_full = self._total + size > _MOST_WAITING or self._bytes[sender] + size > _MOST_OF_SENDER
            if is_full or self._is_closed:
                return
            if not self._waiting:
                os.eventfd_write(self._descriptor, 1)
            self._waiting.append((sender, data))
            self._bytes[sender] += size
            self._total += size

    def take(self) -> list[tuple[str, bytes]]:
        """Return and remove everything that waits."""
        with self._lock:
            taken = self._waiting
            if taken:
                os.eventfd_read(self._descriptor)
                self._waiting, self._total = [], 0
                self._bytes.clear()
            return taken

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        """Discard everything that waits, and release the descriptor."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._waiting = []
                os.close(self._descriptor)
