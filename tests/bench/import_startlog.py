"""The figures of a StartLog of 300,000 transitions: read, and imported into a log."""

from __future__ import annotations

import gzip
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path"), str(ROOT)]

from tests.bench.bench_views import tell  # noqa: E402

from poolbook.adapters.condor_files.importing.driver import Importer, Options  # noqa: E402
from poolbook.adapters.condor_files.source_reader import SourceFile  # noqa: E402
from poolbook.adapters.condor_files.startlog import StartLogReader  # noqa: E402
from poolbook.adapters.stores.opening import open_log  # noqa: E402

RECORDED = ROOT / "tests/data/traces/09b-quota-hier-surplus/StartLog.gz"
TIMES = 120
"""So often the recorded log is repeated: 20 MB, 3.8 lines for each transition."""
TRANSITIONS = 300_000
SLOTS = 64
A_SECOND = 5
PIECE = 1 << 20
AIM = 200_000

CYCLE = (
    "state: Unclaimed -> Claimed",
    "activity: Idle -> Busy",
    "activity: Busy -> Cleaning",
    "activity: Cleaning -> Idle",
    "state and activity: Claimed/Idle -> Preempting/Killing",
    "state and activity: Preempting/Killing -> Owner/Idle",
    "state: Owner -> Unclaimed",
)


def write(path: Path) -> int:
    """Makes the log of a machine of many slots that run short jobs; gives how many transitions it has."""
    when, count = datetime(2026, 11, 20), 0
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{when:%m/%d/%y %H:%M:%S} ** condor_startd (CONDOR_STARTD) STARTING UP\n")
        for slot in range(1, SLOTS + 1):
            file.write(f"{when:%m/%d/%y %H:%M:%S} slot{slot}: New Slot of type 1 allocated\n")
            file.write(f"{when:%m/%d/%y %H:%M:%S} slot{slot}: Changing state: Owner -> Unclaimed\n")
            count += 1
        while count < TRANSITIONS:
            for change in CYCLE:
                for slot in range(1, SLOTS + 1):
                    when += timedelta(seconds=count % A_SECOND == 0)
                    file.write(f"{when:%m/%d/%y %H:%M:%S} slot{slot}: Changing {change}\n")
                    count += 1
    return count


def read(path: Path) -> None:
    source = SourceFile(1, str(path), "startlog", "h", UTC, path.stat().st_mtime, time.time_ns() // 1000)
    reader, rest = StartLogReader(source, None, 0), b""
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            rest += piece
            _, taken = reader.read(rest)
            rest = rest[taken:]


def append(path: Path) -> None:
    to = path.with_suffix(".db")
    for old in path.parent.glob(f"{to.name}*"):
        old.unlink()
    log = open_log(str(to), create=True)
    Importer(log, [str(path)], Options(zone="UTC")).run()
    log.close()


def start_log(folder: Path) -> list[bool]:
    """Reading a StartLog of transitions alone, importing it, and reading one as a startd wrote it."""
    path, real = folder / "StartLog", folder / "StartLog.real"
    count = write(path)
    real.write_bytes(gzip.decompress(RECORDED.read_bytes()) * TIMES)
    moves, lines = real.read_bytes().count(b": Changing "), real.read_bytes().count(b"\n")
    rates: dict[str, float] = {}
    for name, run, of, many in 3 * (
        ("read", read, path, count), ("imported", append, path, count), ("real", read, real, moves)
    ):  # fmt: skip
        began = time.perf_counter()
        run(of)
        rates[name] = max(rates.get(name, 0.0), many / (time.perf_counter() - began))
    print(f"{f'  a StartLog of {count:,} transitions':<62}{path.stat().st_size / 1e6:>12,.4g} MB")
    print(f"{'its transitions imported into a log':<62}{rates['imported']:>12,.4g} a second")
    print(f"{f'a recorded one, {lines / moves:.1f} lines a transition: read':<62}{rates['real']:>12,.4g} a second")
    return [tell("its transitions read", rates["read"], "a second", AIM, higher=True)]


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        return 0 if all(start_log(Path(name))) else 1


if __name__ == "__main__":
    sys.exit(main())
