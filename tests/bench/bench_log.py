"""Measure the log, compared with sqlite3 alone in the same process.

Each line has a measurement, sqlite3's rate, Poolbook's rate and the aim. The exit code is 1 if an aim is missed. Rates
are the best of several repetitions; repetitions of sqlite3 and Poolbook alternate.
"""

from __future__ import annotations

import gc
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from msgspec.structs import replace

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path"), str(ROOT)]

from tests.stores.samples import sample  # noqa: E402

from poolbook.adapters.stores.codec import CODEC  # noqa: E402
from poolbook.adapters.stores.opening import open_log, verify_seal  # noqa: E402
from poolbook.adapters.stores.sqlite import TABLES  # noqa: E402
from poolbook.domain import events as e  # noqa: E402

BATCH = 1_000
BATCHES = 20
REPEAT = 7
READ_EVENTS = 1_000_000
# The events of a running job.
LIFE = (
    e.SlotTransitioned, e.ClaimMade, e.JobActivated, e.SlotTransitioned,
    e.JobExecuting, e.JobExited, e.SlotTransitioned, e.ClaimEnded,
)  # fmt: skip


def job_events(count: int) -> list[e.Event]:
    """Return events of running jobs; each job has a slot, each cluster ten jobs."""
    events = []
    for number in range(count):
        event = sample(LIFE[number % len(LIFE)], 7 * number)  # every seventh sample has plain texts
        job = number // len(LIFE)
        fields: dict[str, Any] = {"slot": f"slot1_{job % 1000}@node", "cluster": job // 10, "proc": job % 10}
        names = event.__struct_fields__
        events.append(replace(event, **{name: value for name, value in fields.items() if name in names}))
    return events


class Report:
    """Prints the measurements and counts the missed aims."""

    def __init__(self) -> None:
        self.missed = 0

    def line(self, measurement: str, sqlite: str, poolbook: str, aim: str, met: bool) -> None:
        self.missed += not met
        print(f"{measurement:52} {sqlite:>16} {poolbook:>16}   {aim:18} {'met' if met else 'MISSED'}", flush=True)


def rate(count: int, run: Callable[[], object]) -> float:
    gc.collect()
    began = perf_counter()
    run()
    return count / (perf_counter() - began)


def rows_of(events: list[e.Event]) -> list[tuple[int, str, int, str, bytes]]:
    topics, states = CODEC.encode(events)
    versions: dict[str, int] = {}
    rows = []
    for position, (event, topic, state) in enumerate(zip(events, topics, states, strict=True), 1):
        versions[event.stream] = versions.get(event.stream, 0) + 1
        rows.append((position, event.stream, versions[event.stream], topic, state))
    return rows


def sqlite_rate(folder: Path, name: str, synchronous: str, batches: list[Any]) -> float:
    """Return the rate of executemany into the same table with the same pragmas."""
    connection = sqlite3.connect(folder / name, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    for statement in TABLES:
        connection.execute(statement)

    def run() -> None:
        for rows in batches:
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO stored_events VALUES (?,?,?,?,?)", rows)
            connection.execute("COMMIT")

    appends = rate(BATCH * BATCHES, run)
    connection.close()
    return appends


def poolbook_rate(folder: Path, name: str, synchronous: str, batches: list[list[e.Event]]) -> float:
    log = open_log(str(folder / name), create=True)
    with log._recorder.connection() as connection:  # type: ignore[attr-defined]
        connection.execute(f"PRAGMA synchronous={synchronous}")

    def run() -> None:
        for events in batches:
            log.append(events)

    appends = rate(BATCH * BATCHES, run)
    log.close()
    return appends


def measure_append(report: Report, folder: Path) -> None:
    events = job_events(BATCH * BATCHES)
    rows = rows_of(events)
    raw_batches = [rows[i : i + BATCH] for i in range(0, len(rows), BATCH)]
    batches = [events[i : i + BATCH] for i in range(0, len(events), BATCH)]
    # FULL, the log's setting, includes the disk's syncs; OFF measures the code alone.
    for synchronous in ("FULL", "OFF"):
        sqlite_rates, poolbook_rates = [], []
        for i in range(REPEAT):
            sqlite_rates.append(sqlite_rate(folder, f"raw-{synchronous}-{i}", synchronous, raw_batches))
            poolbook_rates.append(poolbook_rate(folder, f"ours-{synchronous}-{i}", synchronous, batches))
        sqlite, poolbook = max(sqlite_rates), max(poolbook_rates)
        report.line(
            f"append, batches of 1,000, synchronous={synchronous}",
            f"{sqlite:,.0f}/s",
            f"{poolbook:,.0f}/s",
            f"0.65: {poolbook / sqlite:.2f}",
            poolbook >= 0.65 * sqlite,
        )


def measure_read(report: Report, folder: Path) -> None:
    path = folder / "many"
    events = job_events(BATCH * BATCHES)
    log = open_log(str(path), create=True)
    for _ in range(READ_EVENTS // len(events)):
        log.append(events)
    log.close()
    size = path.stat().st_size

    def fetch() -> None:
        with sqlite3.connect(path) as connection:
            for _ in connection.execute("SELECT rowid, topic, state FROM stored_events ORDER BY rowid"):
                pass

    def read() -> None:
        log = open_log(str(path), create=False, read_only=True)
        assert sum(1 for _ in log.read()) == READ_EVENTS
        log.close()

    rates = [(rate(READ_EVENTS, fetch), rate(READ_EVENTS, read)) for _ in range(3)]
    sqlite, poolbook = (max(column) for column in zip(*rates, strict=True))
    report.line(
        f"read and decode 1,000,000 events ({size / READ_EVENTS:.0f} B each)",
        f"{sqlite:,.0f}/s",
        f"{poolbook:,.0f}/s",
        f"0.3: {poolbook / sqlite:.2f}",
        poolbook >= 0.3 * sqlite,
    )
    seal = rate(READ_EVENTS, lambda: verify_seal(str(path)))
    report.line("verify_seal of 1,000,000 events", "-", f"{seal:,.0f}/s", "-", True)


def main() -> int:
    report = Report()
    print(f"{'':52} {'sqlite3':>16} {'Poolbook':>16}   aim")
    with tempfile.TemporaryDirectory() as folder:
        measure_append(report, Path(folder))
        measure_read(report, Path(folder))
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
