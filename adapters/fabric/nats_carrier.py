"""The carrier for roles on several machines: core NATS, over TLS.

A thread holds the connection. Whenever the connection is lost, the thread connects again, to any of the URLs. The
broker enforces, by the role's token, that the role sends only in its own name and receives only its own datagrams: see
``subjects`` and ``credentials``.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from threading import Event, Lock, Thread

from .carrier import Inbox, check_size
from .credentials import Credentials
from .nats_link import NatsLink
from .subjects import sender_of, subject, subjects_to

_MOST_UNSENT = 64 << 20  #: bytes that may wait to be sent; the oldest are lost
_OVERHEAD = 256  #: bytes of memory that an unsent datagram takes in addition to its data
_BATCH = 256 << 10  #: bytes that are written at a time
_CHECK_INTERVAL_S = 10.0  #: how often the connection is checked
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0  #: between attempts to connect
_LAST_SENDING_S = 1.0  #: how long a carrier that is being closed may take to send what waits
_CLOSING_S = 5.0  #: how long to wait for the thread


class NatsCarrier:
    """Carries the datagrams of the role called ``name`` over the NATS servers at ``urls`` (``tls://HOST:PORT``).

    ``credentials`` is the file with the role's token and key. It is read for each connection, so a renewed token is
    used once the broker ends the connection of the old one. ``ca`` is the file (PEM) of the authority that issued the
    servers' certificates; without it, the system's authorities are trusted.
    """

    def __init__(self, urls: Sequence[str], name: str, credentials: Path, ca: Path | None) -> None:
        self._name, self._credentials, self._ca = name, credentials, ca
        self._urls = cycle(random.sample(urls, len(urls)))
        self._subjects = subjects_to(name)
        self._inbox = Inbox()
        self._lock = Lock()
        self._unsent: deque[tuple[str, bytes]] = deque()
        self._unsent_bytes = 0
        self._will_send = True  #: the thread sends or will send: now, when it has connected, or when data is accepted
        self._is_closed = False
        self._link: NatsLink | None = None
        self._ready = Event()
        self.problem = ""  #: why the last connection ended, or failed
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name="nats-carrier", daemon=True)
        self._thread.start()

    def wait_ready(self, timeout: float) -> None:
        """Return once the broker has confirmed that this role receives its datagrams. Raise `TimeoutError` after
        `timeout` seconds; the message has the last problem."""
        if not self._ready.wait(timeout):
            raise TimeoutError(
                f"no broker has accepted {self._name} within {timeout:g} s: {self.problem or 'no answer'}"
            )

    @property
    def is_connected(self) -> bool:
        return self._ready.is_set()

    def send(self, peer: str, data: bytes) -> None:
        check_size(data)
        datagram = (subject(peer, self._name), data)
        with self._lock:
            self._unsent.append(datagram)
            self._unsent_bytes += len(data) + _OVERHEAD
            while self._unsent_bytes > _MOST_UNSENT:
                self._unsent_bytes -= len(self._unsent.popleft()[1]) + _OVERHEAD
            if not (self._will_send or self._is_closed):
                self._will_send = True
                self._loop.call_soon_threadsafe(self._send_waiting)

    def receive(self) -> list[tuple[str, bytes]]:
        return self._inbox.take()

    def fileno(self) -> int:
        return self._inbox.fileno()

    def close(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(timeout=_CLOSING_S)
        self._inbox.close()

    # The thread calls the methods below.

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner, suppress(asyncio.CancelledError):
            runner.run(self._keep_connected())

    def _stop(self) -> None:
        """Send what waits, and end the thread."""
        self._send_waiting()
        self._loop.call_later(0 if self._link is None else _LAST_SENDING_S, self._cancel)

    def _cancel(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    async def _keep_connected(self) -> None:
        pause = _SHORTEST_PAUSE_S
        while not self._is_closed:
            url, started = next(self._urls), self._loop.time()
            try:
                await self._serve(url)
            except Exception as error:  # whatever fails, the role must be reachable again once it is fixed
                self.problem = f"{url}: {error}" if str(error) else f"{url}: {type(error).__name__}"
            if self._loop.time() - started > 2 * _LONGEST_PAUSE_S:
                pause = _SHORTEST_PAUSE_S
            if not self._is_closed:
                await asyncio.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _serve(self, url: str) -> None:
        """Connect, and carry datagrams until the connection is lost; then raise `OSError`."""
        context = ssl.create_default_context(cafile=self._ca)
        link = NatsLink(self._deliver, self._send_waiting)
        try:
            await link.connect(url, context, Credentials.read(self._credentials), self._name)
            await link.subscribe(self._subjects)
            self._link = link
            self._ready.set()
            self._send_waiting()
            await link.monitor(_CHECK_INTERVAL_S)
        finally:
            self._ready.clear()
            self._link = None
            link.abort()

    def _deliver(self, subject: str, data: bytes) -> None:
        self._inbox.put(sender_of(subject), data)

    def _send_waiting(self) -> None:
        """Send what waits, as long as the connection accepts data."""
        while self._link is not None and self._link.accepts_data:
            batch, size = [], 0
            with self._lock:
                while self._unsent and size < _BATCH:
                    batch.append(self._unsent.popleft())
                    size += len(batch[-1][1]) + _OVERHEAD
                self._unsent_bytes -= size
                self._will_send = bool(batch)
            if not batch:
                if self._is_closed:
                    self._link.close()
                return
            self._link.publish(batch)
