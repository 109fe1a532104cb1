"""Measure the web page: the first paint of a pool of 10,000 slots, and the memory of `poolbook view` for a long log.

`bench_page.py [JOBS]`: the long log has five events for each of JOBS jobs (default: 200,000). The logs are not being
served, and their views are up to date. Each line has a measurement, its value and the aim. The exit code is 1 if an aim
is missed.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path"), str(ROOT)]

import httpx  # noqa: E402
from tests.bench.long_log import write_long_log  # noqa: E402
from tests.web.browser import Visit, chromium  # noqa: E402

from poolbook import Pool  # noqa: E402
from poolbook.adapters.runtime.views import rebuild  # noqa: E402
from poolbook.adapters.stores.opening import open_log  # noqa: E402

MACHINES, CORES = 1_250, 8
RUN = "from poolbook.adapters.cli.main import entry; entry()"
VIEWS = (
    "pool", "jobs", "shares", "machines", "log", "pool?hours=1", "thing?kind=job&name=2.7",
    "thing?kind=slot&name=slot1@h",
)  # fmt: skip


@contextmanager
def view(log: Path) -> Iterator[tuple[str, Popen[str]]]:
    words = ["view", str(log), "-no-browser", "-listen", "127.0.0.1:0"]
    with Popen([sys.executable, "-c", RUN, *words], stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        url = re.search(r"http://\S+/", process.stdout.readline())
        assert url is not None
        yield url[0], process
        process.terminate()


def write_wide_log(url: str) -> None:
    """Write the log of a pool with 10,000 running jobs, each on its own slot."""
    with Pool.open(url, user="alice", settings={"NEGOTIATOR_INTERVAL": 60}) as pool:
        for number in range(MACHINES):
            pool.add_machine(f"node{number:04}", cpus=CORES, memory=65_536)
        for user in ("alice", "bob", "carol", "dave"):
            job = {"executable": "/bin/sleep", "arguments": 7200, "request_memory": 64}
            pool.submit(job, count=MACHINES * CORES // 4 + 100, user=user)
        pool.advance(130)


def first_paint(url: str) -> float:
    """Return the time from the start of the navigation until the page shows the pool, the best of three, in seconds."""
    times = []
    with chromium() as browser:
        for _ in range(3):
            with Visit(browser, url) as visit:
                began = time.perf_counter()
                visit.open("/")
                visit.page.wait_for_function("document.querySelector('.canvas canvas')?.height > 0")
                times.append(time.perf_counter() - began)
    return min(times)


def peak(process: Popen[str]) -> float:
    """Return the largest memory that a process has used, in MB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    match = re.search(r"VmHWM:\s+(\d+)", status)
    assert match is not None
    return int(match[1]) * 1024 / 1e6


def show(label: str, value: float, aim: float, unit: str) -> bool:
    print(f"{label:<60} {value:10.3f} {unit:<3} aim {aim} {unit}", flush=True)
    return value <= aim


def main(jobs: int) -> int:
    met = []
    with tempfile.TemporaryDirectory() as folder:
        wide, long = Path(folder) / "wide.db", Path(folder) / "long.db"
        write_wide_log(str(wide))
        rebuild(str(wide))
        with view(wide) as (url, process):
            met.append(show("first paint, 10,000 busy slots", first_paint(url), 1.0, "s"))
            answer = httpx.get(f"{url}api/v1/overview/pool", headers={"Accept-Encoding": "gzip"}, timeout=60)
            size = int(answer.headers["content-length"]) / 1e3
            met.append(show("first response, 10,000 busy slots", size, 100, "kB"))
            met.append(show("memory, 10,000 busy slots", peak(process), 500, "MB"))
        with closing(open_log(str(long), create=True)) as log:
            write_long_log(log, jobs)
            events = log.head.position
        rebuild(str(long))
        with view(long) as (url, process), httpx.Client(base_url=f"{url}api/v1/overview/", timeout=600) as client:
            for path in VIEWS:
                began = time.perf_counter()
                client.get(path).raise_for_status()
                print(f"{path:<60} {time.perf_counter() - began:10.3f} s", flush=True)
            met.append(show(f"memory, {events:,} events", peak(process), 500, "MB"))
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000))
