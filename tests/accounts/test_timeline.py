"""Golden: timelines in the terminal and as a page in a real browser, compared with the intervals."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_files.importing.driver import Importer, Options
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.replay.accounts.intervals import SlotInterval, slot_intervals
from poolbook.replay.accounts.timeline import TimelineRow, UnknownSubjectError, timeline
from poolbook.replay.accounts.timeline_page import page
from poolbook.replay.narration.formatting import instant

from ..importing.folders import TRACES
from .test_intervals import S, activated, created, exited, log_with, moved

Run = Callable[..., str]
WEEK = 7 * 86_400


@pytest.fixture(scope="module")
def log_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("timeline") / "audit.db"
    log = open_log(str(path), create=True)
    Importer(log, [str(TRACES / "10-fairshare")], Options(zone="UTC")).run()
    log.close()
    return path


@pytest.fixture
def run(log_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    def call(*arguments: str, log: Path = log_path, code: int = 0) -> str:
        assert main(["timeline", *arguments, "-log", str(log)]) == code
        output = capsys.readouterr()
        return output.out + output.err

    return call


def stored(path: Path, events: list[e.Event]) -> Path:
    log = open_log(str(path), create=True)
    log.append([e.PoolFounded(0, "founded", "s", "p", "manual", "x", "1", {})])
    log.raise_epoch("w", 0, "serve")
    log.append(events)
    log.close()
    return path


OF_A_JOB = [
    created(0), moved(0, "O", "U"),
    e.ClusterSubmitted(0, "submitted", "s", 1, "alice@x", {"User": '"alice@x"'}, 1, (), "Idle"),
    moved(20, "U", "B"), activated(20),
    e.JobsTransitioned(60 * S, "user_hold", "s", 1, ((0, 0),), "hold", "Running", "Held", {}),
    exited(60, 7, "evicted", "user_hold"), moved(60, "B", "U"),
    e.JobsTransitioned(80 * S, "user_release", "s", 1, ((0, 0),), "release", "Held", "Idle", {}),
    created(100, "slot2@h"),
]  # fmt: skip


def test_a_jobs_timeline_shows_its_states_and_slots_with_causes(run: Run, tmp_path: Path) -> None:
    shown = run("1.0", log=stored(tmp_path / "pool.db", OF_A_JOB)).splitlines()
    assert shown == [
        "1970-01-01 00:00:00 to 1970-01-01 00:01:40; each character is 1.1 s",
        "1.0      " + "-" * 18 + "x" * 37 + "h" * 18 + "-" * 18,
        "slot1@h  " + " " * 18 + "x" * 37,
        "x badput  - idle  h held",
        "",
        "1970-01-01 00:00:00  idle for 20 s",
        "1970-01-01 00:00:20  badput for 40 s on slot1@h (Claimed/Busy): the job was put on hold",
        "1970-01-01 00:01:00  held for 20 s",
        "1970-01-01 00:01:20  idle for 20 s",
    ]


def test_the_rows_of_a_pool_a_slot_and_a_user_are_intervals(log_path: Path) -> None:
    log = open_log(str(log_path), create=False, read_only=True)
    intervals = list(slot_intervals(log))
    rows = timeline(log, "POOL")
    assert sorted(part for row in rows for part in row.intervals) == sorted(intervals)
    assert [row.name for row in rows] == [f"slot{number}@localhost" for number in range(1, 7)]
    (row,) = timeline(log, "slot3")
    assert row.intervals == [part for part in intervals if part.slot == "slot3@localhost"]
    of_bob = [part for row in timeline(log, "bob") for part in row.intervals]
    assert sorted(of_bob) == sorted(part for part in intervals if part.user == "bob@localhost")
    with pytest.raises(UnknownSubjectError):
        timeline(log, "99.0")


def test_an_unknown_subject_and_an_unwritable_page_are_reported(run: Run, tmp_path: Path) -> None:
    assert "the log shows no job, slot, machine or user carla" in run("carla", code=1)
    assert "more than one name; give one job" in run("1.0", "2.0", code=2)
    assert "cannot be written: No such file or directory" in run("-html", str(tmp_path / "no" / "page.html"), code=1)


def test_each_character_is_coloured_by_its_class(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    assert "slot1@localhost  \x1b[33m..\x1b[0m" not in run("slot1@localhost")
    assert "..\x1b[32m##\x1b[0m.\x1b[32m##\x1b[0m." in run("slot1@localhost")


# The page


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium")
    assert program is not None, "the tests of the page need chromium"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Page]:
    browser = chromium.new_page(viewport={"width": 1200, "height": 700}, timezone_id="UTC")
    yield browser
    browser.close()


def opened(browser: Page, path: Path) -> list[str]:
    """Open a page; return a list to which its messages, errors and requests of other files are added."""
    problems: list[str] = []
    browser.on("console", lambda message: problems.append(message.text))
    browser.on("pageerror", lambda error: problems.append(str(error)))
    browser.on("request", lambda request: problems.append(request.url) if request.url != path.as_uri() else None)
    browser.goto(path.as_uri())
    browser.wait_for_selector("#chart:not([hidden])")
    return problems


def hover(browser: Page, number: int, at: int) -> dict[str, str]:
    """Move the mouse to an instant (microseconds) in a row; return the fields of the tip, and its title as `title`."""
    canvas = browser.locator("#canvas")
    box, data = canvas.bounding_box(), canvas.evaluate("canvas => ({...canvas.dataset})")
    assert box is not None
    labels, width = float(data["labels"]), box["width"] - float(data["labels"]) - float(data["edge"])
    begin, end = float(data["begin"]), float(data["end"])
    x = labels + (at / 1000 - begin) / (end - begin) * width
    top = browser.locator("#chart").evaluate("chart => chart.scrollTop")
    y = float(data["axis"]) + (number + 0.5) * float(data["row"]) - top
    browser.mouse.move(box["x"] + x, box["y"] + y)
    names, texts = (browser.locator(f"#tip {tag}").all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(names, texts, strict=True)) | {"title": browser.locator("#tip b").inner_text()}


def tip_of(part: SlotInterval) -> dict[str, str]:
    fields = {
        "job": part.job,
        "user": part.user,
        "group": part.group,
        "from": instant(part.begin),
        "to": instant(part.end),
    }
    return {name: text for name, text in fields.items() if text} | {"title": f"{part.kind}: {part.slot}"}


def test_the_page_shows_the_intervals_and_requests_nothing(
    run: Run, log_path: Path, browser: Page, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    assert run("-html", str(path)).startswith(f"Wrote {path}: 6 rows from 2026-11-20 22:52:27")
    problems = opened(browser, path)
    rows = timeline(open_log(str(log_path), create=False, read_only=True), "POOL")
    for number, row in enumerate(rows):
        for part in row.intervals[:: 1 + len(row.intervals) // 4]:
            tip = hover(browser, number, (part.begin + part.end) // 2)
            assert {
                name: text for name, text in tip.items() if name not in ("for", "state", "cores", "cause")
            } == tip_of(part)
    cells = [row.split("\t") for row in browser.locator("tbody").inner_text().splitlines()]
    assert [row[:3] for row in cells][:3] == [
        ["goodput", "3 min 26 s", "17.3%"],
        ["badput", "14 s", "1.2%"],
        ["undetermined", "7 min 43 s", "38.8%"],
    ]
    assert problems == []


def test_the_page_zooms_moves_and_searches(run: Run, log_path: Path, browser: Page, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    run("-html", str(path))
    problems = opened(browser, path)

    def view() -> tuple[float, float]:
        data = browser.locator("#canvas").evaluate("canvas => ({...canvas.dataset})")
        return float(data["begin"]), float(data["end"])

    begin, end = view()
    box = browser.locator("#canvas").bounding_box()
    assert box is not None
    browser.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    browser.keyboard.down("Control")
    browser.mouse.wheel(0, -400)
    browser.keyboard.up("Control")
    browser.wait_for_function("document.getElementById('canvas').dataset.begin != " + str(begin))
    zoomed = view()
    assert begin < zoomed[0] < zoomed[1] < end
    browser.mouse.down()
    browser.mouse.move(box["x"] + box["width"] / 2 + 100, box["y"] + 60)
    browser.mouse.up()
    moved_view = view()
    assert moved_view[0] < zoomed[0]
    assert moved_view[1] - moved_view[0] == pytest.approx(zoomed[1] - zoomed[0])
    browser.click("#all")
    assert view() == (begin, end)
    browser.fill("#search", "1.7")
    assert browser.locator("#matches").inner_text() == "1 of 6 rows"
    browser.fill("#search", "carol")
    rows = timeline(open_log(str(log_path), create=False, read_only=True), "POOL")
    of_carol = [row for row in rows if any(part.user == "carol@localhost" for part in row.intervals)]
    assert browser.locator("#matches").inner_text() == f"{len(of_carol)} of 6 rows"
    assert problems == []


def week_of(slots: int) -> list[TimelineRow]:
    """Return a week of slots that run jobs of 80 minutes on average, with times in microseconds."""
    random = Random(35)
    rows, cluster = [], 0
    for number in range(slots):
        name, machine, at, parts = f"slot{number % 8 + 1}@node{number // 8:03d}.example.org", "", 0, []
        while at < WEEK * S:
            length = random.randrange(60 * S, 160 * 60 * S)
            cluster += random.randrange(2)
            kind, cause = random.choice([("goodput", ""), ("goodput", ""), ("badput", "priority"), ("badput", "owner")])
            user = f"user{random.randrange(40)}@example.org"
            begin = at + random.randrange(S, 300 * S)
            free = SlotInterval(name, machine, at, begin, "unclaimed", "Unclaimed", "Idle", "", "", "", "", 1.0)
            busy = SlotInterval(
                name,
                machine,
                begin,
                begin + length,
                kind,
                "Claimed",
                "Busy",
                f"{cluster}.{random.randrange(500)}",
                user,
                "",
                cause,
                1.0,
            )
            parts += [free, busy]
            at = begin + length
        rows.append(TimelineRow(name, parts))
    return rows


def test_a_week_of_1000_slots_is_a_page_under_5_mb(browser: Page, tmp_path: Path) -> None:
    rows, path = week_of(1000), tmp_path / "week.html"
    path.write_text(page(rows, "POOL"), encoding="utf-8")
    assert sum(len(row.intervals) for row in rows) > 200_000
    assert path.stat().st_size < 5_000_000
    problems = opened(browser, path)
    browser.locator("#chart").evaluate("chart => { chart.scrollTop = 300 * 18 }")
    part = max(rows[310].intervals, key=lambda part: part.end - part.begin)
    tip = hover(browser, 310, (part.begin + part.end) // 2)
    assert (tip["job"], tip["user"], tip["title"]) == (part.job, part.user, f"{part.kind}: {part.slot}")
    assert tip["from"] == instant(part.begin // 1000 * 1000)
    assert problems == []


def test_the_page_of_a_job_counts_its_runs_once(run: Run, browser: Page, tmp_path: Path) -> None:
    path = tmp_path / "job.html"
    run("1.0", "-html", str(path), log=stored(tmp_path / "pool.db", OF_A_JOB))
    problems = opened(browser, path)
    cells = [row.split("\t")[:2] for row in browser.locator("tbody").inner_text().splitlines()]
    assert cells == [["badput", "40 s"], ["idle", "40 s"], ["held", "20 s"]]
    assert hover(browser, 0, 70 * S)["title"] == "held: 1.0"
    assert hover(browser, 1, 30 * S)["cause"] == "the job was put on hold"
    assert problems == []


def test_texts_from_a_log_are_no_markup(browser: Page, tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)></script><b>"
    part = SlotInterval(f"{evil}@h", "h", S, 9 * S, "goodput", "Claimed", "Busy", "1.0", evil, evil, "", 1.0)
    path = tmp_path / "evil.html"
    path.write_text(page([TimelineRow(part.slot, [part])], evil), encoding="utf-8")
    problems = opened(browser, path)
    assert hover(browser, 0, 5 * S)["user"] == evil
    assert browser.locator("h1").inner_text() == f"Timeline of {evil}"
    assert problems == []


def test_without_javascript_the_table_can_be_read(chromium: Browser, tmp_path: Path) -> None:
    log = log_with([created(0), moved(0, "O", "U"), created(100, "slot2@h")], imported=False)
    path = tmp_path / "page.html"
    path.write_text(page(timeline(log, "POOL"), "POOL"), encoding="utf-8")
    plain = chromium.new_page(java_script_enabled=False)
    plain.goto(path.as_uri())
    assert "The chart needs JavaScript" in plain.locator("noscript").inner_text()
    assert "unclaimed\t1 min 40 s\t100.0%" in plain.locator("table").inner_text()
    assert not plain.locator("#chart").is_visible()
    plain.close()
