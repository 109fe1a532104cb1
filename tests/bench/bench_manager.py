"""Measure a manager with thousands of execution points.

    python -m tests.bench.bench_manager [-points 10000] [-slots 8]

The manager is a process that `poolbook serve -role manager` starts, with its log on disk and its broker. One process
simulates the execution points, over one connection to the broker: each has an outbox, and answers the manager as an
execution point does. What they send is a recording of a real execution point, with another name for each.

- join: all execution points join with their slots, as after a restart of the whole pool.
- update: each slot of each execution point publishes its changed readings, as it does once in UPDATE_INTERVAL.
- rest: nothing changes; each execution point shows that it lives.
- cycle: jobs of 100 kinds wait, none of which matches any slot, as in bench_negotiation.py.

The CPU time is the manager's, and excludes that of the broker.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from attrs import define, field

from poolbook.adapters.fabric import credentials as tokens
from poolbook.adapters.fabric.credentials import LIFETIME_S, BrokerKeys, Credentials, UserKey
from poolbook.adapters.fabric.datagrams import (
    DECODE,
    ENCODE,
    PACK,
    PART,
    Hint,
    Page,
    PageContents,
    Read,
    _Entry,
    read_page,
)
from poolbook.adapters.fabric.nats_carrier import NatsCarrier
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.fold.evolve import fold
from poolbook.domain.state.peers import MANAGER

from ..https.roles import Roles, role_processes

TEMPLATE = "ep-template"
WINDOW = 300  #: machines whose entries may be unread at a time
SIGN_OF_LIFE_S = 20
LAST_CLAUSE = """(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Disk >= RequestDisk) && \
(TARGET.Memory >= RequestMemory) && (TARGET.HasFileTransfer) && ((TARGET.Disk + TARGET.Memory) % 7 == 9)"""
JOBS = f"executable = /bin/true\nrequest_memory = MIB + $(Process)\nrequirements = {LAST_CLAUSE}\nqueue 100\n"
"""Jobs of 100 kinds. Their Requirements are false in the last clause on half of the slots, and because of the memory on
the others."""
Events = tuple[tuple[str, bytes], ...]


class PointsCarrier(NatsCarrier):
    """The connection of all simulated execution points to the broker."""

    def _run(self) -> None:
        self._subjects = f"to.execution-point.*.from.{MANAGER}.%"
        super()._run()

    def send_as(self, sender: str, data: bytes) -> None:
        self._name = sender
        self.send(MANAGER, data)

    def _deliver(self, subject: str, data: bytes) -> None:
        self._inbox.put(subject.split(".")[2], data)


@define
class Point:
    """A simulated execution point."""

    number: int
    name: str
    digests: list[str] = field(factory=lambda: [""])  #: of its outbox, after each entry

    @property
    def log(self) -> str:
        return f"{self.number:016x}"

    def peer(self) -> str:
        return f"execution-point/{self.name}"


class Points:
    """All simulated execution points. ``joined`` are the events with which one joins; ``update`` are those with which
    its slots publish their readings."""

    def __init__(self, carrier: PointsCarrier, count: int, joined: Events, update: Events) -> None:
        self._carrier, self._joined, self._update = carrier, joined, update
        self.points = {point.name: point for point in (Point(n, f"node{n:06}") for n in range(1, count + 1))}
        self._unread: set[str] = set()
        self.datagrams = 0

    def entry(self, point: Point, version: int) -> _Entry:
        name, changed = point.name.encode(), f'"LoadAvg":"0.{version}'.encode()
        events = tuple(
            (topic, fields.replace(TEMPLATE.encode(), name).replace(b'"LoadAvg":"0.', changed))
            for topic, fields in (self._joined if version == 1 else self._update)
        )
        first = version * 1000
        positions = tuple(range(first, first + len(events)))
        hasher = sha256(f"{point.digests[version - 1]} {version} {positions}".encode())
        for topic, fields in events:
            hasher.update(f"\n{topic} {len(fields)} ".encode() + fields)
        return _Entry(version, hasher.hexdigest(), positions, events)

    def add_entry(self, point: Point) -> None:
        version = len(point.digests)
        point.digests.append(self.entry(point, version).digest)
        self._unread.add(point.name)
        self.hint(point)

    def hint(self, point: Point) -> None:
        self._carrier.send_as(point.peer(), ENCODE(Hint(point.log, len(point.digests) - 1)))

    def read(self, point: Point) -> None:
        self._carrier.send_as(point.peer(), ENCODE(Read(1, 0, 0, point.log, len(point.digests) - 1)))

    def answer(self, timeout: float) -> None:
        """Answer what the manager has asked for."""
        select.select([self._carrier.fileno()], [], [], timeout)
        for name, data in self._carrier.receive():
            self.datagrams += 1
            datagram, point = DECODE(data), self.points.get(name)
            if isinstance(datagram, Read) and point is not None:
                last = len(point.digests) - 1
                entries = tuple(self.entry(point, version) for version in range(datagram.after + 1, last + 1))
                base = datagram.after, point.digests[datagram.after]
                page = PACK(PageContents(point.log, 1, base, last, entries))
                assert len(page) < PART, "one datagram is enough"
                self._carrier.send_as(point.peer(), ENCODE(Page(datagram.number, 0, 1, page, 0)))
                self._unread.discard(name)

    def publish(self) -> None:
        """Add an entry to the outbox of each execution point, as fast as the manager reads them."""
        for point in self.points.values():
            while len(self._unread) >= WINDOW:
                self.answer(1)
            self.add_entry(point)
        while self._unread:
            self.answer(1)

    def rest(self, seconds: float) -> None:
        """Let each execution point show that it lives, and read the manager's outbox, as one does."""
        began, points = time.monotonic(), [*self.points.values()]
        shown = 0
        while (now := time.monotonic() - began) < seconds:
            due = int(len(points) * now / SIGN_OF_LIFE_S)
            for number in range(shown, due):
                self.hint(points[number % len(points)])
                self.read(points[number % len(points)])
            shown = due
            self.answer(0.01)


def carrier_of(roles: Roles) -> PointsCarrier:
    folder = roles.path / "m.db.security"
    key, keys = UserKey.create(), BrokerKeys(folder / "broker-keys")
    now, everything = time.time(), {"allow": [">"]}
    permissions = {
        "type": "user", "version": 2, "pub": everything, "sub": everything, "subs": 4, "data": -1, "payload": -1,
        "allowed_connection_types": ["STANDARD"],
    }  # fmt: skip
    token = tokens._token(keys._account, key.public, "points", permissions, now, int(now) + LIFETIME_S)
    path = roles.path / "points.creds"
    Credentials(token, key.seed).write(path)
    url = f"tls://127.0.0.1:{roles.broker_port}"
    carrier = PointsCarrier([url], "execution-point/all", path, next((folder / "ca").glob("*.pem")))
    carrier.wait_ready(60)
    return carrier


def recording(roles: Roles, slots: int) -> tuple[Events, Events]:
    """Let a real execution point join. Return the events that it sent when it joined, and the ones its slots send
    when they publish their readings."""
    size = ("-cpus", str(slots), "-slots", str(slots), "-memory", str(8192 * slots))
    token = roles.token()
    roles.start("e.db", "join", roles.url, token, "-role", "execution-point", *size, "-name", TEMPLATE)
    roles.wait_for(lambda: roles.call("status", "-af", "Name", "-log", "m.db").count("\n") == slots)
    roles.stop("e.db")
    log = open_log(str(roles.path / "e.db"), create=False, read_only=True)
    page = read_page(log, fold(log.read()), MANAGER, 0)
    log.close()
    joined = tuple((topic, _less_memory(data)) for topic, data in page.entries[0].events)
    update = [(topic, data) for topic, data in joined if b'"LoadAvg":"' in data]
    return joined, (*update[-slots:],)


def _less_memory(data: bytes) -> bytes:
    """Give every other slot a quarter of its memory."""
    is_even = re.search(rb'"slot":"slot[0-9]*[02468]@', data) is not None
    return data.replace(b'"Memory":"8192"', b'"Memory":"2048"') if is_even else data


class Meter:
    """Measures the manager's process."""

    def __init__(self, roles: Roles, points: Points) -> None:
        self._pid, self._log, self._points = roles.pid("m.db"), roles.path / "m.db", points
        self._database = sqlite3.connect(f"file:{self._log}?mode=ro", uri=True)

    def cpu(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self) -> float:
        return int(Path(f"/proc/{self._pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def position(self) -> int:
        ((position,),) = self._database.execute("SELECT position FROM head")
        return int(position)

    def cycles(self) -> int:
        """Return the number of cycles in the log."""
        query = "SELECT count(*) FROM stored_events WHERE originator_id = 'negotiator' AND topic = 'cycle.held'"
        ((cycles,),) = self._database.execute(query)
        return int(cycles)

    def settle(self, position: int) -> None:
        """Wait until the log has a position."""
        while self.position() < position:
            self._points.answer(0.02)

    @contextmanager
    def measure(self, name: str, count: int = 0, unit: str = "") -> Iterator[None]:
        began, cpu = time.perf_counter(), self.cpu()
        yield
        seconds, cpu = time.perf_counter() - began, self.cpu() - cpu
        rate = f", {count / seconds:,.0f} {unit}/s, {cpu / count * 1e6:.3g} us CPU each" if count else ""
        print(f"{name}: {seconds:.2f} s, {cpu:.2f} s CPU{rate}; {self.resident_mb():.0f} MB", flush=True)


def measure(roles: Roles, options: argparse.Namespace) -> None:
    roles.start_manager()
    joined, update = recording(roles, options.slots)
    points = Points(carrier_of(roles), options.points, joined, update)
    meter = Meter(roles, points)
    slots = options.points * options.slots
    print(
        f"{len(joined)} events and {sum(len(data) for _, data in joined):,} bytes when a machine joins, "
        f"{len(update)} events and {sum(len(data) for _, data in update):,} bytes when its slots publish readings"
    )
    position = meter.position()
    with meter.measure("join", slots, "slots"):
        points.publish()
        position += options.points * (len(joined) + 1)
        meter.settle(position)
    for _ in range(options.updates):
        with meter.measure("update", slots, "slot updates"):
            points.publish()
            position += options.points * (len(update) + 1)
            meter.settle(position)
    roles.start("a.db", "join", roles.url, roles.token(), "-role", "access-point")
    for name, mib in (("first cycle", "4000"), ("next cycle", "5000")):
        (roles.path / "jobs.sub").write_text(JOBS.replace("MIB", mib))
        cycles = meter.cycles()
        with meter.measure(name, 100 * slots, "evaluations"):
            roles.call("submit", "jobs.sub", "-log", "a.db")
            while meter.cycles() == cycles:
                points.answer(0.02)
    with meter.measure(f"rest for {options.rest} s"):
        points.rest(options.rest)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-points", type=int, default=10_000)
    parser.add_argument("-slots", type=int, default=8)
    parser.add_argument("-updates", type=int, default=2, help="how often each slot publishes its readings (default 2)")
    parser.add_argument("-rest", type=float, default=20, help="seconds (default 20)")
    parser.add_argument("-keep", type=Path, help="run in this directory, and keep the logs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, role_processes(options.keep or Path(temporary)) as roles:
        measure(roles, options)


if __name__ == "__main__":
    main()
