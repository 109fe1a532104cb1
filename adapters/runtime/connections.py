"""A server's clients, their requests (one line of JSON each) and the answers.

No client can block others: the length of a request, the total size of incomplete requests and the time to complete a
request are limited, and waiting requests are processed round-robin.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from ..machine.host import user_name
from ..sockets import JsonLineConnection, peer_of

LONGEST_REQUEST = 4 << 20  #: maximum bytes of a request: more than a command line can contain
LONGEST_SUBMIT = 64 << 20  #: maximum bytes of a request that contains jobs
MOST_UNFINISHED = 128 << 20  #: maximum bytes received of incomplete requests, of all clients together
SLOWEST = 30.0  #: maximum seconds from a request's first byte to its last
TURN = 16  #: requests from one client that are processed before other clients' requests
_KIND = re.compile(rb'\s*\{"kind": ?"(\w+)"')
_BRING_JOBS = frozenset({b"Submit", b"SubmitDescription"})
_PIECE = 1 << 20


@cache
def name_of(uid: int) -> str:
    """Return a user's name; cached, because a look-up fails when no file descriptors are left."""
    name = user_name(uid)
    return "root" if name == "0" else name


class JsonConnection(JsonLineConnection):
    """A connection on which each line of JSON is answered by a line of JSON. A client that receives no answer repeats
    the request with the same id."""

    def __init__(self, connection: socket.socket, now: float) -> None:
        super().__init__(connection)
        self.uid = peer_of(connection)
        self.user = name_of(self.uid)
        self.heard = now  #: the time of the client's last data
        self.begun = now  #: the time when the incomplete request started
        self.unfinished = bytearray()
        self.waiting: deque[bytes] = deque()
        self.refused = False  #: whether the incomplete request was rejected, so that the rest of it is discarded
        self.ended = False  #: whether the client has closed its side

    def answer(self, value: dict[str, Any]) -> None:
        self.send(json.dumps(value).encode() + b"\n")

    def answer_text(self, text: str) -> None:
        """Send an answer that is already JSON."""
        self.send(b'{"answer": %b}\n' % text.encode())

    def longest(self) -> int:
        """Return the maximum length of the incomplete request: only users who may submit can send jobs."""
        kind = _KIND.match(self.unfinished)
        brings = kind is not None and kind[1] in _BRING_JOBS and os.geteuid() in (0, self.uid)
        return LONGEST_SUBMIT if brings else LONGEST_REQUEST


class Connections:
    """All clients of a server. `closed` is called with a client from which no more data is read."""

    def __init__(self, closed: Callable[[JsonConnection], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._closed = closed
        self._clock = clock
        self._clients: dict[int, JsonConnection] = {}
        self._unfinished = 0
        self._turns: deque[JsonConnection] = deque()
        """The clients with waiting requests; the next one to serve comes first."""

    def __iter__(self) -> Iterator[JsonConnection]:
        return iter(list(self._clients.values()))

    @property
    def unfinished(self) -> int:
        return self._unfinished

    @property
    def has_waiting_request(self) -> bool:
        """Return True if a request is waiting."""
        return bool(self._turns)

    def add(self, connection: socket.socket) -> JsonConnection:
        connection.setblocking(False)
        client = JsonConnection(connection, self._clock())
        self._clients[connection.fileno()] = client
        return client

    def drop(self, client: JsonConnection) -> None:
        if self._clients.pop(client.connection.fileno(), None) is None:
            return
        self._forget(client)
        client.waiting.clear()
        if not client.ended:
            self._closed(client)
        client.connection.close()

    def drop_idlest(self) -> None:
        """Drop the client that has been silent longest; one that waits for an answer only if there are no others."""
        if self._clients:
            self.drop(min(self._clients.values(), key=lambda c: (bool(c.waiting or c.unsent), c.heard)))

    def receive(self, client: JsonConnection) -> None:
        try:
            piece = client.connection.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            self.drop(client)
            return
        now = client.heard = self._clock()
        if not piece:
            self._closed(client)
            client.ended = True
            self._forget(client)
            if not client.waiting:  # its earlier requests come first
                self.drop(client)
            return
        *lines, incomplete = piece.split(b"\n")
        for line in lines:
            self._finish(client, line)
        if not client.unfinished:
            client.begun = now
        self._keep(client, incomplete)

    def _finish(self, client: JsonConnection, line: bytes) -> None:
        if client.refused:
            client.refused = False
            return
        self._keep(client, line)
        if client.refused:
            client.refused = False
            return
        client.waiting.append(bytes(client.unfinished))
        self._forget(client)
        if len(client.waiting) == 1:
            self._turns.append(client)

    def _keep(self, client: JsonConnection, part: bytes) -> None:
        """Store part of an incomplete request, unless it is too long."""
        if client.refused or not part:
            return
        client.unfinished += part
        self._unfinished += len(part)
        if len(client.unfinished) > client.longest():
            self._refuse(client, f"the request is over {client.longest() >> 20} MB, the limit; divide it")
        while self._unfinished > MOST_UNFINISHED:
            oldest = min((c for c in self._clients.values() if c.unfinished), key=lambda c: c.begun)
            self._refuse(oldest, "there are too many unfinished requests, and this is the oldest; try again")

    def _refuse(self, client: JsonConnection, reason: str) -> None:
        """Reject the incomplete request and discard its remainder, so that its sender can read the reason."""
        self._forget(client)
        client.refused = True
        client.answer({"refusal": reason})

    def _forget(self, client: JsonConnection) -> None:
        self._unfinished -= len(client.unfinished)
        client.unfinished = bytearray()

    def requests_of_round(self) -> Iterator[tuple[JsonConnection, bytes]]:
        """Yield the requests of one round: at most `TURN` of each client."""
        for _ in range(len(self._turns)):
            client = self._turns.popleft()
            for _ in range(min(TURN, len(client.waiting))):
                if client.waiting:  # a request may have its client dropped
                    yield client, client.waiting.popleft()
            if client.waiting:
                self._turns.append(client)

    def drop_disconnected(self) -> float | None:
        """Drop clients that have disconnected and received their answers, and clients whose request takes too long to
        arrive. Return the seconds until the next request exceeds this limit, or None if no request is incomplete."""
        now = self._clock()
        remaining = []
        for client in self:
            if client.ended and not client.waiting and not client.unsent:
                self.drop(client)
            elif client.unfinished or client.refused:
                remaining.append(client.begun + SLOWEST - now)
                if remaining[-1] <= 0:
                    self.drop(client)
        return min((seconds for seconds in remaining if seconds > 0), default=None)
