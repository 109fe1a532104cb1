"""Differential: the page's numbers equal the commands' at ten moments of a recorded run and of an imported pool.

Property: every place and page of the page is accessible, does not overflow, and requests nothing from other sites.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser

from poolbook import Pool
from poolbook.adapters.cli.main import main
from poolbook.adapters.overview.event_list import recorded_times
from poolbook.adapters.runtime.queries import Queries
from poolbook.domain.state.job_ad import STATUS_NAMES
from poolbook.domain.units import SECOND
from poolbook.replay.narration.formatting import iso

from .browser import DARK, LIGHT, PHONE, Visit, chromium
from .client import http_service
from .test_page_server import make_pool

TRACE = Path(__file__).parents[1] / "data" / "traces" / "05-prio-preempt"
MOMENTS = 10


class Shown(NamedTuple):
    log: Path
    url: str


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    log = tmp_path_factory.mktemp("pool") / "pool.db"
    make_pool(str(log))
    with http_service(log, log.parent) as client:
        yield Shown(log, client.url)


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    log = tmp_path_factory.mktemp("audit") / "audit.db"
    assert main(["import", str(TRACE), "-log", str(log), "-zone", "UTC"]) == 0
    with http_service(log, log.parent) as client:
        yield Shown(log, client.url)


PLACES = ("/", "/jobs?owner=all", "/jobs?owner=all&history=1", "/shares", "/machines", "/log")
THINGS = (
    "/job/1.0", "/job/3.0", "/job/4.3", "/cluster/4", "/slot/slot1_1@node00", "/machine/node00", "/user/alice",
    "/cycle/14", "/event/30",
)  # fmt: skip


@pytest.mark.parametrize("mode", [LIGHT, DARK, PHONE])
def test_every_place_and_thing_is_accessible_and_fits_the_window(browser: Browser, pool: Shown, mode: str) -> None:
    with Queries(str(pool.log)) as queries:
        cycle = next(position for position, _ in queries.log.read_stream("negotiator"))
    with Visit(browser, pool.url, mode) as visit:
        for path in (*PLACES, *THINGS):
            visit.open(path.replace("/cycle/14", f"/cycle/{cycle}"))
            assert visit.sentence, path
            assert visit.overflow() <= 0, path
            assert visit.accessibility() == [], path


def test_the_places_of_an_import_are_accessible(browser: Browser, audit: Shown) -> None:
    with Visit(browser, audit.url) as visit:
        for path in (*PLACES, "/job/1.0", "/slot/slot1@localhost", "/machine/localhost", "/user/alice@localhost"):
            visit.open(path)
            assert visit.sentence and visit.overflow() <= 0, path
            assert visit.accessibility() == [], path


def test_more_than_2000_slots_are_drawn_on_a_canvas_with_the_same_links(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "pool.db"
    with Pool.open(str(log), user="alice", settings={"NEGOTIATOR_INTERVAL": 60}) as pool:
        for number in range(250):
            pool.add_machine(f"node{number:03}", cpus=8, memory=65_536)
        pool.submit({"executable": "/bin/sleep", "arguments": 7200, "request_memory": 64}, count=2000)
        pool.advance(130)
    with http_service(log, tmp_path) as client, Visit(browser, client.url) as visit:
        page = visit.open("/")
        canvas = page.locator(".canvas canvas")
        page.wait_for_function("document.querySelector('.canvas canvas').height > 300")
        canvas.hover(position={"x": 16, "y": 4})
        hint = page.locator(".grid .hint").inner_text()
        assert re.match(r"slot1_\d+@node000: Claimed/Busy for .*, job 1\.\d+ of alice@", hint), hint
        assert visit.accessibility() == []
        canvas.focus()
        canvas.press("ArrowRight")
        name = page.locator(".grid .hint").inner_text().partition(":")[0]
        canvas.press("Enter")
        page.wait_for_url(f"**/slot/{name}")
        visit.wait()
        assert name in visit.sentence


def _moments(log: Path, began: int) -> list[int]:
    with Queries(str(log)) as queries:
        ended = recorded_times(queries)[1] if queries.imported else queries.views.at
    first, last = began // SECOND + 1, ended // SECOND
    return [first + (last - first) * index // (MOMENTS - 1) for index in range(MOMENTS)]


def _json(capsys: pytest.CaptureFixture[str], log: Path, at: int, *words: str) -> list[dict[str, Any]]:
    assert main([*words, "-log", str(log), "-at", iso(at * SECOND)]) == 0
    text = capsys.readouterr().out
    return list(json.loads(text)) if text.strip() else []


def _counts(text: str) -> Counter[str]:
    """Return the numbers of a legend such as "running 16"."""
    return Counter(
        {name.strip(): int(number.replace(",", "")) for name, number in re.findall(r"(\D+?) ([\d,]+)", text)}
    )


def _legend(visit: Visit) -> Counter[str]:
    items = visit.page.locator(".legend").first.locator("li")
    texts = [re.sub(r"^.\s*", "", text.replace("\n", " ")) for text in items.all_inner_texts()]
    return _counts(" ".join(texts))


def _check_moment(visit: Visit, capsys: pytest.CaptureFixture[str], log: Path, at: int, has_queue: bool = True) -> None:
    query = f"at={iso(at * SECOND)[:19]}Z"
    visit.open(f"/?{query}")
    slots = _json(capsys, log, at, "status", "-json")
    states = Counter(f"{ad['State']}/{ad['Activity']}" for ad in slots)
    assert _legend(visit) == states, iso(at * SECOND)
    if has_queue:
        jobs = _json(capsys, log, at, "q", "-all", "-json")
        ended = _json(capsys, log, at, "history", "-json")
        statuses = Counter(STATUS_NAMES[ad["JobStatus"]].lower() for ad in jobs)
        visit.open(f"/jobs?owner=all&{query}")
        shown = _legend(visit) if jobs else Counter[str]()
        del shown["completed"]  # bars include jobs that have left the queue
        assert shown == statuses
        assert all(f"{count:,} " in visit.sentence for count in (len(jobs), *statuses.values()) if jobs)
        visit.open(f"/jobs?owner=all&history=1&{query}")
        bars = visit.rows("Clusters of jobs, newest first")
        totals = Counter({ad["ClusterId"]: 0 for ad in (*jobs, *ended)})
        totals.update(ad["ClusterId"] for ad in (*jobs, *ended))
        assert {int(row[0]): int(row[4].replace(",", "")) for row in bars} == totals
    visit.open(f"/shares?{query}")
    records = _json(capsys, log, at, "userprio", "-allusers", "-json")
    used = {ad["Name"]: ad["WeightedResourcesUsed"] for ad in records if not ad.get("IsAccountingGroup")}
    rows = visit.rows("Shares of users and groups") if used else []
    assert {row[0]: float(row[2].replace(",", "")) for row in rows} == pytest.approx(used)


def test_numbers_equal_the_commands_at_ten_moments(
    browser: Browser, pool: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    with Queries(str(pool.log)) as queries:
        began = next(queries.log.read(0, 1))[1].at
    with Visit(browser, pool.url) as visit:
        for at in _moments(pool.log, began):
            _check_moment(visit, capsys, pool.log, at)


def test_numbers_of_an_import_equal_the_commands_at_ten_moments(
    browser: Browser, audit: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    began = int(datetime(2026, 11, 20, 22, 36, 45, tzinfo=UTC).timestamp()) * SECOND
    with Visit(browser, audit.url) as visit:
        for at in _moments(audit.log, began):
            _check_moment(visit, capsys, audit.log, at, has_queue=False)
