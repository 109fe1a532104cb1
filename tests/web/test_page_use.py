"""Golden: what users see and do on the page of a running pool: actions, live updates, time, search, keys, failures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from poolbook.adapters.cli.main import main
from poolbook.adapters.runtime.queries import Queries
from poolbook.domain import events as e

from .browser import PATIENCE_MS, Visit, chromium
from .client import Client, served_pool

expect.set_options(timeout=PATIENCE_MS)
USER = "daemon"  # every Linux system has this user
SETTINGS = (
    "NUM_CPUS = 2\nUID_DOMAIN = example.org\nALLOW_WRITE = *@example.org\nNEGOTIATOR_INTERVAL = 2\n"
    "GROUP_NAMES = physics\nGROUP_QUOTA_physics = 1\n"
)
WAITING = ("executable = /bin/true", "requirements = false")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with served_pool(tmp_path_factory.mktemp("pool"), SETTINGS) as pool:
        yield pool


@pytest.fixture
def visit(browser: Browser, pool: Client) -> Iterator[Visit]:
    with Visit(browser, pool.url) as visit:
        yield visit


def act(page: Page, button: str, **fields: str) -> str:
    """Choose an action, fill its fields, and confirm it. Return what the confirmation said."""
    page.get_by_role("button", name=button, exact=True).click()
    dialog = page.get_by_role("dialog")
    for label, value in fields.items():
        dialog.get_by_label(re.compile(label, re.IGNORECASE)).fill(value)
    confirm = dialog.get_by_role("button", name=button, exact=True)
    expect(confirm).to_be_enabled()
    if fields:
        expect(dialog.locator("code")).to_contain_text(next(iter(fields.values())).split(" ")[0])
    text = f"{dialog.locator('.effect').inner_text()} {dialog.locator('code').inner_text()}"
    confirm.click()
    expect(dialog).to_have_count(0)
    expect(page.locator(".actions [role=status]")).to_have_text("Done.")
    return text


def token(pool: Client, capsys: pytest.CaptureFixture[str], user: str) -> str:
    """Return a new token of a user of the pool's domain."""
    settings = str(pool.log.parent / "condor_config")
    words = ["-identity", f"{user}@example.org", "-log", str(pool.log), "-config", settings]
    assert main(["token", "create", *words]) == 0
    return capsys.readouterr().out.strip().splitlines()[-1]


def test_actions_say_what_will_happen_and_the_log_records_the_user(visit: Visit, pool: Client) -> None:
    cluster = pool.submit("executable = /bin/sleep", "arguments = 600", "queue 2", folder=str(pool.log.parent))
    for proc in range(2):
        pool.wait_for(f"/jobs/{cluster}.{proc}", "JobStatus", 2)
    page = visit.open(f"/cluster/{cluster}")
    text = act(page, "Hold", Reason="wrong input")
    assert re.match(r"2 running jobs are evicted(; about .* of work is lost)?\. 2 jobs are held until", text), text
    assert text.endswith(f"poolbook hold {cluster} -reason 'wrong input'")
    expect(page.locator("h1")).to_contain_text("2 held")
    text = act(page, "Set priority", Priority="7")
    assert text.endswith(f"poolbook prio -p 7 {cluster}")
    assert act(page, "Release").startswith("2 held jobs are released")
    page = visit.open(f"/job/{cluster}.0")
    expect(page.get_by_text("Priority among its user's jobs").locator("xpath=../dd")).to_have_text("7")
    text = act(page, "Remove")
    assert "1 job is removed from the queue. This cannot be undone." in text
    expect(page.locator("h1")).to_contain_text("removed")
    with Queries(str(pool.log)) as queries:
        requests = [event for _, event in queries.log.read() if isinstance(event, e.RequestAnswered)]
    user = pool.get("/whoami")["user"].partition("@")[0]
    acted = [(event.request, event.user) for event in requests]
    assert {("hold", user), ("release", user), ("remove", user)} <= set(acted)
    pool.post("/commands/Remove", {"selection": {"clusters": [cluster]}})


def test_a_running_job_is_suspended_continued_and_vacated(visit: Visit, pool: Client) -> None:
    cluster = pool.submit(
        "executable = /bin/sleep", "arguments = 600", "accounting_group = physics", "queue", folder=str(pool.log.parent)
    )
    job = f"{cluster}.0"
    pool.wait_for(f"/jobs/{job}", "JobStatus", 2)
    page = visit.open(f"/job/{job}")
    assert act(page, "Suspend").endswith(f"poolbook suspend {job}")
    expect(page.locator("h1")).to_contain_text("suspended")
    assert act(page, "Continue").endswith(f"poolbook continue {job}")
    expect(page.locator("h1")).to_contain_text("running")
    page = visit.open("/group/physics")
    expect(page.locator("h1")).to_contain_text("physics")
    assert visit.accessibility() == []
    page = visit.open(f"/job/{job}")
    assert act(page, "Vacate").endswith(f"poolbook vacate {job}")
    pool.wait_for(f"/jobs/{job}", "NumJobStarts", 2)
    pool.post("/commands/Remove", {"selection": {"clusters": [cluster]}})


def test_an_administrator_drains_a_machine_and_sets_a_factor(
    visit: Visit, pool: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = pool.get("/overview/machines")["machines"][0]["machine"]
    page = visit.open(f"/machine/{machine}")
    assert act(page, "Drain", Reason="new disk").endswith(f"poolbook drain -reason 'new disk' {machine}")
    assert act(page, "Cancel drain").endswith(f"poolbook drain -cancel {machine}")
    pool.submit(*WAITING, "queue", folder=str(pool.log.parent))
    user = pool.get("/whoami")["user"]
    page = visit.open(f"/user/{user}")
    text = act(page, "Set factor", Priority="2000")
    assert text.startswith(
        f"The priority factor of {user}, which is 1000 now, is set to 2000. A user with a higher factor"
    )
    assert text.endswith(f"poolbook userprio -setfactor {user} 2000")
    assert main(["userprio", "-json", "-allusers", "-log", str(pool.log)]) == 0
    factors = {record["Name"]: record["PriorityFactor"] for record in json.loads(capsys.readouterr().out)}
    assert factors[user] == 2000


def test_users_see_actions_only_on_their_own_jobs(
    browser: Browser, pool: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    user = Client(pool.url, pool.log, token(pool, capsys, USER))
    own = user.submit(*WAITING, "queue 3", folder="/tmp")
    others = pool.submit(*WAITING, "queue", folder=str(pool.log.parent))
    with Visit(browser, pool.url) as visit:
        page = visit.open("/jobs")
        page.locator("button.user").click()
        page.get_by_role("dialog").get_by_label("Token").fill(token(pool, capsys, USER))
        page.get_by_role("button", name="Use the token").click()
        expect(page.locator("button.user")).to_have_text(f"{USER}@example.org")
        expect(page.locator("h1")).to_contain_text(f"3 jobs of {USER}")
        assert [row[0] for row in visit.rows("Clusters of jobs, newest first")] == [str(own)]
        page.get_by_role("link", name=str(own), exact=True).first.click()
        assert act(page, "Hold").startswith("3 jobs are held")
        machine = pool.get("/overview/machines")["machines"][0]["machine"]
        for path in (f"/cluster/{others}", f"/machine/{machine}", f"/user/{USER}"):
            visit.open(path)
            page.wait_for_function("fetch('/api/v1/whoami').then(answer => answer.ok)")
            expect(page.locator(".actions button")).to_have_count(0)
    with Queries(str(pool.log)) as queries:
        held = [event for _, event in queries.log.read() if isinstance(event, e.RequestAnswered)][-1]
    assert (held.request, held.user) == ("hold", USER)


def test_an_invalid_token_is_explained(browser: Browser, pool: Client) -> None:
    visit = Visit(browser, pool.url)
    page = visit.open("/")
    page.locator("button.user").click()
    page.get_by_role("dialog").get_by_label("Token").fill("not-a-token")
    page.get_by_role("button", name="Use the token").click()
    expect(page.get_by_role("dialog")).to_contain_text("the token is not accepted")
    visit.problems.clear()


def test_the_page_is_live_and_pauses_in_the_background(visit: Visit, pool: Client) -> None:
    page = visit.open("/jobs?owner=all")
    expect(page.locator(".connection")).to_have_text("live")
    first = pool.submit(*WAITING, "queue 4", folder=str(pool.log.parent))
    expect(page.get_by_role("link", name=str(first), exact=True)).to_be_visible()
    background = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true});"
    event = "document.dispatchEvent(new Event('visibilitychange'))"
    page.evaluate(background % "true" + event)
    expect(page.locator(".connection")).to_have_text("paused")
    second = pool.submit(*WAITING, "queue 4", folder=str(pool.log.parent))
    with Visit(visit.page.context.browser, pool.url) as other:  # type: ignore[arg-type]
        expect(other.open("/jobs?owner=all").get_by_role("link", name=str(second), exact=True)).to_be_visible()
    assert page.get_by_role("link", name=str(second), exact=True).count() == 0
    page.evaluate(background % "false" + event)
    expect(page.get_by_role("link", name=str(second), exact=True)).to_be_visible()
    expect(page.locator(".connection")).to_have_text("live")


def test_the_slider_selects_a_moment_with_a_stable_url(visit: Visit, pool: Client) -> None:
    pool.submit(*WAITING, "queue 2", folder=str(pool.log.parent))
    page = visit.open("/jobs?owner=all")
    slider = page.get_by_label("Moment of the log")
    slider.focus()
    slider.press("Home")
    expect(page).to_have_url(re.compile(r"at=\d{4}-\d\d-\d\dT"))
    expect(page.locator("h1")).to_contain_text("No jobs are in the queue.")
    expect(page.locator(".time output")).to_contain_text("at ")
    url, text = page.url, page.locator("h1").inner_text()
    page.goto(url)
    expect(page.locator("h1")).to_have_text(text)
    page.get_by_role("link", name="Pool", exact=True).click()
    expect(page).to_have_url(re.compile(r"/\?at="))
    page.get_by_role("button", name="Now").click()
    expect(page.locator(".connection")).to_have_text("live")
    assert "at=" not in page.url


def test_keys_search_move_and_open(visit: Visit, pool: Client) -> None:
    cluster = pool.submit(*WAITING, "queue 2", folder=str(pool.log.parent))
    page = visit.open("/")
    page.keyboard.press("2")
    expect(page).to_have_url(re.compile("/jobs"))
    expect(page.locator("tr[data-row]").first).to_be_visible()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name=str(cluster), exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/cluster/{cluster}$"))
    page.keyboard.press("/")
    page.keyboard.type(f"{cluster}.1")
    expect(page.get_by_role("option").first).to_contain_text(f"job {cluster}.1")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"/job/{cluster}\.1$"))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("search jobs, slots, users and events")
    page.get_by_label("use these keys").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    expect(page).to_have_url(re.compile(rf"/job/{cluster}\.1$"))


def test_everything_is_reached_by_tab_with_a_visible_focus(visit: Visit, pool: Client) -> None:
    page = visit.open("/machines")
    reached = set()
    for _ in range(25):
        page.keyboard.press("Tab")
        label, outline = page.evaluate(
            "() => { const element = document.activeElement;"
            "return [element === document.body ? '' : element.ariaLabel || element.innerText || element.id,"
            "getComputedStyle(element).outlineStyle]; }"
        )
        assert outline != "none" or label == "", label
        reached.add(label)
    assert {"Skip to the content", "Pool", "Log", "Moment of the log", "Keys"} <= reached


def test_an_empty_pool_shows_how_to_submit_the_first_job(browser: Browser, tmp_path: Path) -> None:
    with served_pool(tmp_path) as pool, Visit(browser, pool.url) as visit:
        page = visit.open("/jobs")
        expect(page.locator(".empty")).to_contain_text("poolbook submit first.sub")
        assert visit.accessibility() == []


def test_a_lost_connection_shows_the_age_of_the_data(browser: Browser, tmp_path: Path) -> None:
    with served_pool(tmp_path) as pool:
        visit = Visit(browser, pool.url)
        page = visit.open("/")
        expect(page.locator(".connection")).to_have_text("live")
    expect(page.locator(".connection")).to_contain_text(re.compile(r"connection lost, data \d+ s old"))
    expect(page.get_by_role("alert")).to_contain_text("The service does not answer")
    assert visit.sentence  # the last data remain


def test_unknown_things_and_failures_are_explained(browser: Browser, pool: Client) -> None:
    visit = Visit(browser, pool.url)
    page = visit.page
    page.goto(f"{visit.url}/job/999999.0")
    expect(page.get_by_role("alert")).to_contain_text("999999")
    assert visit.accessibility() == []
