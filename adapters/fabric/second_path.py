"""A second path for datagrams between execution points and access points, so that claims last even if the broker cannot
be reached: an execution point exchanges them with the access point's file service, over HTTPS.

An execution point knows this path from the pages of the access point, and uses it while the access point does not
answer over the broker. It sends the datagrams on both paths then, so the first answer over the broker ends that.
"""

from __future__ import annotations

import select
from collections import deque
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from ..security.private_files import PrivateFileError, read_private, write_private
from .carrier import LARGEST, Carrier, Inbox
from .datagrams import DECODE as DECODE_DATAGRAM
from .datagrams import FileAccess, Page

if TYPE_CHECKING:
    from ..machine.execution.supervisor.remote_files import RemoteAccessPoint

LARGEST_REQUEST: Final = 16 * LARGEST
_MOST_UNSENT: Final = 16 << 20  #: bytes of datagrams that wait for one peer; the oldest are lost
_PATIENCE_S: Final = 1.0  #: how long a peer may not answer over the broker before the second path is used
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 2.0  #: between exchanges, after one that carried something and after others
_SILENCE_S: Final = 5.0  #: an access point that sends nothing for so long is considered unreachable
_RECENT_S: Final = 15.0  #: an access point answers on the second path for this long after the last exchange

ENCODE = msgspec.msgpack.Encoder().encode
DECODE = msgspec.msgpack.Decoder(list[bytes]).decode


class Unsent:
    """The datagrams that wait to be sent to one peer."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._datagrams: deque[bytes] = deque()
        self._bytes = 0

    def put(self, data: bytes) -> None:
        with self._lock:
            self._datagrams.append(data)
            self._bytes += len(data)
            while self._bytes > _MOST_UNSENT:
                self._bytes -= len(self._datagrams.popleft())

    def take(self) -> list[bytes]:
        """Return and remove as many datagrams as one request carries."""
        batch, size = [], 0
        with self._lock:
            while self._datagrams and size + len(self._datagrams[0]) <= LARGEST_REQUEST // 2:
                batch.append(self._datagrams.popleft())
                size += len(batch[-1])
            self._bytes -= size
        return batch


class _TwoPaths:
    """A carrier that receives over the broker and over a second path."""

    def __init__(self, broker: Carrier) -> None:
        self._broker, self._inbox = broker, Inbox()
        self._both = select.epoll()
        for carrier in (broker, self._inbox):
            self._both.register(carrier.fileno(), select.EPOLLIN)

    def receive(self) -> list[tuple[str, bytes]]:
        return self._broker.receive() + self._inbox.take()

    def fileno(self) -> int:
        return self._both.fileno()

    def close(self) -> None:
        self._both.close()
        self._broker.close()
        self._inbox.close()


class AccessPointPaths(_TwoPaths):
    """The carrier of an access point. The file service calls `exchange`."""

    def __init__(self, broker: Carrier) -> None:
        super().__init__(broker)
        self._unsent: dict[str, tuple[float, Unsent]] = {}  #: by peer, with the time of the last exchange

    def send(self, peer: str, data: bytes) -> None:
        self._broker.send(peer, data)
        exchanged_at, unsent = self._unsent.get(peer, (0.0, None))
        if unsent is not None and monotonic() < exchanged_at + _RECENT_S:
            unsent.put(data)

    def exchange(self, peer: str, datagrams: list[bytes]) -> list[bytes]:
        """Receive datagrams of a peer, and return the datagrams that wait for it. Any thread may call this."""
        _, unsent = self._unsent.get(peer, (0.0, Unsent()))
        self._unsent[peer] = monotonic(), unsent
        for data in datagrams:
            self._inbox.put(peer, data)
        return unsent.take()


class ExecutionPointPaths(_TwoPaths):
    """The carrier of an execution point. It stores the second paths in a private file, because it may start again while
    the broker cannot be reached."""

    def __init__(self, broker: Carrier, name: str, file: Path) -> None:
        super().__init__(broker)
        self._name, self._file = name, file
        self._paths: dict[str, _Path] = {}
        try:
            known = msgspec.json.decode(read_private(file), type=dict[str, FileAccess])
        except (PrivateFileError, msgspec.MsgspecError):
            known = {}
        self._use(known)

    def _use(self, known: dict[str, FileAccess]) -> None:
        self._known = known
        for peer, access in known.items():
            if peer in self._paths:
                self._paths[peer].access = access
            else:
                self._paths[peer] = _Path(peer, self._name, access, self._inbox)

    def learn(self, peer: str, access: FileAccess) -> None:
        """Use an access point's file service from now on."""
        access = replace(access, keys={})
        if self._known.get(peer) != access:
            self._use(self._known | {peer: access})
            write_private(self._file, msgspec.json.encode(self._known))

    def send(self, peer: str, data: bytes) -> None:
        self._broker.send(peer, data)
        if (path := self._paths.get(peer)) is not None:
            path.send(data)

    def receive(self) -> list[tuple[str, bytes]]:
        over_broker = self._broker.receive()
        for peer in {peer for peer, _ in over_broker} & self._paths.keys():
            self._paths[peer].note_answer()
        return over_broker + self._inbox.take()

    def close(self) -> None:
        for path in self._paths.values():
            path.close()
        super().close()


class _Path:
    """The second path to an access point. A thread exchanges datagrams while it is needed."""

    def __init__(self, peer: str, name: str, access: FileAccess, inbox: Inbox) -> None:
        self._peer, self._name, self.access, self._inbox = peer, name, access, inbox
        self._unanswered_since: float | None = None  #: when the first datagram was sent that the broker may have lost
        self._unsent = Unsent()  #: the datagrams since then
        self._wake, self._is_closed = Event(), False
        self._thread = Thread(target=self._run, name="second-path", daemon=True)
        self._thread.start()

    def send(self, data: bytes) -> None:
        """Send a datagram, if the peer does not answer over the broker. A page needs no answer."""
        if self._unanswered_since is None:
            if isinstance(DECODE_DATAGRAM(data), Page):
                return
            self._unanswered_since = monotonic()
        self._unsent.put(data)
        if self._is_needed:
            self._wake.set()

    def note_answer(self) -> None:
        """Note that the peer has answered over the broker."""
        self._unanswered_since, self._unsent = None, Unsent()

    @property
    def _is_needed(self) -> bool:
        since = self._unanswered_since
        return since is not None and monotonic() > since + _PATIENCE_S

    def close(self) -> None:
        self._is_closed = True
        self._wake.set()

    def _run(self) -> None:
        access, service, pause, batch = self.access, self._connect(), _FIRST_PAUSE_S, list[bytes]()
        while not self._is_closed:
            if not self._is_needed:
                service.close()
                pause, batch = _PATIENCE_S, []
            else:
                if self.access != access:
                    service.close()
                    access, service = self.access, self._connect()
                batch = batch or self._unsent.take()
                try:
                    answers = self._exchange(service, batch)
                except Exception:  # whatever fails, a later attempt may succeed
                    service.use_next_url()
                else:
                    pause = _FIRST_PAUSE_S / 2 if batch or answers else pause
                    batch = []
                pause = min(2 * pause, _LAST_PAUSE_S)
            self._wake.wait(pause)
            self._wake.clear()
        service.close()

    def _exchange(self, service: RemoteAccessPoint, batch: list[bytes]) -> list[bytes]:
        answers = DECODE(service.request("POST", "", body=ENCODE(batch)).read(LARGEST_REQUEST))
        for data in answers:
            self._inbox.put(self._peer, data)
        return answers

    def _connect(self) -> RemoteAccessPoint:
        from ..machine.execution.supervisor.remote_files import RemoteAccessPoint
        from ..machine.execution.supervisor.usage_meter import SENDING

        access = self.access
        path = f"datagrams/{quote(self._name, safe='')}"
        place = {"urls": access.urls, "activation": path, "key": access.datagram_key, "ca": access.ca, "patience_s": 0}
        return RemoteAccessPoint(place, SENDING, silence_s=_SILENCE_S)
