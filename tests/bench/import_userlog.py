"""The figures of a job event log of 300,000 entries: read, read and appended to a log, read by HTCondor's reader."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path"), str(ROOT)]

import htcondor2  # noqa: E402
from tests.bench.bench_views import tell  # noqa: E402

from poolbook.adapters.condor_files.importing.driver import Importer, Options  # noqa: E402
from poolbook.adapters.condor_files.job_event_log_reader import JobEventLogReader  # noqa: E402
from poolbook.adapters.condor_files.source_reader import SourceFile  # noqa: E402
from poolbook.adapters.stores.opening import open_log  # noqa: E402
from poolbook.domain.events import Event, JobsLogged  # noqa: E402

JOBS = 75_000
PIECE = 1 << 20

_ADDRESS = "<10.1.{node}.7:9618?addrs=10.1.{node}.7-9618&alias=node{node}.example.org&noUDP&sock=startd_58511_41fb>"
ENTRIES = (
    (0, 0, "Job submitted from host: <10.1.0.1:9618?addrs=10.1.0.1-9618&alias=ap1.example.org&noUDP&sock=schedd_1_4c>"),
    (1, 3, f"""Job executing on host: {_ADDRESS}
\tSlotName: slot1_{{slot}}@node{{node}}.example.org
\tCondorScratchDir = "/var/lib/condor/execute/dir_{{pid}}/scratch"
\tCpus = 1
\tDisk = 25404293
\tGPUs = 0
\tMemory = 8035"""),
    (6, 6, """Image size of job updated: {pid}
\t2  -  MemoryUsage of job (MB)
\t1628  -  ResidentSetSize of job (KB)"""),
    (5, 9, """Job terminated.
\t(1) Normal termination (return value 0)
\t\tUsr 0 00:00:05, Sys 0 00:00:00  -  Run Remote Usage
\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Local Usage
\t\tUsr 0 00:00:05, Sys 0 00:00:00  -  Total Remote Usage
\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Total Local Usage
\t0  -  Run Bytes Sent By Job
\t0  -  Run Bytes Received By Job
\t0  -  Total Bytes Sent By Job
\t0  -  Total Bytes Received By Job
\tPartitionable Resources :    Usage  Request Allocated
\t   Cpus                 :        0        1         1
\t   Disk (KB)            : {pid:8}  1048576  25404293
\t   GPUs                 :                           0
\t   Memory (MB)          :        5      128      8035
\t   TimeExecute (s)      :        6
\t   TimeSlotBusy (s)     :        6"""),
)  # fmt: skip
"""Number, seconds behind the first, text."""


def write(path: Path) -> int:
    """Makes the log: ten jobs begin each second, a thousand are a cluster. Gives how many entries it has."""
    noon = datetime(2026, 11, 20, 12)
    with path.open("w", encoding="utf-8") as file:
        for first in range(0, JOBS, 10):  # as a schedd has it: many jobs' entries of a second, side by side
            for number, later, text in ENTRIES:
                when = f"{noon + timedelta(seconds=first // 10 + later):%Y-%m-%d %H:%M:%S}"
                for job in range(first, first + 10):
                    words = text.format(node=job % 200, slot=job % 64, pid=10_000 + job % 50_000)
                    file.write(f"{number:03d} ({1 + job // 1000:03d}.{job % 1000:03d}.000) {when} {words}\n...\n")
    return JOBS * len(ENTRIES)


def events(path: Path) -> Iterator[list[Event]]:
    """What is read of the log, piece by piece."""
    source = SourceFile(1, str(path), "eventlog", "ap1", UTC, path.stat().st_mtime, time.time_ns() // 1000)
    reader, rest = JobEventLogReader(source, None, 0), b""
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            rest += piece
            found, taken = reader.read(rest)
            rest = rest[taken:]
            yield found


def read(path: Path) -> int:
    return sum(len(event.entries) for found in events(path) for event in found if isinstance(event, JobsLogged))


def append(path: Path) -> int:
    """Imports the log into one in an SQLite file, as `poolbook import` does; gives how many lines that were."""
    to = path.with_suffix(".db")
    for old in path.parent.glob(f"{to.name}*"):
        old.unlink()
    log = open_log(str(to), create=True)
    result = Importer(log, [str(path)], Options(zone="UTC")).run()
    log.close()
    return result.counts["eventlog"].lines


def theirs(path: Path) -> int:
    return sum(1 for _ in htcondor2.JobEventLog(str(path)).events(0))


def user_log(folder: Path) -> list[bool]:
    """Reading a job event log, alone and into a log, against HTCondor's reader alone; in turns, as machines vary."""
    path = folder / "EventLog"
    count = write(path)
    lines = path.read_bytes().count(b"\n")
    rates: dict[str, float] = {}
    for name, run, right in 2 * (("theirs", theirs, count), ("read", read, count), ("appended", append, lines)):
        began = time.perf_counter()
        assert run(path) == right, name
        rates[name] = max(rates.get(name, 0.0), count / (time.perf_counter() - began))
    print(f"{f'  a job event log of {count:,} entries':<62}{path.stat().st_size / 1e6:>12,.4g} MB")
    return [
        tell("its entries read (HTCondor's reader: the aim)", rates["read"], "a second", rates["theirs"], higher=True),
        tell("its entries read and appended", rates["appended"], "a second", rates["theirs"], higher=True),
    ]


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        return 0 if all(user_log(Path(name))) else 1


if __name__ == "__main__":
    sys.exit(main())
