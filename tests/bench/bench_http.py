"""Measure the HTTP API: `GET /jobs/{id}` per second, a page of jobs, and the event stream with 100 clients.

``python tests/bench/bench_http.py [SECONDS]`` prints, for a queue of a million jobs: requests per second of one
connection and of 8, with keep-alive; the time of a page of 50 jobs in the middle of the queue; and the events per
second that 100 clients receive together while jobs are submitted. The aims are 1,000 requests/s and 50,000 events/s,
but the exit code is always 0. The clients only count bytes, because they share the cores with the service.
"""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path"), str(ROOT)]

from tests.bench.bench_page import view  # noqa: E402

from poolbook import Pool  # noqa: E402
from poolbook.adapters.runtime.views import rebuild  # noqa: E402
from poolbook.adapters.web.ads import encode_cursor  # noqa: E402

JOBS = 1_000_000
CLIENTS = 100
END = b"\n\n"


def connect(url: str) -> socket.socket:
    place = urlsplit(url)
    return socket.create_connection((place.hostname or "", place.port or 80))


def request(path: str) -> bytes:
    return f"GET /api/v1{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def receive_response(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    length = next(int(line[16:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(1 << 16)


def requests_per_second(url: str, count: int, seconds: float) -> float:
    """Return the requests per second on so many connections, each with one request at a time."""
    selector, done = selectors.DefaultSelector(), 0
    for _ in range(count):
        connection = connect(url)
        connection.sendall(request("/jobs/1.7"))
        selector.register(connection, selectors.EVENT_READ)
    began = time.perf_counter()
    while time.perf_counter() < began + seconds:
        for key, _ in selector.select():
            ready = key.fileobj
            assert isinstance(ready, socket.socket)
            receive_response(ready)
            done += 1
            ready.sendall(request(f"/jobs/1.{done % JOBS}"))
    return done / (time.perf_counter() - began)


def page_ms(url: str) -> float:
    """Return the milliseconds of a page in the middle of the queue, the best of ten."""
    token = encode_cursor(1, JOBS // 2)
    times = []
    with connect(url) as connection:
        for _ in range(10):
            began = time.perf_counter()
            connection.sendall(request(f"/jobs?owned_by_me=false&projection=ClusterId,ProcId&page_token={token}"))
            receive_response(connection)
            times.append(time.perf_counter() - began)
    return min(times) * 1000


def receive_events(url: str, expected: int, queue: multiprocessing.Queue[float]) -> None:
    """Receive so many events on each of the connections; report when they are connected, and when all have arrived."""
    selector, counts = selectors.DefaultSelector(), dict[int, int]()
    for _ in range(CLIENTS):
        connection = connect(url)
        connection.sendall(request("/events"))
        while END not in connection.recv(1 << 12):
            pass
        selector.register(connection, selectors.EVENT_READ)
        counts[connection.fileno()] = 0
    queue.put(time.perf_counter())
    while min(counts.values()) < expected:
        for key, _ in selector.select():
            assert isinstance(key.fileobj, socket.socket)
            counts[key.fd] += key.fileobj.recv(1 << 18).count(b"\nid: ")
    queue.put(time.perf_counter())


def events_per_second(pool: Pool, url: str, count: int) -> float:
    """Return the events that all clients together receive in a second, while a pool appends so many."""
    queue: multiprocessing.Queue[float] = multiprocessing.Queue()
    receiver = multiprocessing.Process(target=receive_events, args=(url, count, queue))
    receiver.start()
    began = queue.get()
    for _ in range(count):
        pool.submit({"executable": "/bin/true", "requirements": "false"})
    appended = time.perf_counter()
    ended = queue.get()
    receiver.join()
    print(f"{'submissions per second, of several events each':48} {count / (appended - began):10,.0f}", flush=True)
    return CLIENTS * count / (ended - began)


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = str(Path(folder) / "pool.db")
        with Pool.open(log, user="alice", uid_domain="example.org") as pool:
            pool.submit({"executable": "/bin/true", "requirements": "false"}, count=JOBS)
            rebuild(log)
            with view(Path(log)) as (url, _):
                for connections in (1, 8):
                    rate = requests_per_second(url, connections, seconds)
                    print(f"{f'GET /jobs/ID, {connections} connections: per second':48} {rate:10,.0f}", flush=True)
                print(f"{'GET /jobs, a page in the middle: ms':48} {page_ms(url):10.1f}", flush=True)
                rate = events_per_second(pool, url, int(seconds * 600))
                print(f"{f'events to {CLIENTS} clients: per second':48} {rate:10,.0f}", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
