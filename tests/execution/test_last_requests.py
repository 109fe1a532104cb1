"""Property: the supervisor obeys what a pool sent before it disconnected, even if it finds out by a failed send."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook.adapters.machine.execution.supervisor.server import SupervisorServer
from poolbook.adapters.machine.execution.supervisor.supervised_jobs import SupervisedJobs


@pytest.fixture
def signals_as_before() -> Iterator[None]:
    """Restore what the loop of a supervisor sets in its process."""
    handler = signal.getsignal(signal.SIGCHLD)
    descriptor = signal.set_wakeup_fd(-1)
    yield
    os.close(signal.set_wakeup_fd(descriptor))
    signal.signal(signal.SIGCHLD, handler)


@pytest.mark.usefixtures("signals_as_before")
def test_requests_that_arrive_just_before_a_report_cannot_be_sent_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "pool"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as pool:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
        server = SupervisorServer(SupervisedJobs(str(folder)), listener, lock, str(folder))
        pool.connect(str(tmp_path / "socket"))
        server._accept()
        request = {"do": "deadline", "deadlines": {"1": 5}}
        pool.sendall(json.dumps(request).encode() + b"\n")
        pool.close()
        server._reports.append(b"{}\n")
        server._report()
        assert [request for _, request in server._requests] == [request]
        os.close(lock)
