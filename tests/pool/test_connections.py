"""Property: no client of a server can take the memory, the time or the turns of the others."""

from __future__ import annotations

import json
import os
import resource
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from poolbook.adapters.machine.host import user_name
from poolbook.adapters.runtime import connections
from poolbook.adapters.runtime.connections import TURN, Connections, JsonConnection
from poolbook.adapters.runtime.subscribers import ViewKeeper
from poolbook.adapters.runtime.views import views_current
from poolbook.adapters.stores.opening import open_log

from ..together import together
from .real import Folder


class TestedConnections:
    """Connections whose clients are in this process, with a clock that does not advance."""

    def __init__(self, stack: ExitStack) -> None:
        self.now = 0.0
        self.closed: list[JsonConnection] = []
        self.connections = Connections(self.closed.append, lambda: self.now)
        self._stack = stack

    def enter(self) -> tuple[socket.socket, JsonConnection]:
        end, client_end = socket.socketpair()
        self._stack.enter_context(end)
        self._stack.enter_context(client_end)
        return end, self.connections.add(client_end)

    def send(self, connection: socket.socket, client: JsonConnection, data: bytes) -> None:
        connection.setblocking(False)
        unsent = memoryview(data)
        while unsent:
            with suppress(BlockingIOError):
                unsent = unsent[connection.send(unsent) :]
            self.connections.receive(client)

    def requests(self) -> list[bytes]:
        return [line for _, line in self.connections.requests_of_round()]


@pytest.fixture
def hall() -> Iterator[TestedConnections]:
    with ExitStack() as stack:
        yield TestedConnections(stack)


def long(kind: str, size: int) -> bytes:
    head = f'{{"kind": "{kind}", "x": "'.encode()
    return head + b"x" * (size - len(head) - 3) + b'"}\n'


MB = 1 << 20


@together(
    ("kind", "is_own", "size", "read"),
    [
        ("Hold", True, 100, True),
        ("Hold", True, 4 * MB, True),
        ("Hold", True, 4 * MB + 2, False),
        ("Submit", True, 9 * MB, True),
        ("SubmitDescription", True, 9 * MB, True),
        ("Submit", True, 64 * MB + 2, False),
        ("Submit", False, 9 * MB, os.geteuid() == 0),  # root takes the jobs of others
        ("Nothing", True, 9 * MB, False),
    ],
)
def test_a_request_may_have_the_length_of_its_kind_and_the_next_one_is_read(
    kind: str, is_own: bool, size: int, read: bool, hall: TestedConnections
) -> None:
    client_end, client = hall.enter()
    client.uid = os.geteuid() if is_own else os.geteuid() + 1
    hall.send(client_end, client, long(kind, size) + b"{}\n")
    first_request, *later_requests = [] if not read else hall.requests()[:1], *hall.requests()
    assert [len(line) for line in first_request] == ([size - 1] if read else [])
    assert later_requests == ([] if read else [b"{}"])
    assert hall.connections.unfinished == 0
    if not read:
        client_end.settimeout(60)
        assert "divide it" in json.loads(client_end.recv(9999))["refusal"]


def test_the_oldest_unfinished_requests_make_room_for_others(
    hall: TestedConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_UNFINISHED", 10_000)
    clients = []
    for hall.now in range(20):
        client_end, client = hall.enter()
        hall.send(client_end, client, b"x" * 1500)
        clients.append((client_end, client))
        assert hall.connections.unfinished <= 10_000
    assert [client.refused for _, client in clients] == [True] * 14 + [False] * 6
    for client_end, client in clients:
        hall.send(client_end, client, b"y\n")
    assert len(hall.requests()) == 6
    assert "the oldest" in json.loads(clients[0][0].recv(999))["refusal"]


def test_a_client_that_is_too_slow_with_a_request_is_dropped_and_an_idle_one_is_not(hall: TestedConnections) -> None:
    slow, client = hall.enter()
    _, silent = hall.enter()
    hall.send(slow, client, b"x")
    for hall.now in range(1, 30):
        hall.send(slow, client, b"x")  # a byte now and then does not help
        assert hall.connections.drop_disconnected() == 30.0 - hall.now
    hall.now = 30
    assert hall.connections.drop_disconnected() is None
    assert hall.closed == [client]
    assert list(hall.connections) == [silent]
    assert slow.recv(1) == b""


def test_each_client_gets_a_turn_before_any_gets_a_second_one(hall: TestedConnections) -> None:
    greedy, client = hall.enter()
    hall.send(greedy, client, b"".join(b"g%d\n" % number for number in range(3 * TURN)))
    for name in (b"a", b"b"):
        client_end, other = hall.enter()
        hall.send(client_end, other, name + b"\n")
    rounds = []
    while hall.connections.has_waiting_request:
        rounds.append(hall.requests())
    assert [len(round) for round in rounds] == [TURN + 2, TURN, TURN]
    assert rounds[0][-2:] == [b"a", b"b"]
    assert [line for round in rounds for line in round if line.startswith(b"g")] == [
        b"g%d" % n for n in range(3 * TURN)
    ]


def test_requests_sent_before_a_client_ended_are_handled(hall: TestedConnections) -> None:
    client_end, client = hall.enter()
    hall.send(client_end, client, b"1\n2\nhalf")
    client_end.close()
    hall.connections.receive(client)
    assert hall.closed == [client] and hall.connections.unfinished == 0
    assert hall.requests() == [b"1", b"2"]
    hall.connections.drop_disconnected()
    assert list(hall.connections) == [] and hall.closed == [client]


def test_without_free_descriptors_the_longest_idle_client_is_dropped(hall: TestedConnections) -> None:
    clients = []
    for hall.now in range(3):
        client_end, client = hall.enter()
        clients.append(client)
        hall.send(client_end, client, b"asked\n" if hall.now == 0 else b"half")
    hall.connections.drop_idlest()
    assert hall.closed == [clients[1]]


def connected(folder: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    while True:
        with suppress(BlockingIOError):
            connection.connect(str(folder / "pool.db.sock"))
            return connection


def peak(pid: int) -> int:
    """Return the peak memory of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def test_unfinished_requests_use_no_more_memory_than_allowed(folder: Folder) -> None:
    folder.write("job.sub", "executable = /bin/true\nhold = true\nqueue\n")
    with folder.served("-slots", "1") as server, ExitStack() as stack:
        folder.call("submit", "job.sub")
        before = peak(server.pid)
        half = b'{"kind": "Submit", "x": "' + b"x" * (36 * MB)
        for _ in range(5):
            stack.enter_context(connected(folder.path)).sendall(half)
        assert "1.0 marked" in folder.call("rm", "1.0")
        assert peak(server.pid) - before < 165
        assert server.poll() is None


def test_a_thousand_connections_are_all_served_while_one_client_asks_constantly(folder: Folder) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    request = b'{"kind": "ReserveCluster"}\n'
    try:
        with folder.served("-slots", "1") as server, ExitStack() as stack:
            subprocess.run(["prlimit", "--nofile=4096:4096", f"--pid={server.pid}"], check=True)
            greedy = stack.enter_context(connected(folder.path))
            connections = [stack.enter_context(connected(folder.path)) for _ in range(1000)]
            greedy.sendall(request * 2000)
            for connection in connections:
                connection.sendall(request)
            for connection in connections:
                assert b"cluster" in connection.recv(9999)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def act(number: int, kind: str, **selection: object) -> bytes:
    request = {"kind": kind, "id": f"test-{number}", "selection": selection}
    return json.dumps(request).encode() + b"\n"


def test_others_are_answered_while_a_constraint_is_evaluated_job_by_job(folder: Folder) -> None:
    folder.write("many.sub", "executable = /bin/true\nhold = true\nqueue 60000\n")
    with folder.served("-slots", "1"), ExitStack() as stack:
        folder.call("submit", "many.sub")
        slow, other = (stack.enter_context(connected(folder.path)) for _ in range(2))
        slow.sendall(act(1, "Release", constraint='eval("ProcId >= 10")'))
        other.sendall(act(2, "Remove", jobs=[[1, 7]]) + act(3, "Remove", jobs=[[1, 11], [1, 59_999]]))
        answers = other.makefile()
        assert [json.loads(answers.readline())["answer"][0]["result"] for _ in range(2)] == ["done"] * 2
        answer = json.loads(slow.makefile().readline())["answer"]
    assert [(connection["procs"], connection["result"]) for connection in answer] == [
        ([[10, 10], [12, 59_998]], "done")
    ]


def test_no_client_waits_for_the_views_which_then_contain_every_event(folder: Folder) -> None:
    folder.write("many.sub", "executable = /bin/true\nhold = true\nqueue 100\n")
    folder.call("submit", "many.sub")
    folder.call("q")
    url, lines = str(folder.path / "pool.db"), list[str]()
    keeper = ViewKeeper(url, lines.append)
    with closing(sqlite3.connect(f"{url}.views", isolation_level=None)) as reader:
        reader.execute("BEGIN IMMEDIATE")  # the thread writes nothing until this ends
        folder.call("rm", "1.0")
        for now in range(3):
            keeper.update_if_due(now * 10_000_000, busy=False)
            keeper.mark_outdated()
            assert keeper.is_behind
        reader.execute("ROLLBACK")
    keeper.close()
    assert lines == []
    with views_current(url) as views, closing(open_log(url, create=False, read_only=True)) as log:
        assert views.position == log.head.position
        assert views.totals() == {user_name(): {5: 99}}


def test_views_that_cannot_be_written_are_reported_once_and_retried(folder: Folder) -> None:
    folder.write("job.sub", "executable = /bin/true\nhold = true\nqueue\n")
    folder.call("submit", "job.sub")
    views, lines = folder.path / "pool.db.views", list[str]()
    views.write_bytes(b"not an SQLite database" * 100)
    keeper = ViewKeeper(str(folder.path / "pool.db"), lines.append)
    keeper.update_if_due(0, busy=False)
    while not lines:
        keeper.update_if_due(0, busy=False)  # it waits for its time
    views.unlink()
    keeper.update_if_due(10_000_000, busy=False)
    keeper.update_if_due(20_000_000, busy=False)
    keeper.close()
    assert len(lines) == 1
    assert "the views cannot be written" in lines[0]
    assert not keeper.is_behind
