"""Property: if a server accepts no one or does not answer, a command ends with a message."""

from __future__ import annotations

import fcntl
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from poolbook.adapters.runtime import pool_client
from poolbook.adapters.runtime.pool_client import ask, is_served
from poolbook.adapters.stores.log_paths import log_paths
from poolbook.domain.ports.log import LogError


@pytest.fixture
def listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Return the socket of a server that has the log and accepts no one."""
    monkeypatch.setattr(pool_client, "PATIENCE", 0.2)
    place = log_paths(str(tmp_path / "pool.db"))
    with place.lock_path.open("w") as lock, closing(socket.socket(socket.AF_UNIX)) as listener:
        fcntl.flock(lock, fcntl.LOCK_EX)
        listener.bind(str(place.socket_path))
        listener.listen(0)
        yield listener


def test_a_server_that_does_not_answer_is_reported_with_possible_causes(
    tmp_path: Path, listener: socket.socket
) -> None:
    with pytest.raises(LogError, match=r"has not answered for 0 s\. It is busy or stopped"):
        ask(str(tmp_path / "pool.db"), {"kind": "Reschedule"})


def test_a_server_with_a_full_backlog_is_waited_for_and_then_reported(tmp_path: Path, listener: socket.socket) -> None:
    waiting_clients = []
    with suppress(BlockingIOError):
        while True:
            waiting_clients.append(client := socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            client.connect(listener.getsockname())
    try:
        assert is_served(str(tmp_path / "pool.db"))
        with pytest.raises(LogError, match="without accepting requests"):
            ask(str(tmp_path / "pool.db"), {"kind": "Reschedule"})
    finally:
        for client in waiting_clients:
            client.close()
