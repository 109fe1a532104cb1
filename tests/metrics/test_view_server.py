"""property: pools forward their ads to a view server, which keeps the history of all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from poolbook.adapters.https.messages import Advertise
from poolbook.adapters.machine.host import host_name
from poolbook.adapters.metrics.history_samples import slot_sample, submitter_sample
from poolbook.adapters.metrics.view_ads import ViewAds
from poolbook.adapters.runtime.companions import view_server
from poolbook.adapters.runtime.configuration import load
from poolbook.domain.classad import ClassAd, Context
from poolbook.domain.config import ConfigError
from poolbook.domain.coverage.settings import is_possible
from poolbook.projections.pool_history import GROUPS, TOTAL, USERS, values_of

from .. import forked
from ..pool.real import PATIENCE, POOLBOOK, environment
from ..ports import free_port


def slot(name: str, state: str) -> ClassAd:
    platform = {"Arch": "X86_64", "OpSys": "LINUX"}
    return ClassAd({"MyType": "Machine", "Name": name, "State": state, "KeyboardIdle": 9, "LoadAvg": 0.5, **platform})


def submitter(schedd: str, running: int) -> ClassAd:
    counts = {"RunningJobs": running, "IdleJobs": 1}
    return ClassAd({"MyType": "Submitter", "Name": "alice@a", "ScheddName": schedd, **counts})


def test_the_ads_of_two_pools_are_summed_and_name_their_pool() -> None:
    ads = ViewAds(lifetime=900, since=0)
    for pool, running in (("poola", 2), ("poolb", 3)):
        slots = [slot(f"slot1@{pool}", "Claimed"), slot(f"slot2@{pool}", "Unclaimed")]
        ads.update("condor@x", Advertise(pool, pool, "Machine", 1.0, []), slots, 1)
        ads.update("condor@x", Advertise(pool, pool, "Submitter", 1.0, []), [submitter(f"ap.{pool}", running)], 1)
    values = values_of(
        map(submitter_sample, ads.ads("Submitter", 1)),
        (slot_sample(ad, Context(now=1)) for ad in ads.ads("Machine", 1)),
    )
    assert values[USERS][TOTAL] == values[USERS]["alice@a"] == (5, 2)
    assert values[GROUPS][TOTAL] == (2, 0, 2, 0, 0, 0, 0, 0, 0)
    assert {ad.eval("Name"): ad.eval("CollectorHost") for ad in ads.ads("Machine", 1)}["slot1@poolb"] == "poolb"
    (own,) = ads.ads("Collector", 1)
    assert (own.eval("HostsTotal"), own.eval("RunningJobs"), own.eval("ViewServer")) == (4, 5, True)


def test_an_ad_ends_with_a_round_without_it_or_when_its_pool_is_silent() -> None:
    ads = ViewAds(lifetime=900, since=0)

    def names(now: float) -> list[object]:
        return [ad.eval("Name") for ad in ads.ads("Machine", now)]

    def update(pool: str, round: float, *names: str, is_last: bool = True) -> None:
        advertised = Advertise(pool, pool, "Machine", round, [], is_last)
        ads.update("condor@x", advertised, [slot(name, "Owner") for name in names], round)

    update("a", 1, "slot1@a", "slot2@a")
    update("b", 1, "slot1@b")
    update("a", 2, "slot2@a", is_last=False)
    assert names(2) == ["slot1@a", "slot2@a", "slot1@b"]
    update("a", 2, "slot3@a")
    assert names(2) == ["slot2@a", "slot3@a", "slot1@b"]
    assert names(901) == ["slot2@a", "slot3@a"]
    assert names(902) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("VIEW_SERVER_ARGS = -f -p 12345", ["metrics", "-view-server", "-listen", ":12345"]),
        ("VIEW_SERVER_ARGS =", ["metrics", "-view-server"]),
        ("VIEW_SERVER_ARGS = -f -local-name VIEW1", ["metrics", "-view-server", "-local-name", "VIEW1"]),
        ("VIEW_SERVER_ARGS = -f -sock view", "VIEW_SERVER_ARGS: -sock is unknown or lacks a value"),
        ("VIEW_SERVER_ARGS = -p", "VIEW_SERVER_ARGS: -p is unknown or lacks a value"),
    ],
)
def test_the_arguments_of_a_view_server_are_those_of_the_manual(text: str, expected: list[str] | str) -> None:
    if isinstance(expected, list):
        assert view_server("VIEW_SERVER", load(text=text)) == expected
        return
    with pytest.raises(ConfigError, match=expected):
        view_server("VIEW_SERVER", load(text=text))


def test_a_daemon_list_may_contain_view_servers() -> None:
    assert is_possible("MASTER COLLECTOR NEGOTIATOR SCHEDD STARTD VIEW_SERVER VIEWSERV01 VIEWSERV02")
    assert not is_possible("MASTER COLLECTOR NEGOTIATOR SCHEDD STARTD CREDD")


# Processes


class Site:
    """A directory with a log, and a home directory with tokens."""

    def __init__(self, path: Path, configuration: str) -> None:
        path.mkdir()
        self.path = path
        self.path.joinpath("poolbook.conf").write_text(configuration)
        self.path.joinpath("job.sub").write_text("executable = /bin/sleep\narguments = 600\nqueue 3\n")
        self._environment = {**environment(), "HOME": str(path)}

    @contextmanager
    def started(self, *arguments: str) -> Iterator[Path]:
        """Start a command, and yield the file with its output."""
        process = forked.start(
            [*POOLBOOK, *arguments], cwd=self.path, env=self._environment, stderr=forked.STDOUT, start_new_session=True
        )
        try:
            yield self.path
        finally:
            process.terminate()
            process.wait(PATIENCE)
            assert process.stdout is not None
            process.stdout.close()

    def call(self, *arguments: str, code: int | None = 0) -> str:
        done = forked.run([*POOLBOOK, *arguments], cwd=self.path, env=self._environment, timeout=PATIENCE)
        assert code is None or done.returncode == code, done
        return done.stdout + done.stderr

    def store_token(self, view: Site, *levels: str, user: str = "condor") -> None:
        folder = self.path / ".condor" / "tokens.d"
        folder.mkdir(0o700, parents=True, exist_ok=True)
        options = [word for level in levels for word in ("-authz", level)]
        file = ("-file", str(folder / "view"))
        view.call("token", "create", "-identity", f"{user}@{host_name()}", *options, *file)


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


FAST = "NUM_CPUS = 1\nUPDATE_INTERVAL = 1\nPOOL_HISTORY_SAMPLING_INTERVAL = 1\n"
LEVELS = ("ADVERTISE_STARTD", "ADVERTISE_SCHEDD", "READ")


def test_two_pools_report_to_a_view_server_with_a_local_name(tmp_path: Path) -> None:
    port = free_port()
    history = tmp_path / "view" / "history"
    own = f"VIEWSERV01.POOL_HISTORY_DIR = {history}\nVIEWSERV01.KEEP_POOL_HISTORY = true\nPOOL_HISTORY_DIR = /none\n"
    view = Site(tmp_path / "view", FAST + own)
    history.mkdir()
    url = f"https://localhost:{port}"
    a, b = (Site(tmp_path / name, f"{FAST}CONDOR_VIEW_HOST = localhost:{port}\n") for name in ("a", "b"))
    listen = ("-view-server", "-local-name", "VIEWSERV01", "-listen", f"127.0.0.1:{port}")
    with view.started("metrics", *listen):
        wait_for((view.path / "pool.db.security" / "ca" / "ca.pem").exists)
        for pool in (a, b):
            pool.store_token(view, *LEVELS)
        with a.started("serve"), b.started("serve"):
            a.call("submit", "job.sub")
            b.call("submit", "job.sub")
            total = history / "viewhist3.0.new"
            wait_for(lambda: total.exists() and "\tTotal\t:\t2\t4\n" in total.read_text())
            shown = a.call("condor_stats", "-pool", url, "-lasthours", "1", "-orgformat", "-usergroupquery", "Total")
            assert "\tTotal\t:\t2\t4\n" in shown
            types = a.call("status", "-any", "-pool", url, "-af", "MyType").split()
            assert set(types) == {"Machine", "StartD", "Submitter", "Collector", "DaemonMaster"}
            assert a.call("status", "-pool", url, "-af", "CollectorHost").split().count(host_name()) >= 1
            assert "-constraint" in a.call("status", "-help", "-pool", url)
            assert "omit -at" in a.call("status", "-pool", url, "-at", "1 min", code=None)
            assert "a view server answers condor_status and condor_stats" in b.call("userprio", "-pool", url, code=None)


def test_a_pool_without_the_levels_is_rejected_and_reports_why(tmp_path: Path) -> None:
    port = free_port()
    view = Site(tmp_path / "view", FAST)
    pool = Site(tmp_path / "a", f"{FAST}CONDOR_VIEW_HOST = localhost:{port}\n")
    with view.started("metrics", "-view-server", "-listen", f"127.0.0.1:{port}"):
        wait_for((view.path / "pool.db.security" / "ca" / "ca.pem").exists)
        pool.store_token(view, "ADVERTISE_STARTD", "READ")
        url = f"https://localhost:{port}"
        with pool.started("serve"):
            wait_for(lambda: "StartD" in pool.call("status", "-any", "-pool", url, "-af", "MyType", code=None).split())
            pool.call("submit", "job.sub")
            answer = pool.call("metrics", "-history", code=1)  # POOL_HISTORY_DIR does not exist
            assert "does not exist; create the directory" in answer
            assert "Submitter" not in pool.call("status", "-any", "-pool", url, "-af", "MyType").split()


def test_a_pool_starts_its_own_view_server(tmp_path: Path) -> None:
    port = free_port()
    history = tmp_path / "a" / "history"
    pool = Site(
        tmp_path / "a",
        f"{FAST}DAEMON_LIST = $(DAEMON_LIST) VIEW_SERVER\nVIEW_SERVER = $(COLLECTOR)\n"
        f"VIEW_SERVER_ARGS = -f -p {port} -local-name VIEWSERV01\nVIEWSERV01.KEEP_POOL_HISTORY = true\n"
        f"VIEWSERV01.POOL_HISTORY_DIR = {history}\n"
        f"CONDOR_VIEW_HOST = localhost:{port}\nVIEWSERV01.CONDOR_VIEW_HOST =\n",
    )
    history.mkdir()
    with pool.started("serve"):
        wait_for((pool.path / "pool.db.security" / "ca" / "ca.pem").exists)
        pool.store_token(pool, *LEVELS)
        wait_for((history / "viewhist1.0.new").exists)
