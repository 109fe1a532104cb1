"""The pool's figures, whole commands above all; beside a real HTCondor pool where one is named.

Run with ``python tests/bench/bench_pool.py``; prints the conditions and one line a figure: what was measured, the real
pool's, Poolbook's, the aim, and whether the median meets it. It is a measurement: it ends with 0 whatever came out.
Beside the median of several runs stands the best: what the code can do where other processes leave it the machine.
"Whole process" is the installed command from its start to its end, its modules compiled before.

With ``--peer DIR --peer-script SCRIPT`` the real pool's figures come from the same run: SCRIPT is called with DIR, one
of the verbs submit, queue, restart and throughput, and --jobs, and prints one JSON object.
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
from tests.bench.lives import LIFE_EVENTS, long_log  # noqa: E402

from poolbook.adapters.stores.log_paths import log_paths  # noqa: E402
from poolbook.adapters.stores.opening import open_log  # noqa: E402
from poolbook.domain.events import ClusterSubmitted, JobExited  # noqa: E402
from poolbook.domain.fold.evolve import fold  # noqa: E402

JOBS = 100_000
SHORT_JOBS = 500
LIVES = 200_000
COLUMNS = ("-af", "ClusterId", "ProcId", "JobStatus")
TOTALS = ("q", "-all", "-totals")
SLOTS = ("-slots", "16", "-cpus", "16", "-memory", "4096")


@frozen
class Figure:
    """What is measured, in what, and the aim: no more than it, or with `least` no less. ``peer``: the real pool's verb
    and figure, and what that is multiplied with to be in the same unit."""

    words: str
    unit: str
    aim: float | None = None
    peer: tuple[str, str] | None = None
    least: bool = False


FIGURES = {
    "floor": Figure("an interpreter that does nothing", "s"),
    "like": Figure("submit 100,000 like jobs", "s", 0.4, ("submit", "seconds")),
    "like.disk": Figure("  on disk, a job", "B", 25, ("submit", "log_bytes_per_job")),
    "like.memory": Figure("  in memory once folded, a job", "B", 150, ("submit", "schedd_rss_bytes_per_job")),
    "own": Figure("the same, each with its own arguments and output", "s", 1.2),
    "own.disk": Figure("  on disk, a job", "B", 60),
    "own.memory": Figure("  in memory once folded, a job", "B", 400),
    "list.first": Figure("list all, the first time, views made", "s"),
    "list": Figure("list all 100,000", "s", 0.45, ("queue", "list_all_seconds")),
    "one": Figure("one by its id", "s", 0.1, ("queue", "one_job_seconds")),
    "totals": Figure("totals", "s", 0.1, ("queue", "totals_seconds")),
    "remove": Figure("remove all 100,000, until q shows none", "s", 0.5, ("queue", "remove_all_seconds")),
    "remove.alone": Figure("  of this, rm", "s"),
    "restart.first": Figure("the first start, which writes their user log", "s"),
    "restart": Figure("restart with 100,000 jobs, until it answers", "s", 0.35, ("restart", "seconds")),
    "served": Figure("submit 100,000 like jobs to a serving pool", "s"),
    "served.log": Figure("  until their user log has 100,000 events", "s", None, ("submit", "seconds")),
    "served.memory": Figure("  in memory of the server, a job", "B", None, ("submit", "schedd_rss_bytes_per_job")),
    "true": Figure("500 jobs of /bin/true, to the last end", "jobs/s", 600, ("throughput", "jobs_per_s"), True),
    "true.whole": Figure("  in the time of the whole process", "jobs/s", least=True),
    "append": Figure("append 1,000 events at a time, by sqlite3's rate", "", 0.65, least=True),
    "cold": Figure("cold start: read, decode, fold", "/s", 400_000, least=True),
    "cold.fold": Figure("  fold alone", "/s", least=True),
}

HELD = """\
executable = /bin/true
log = it.log
request_memory = 128
request_disk = 1024
hold = true
"""
OWN = "arguments = $(args)\noutput = $(out)\nqueue args, out from items.txt\n"
TRUE = f"executable = /bin/true\nlog = it.log\nrequest_memory = 16\nrequest_disk = 1 MB\nqueue {SHORT_JOBS}\n"

COMMAND = "from poolbook.adapters.cli.main import entry; entry()"
"""What the installed command runs."""
# In a process of its own, so that nothing but the fold is counted. The first log folded pays for what is paid once.
MEMORY = """
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
COLD = """
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
    """A temporary folder, the command, and how often a thing is measured."""

    def __init__(self, home: Path, runs: int) -> None:
        self.home, self.runs = home, runs
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self.environment = kept | {"PYTHONPATH": str(ROOT / ".path"), "PYTHONPYCACHEPREFIX": str(home / "compiled")}
        self.environment.pop("POOLBOOK_LOG", None)

    def folder(self, name: str) -> Path:
        """A new folder."""
        return Path(tempfile.mkdtemp(prefix=f"{name}.", dir=self.home))

    def python(self, folder: Path, code: str, *argv: str) -> str:
        """The output of a fresh interpreter."""
        done = subprocess.run(
            [sys.executable, "-c", code, *argv], cwd=folder, env=self.environment, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(argv) or code}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def poolbook(self, folder: Path, *argv: str) -> str:
        """The output of the installed command."""
        return self.python(folder, COMMAND, *argv)

    def timed(self, folder: Path, *argv: str) -> tuple[float, str]:
        """The seconds that the installed command took, and its output."""
        begun = time.perf_counter()
        out = self.poolbook(folder, *argv)
        return time.perf_counter() - begun, out

    def repeated(self, run: Callable[[], float]) -> list[float]:
        return [run() for _ in range(self.runs)]

    @contextmanager
    def serving(self, folder: Path) -> Iterator[tuple[float, int]]:
        """`poolbook serve` on the folder's log: the seconds from its start to its first answer, and its number."""
        begun = time.perf_counter()
        server = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "serve", *SLOTS],
            cwd=folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
        )
        try:
            while not answered(folder):
                if server.poll() is not None:
                    raise SystemExit(f"poolbook serve: exit code {server.returncode}")
                time.sleep(0.001)
            yield time.perf_counter() - begun, server.pid
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


def answered(folder: Path) -> bool:
    """Ask the server to hold a job that is held: it has to look into its state, and to append nothing but the
    answer. False while it is not there yet."""
    request = {
        "kind": "Hold", "id": f"ask-{time.time_ns()}", "user": "anybody", "reason": "", "subcode": 0,
        "selection": {"jobs": [(1, 0)]},
    }  # fmt: skip
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(log_paths(str(folder / "pool.db")).socket))
            connection.sendall(json.dumps(request).encode() + b"\n")
            return b"answer" in connection.makefile("rb").readline()
    except (FileNotFoundError, ConnectionError):
        return False


def seconds(run: Callable[[], object]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def disk(folder: Path) -> int:
    """The log's bytes, once SQLite has moved what it wrote ahead to its place."""
    connection = sqlite3.connect(folder / "pool.db")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return sum(path.stat().st_size for path in folder.glob("pool.db*") if path.name in ("pool.db", "pool.db-wal"))


# One function a subject: it yields figures as it has them, each with what its runs measured.

Measured = Iterator[tuple[str, list[float]]]


def commands(bench: Bench) -> Measured:
    """What any command costs at least."""
    folder = bench.folder("floor")
    yield "floor", bench.repeated(lambda: seconds(lambda: bench.python(folder, "pass")))


def warm(bench: Bench) -> None:
    """Have every command compile its modules."""
    folder = bench.folder("warm")
    begun(bench, folder)
    (folder / "true.sub").write_text(TRUE)
    for argv in (("q", *COLUMNS), TOTALS, ("rm", "1.0"), ("run", "true.sub", *SLOTS, "-quiet")):
        bench.poolbook(folder, *argv)


def begun(bench: Bench, folder: Path) -> None:
    """A log with one held job, so that what is measured does not begin a log."""
    (folder / "one.sub").write_text(HELD + "queue 1\n")
    bench.poolbook(folder, "submit", "one.sub")


def submitting(bench: Bench) -> Measured:
    """One cluster of 100,000 held jobs, on a log that lies still."""
    items = random.Random(1)
    lines = [f"--seed {items.randrange(2**31)} --part {part}, out/part.{part}.txt\n" for part in range(JOBS)]
    for name, queue in (("like", f"queue {JOBS}\n"), ("own", OWN)):
        took = []
        for _ in range(bench.runs):
            folder = bench.folder(name)
            (folder / "out").mkdir()
            (folder / "items.txt").write_text("".join(lines))
            (folder / "many.sub").write_text(HELD + queue)
            begun(bench, folder)
            before = disk(folder)
            took.append(bench.timed(folder, "submit", "many.sub")[0])
        yield name, took
        yield f"{name}.disk", [(disk(folder) - before) / JOBS]
        once = bench.folder("once")
        begun(bench, once)
        paths = str(once / "pool.db"), str(folder / "pool.db")
        used = [float(bench.python(once, MEMORY, *paths, how)) / JOBS for how in ("traced", "resident")]
        yield f"{name}.memory", [max(used)]


def queued(bench: Bench) -> Path:
    """A folder with a log of 100,000 held jobs."""
    folder = bench.folder("queued")
    (folder / "many.sub").write_text(HELD + f"queue {JOBS}\n")
    bench.poolbook(folder, "submit", "many.sub")
    return folder


def listing(bench: Bench) -> Measured:
    folder = queued(bench)

    def asked(rows: int, *argv: str) -> float:
        took, out = bench.timed(folder, "q", *argv)
        if (lines := out.count("\n")) != rows:
            raise SystemExit(f"q {' '.join(argv)}: {lines} lines where {rows} were due")
        return took

    yield "list.first", [asked(JOBS, "-all", *COLUMNS)]
    yield "list", bench.repeated(lambda: asked(JOBS, "-all", *COLUMNS))
    yield "one", bench.repeated(lambda: asked(1, f"1.{JOBS // 2}", *COLUMNS))
    yield "totals", bench.repeated(lambda: bench.timed(folder, *TOTALS)[0])


def removing(bench: Bench) -> Measured:
    whole, alone = [], []
    for _ in range(bench.runs):
        folder = queued(bench)
        bench.poolbook(folder, *TOTALS)
        took, _ = bench.timed(folder, "rm", "-all")
        after, out = bench.timed(folder, *TOTALS)
        if "Total for all users: 0 jobs" not in out:
            raise SystemExit(f"the queue is not empty after rm -all: {out}")
        alone.append(took)
        whole.append(took + after)
    yield "remove", whole
    yield "remove.alone", alone


def restarting(bench: Bench) -> Measured:
    folder = queued(bench)

    def once() -> float:
        with bench.serving(folder) as (took, _):
            return took

    yield "restart.first", [once()]
    yield "restart", bench.repeated(once)


def serving(bench: Bench) -> Measured:
    """The submission that the real pool is measured with: its queue and the jobs' user log are written."""
    took, logged, memory = [], [], []
    for _ in range(bench.runs):
        folder = bench.folder("served")
        (folder / "many.sub").write_text(HELD + f"queue {JOBS}\n")
        with bench.serving(folder) as (_, server):
            before, start = resident(server), time.perf_counter()
            bench.poolbook(folder, "submit", "many.sub")
            took.append(time.perf_counter() - start)
            wait_for_events(folder / "it.log")
            logged.append(time.perf_counter() - start)
            time.sleep(1)  # its views follow
            memory.append((resident(server) - before) / JOBS)
    yield "served", took
    yield "served.log", logged
    yield "served.memory", memory


def resident(process: int) -> int:
    """The bytes of real memory that a process has."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_for_events(path: Path) -> None:
    """Wait until a user log has the submission of each job."""
    until, seen = time.monotonic() + 60, 0
    with open(path, "rb") as log:
        while seen < JOBS:
            seen += log.read().count(b"000 (")
            if time.monotonic() > until:
                raise SystemExit(f"{path} has {seen} events where {JOBS} were due")
            time.sleep(0.005)


def running(bench: Bench) -> Measured:
    inside, whole = [], []
    for _ in range(bench.runs):
        folder = bench.folder("true")
        (folder / "true.sub").write_text(TRUE)
        took, _ = bench.timed(folder, "run", "true.sub", *SLOTS, "-quiet")
        whole.append(SHORT_JOBS / took)
        log = open_log(str(folder / "pool.db"), create=False, read_only=True)
        events = [event for _, event in log.read()]
        log.close()
        (submitted,) = (event.at for event in events if isinstance(event, ClusterSubmitted))
        ends = [event.at for event in events if isinstance(event, JobExited) and event.code == 0]
        if len(ends) != SHORT_JOBS:
            raise SystemExit(f"{len(ends)} of {SHORT_JOBS} jobs ended well")
        inside.append(SHORT_JOBS / (max(ends) - submitted) * 1_000_000)
    yield "true", inside
    yield "true.whole", whole


def appending(bench: Bench) -> Measured:
    """As bench_log.py measures it, in turn with sqlite3 alone, under synchronous=FULL as a log has it."""
    ratios: list[float] = []

    class Kept(bench_log.Report):
        def line(self, what: str, peer: str, ours: str, aim: str, met: bool) -> None:
            if "FULL" in what:
                raw, own = (float(text.removesuffix("/s").replace(",", "")) for text in (peer, ours))
                ratios.append(own / raw)

    bench_log.appending(Kept(), bench.folder("append"))
    yield "append", ratios


def starting_cold(bench: Bench) -> Measured:
    path = str(bench.folder("cold") / "pool.db")
    log = open_log(path, create=True)
    long_log(log, LIVES)
    log.close()
    yield "cold", bench.repeated(lambda: float(bench.python(bench.home, COLD, path)))
    log = open_log(path, create=False, read_only=True)
    events = list(log.read())
    log.close()
    yield "cold.fold", bench.repeated(lambda: len(events) / seconds(lambda: fold(events)))


SUBJECTS = (
    commands, submitting, listing, removing, restarting, serving, running, appending, starting_cold,
)  # fmt: skip


# The real pool, and the table


def ask_peer(script: str, folder: str) -> dict[tuple[str, str], float]:
    """The real pool's figures; what cannot be had is told on standard error and left out."""
    found: dict[tuple[str, str], float] = {}
    for verb, jobs in (("submit", JOBS), ("queue", JOBS), ("restart", JOBS), ("throughput", SHORT_JOBS)):
        argv = [sys.executable, script, folder, verb, "--jobs", str(jobs)]
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
        if done.returncode == 0:
            found |= {(verb, name): value for name, value in json.loads(done.stdout).items()}
    return found


def conditions() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "processor unknown")
    python = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    return f"{cpu}, {os.cpu_count()} cores; {python}, Linux {platform.release()}"


def load() -> str:
    return ", ".join(f"{load:.2f}" for load in os.getloadavg())


def shown(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 3 if unit in ("s", "") else 2
    return f"{value:,.{digits}f}{'' if unit == '/s' else ' '}{unit}".rstrip()


def told(figure: Figure, values: list[float], peer: dict[tuple[str, str], float]) -> str:
    """A line of the table."""
    real = peer.get(figure.peer) if figure.peer else None
    beside = shown(real, figure.unit) if real is not None else "-"
    value, best = statistics.median(values), (max if figure.least else min)(values)
    of_runs = shown(best, "") if len(values) > 1 else "-"
    line = f"{figure.words:48} {beside:>13} {shown(value, figure.unit):>17} {of_runs:>9}"
    if figure.aim is None:
        return line
    met = value >= figure.aim if figure.least else value <= figure.aim
    bound = f"{'over' if figure.least else 'under'} {shown(figure.aim, figure.unit)}"
    return f"{line}   {bound:21} {'met' if met else 'MISSED'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="how often each is measured (default 5)")
    parser.add_argument("--peer", metavar="DIR", help="the folder of a real HTCondor pool")
    parser.add_argument("--peer-script", help="the script that measures it")
    parser.add_argument("subjects", nargs="*", help=f"{', '.join(s.__name__ for s in SUBJECTS)}; all unless named")
    options = parser.parse_args()
    if bool(options.peer) != bool(options.peer_script):
        parser.error("--peer and --peer-script belong together")
    unknown = set(options.subjects) - {subject.__name__ for subject in SUBJECTS}
    if unknown:
        parser.error(f"no subject is called {', '.join(sorted(unknown))}")
    print(f"{conditions()}; load before {load()}", flush=True)
    peer = ask_peer(options.peer_script, options.peer) if options.peer else {}
    if peer:
        print(f"load after the real pool's part {load()}")
    print(f"\n{'':48} {'the real pool':>13} {'Poolbook, median':>17} {'best':>9}   aim")
    with tempfile.TemporaryDirectory() as home:
        bench = Bench(Path(home), options.runs)
        warm(bench)
        for subject in SUBJECTS:
            if options.subjects and subject.__name__ not in options.subjects:
                continue
            for key, values in subject(bench):
                print(told(FIGURES[key], values, peer), flush=True)
    print(f"\n{LIFE_EVENTS * LIVES:,} events: those of {LIVES:,} jobs on 16 static slots; {options.runs} runs of each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
