"""Carriers for roles that run in one process."""

from __future__ import annotations

from poolbook.adapters.fabric.carrier import Carrier, Inbox, check_size


class LocalCarriers:
    """Makes the carriers of roles that run in this process, and connects them."""

    def __init__(self) -> None:
        self._inboxes: dict[str, Inbox] = {}

    def carrier(self, name: str) -> Carrier:
        """Return the carrier of the role called `name`. If the role restarted, it takes the place of its
        predecessor."""
        self._inboxes[name] = Inbox()
        return _LocalCarrier(name, self._inboxes[name], self._inboxes)


class _LocalCarrier:
    def __init__(self, name: str, inbox: Inbox, inboxes: dict[str, Inbox]) -> None:
        self._name, self._inbox, self._inboxes = name, inbox, inboxes
        self._is_closed = False

    def send(self, peer: str, data: bytes) -> None:
        check_size(data)
        inbox = self._inboxes.get(peer)
        if inbox is not None and not self._is_closed:
            inbox.put(self._name, data)

    def receive(self) -> list[tuple[str, bytes]]:
        return self._inbox.take()

    def fileno(self) -> int:
        return self._inbox.fileno()

    def close(self) -> None:
        self._is_closed = True
        self._inbox.close()
