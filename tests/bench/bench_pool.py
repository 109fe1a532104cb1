"""Measure a pool, mostly by whole commands, and optionally an HTCondor pool.

``python tests/bench/bench_pool.py`` prints the conditions, and for each measurement HTCondor's value, Poolbook's median
and best run, the aim, and whether the median meets it. The exit code is always 0. "Whole process" is the installed
command from start to end; its modules are compiled before.

With ``--peer DIR --peer-script SCRIPT`` the same run measures HTCondor: SCRIPT is called with DIR, one of the verbs
submit, queue, restart and throughput, and --jobs, and prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path"), str(ROOT)]

from tests.bench import bench_log  # noqa: E402
from tests.bench.long_log import LIFE_EVENTS, write_long_log  # noqa: E402

from poolbook.adapters.stores.log_paths import log_paths  # noqa: E402
from poolbook.adapters.stores.opening import open_log  # noqa: E402
from poolbook.domain.events import ClusterSubmitted, JobExited  # noqa: E402
from poolbook.domain.fold.evolve import fold  # noqa: E402

JOBS = 100_000
SHORT_JOBS = 500
COLD_START_JOBS = 200_000
COLUMNS = ("-af", "ClusterId", "ProcId", "JobStatus")
TOTALS = ("q", "-all", "-totals")
SLOTS = ("-slots", "16", "-cpus", "16", "-memory", "4096")


@frozen
class Measurement:
    """A measurement with its unit and aim."""

    label: str
    unit: str
    aim: float | None = None
    peer: tuple[str, str] | None = None  #: the verb and the field of the measurement of HTCondor
    higher: bool = False  #: whether higher values are better


MEASUREMENTS = {
    "floor": Measurement("an interpreter that does nothing", "s"),
    "like": Measurement("submit 100,000 identical jobs", "s", 0.4, ("submit", "seconds")),
    "like.disk": Measurement("  on disk, per job", "B", 25, ("submit", "log_bytes_per_job")),
    "like.memory": Measurement("  in memory after the fold, per job", "B", 150, ("submit", "schedd_rss_bytes_per_job")),
    "own": Measurement("submit 100,000 with different arguments, outputs", "s", 1.2),
    "own.disk": Measurement("  on disk, per job", "B", 60),
    "own.memory": Measurement("  in memory after the fold, per job", "B", 400),
    "list.first": Measurement("list all, the first time, with views created", "s"),
    "list": Measurement("list all 100,000", "s", 0.45, ("queue", "list_all_seconds")),
    "one": Measurement("list one by its id", "s", 0.1, ("queue", "one_job_seconds")),
    "totals": Measurement("totals", "s", 0.1, ("queue", "totals_seconds")),
    "remove": Measurement("remove all 100,000, until q lists none", "s", 0.5, ("queue", "remove_all_seconds")),
    "remove.alone": Measurement("  of which rm", "s"),
    "restart.first": Measurement("first start, which writes their user log", "s"),
    "restart": Measurement("restart with 100,000 jobs, until it answers", "s", 0.35, ("restart", "seconds")),
    "served": Measurement("submit 100,000 identical jobs to a serving pool", "s"),
    "served.log": Measurement("  until their user log has 100,000 events", "s", None, ("submit", "seconds")),
    "served.memory": Measurement(
        "  in the server's memory, per job", "B", None, ("submit", "schedd_rss_bytes_per_job")
    ),
    "true": Measurement(
        "500 jobs of /bin/true, until the last one ends", "jobs/s", 600, ("throughput", "jobs_per_s"), True
    ),
    "true.whole": Measurement("  by the time of the whole process", "jobs/s", higher=True),
    "append": Measurement("append 1,000 events at a time / rate of sqlite3", "", 0.65, higher=True),
    "cold": Measurement("cold start: read, decode, fold", "/s", 400_000, higher=True),
    "cold.fold": Measurement("  fold alone", "/s", higher=True),
}

HELD_JOB = """\
executable = /bin/true
log = it.log
request_memory = 128
request_disk = 1024
hold = true
"""
DIFFERENT_JOBS = "arguments = $(args)\noutput = $(out)\nqueue args, out from items.txt\n"
TRUE_JOBS = f"executable = /bin/true\nlog = it.log\nrequest_memory = 16\nrequest_disk = 1 MB\nqueue {SHORT_JOBS}\n"

COMMAND = "from poolbook.adapters.cli.main import entry; entry()"
"""The code of the installed command."""
# Runs in a separate process, so that only the fold counts. The first fold pays for caches and imports.
MEASURE_MEMORY = """
import gc, sys, tracemalloc
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.fold.evolve import fold
once, path, traced = sys.argv[1:]
def used():
    gc.collect()
    if tracemalloc.is_tracing():
        return tracemalloc.get_traced_memory()[0]
    return int(open("/proc/self/statm").read().split()[1]) * 4096
states = [fold(open_log(once, create=False, read_only=True).read())]
if traced == "traced":
    tracemalloc.start()
before = used()
states.append(fold(open_log(path, create=False, read_only=True).read()))
print(used() - before)
"""
MEASURE_COLD_START = """
import sys, time
from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.runtime.log_writer import NullWorld
from poolbook.adapters.stores.opening import open_log
engine = Engine(open_log(sys.argv[1], create=False, read_only=True), NullWorld(), executing=False)
begun = time.perf_counter()
engine.load()
print(engine.state.position / (time.perf_counter() - begun))
"""


class Bench:
    """Runs commands in a temporary folder, each measurement ``runs`` times."""

    def __init__(self, home: Path, runs: int) -> None:
        self.home, self.runs = home, runs
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self.environment = inherited | {
            "PYTHONPATH": str(ROOT / ".path"),
            "PYTHONPYCACHEPREFIX": str(home / "compiled"),
        }
        self.environment.pop("POOLBOOK_LOG", None)

    def folder(self, name: str) -> Path:
        """Create a folder."""
        return Path(tempfile.mkdtemp(prefix=f"{name}.", dir=self.home))

    def python(self, folder: Path, code: str, *argv: str) -> str:
        """Run code in a new interpreter and return its output."""
        process = subprocess.run(
            [sys.executable, "-c", code, *argv], cwd=folder, env=self.environment, capture_output=True, text=True
        )
        if process.returncode:
            raise SystemExit(
                f"{' '.join(argv) or code}: exit code {process.returncode}\n{process.stdout}{process.stderr}"
            )
        return process.stdout

    def poolbook(self, folder: Path, *argv: str) -> str:
        """Run a command and return its output."""
        return self.python(folder, COMMAND, *argv)

    def run_timed(self, folder: Path, *argv: str) -> tuple[float, str]:
        """Run a command and return its seconds and its output."""
        began = time.perf_counter()
        output = self.poolbook(folder, *argv)
        return time.perf_counter() - began, output

    def repeat(self, run: Callable[[], float]) -> list[float]:
        return [run() for _ in range(self.runs)]

    @contextmanager
    def serve(self, folder: Path) -> Iterator[tuple[float, int]]:
        """Run `poolbook serve` on the folder's log; yield the seconds until its first answer, and its process id."""
        began = time.perf_counter()
        server = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "serve", *SLOTS],
            cwd=folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
        )
        try:
            while not answers(folder):
                if server.poll() is not None:
                    raise SystemExit(f"poolbook serve: exit code {server.returncode}")
                time.sleep(0.001)
            yield time.perf_counter() - began, server.pid
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


def answers(folder: Path) -> bool:
    """Return True if the server answers.

    The request is to hold a held job, which makes the server read its state and append only the answer.
    """
    request = {
        "kind": "Hold", "id": f"ask-{time.time_ns()}", "user": "alice", "reason": "", "subcode": 0,
        "selection": {"jobs": [(1, 0)]},
    }  # fmt: skip
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(log_paths(str(folder / "pool.db")).socket_path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            return b"answer" in connection.makefile("rb").readline()
    except (FileNotFoundError, ConnectionError):
        return False


def seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def log_size(folder: Path) -> int:
    """Checkpoint SQLite's write-ahead log and return the size of the log in bytes."""
    connection = sqlite3.connect(folder / "pool.db")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return sum(path.stat().st_size for path in folder.glob("pool.db*") if path.name in ("pool.db", "pool.db-wal"))


# One function per subject. It yields keys of MEASUREMENTS, each with the values of the runs.

Values = Iterator[tuple[str, list[float]]]


def interpreter(bench: Bench) -> Values:
    """Measure the start of Python, which every command includes."""
    folder = bench.folder("floor")
    yield "floor", bench.repeat(lambda: seconds(lambda: bench.python(folder, "pass")))


def compile_modules(bench: Bench) -> None:
    """Run every command once, so that its modules are compiled."""
    folder = bench.folder("warm")
    create_log(bench, folder)
    (folder / "true.sub").write_text(TRUE_JOBS)
    for argv in (("q", *COLUMNS), TOTALS, ("rm", "1.0"), ("run", "true.sub", *SLOTS, "-quiet")):
        bench.poolbook(folder, *argv)


def create_log(bench: Bench, folder: Path) -> None:
    """Create a log with one held job, because measurements exclude the creation of a log."""
    (folder / "one.sub").write_text(HELD_JOB + "queue 1\n")
    bench.poolbook(folder, "submit", "one.sub")


def submit(bench: Bench) -> Values:
    """Submit one cluster of 100,000 held jobs to a log that is not being served."""
    random_numbers = random.Random(1)
    lines = [f"--seed {random_numbers.randrange(2**31)} --part {part}, out/part.{part}.txt\n" for part in range(JOBS)]
    for name, queue in (("like", f"queue {JOBS}\n"), ("own", DIFFERENT_JOBS)):
        durations = []
        for _ in range(bench.runs):
            folder = bench.folder(name)
            (folder / "out").mkdir()
            (folder / "items.txt").write_text("".join(lines))
            (folder / "many.sub").write_text(HELD_JOB + queue)
            create_log(bench, folder)
            before = log_size(folder)
            durations.append(bench.run_timed(folder, "submit", "many.sub")[0])
        yield name, durations
        yield f"{name}.disk", [(log_size(folder) - before) / JOBS]
        once = bench.folder("once")
        create_log(bench, once)
        paths = str(once / "pool.db"), str(folder / "pool.db")
        memory_sizes = [
            float(bench.python(once, MEASURE_MEMORY, *paths, measure)) / JOBS for measure in ("traced", "resident")
        ]
        yield f"{name}.memory", [max(memory_sizes)]


def create_queue(bench: Bench) -> Path:
    """Create a folder with a log of 100,000 held jobs."""
    folder = bench.folder("queued")
    (folder / "many.sub").write_text(HELD_JOB + f"queue {JOBS}\n")
    bench.poolbook(folder, "submit", "many.sub")
    return folder


def list_jobs(bench: Bench) -> Values:
    folder = create_queue(bench)

    def query_time(rows: int, *argv: str) -> float:
        duration, output = bench.run_timed(folder, "q", *argv)
        if (lines := output.count("\n")) != rows:
            raise SystemExit(f"q {' '.join(argv)}: {lines} lines; expected {rows}")
        return duration

    yield "list.first", [query_time(JOBS, "-all", *COLUMNS)]
    yield "list", bench.repeat(lambda: query_time(JOBS, "-all", *COLUMNS))
    yield "one", bench.repeat(lambda: query_time(1, f"1.{JOBS // 2}", *COLUMNS))
    yield "totals", bench.repeat(lambda: bench.run_timed(folder, *TOTALS)[0])


def remove(bench: Bench) -> Values:
    total_times, rm_times = [], []
    for _ in range(bench.runs):
        folder = create_queue(bench)
        bench.poolbook(folder, *TOTALS)
        duration, _ = bench.run_timed(folder, "rm", "-all")
        listing_time, output = bench.run_timed(folder, *TOTALS)
        if "Total for all users: 0 jobs" not in output:
            raise SystemExit(f"the queue is not empty after rm -all: {output}")
        rm_times.append(duration)
        total_times.append(duration + listing_time)
    yield "remove", total_times
    yield "remove.alone", rm_times


def restart(bench: Bench) -> Values:
    folder = create_queue(bench)

    def time_start() -> float:
        with bench.serve(folder) as (duration, _):
            return duration

    yield "restart.first", [time_start()]
    yield "restart", bench.repeat(time_start)


def serve(bench: Bench) -> Values:
    """Measure a submission like HTCondor's: to a running pool, until the jobs' user log is written."""
    durations, log_times, memory = [], [], []
    for _ in range(bench.runs):
        folder = bench.folder("served")
        (folder / "many.sub").write_text(HELD_JOB + f"queue {JOBS}\n")
        with bench.serve(folder) as (_, server):
            before, start = resident(server), time.perf_counter()
            bench.poolbook(folder, "submit", "many.sub")
            durations.append(time.perf_counter() - start)
            wait_for_events(folder / "it.log")
            log_times.append(time.perf_counter() - start)
            time.sleep(1)  # until its views are current
            memory.append((resident(server) - before) / JOBS)
    yield "served", durations
    yield "served.log", log_times
    yield "served.memory", memory


def resident(process: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_for_events(path: Path) -> None:
    """Wait until a user log has the submit event of each job."""
    deadline, submit_events = time.monotonic() + 60, 0
    with open(path, "rb") as log:
        while submit_events < JOBS:
            submit_events += log.read().count(b"000 (")
            if time.monotonic() > deadline:
                raise SystemExit(f"{path} has {submit_events} events; expected {JOBS}")
            time.sleep(0.005)


def run(bench: Bench) -> Values:
    rates, process_rates = [], []
    for _ in range(bench.runs):
        folder = bench.folder("true")
        (folder / "true.sub").write_text(TRUE_JOBS)
        duration, _ = bench.run_timed(folder, "run", "true.sub", *SLOTS, "-quiet")
        process_rates.append(SHORT_JOBS / duration)
        log = open_log(str(folder / "pool.db"), create=False, read_only=True)
        events = [event for _, event in log.read()]
        log.close()
        (submitted,) = (event.at for event in events if isinstance(event, ClusterSubmitted))
        ends = [event.at for event in events if isinstance(event, JobExited) and event.code == 0]
        if len(ends) != SHORT_JOBS:
            raise SystemExit(f"{len(ends)} of {SHORT_JOBS} jobs completed")
        rates.append(SHORT_JOBS / (max(ends) - submitted) * 1_000_000)
    yield "true", rates
    yield "true.whole", process_rates


def append(bench: Bench) -> Values:
    """Measure appends as bench_log.py does, with synchronous=FULL, the log's setting."""
    ratios: list[float] = []

    class RatioReport(bench_log.Report):
        def line(self, measurement: str, sqlite: str, poolbook: str, aim: str, met: bool) -> None:
            if "FULL" in measurement:
                sqlite_rate, rate = (float(text.removesuffix("/s").replace(",", "")) for text in (sqlite, poolbook))
                ratios.append(rate / sqlite_rate)

    bench_log.measure_append(RatioReport(), bench.folder("append"))
    yield "append", ratios


def cold_start(bench: Bench) -> Values:
    path = str(bench.folder("cold") / "pool.db")
    log = open_log(path, create=True)
    write_long_log(log, COLD_START_JOBS)
    log.close()
    yield "cold", bench.repeat(lambda: float(bench.python(bench.home, MEASURE_COLD_START, path)))
    log = open_log(path, create=False, read_only=True)
    events = list(log.read())
    log.close()
    yield "cold.fold", bench.repeat(lambda: len(events) / seconds(lambda: fold(events)))


SUBJECTS = (
    interpreter, submit, list_jobs, remove, restart, serve, run, append, cold_start,
)  # fmt: skip


# HTCondor's measurements, and the table


def ask_peer(script: str, folder: str) -> dict[tuple[str, str], float]:
    """Return HTCondor's measurements. If one fails, the script reports it on standard error, and it is left out."""
    measurements: dict[tuple[str, str], float] = {}
    for verb, jobs in (("submit", JOBS), ("queue", JOBS), ("restart", JOBS), ("throughput", SHORT_JOBS)):
        argv = [sys.executable, script, folder, verb, "--jobs", str(jobs)]
        process = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
        if process.returncode == 0:
            measurements |= {(verb, name): value for name, value in json.loads(process.stdout).items()}
    return measurements


def conditions() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "processor unknown")
    python = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    return f"{cpu}, {os.cpu_count()} cores; {python}, Linux {platform.release()}"


def load() -> str:
    return ", ".join(f"{load:.2f}" for load in os.getloadavg())


def format_value(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 3 if unit in ("s", "") else 2
    return f"{value:,.{digits}f}{'' if unit == '/s' else ' '}{unit}".rstrip()


def table_line(measurement: Measurement, values: list[float], peer: dict[tuple[str, str], float]) -> str:
    peer_value = peer.get(measurement.peer) if measurement.peer else None
    htcondor = format_value(peer_value, measurement.unit) if peer_value is not None else "-"
    median, best = statistics.median(values), (max if measurement.higher else min)(values)
    best_run = format_value(best, "") if len(values) > 1 else "-"
    line = f"{measurement.label:48} {htcondor:>13} {format_value(median, measurement.unit):>17} {best_run:>9}"
    if measurement.aim is None:
        return line
    met = median >= measurement.aim if measurement.higher else median <= measurement.aim
    bound = f"{'over' if measurement.higher else 'under'} {format_value(measurement.aim, measurement.unit)}"
    return f"{line}   {bound:21} {'met' if met else 'MISSED'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="number of runs of each measurement (default 5)")
    parser.add_argument("--peer", metavar="DIR", help="the directory of an HTCondor pool")
    parser.add_argument("--peer-script", help="the script that measures the HTCondor pool")
    parser.add_argument("subjects", nargs="*", help=f"{', '.join(s.__name__ for s in SUBJECTS)} (default: all)")
    options = parser.parse_args()
    if bool(options.peer) != bool(options.peer_script):
        parser.error("--peer and --peer-script must be given together")
    unknown = set(options.subjects) - {subject.__name__ for subject in SUBJECTS}
    if unknown:
        parser.error(f"unknown subject: {', '.join(sorted(unknown))}")
    print(f"{conditions()}; load before {load()}", flush=True)
    peer = ask_peer(options.peer_script, options.peer) if options.peer else {}
    if peer:
        print(f"load after HTCondor's measurements {load()}")
    print(f"\n{'':48} {'HTCondor':>13} {'Poolbook, median':>17} {'best':>9}   aim")
    with tempfile.TemporaryDirectory() as home:
        bench = Bench(Path(home), options.runs)
        compile_modules(bench)
        for subject in SUBJECTS:
            if options.subjects and subject.__name__ not in options.subjects:
                continue
            for key, values in subject(bench):
                print(table_line(MEASUREMENTS[key], values, peer), flush=True)
    events = LIFE_EVENTS * COLD_START_JOBS
    print(f"\nThe cold start reads {events:,} events of {COLD_START_JOBS:,} jobs on 16 static slots.")
    print(f"Runs of each measurement: {options.runs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
