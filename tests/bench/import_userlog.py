"""Measure a job event log of 300,000 entries: reading it, importing it into a log, and reading it with HTCondor."""

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
from tests.bench.bench_views import print_result  # noqa: E402

from poolbook.adapters.condor_files.importing.driver import Importer, Options  # noqa: E402
from poolbook.adapters.condor_files.job_event_log_reader import JobEventLogReader  # noqa: E402
from poolbook.adapters.condor_files.source_reader import SourceFile  # noqa: E402
from poolbook.adapters.stores.opening import open_log  # noqa: E402
from poolbook.domain.events import Event, JobsLogged  # noqa: E402

JOBS = 75_000
CHUNK = 1 << 20

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
"""Event number, seconds after the submission, text."""


def write(path: Path) -> int:
    """Write a log in which ten jobs start each second, and return its number of entries."""
    noon = datetime(2026, 11, 20, 12)
    with path.open("w", encoding="utf-8") as file:
        for first in range(0, JOBS, 10):  # as a schedd writes it: the entries of several jobs in each second
            for number, delay, text in ENTRIES:
                when = f"{noon + timedelta(seconds=first // 10 + delay):%Y-%m-%d %H:%M:%S}"
                for job in range(first, first + 10):
                    body = text.format(node=job % 200, slot=job % 64, pid=10_000 + job % 50_000)
                    file.write(f"{number:03d} ({1 + job // 1000:03d}.{job % 1000:03d}.000) {when} {body}\n...\n")
    return JOBS * len(ENTRIES)


def events(path: Path) -> Iterator[list[Event]]:
    """Yield the events of each chunk of the log."""
    source = SourceFile(1, str(path), "eventlog", "ap1", UTC, path.stat().st_mtime, time.time_ns() // 1000)
    reader, unread = JobEventLogReader(source, None, 0), b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            unread += chunk
            chunk_events, length = reader.read(unread)
            unread = unread[length:]
            yield chunk_events


def read(path: Path) -> int:
    return sum(len(event.entries) for chunk in events(path) for event in chunk if isinstance(event, JobsLogged))


def append(path: Path) -> int:
    """Import the log into an SQLite file as `poolbook import` does, and return the number of lines."""
    log_path = path.with_suffix(".db")
    for old in path.parent.glob(f"{log_path.name}*"):
        old.unlink()
    log = open_log(str(log_path), create=True)
    result = Importer(log, [str(path)], Options(zone="UTC")).run()
    log.close()
    return result.counts["eventlog"].lines


def read_with_htcondor(path: Path) -> int:
    return sum(1 for _ in htcondor2.JobEventLog(str(path)).events(0))


def user_log(folder: Path) -> list[bool]:
    """Measure reading and importing a job event log, alternating with HTCondor's reader because machines vary."""
    path = folder / "EventLog"
    count = write(path)
    lines = path.read_bytes().count(b"\n")
    rates: dict[str, float] = {}
    for name, function, expected in 2 * (
        ("htcondor", read_with_htcondor, count),
        ("read", read, count),
        ("appended", append, lines),
    ):
        began = time.perf_counter()
        assert function(path) == expected, name
        rates[name] = max(rates.get(name, 0.0), count / (time.perf_counter() - began))
    print(f"{f'  a job event log of {count:,} entries':<62}{path.stat().st_size / 1e6:>12,.4g} MB")
    return [
        print_result("entries read (aim: HTCondor's reader)", rates["read"], "/s", rates["htcondor"], higher=True),
        print_result("entries read and appended", rates["appended"], "/s", rates["htcondor"], higher=True),
    ]


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        return 0 if all(user_log(Path(name))) else 1


if __name__ == "__main__":
    sys.exit(main())
