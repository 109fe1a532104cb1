"""The log's figures, beside sqlite3 alone in the same process.

Prints one line a figure: what was measured, the peer's, Poolbook's, the aim. Ends with 1 where an aim is missed. Rates
are the best of several repetitions, taken in turn with the peer's.
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
MANY = 1_000_000
# What is written while jobs run, in the proportions of their lives.
LIFE = (
    e.SlotTransitioned, e.ClaimMade, e.JobActivated, e.SlotTransitioned,
    e.JobExecuting, e.JobExited, e.SlotTransitioned, e.ClaimEnded,
)  # fmt: skip


def life(count: int) -> list[e.Event]:
    """Events as running jobs make them: each job its slot, ten jobs a cluster."""
    events = []
    for number in range(count):
        event = sample(LIFE[number % len(LIFE)], 7 * number)  # the texts of every seventh are plain
        job = number // len(LIFE)
        own: dict[str, Any] = {"slot": f"slot1_{job % 1000}@node", "cluster": job // 10, "proc": job % 10}
        names = event.__struct_fields__
        events.append(replace(event, **{name: value for name, value in own.items() if name in names}))
    return events


class Report:
    """The lines printed, and whether all aims were met."""

    def __init__(self) -> None:
        self.missed = 0

    def line(self, what: str, peer: str, ours: str, aim: str, met: bool) -> None:
        self.missed += not met
        print(f"{what:52} {peer:>16} {ours:>16}   {aim:18} {'met' if met else 'MISSED'}", flush=True)


def rate(count: int, run: Callable[[], object]) -> float:
    gc.collect()
    begun = perf_counter()
    run()
    return count / (perf_counter() - begun)


def rows_of(events: list[e.Event]) -> list[tuple[int, str, int, str, bytes]]:
    topics, states = CODEC.encode(events)
    versions: dict[str, int] = {}
    rows = []
    for position, (event, topic, state) in enumerate(zip(events, topics, states, strict=True), 1):
        versions[event.stream] = versions.get(event.stream, 0) + 1
        rows.append((position, event.stream, versions[event.stream], topic, state))
    return rows


def raw(folder: Path, name: str, synchronous: str, batches: list[Any]) -> float:
    """The rate of executemany of ready-made rows into the same table under the same pragmas."""
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

    reached = rate(BATCH * BATCHES, run)
    connection.close()
    return reached


def ours(folder: Path, name: str, synchronous: str, batches: list[list[e.Event]]) -> float:
    log = open_log(str(folder / name), create=True)
    with log._recorder.connection() as connection:  # type: ignore[attr-defined]
        connection.execute(f"PRAGMA synchronous={synchronous}")

    def run() -> None:
        for events in batches:
            log.append(events)

    reached = rate(BATCH * BATCHES, run)
    log.close()
    return reached


def appending(report: Report, folder: Path) -> None:
    events = life(BATCH * BATCHES)
    rows = rows_of(events)
    raw_batches = [rows[i : i + BATCH] for i in range(0, len(rows), BATCH)]
    batches = [events[i : i + BATCH] for i in range(0, len(events), BATCH)]
    # With FULL, as a log has it, the disk's syncs are part of both; with OFF, what the code costs stands alone.
    for synchronous in ("FULL", "OFF"):
        peers, own = [], []
        for i in range(REPEAT):
            peers.append(raw(folder, f"raw-{synchronous}-{i}", synchronous, raw_batches))
            own.append(ours(folder, f"ours-{synchronous}-{i}", synchronous, batches))
        peer, reached = max(peers), max(own)
        report.line(
            f"append, batches of 1,000, synchronous={synchronous}",
            f"{peer:,.0f}/s",
            f"{reached:,.0f}/s",
            f"0.65: {reached / peer:.2f}",
            reached >= 0.65 * peer,
        )


def reading(report: Report, folder: Path) -> None:
    path = folder / "many"
    events = life(BATCH * BATCHES)
    log = open_log(str(path), create=True)
    for _ in range(MANY // len(events)):
        log.append(events)
    log.close()
    size = path.stat().st_size

    def fetch() -> None:
        with sqlite3.connect(path) as connection:
            for _ in connection.execute("SELECT rowid, topic, state FROM stored_events ORDER BY rowid"):
                pass

    def read() -> None:
        log = open_log(str(path), create=False, read_only=True)
        assert sum(1 for _ in log.read()) == MANY
        log.close()

    rates = [(rate(MANY, fetch), rate(MANY, read)) for _ in range(3)]
    peer, reached = max(peer for peer, _ in rates), max(own for _, own in rates)
    report.line(
        f"read and decode 1,000,000 events ({size / MANY:.0f} B each)",
        f"{peer:,.0f}/s",
        f"{reached:,.0f}/s",
        f"0.3: {reached / peer:.2f}",
        reached >= 0.3 * peer,
    )
    seal = rate(MANY, lambda: verify_seal(str(path)))
    report.line("verify_seal of 1,000,000 events", "-", f"{seal:,.0f}/s", "-", True)


def main() -> int:
    report = Report()
    print(f"{'':52} {'sqlite3':>16} {'Poolbook':>16}   aim")
    with tempfile.TemporaryDirectory() as folder:
        appending(report, Path(folder))
        reading(report, Path(folder))
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
