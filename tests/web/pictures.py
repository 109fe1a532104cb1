"""Make the pictures of the page in docs/pictures: ``python -m tests.web.pictures``.

They show the same recorded log in light colours, in dark colours, and on a phone.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from poolbook import Pool

from .browser import MODES, Visit, chromium
from .client import http_service

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
PLACES = {
    "pool": "/",
    "jobs": "/jobs?owner=all",
    "shares": "/shares",
    "machines": "/machines",
    "log": "/log",
    "job": "/job/2.3",
    "past": "/?at=2027-01-15T09:20:00Z",
}
"""The name and the path of each picture."""
NAMES = [f"{name}-{mode}.png" for name in PLACES for mode in MODES]
_SLEEP = {"executable": "/bin/sleep", "request_memory": 512}


def record_pool(url: str) -> None:
    """Write the log of a pool with five users, in which jobs were evicted, held and removed, and a machine drains."""
    settings = {"NEGOTIATOR_INTERVAL": 60, "PREEMPTION_REQUIREMENTS": "true", "CLAIM_WORKLIFE": 1200}
    with Pool.open(url, user="alice", name="cluster.example.org", settings=settings) as pool:
        for number in range(1, 13):
            pool.add_machine(f"node{number:02}", cpus=8, memory=32768)
        pool.submit({**_SLEEP, "arguments": 5400, "batch_name": "night run"}, count=160)
        pool.advance(600)
        pool.submit({**_SLEEP, "arguments": 1500, "batch_name": "fits"}, count=60, user="bob")
        pool.submit({**_SLEEP, "request_memory": "64 GB"}, count=6, user="carol")
        pool.advance(2400)
        pool.submit({**_SLEEP, "arguments": 900, "batch_name": "scan"}, count=200, user="dave")
        pool.advance(1800)
        pool.hold("1.120", reason="wrong input file")
        pool.drain("node07", reason="new disk")
        pool.submit({**_SLEEP, "arguments": 3000}, count=40, user="erin")
        pool.advance(1200)
        running = [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in pool.jobs() if ad["JobStatus"] == 2]
        pool.vacate(running[0])
        pool.remove(running[-1])
        pool.advance(1200)


def make_pictures(folder: Path) -> None:
    """Write all pictures to a folder. Raise `AssertionError` if the page is wider than the window, or has problems."""
    with tempfile.TemporaryDirectory() as home:
        log = Path(home) / "pool.db"
        record_pool(str(log))
        with http_service(log, log.parent) as client, chromium() as browser:
            for mode in MODES:
                with Visit(browser, client.url, mode) as visit:
                    for name, path in PLACES.items():
                        visit.open(path)
                        if name in ("pool", "shares", "past"):
                            visit.page.wait_for_selector(".chart canvas")
                        assert visit.overflow() <= 0, (mode, path)
                        visit.page.screenshot(path=folder / f"{name}-{mode}.png")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    make_pictures(FOLDER)
