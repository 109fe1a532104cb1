"""The application of ``poolbook top``, driven by keys with textual's pilot."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from poolbook import Pool
from poolbook.adapters.cli.main import main
from poolbook.adapters.top.app import ConfirmScreen, PoolTop, TextScreen

SLEEP = {"executable": "/bin/sleep", "request_memory": 1}


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = str(tmp_path / "pool.db")
    with Pool.open(url, settings={"NEGOTIATOR_INTERVAL": 10}) as pool:
        pool.add_machine("host", cpus=1, memory=4096)
        for count in (3, 2):
            pool.submit({**SLEEP, "arguments": 9000}, count=count)
        pool.advance(600)
    return url


async def settle(pilot: Pilot[None]) -> None:
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def press(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


def drive(url: str, story: Callable[[PoolTop, Pilot[None]], Awaitable[None]]) -> None:
    async def run() -> None:
        app = PoolTop(url, "pool.db", UTC)
        async with app.run_test(size=(140, 40)) as pilot:
            await settle(pilot)
            await story(app, pilot)

    asyncio.run(run())


def text(app: PoolTop, id: str) -> str:
    return str(app.query_one(f"#{id}", Static).render())


def test_numbers_select_the_places(url: str) -> None:
    async def story(app: PoolTop, pilot: Pilot[None]) -> None:
        assert text(app, "lines").startswith("The only core is busy; 4 jobs wait, all for")
        for key, place in zip("12345", ("Pool", "Jobs", "Shares", "Machines", "Log"), strict=True):
            await press(pilot, key)
            assert text(app, "time") == f"pool.db  |  {place}  |  now"
        assert app.query_one(DataTable).row_count > 10

    drive(url, story)


def test_a_row_is_selected_searched_and_explained(url: str) -> None:
    async def story(app: PoolTop, pilot: Pilot[None]) -> None:
        await press(pilot, "2", "j", "enter")
        assert isinstance(app.screen, TextScreen) and app.screen.lines[0].startswith("Cluster 1 has 3 jobs: ")
        await press(pilot, "escape", "k", "slash", "1", " ", "r", "enter")
        assert [row.key for row in app.rows] == ["1"] and app.query_one(Input).value == "1 r"
        await press(pilot, "question_mark")
        assert isinstance(app.screen, TextScreen) and any(line.startswith("/") for line in app.screen.lines)

    drive(url, story)


def test_the_whole_page_moves_with_the_time(url: str) -> None:
    async def story(app: PoolTop, pilot: Pilot[None]) -> None:
        await press(pilot, "left_square_bracket")
        assert ", at 2" not in text(app, "time") and "  |  at 2" in text(app, "time")
        await press(pilot, "left_curly_bracket")
        assert "the log begins at " in text(app, "lines")
        await press(pilot, "h")
        assert not isinstance(app.screen, ConfirmScreen)
        await press(pilot, "n")
        assert text(app, "time").endswith("now")

    drive(url, story)


def test_an_action_is_confirmed_once_and_performed(url: str) -> None:
    async def story(app: PoolTop, pilot: Pilot[None]) -> None:
        await press(pilot, "2", "h")
        assert isinstance(app.screen, ConfirmScreen)
        assert (app.screen.sentence, app.screen.command) == (
            "2 jobs are held until they are released.",
            "poolbook hold 2",
        )
        await press(pilot, "n", "2")
        assert app.rows[0].cells[3] == "2 idle"
        await press(pilot, "h", "y")
        await settle(pilot)
        assert app.rows[0].cells[3:] == ("2 held", "2 jobs held: via poolbook hold (by user root)")
        await press(pilot, "v")
        assert not isinstance(app.screen, ConfirmScreen)

    drive(url, story)


def test_the_page_is_updated_when_the_log_grows(url: str) -> None:
    async def story(app: PoolTop, pilot: Pilot[None]) -> None:
        await press(pilot, "2")
        assert main(["submit", str(Path(url).parent / "more.sub"), "-log", url]) == 0
        app.read(only_changes=True)
        await settle(pilot)
        assert [row.key for row in app.rows] == ["3", "2", "1"]

    (Path(url).parent / "more.sub").write_text("executable = /bin/true\nqueue\n")
    drive(url, story)


def test_the_command_needs_a_terminal(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "-log", url]) == 1
    assert "is not a terminal" in capsys.readouterr().err


def test_a_missing_extra_is_named(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "poolbook.adapters.top.app")
    monkeypatch.setitem(sys.modules, "textual.app", None)
    assert main(["top", "-log", url]) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert error == "poolbook top needs textual.app, which is not installed: pip install 'poolbook[top]'"
