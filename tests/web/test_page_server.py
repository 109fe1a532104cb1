"""Golden: the page's files, their headers and sizes. Differential: its views equal the queries; patches equal views."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from poolbook import Pool
from poolbook.adapters.overview.pool import cluster_bars, pool_overview
from poolbook.adapters.overview.records import JOB_STYLES, SLOT_STYLES
from poolbook.adapters.runtime.queries import Queries
from poolbook.adapters.web.live_views import changes
from poolbook.domain.units import SECOND
from poolbook.replay.narration.formatting import iso

from .client import Client, http_service, served_pool

FOLDER = Path(__file__).parents[2] / "adapters" / "web" / "page"
OURS = [path for path in FOLDER.rglob("*") if path.suffix in (".js", ".css") and path.parent.name != "vendor"]
SLEEP = {"executable": "/bin/sleep", "request_memory": 1}


def make_pool(url: str) -> None:
    """Write the log of a pool in which jobs of three users ran, waited and were held."""
    with Pool.open(url, user="alice", settings={"NEGOTIATOR_INTERVAL": 60}) as pool:
        for number in range(3):
            pool.add_machine(f"node{number:02}", cpus=4, memory=16384)
        pool.submit({**SLEEP, "arguments": 3000, "batch_name": "night"}, count=30)
        pool.advance(300)
        pool.submit({**SLEEP, "arguments": 900}, count=12, user="bob")
        pool.submit({**SLEEP, "request_memory": "64 GB"}, count=5, user="carol")
        pool.advance(3 * 3600)
        pool.submit({**SLEEP, "arguments": 5000}, count=20)
        pool.advance(1200)
        pool.hold("4.3", reason="wrong input")
        pool.advance(600)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "pool.db"
    make_pool(str(path))
    return path


@pytest.fixture(scope="module")
def service(log: Path) -> Iterator[Client]:
    with http_service(log, log.parent) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/jobs", "/shares", "/machines", "/log", "/job/1.0", "/slot/slot1@node00"])
def test_each_url_of_the_page_has_the_document_with_a_strict_policy(service: Client, path: str) -> None:
    answer = service.http.get(path)
    assert answer.status_code == 200 and answer.headers["content-type"] == "text/html; charset=utf-8"
    assert len(answer.content) < 4_000
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy == {
        "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'",
        "img-src": "'self' data:", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
    }  # fmt: skip
    again = service.http.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_files_of_the_page_are_kept_by_browsers_and_compressed(service: Client) -> None:
    text = service.http.get("/").text
    files = re.findall(r'(?:href|src)="(/page/[^"]+)"', text)
    assert len(files) > 5
    for file in files:
        answer = service.http.get(file, headers={"Accept-Encoding": "gzip"})
        assert answer.status_code == 200, file
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-encoding"] == "gzip" and "content-security-policy" in answer.headers
    folder = files[0].rpartition("/")[0]
    for missing in (f"{folder}/missing.js", "/page/0123456789abcdef/app.js", f"{folder}/../../page.py"):
        assert service.http.get(missing).status_code == 404


def test_our_files_are_few_lines_and_name_no_other_site() -> None:
    texts = {path: path.read_text() for path in OURS}
    assert sum(len(text.splitlines()) for text in texts.values()) <= 3000
    for path, text in texts.items():
        assert not re.search(r"https?://", text), path
        assert not re.search(r"\b(eval|Function)\(|innerHTML|document\.write", text), path
    assert {path.name for path in (FOLDER / "vendor").iterdir()} == {
        "htm-LICENSE.txt", "htm-preact.js", "preact-LICENSE.txt", "uplot-LICENSE.txt", "uplot.js",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "styles"), [("SLOTS", SLOT_STYLES), ("JOBS", JOB_STYLES)])
def test_the_page_has_the_letters_and_colours_of_the_terminal(name: str, styles: dict[str, Any]) -> None:
    table = re.search(rf"{name} = {{(.*?)}};", (FOLDER / "states.js").read_text(), re.DOTALL)
    assert table is not None
    pairs = re.findall(r'"?([\w/]+)"?: \["(\w)", "(#\w{6})"\]', table[1])
    assert {state: tuple(style) for state, *style in pairs} == {state: tuple(style) for state, style in styles.items()}


def test_views_equal_the_queries_now_and_at_a_time(service: Client, log: Path) -> None:
    with Queries(str(log)) as queries:
        began, ended = next(queries.log.read(0, 1))[1].at, queries.views.at
    for at in (*range(began + SECOND, ended, (ended - began) // 5), None):
        view = {} if at is None else {"at": iso(at)}
        with Queries(str(log), at=at) as queries:
            pool, bars = pool_overview(queries, 40), cluster_bars(queries)
        place = service.get("/overview/pool", **view)
        assert place["pool"] == msgspec.to_builtins(pool)
        assert service.get("/overview/jobs", history="true", **view)["bars"] == msgspec.to_builtins(bars)
        grid = place["grid"]
        assert len(grid["state"]) == sum(count.slots for count in pool.slots)


def test_a_stream_of_patches_leads_to_the_same_view(tmp_path: Path) -> None:
    view = {"view": "jobs"}
    with (
        served_pool(tmp_path) as pool,
        httpx.stream("GET", f"{pool.url}api/v1/overview/live", params=view, timeout=60) as stream,
    ):
        lines = stream.iter_lines()
        document = _next(lines, None)
        cluster = pool.submit("executable = /bin/true", "requirements = false", "queue 4", folder=str(tmp_path))
        while not document["bars"]:
            document = _next(lines, document)
        pool.post(f"/jobs/{cluster}.1/hold")
        while document["bars"][0]["jobs"].get("held") != 1:
            document = _next(lines, document)
        assert document == pool.get("/overview/jobs")


def _next(lines: Iterator[str], document: Any) -> Any:
    """Return the document after the next message."""
    line = next(line for line in lines if line.startswith("data: "))
    message = json.loads(line.removeprefix("data: "))
    if "whole" in message:
        return message["whole"]
    for path, value in message["set"]:
        if not path:
            return value
        part = document
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": [1, 2]}, {"a": 1, "b": [1, 3]}, [(("b", 1), 3)]),
        ({"a": [1]}, {"a": [1, 2]}, [(("a",), [1, 2])]),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, [(("a",), {"c": 1})]),
        ([1], {"a": 1}, [((), {"a": 1})]),
    ],
)
def test_changes_are_the_values_to_set(old: Any, new: Any, expected: list[Any]) -> None:
    assert changes(old, new) == expected


def test_a_thing_that_the_log_lacks_is_not_found(service: Client) -> None:
    for kind, name in (("job", "99.0"), ("machine", "none"), ("user", "none"), ("cycle", "1"), ("event", "9999999")):
        answer = service.send("GET", "/overview/thing", kind=kind, name=name)
        assert answer.status == 404, answer
    assert service.send("GET", "/overview/thing", kind="planet", name="x").status == 400
