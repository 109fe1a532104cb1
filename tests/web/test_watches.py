"""Property: a client of `/jobs/watch` or `/collector/watch` that applies each event has the ads that lists return."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from .client import PATIENCE, Client, served_pool

FIVE = ("executable = /bin/true", "requirements = false", "queue 5")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with served_pool(tmp_path_factory.mktemp("pool"), "NUM_CPUS = 2\n") as client:
        yield client


class Watcher:
    """A client that keeps the ads by their keys. `cursor` is the last id that it received."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.ads: dict[str, Any] = {}
        self.cursor = ""
        self.kinds: list[str] = []

    def follow(self, count: int) -> None:
        """Apply events until there are so many ads after a complete change."""
        event = ""
        for line in self._lines:
            name, _, value = line.partition(": ")
            if name == "id":
                self.cursor = value
            elif name == "event":
                event = value
                self.kinds.append(event)
            elif name == "data":
                self._apply(event, json.loads(value))
                if event == "synced" and len(self.ads) == count:
                    return
        raise AssertionError(f"the stream ended with {len(self.ads)} ads")

    def _apply(self, event: str, data: dict[str, Any]) -> None:
        if event == "reset":
            self.ads.clear()
        elif event == "upsert":
            self.ads[data["key"]] = data["ad"]
        elif event == "delete":
            del self.ads[data["key"]]


@contextmanager
def watch(pool: Client, path: str, cursor: str = "", **parameters: str) -> Iterator[Watcher]:
    headers = {"Last-Event-ID": cursor} if cursor else {}
    url = f"{pool.url}api/v1{path}"
    with httpx.stream("GET", url, params=parameters, headers=headers, timeout=PATIENCE) as response:
        assert response.status_code == 200, response.read()
        yield Watcher(response.iter_lines())


def test_a_watcher_has_the_jobs_of_the_queue_after_each_change(pool: Client, tmp_path: Path) -> None:
    cluster = pool.submit(*FIVE, folder=str(tmp_path))
    only = f"ClusterId == {cluster} && JobStatus == 1"
    with watch(pool, "/jobs/watch", constraint=only) as watcher:
        watcher.follow(5)
        listed = pool.get("/jobs", constraint=only)["jobs"]
        assert watcher.ads == {f"{ad['ClusterId']}.{ad['ProcId']}": ad for ad in listed}
        assert watcher.kinds == ["reset", *["upsert"] * 5, "synced"]
        pool.post(f"/jobs/{cluster}.0/hold", {"reason": "test"})
        watcher.follow(4)  # it no longer satisfies the constraint
        pool.send("PATCH", f"/jobs/{cluster}.1", {"attributes": {"Note": '"x"'}})
        pool.post(f"/jobs/{cluster}.0/release", {})
        watcher.follow(5)
        assert watcher.ads[f"{cluster}.1"]["Note"] == "x"
        cursor = watcher.cursor
    with watch(pool, "/jobs/watch", cursor, constraint=only) as again:
        pool.send("DELETE", f"/jobs/{cluster}.2", {})
        again.ads = watcher.ads
        again.follow(4)
        assert "2" not in {key.partition(".")[2] for key in again.ads}


def test_a_watcher_has_the_slots_that_the_collector_lists(pool: Client) -> None:
    with watch(pool, "/collector/watch", type="StartdAd") as watcher:
        listed = {ad["Name"]: ad for ad in pool.get("/collector/ads")["ads"]}
        watcher.follow(len(listed))
    assert watcher.ads.keys() == listed.keys()
    assert {ad["State"] for ad in watcher.ads.values()} == {ad["State"] for ad in listed.values()}


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/jobs/watch", {"constraint": "a ="}),
        ("/collector/watch", {"type": "Nothing"}),
        ("/jobs/watch", {"limit": "3"}),
    ],
)
def test_an_invalid_watch_is_rejected(pool: Client, path: str, parameters: dict[str, str]) -> None:
    answer = pool.send("GET", path, None, None, **parameters)
    assert (answer.status, answer.body["error"]) == (400, "Bad Request")
