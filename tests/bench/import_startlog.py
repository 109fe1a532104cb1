"""Measure a StartLog of 300,000 transitions, and a recorded one, repeated: reading them, and importing them into a log.

`python tests/bench/import_startlog.py 1000` repeats the recorded log to 1,000 MB (default: 20 MB).
"""

from __future__ import annotations

import gzip
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path"), str(ROOT)]

from tests.bench.bench_views import print_result  # noqa: E402
from tests.bench.import_history import run_command  # noqa: E402

from poolbook.adapters.condor_files.importing.driver import Importer, Options  # noqa: E402
from poolbook.adapters.condor_files.source_reader import SourceFile  # noqa: E402
from poolbook.adapters.condor_files.startlog import StartLogReader  # noqa: E402
from poolbook.adapters.stores.opening import open_log  # noqa: E402

RECORDED = ROOT / "tests/data/traces/09b-quota-hier-surplus/StartLog.gz"
RECORDED_MB = 20
AIM_MB = 60.0  #: MB/s
AIM_MEMORY = 200.0  #: MB, for any length
TRANSITIONS = 300_000
SLOTS = 64
TRANSITIONS_PER_SECOND = 5
CHUNK = 1 << 20
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
    """Write the log of a machine with many slots and short jobs; return the number of transitions."""
    at, count = datetime(2026, 11, 20), 0
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{at:%m/%d/%y %H:%M:%S} ** condor_startd (CONDOR_STARTD) STARTING UP\n")
        for slot in range(1, SLOTS + 1):
            file.write(f"{at:%m/%d/%y %H:%M:%S} slot{slot}: New Slot of type 1 allocated\n")
            file.write(f"{at:%m/%d/%y %H:%M:%S} slot{slot}: Changing state: Owner -> Unclaimed\n")
            count += 1
        while count < TRANSITIONS:
            for change in CYCLE:
                for slot in range(1, SLOTS + 1):
                    at += timedelta(seconds=count % TRANSITIONS_PER_SECOND == 0)
                    file.write(f"{at:%m/%d/%y %H:%M:%S} slot{slot}: Changing {change}\n")
                    count += 1
    return count


def read(path: Path) -> None:
    source = SourceFile(1, str(path), "startlog", "h", UTC, path.stat().st_mtime, time.time_ns() // 1000)
    reader, unread = StartLogReader(source, None, 0), b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            unread += chunk
            _, length = reader.read(unread)
            unread = unread[length:]


def append(path: Path) -> None:
    log_path = path.with_suffix(".db")
    for old in path.parent.glob(f"{log_path.name}*"):
        old.unlink()
    log = open_log(str(log_path), create=True)
    Importer(log, [str(path)], Options(zone="UTC")).run()
    log.close()


def recorded_log(folder: Path, megabytes: int) -> list[bool]:
    """Measure the reading and the import of a recorded StartLog that is repeated to this size."""
    path, text = folder / "StartLog", gzip.decompress(RECORDED.read_bytes())
    folder.mkdir()
    with path.open("wb") as file:
        for _ in range(megabytes * 1_000_000 // len(text) + 1):
            file.write(text)
    size = path.stat().st_size / 1e6
    began = time.perf_counter()
    read(path)
    read_time = time.perf_counter() - began
    import_time, memory = run_command("import", str(folder), "-log", str(folder.with_suffix(".db")))
    density = text.count(b"\n") / text.count(b": Changing ")
    print(f"{f'  a recorded StartLog, {density:.1f} lines per transition':<62}{size:>12,.4g} MB")
    return [
        print_result("recorded StartLog read", size / read_time, "MB/s", AIM_MB, higher=True),
        print_result("recorded StartLog imported, with views", size / import_time, "MB/s", AIM_MB, higher=True),
        print_result("  peak memory", memory / 1e6, "MB", AIM_MEMORY),
    ]


def start_log(folder: Path, megabytes: int = RECORDED_MB) -> list[bool]:
    """Measure the reading and the import of a StartLog of transitions only, and of a recorded one."""
    path = folder / "StartLog"
    count = write(path)
    rates: dict[str, float] = {}
    for name, function in 3 * (("read", read), ("imported", append)):
        began = time.perf_counter()
        function(path)
        rates[name] = max(rates.get(name, 0.0), count / (time.perf_counter() - began))
    print(f"{f'  a StartLog of {count:,} transitions':<62}{path.stat().st_size / 1e6:>12,.4g} MB")
    print(f"{'transitions imported into a log':<62}{rates['imported']:>12,.4g} /s")
    return [
        print_result("transitions read", rates["read"], "/s", AIM, higher=True),
        *recorded_log(folder / "recorded", megabytes),
    ]


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        return 0 if all(start_log(Path(name), *map(int, sys.argv[1:2]))) else 1


if __name__ == "__main__":
    sys.exit(main())
