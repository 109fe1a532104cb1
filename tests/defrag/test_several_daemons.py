"""Example: several daemons defragment a pool (DEFRAG, DEFRAG2), each with its own policy and state."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC
from pathlib import Path

import pytest
from msgspec.structs import replace

from poolbook.adapters.cli.main import main
from poolbook.adapters.runtime.daemon_logs.fold import DaemonLogs
from poolbook.adapters.runtime.pool_ads import PoolInstant, defrag_ads
from poolbook.adapters.runtime.queries import Queries
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.config import ConfigError
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.projections.views import Views
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.validation import examine

from ..projections.pools import folded
from .pools import DefragPool
from .test_configured import pool_settings

SECOND = 1_000_000
LARGE = {"NAME": "LARGE@cm", "INTERVAL": 90, "DRAINING_MACHINES_PER_HOUR": 40, "REQUIREMENTS": 'Machine == "m3"'}


def configured(pool: DefragPool, **settings: object) -> None:
    """Set settings of DEFRAG2, in addition to the others."""
    texts = {name: text for name, text in pool.state.settings.items() if name.startswith("DEFRAG_")}
    texts |= {f"DEFRAG2.DEFRAG_{name}": str(value) for name, value in settings.items()}
    answer = pool.handle(s.ConfigurePool(pool.id(), texts))
    assert not answer.refusal


@pytest.fixture(scope="module")
def pool() -> DefragPool:
    pool = DefragPool(
        INTERVAL=60, DRAINING_MACHINES_PER_HOUR=60, REQUIREMENTS='Machine != "m3"', CANCEL_REQUIREMENTS="Cpus == 1"
    )
    configured(pool, **LARGE)
    pool.machines("m1", "m2", "m3", retirement=1000)
    pool.run(36_000, count=9)
    pool.advance(190)
    return pool


def test_each_daemon_polls_at_its_own_interval_and_names_its_polls(pool: DefragPool) -> None:
    times = {
        daemon: [poll.at // SECOND for poll in pool.polls() if poll.daemon == daemon] for daemon in ("", "DEFRAG2")
    }
    assert {second - times[""][0] for second in times[""]} == {0, 60, 120, 180}
    assert {second - times["DEFRAG2"][0] for second in times["DEFRAG2"]} == {0, 90, 180}


def test_each_daemon_drains_machines_by_its_own_policy(pool: DefragPool) -> None:
    drains = {(event.machine, event.reason) for event in pool.events() if isinstance(event, e.DrainBegan)}
    assert drains == {("m1", "Defrag DEFRAG@cm"), ("m2", "Defrag DEFRAG@cm"), ("m3", "Defrag LARGE@cm")}


def test_each_daemon_has_its_own_ad_and_counts(pool: DefragPool) -> None:
    known = Views(folded(list(enumerate(pool.events(), 1)))).defrag()
    assert known == (pool.state.defrag, pool.state.settings)
    ads = defrag_ads(PoolInstant("pool", pool.world.clock // SECOND, None), *known)
    assert [(ad.eval("Name"), ad.eval("DrainSuccesses")) for ad in ads.values()] == [("DEFRAG@cm", 2), ("LARGE@cm", 1)]


def test_the_log_is_valid_and_its_polls_can_be_repeated(pool: DefragPool) -> None:
    log = list(enumerate(pool.events(), 1))
    assert examine(log).violations == []
    result = recheck(log)
    assert (result.polls, result.differing) == (len(list(pool.polls())), 0)
    assert fold(log).defrag == pool.state.defrag


def test_a_poll_of_another_daemon_violates_the_rules(pool: DefragPool) -> None:
    events = [
        replace(event, daemon="DEFRAG3") if isinstance(event, e.DefragPolled) and event.daemon else event
        for event in pool.events()
    ]
    problems = [str(violation) for violation in examine(enumerate(events, 1)).violations]
    assert "it polls, but DEFRAG3 is not in the pool's DAEMON_LIST" in problems[0]


def test_a_daemon_that_is_no_longer_listed_stops_polling_and_the_other_continues() -> None:
    pool = DefragPool(INTERVAL=60)
    configured(pool, **LARGE)
    pool.machines("m1")
    pool.advance(100)
    pool.configure(INTERVAL=60)
    before = len(list(pool.polls()))
    pool.crash()
    pool.advance(200)
    assert {poll.daemon for poll in list(pool.polls())[before:]} == {""}


def test_the_logs_and_commands_name_the_daemon(
    pool: DefragPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = str(tmp_path / "pool.db")
    open_log(url, create=True).append(pool.events())
    assert main(["log", "defrag", "-log", url]) == 0
    assert "DEFRAG_INTERVAL had passed (DEFRAG2: 0 draining and 0 whole machines" in capsys.readouterr().out
    assert main(["status", "-defrag", "-af", "Name", "-log", url]) == 0
    assert capsys.readouterr().out == "DEFRAG@cm\nLARGE@cm\n"
    logs = DaemonLogs()
    lines = [line for position, event in enumerate(pool.events(), 1) for line in logs.fold(position, event)]
    polled = [(line.log.local, line.text) for line in lines if line.text.startswith("Will evaluate")]
    assert set(polled) == {
        (daemon, f"Will evaluate defragmentation policy every DEFRAG_INTERVAL={seconds} seconds.")
        for daemon, seconds in (("", 60), ("DEFRAG2", 90))
    }


CONFIGURATION = """
DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD, DEFRAG, DEFRAG2
DEFRAG_INTERVAL = 60
DEFRAG2.DEFRAG_INTERVAL = 90
DEFRAG2.DEFRAG_WHOLE_MACHINE_EXPR = Cpus == 2
"""


def test_the_settings_of_a_further_daemon_override_those_of_all() -> None:
    assert pool_settings(CONFIGURATION) == {
        "DEFRAG_NAME": "DEFRAG@cm.example.org",
        "DEFRAG_INTERVAL": "60",
        "DEFRAG2.DEFRAG_NAME": "DEFRAG2@cm.example.org",
        "DEFRAG2.DEFRAG_INTERVAL": "90",
        "DEFRAG2.DEFRAG_WHOLE_MACHINE_EXPR": "Cpus == 2",
        "DEFRAG2.DEFRAG_CANCEL_REQUIREMENTS": "Cpus == 2",
    }


def test_the_local_name_of_a_further_daemon_may_be_in_its_arguments() -> None:
    text = "DAEMON_LIST = DEFRAG2\nDEFRAG2_ARGS = -local-name big\nbig.DEFRAG_NAME = big\n"
    assert pool_settings(text) == {"DEFRAG2.DEFRAG_NAME": "big@cm.example.org"}
    with pytest.raises(ConfigError, match="only -local-name NAME is implemented"):
        pool_settings("DAEMON_LIST = DEFRAG2\nDEFRAG2_ARGS = -f\n")


def test_each_daemon_can_be_turned_off_alone(tmp_path: Path) -> None:
    pool = DefragPool(INTERVAL=60)
    configured(pool, **LARGE)
    pool.machines("m1")
    answer = pool.handle(s.SwitchDaemons(pool.id(), "root", "DEFRAG2", False))
    assert not answer.refusal
    before = len(list(pool.polls()))
    pool.advance(200)
    assert {poll.daemon for poll in list(pool.polls())[before:]} == {""}
    with closing(open_log(url := str(tmp_path / "pool.db"), create=True)) as log:
        log.append([event for event in pool.events() if not isinstance(event, e.WriterBegan)])
    with Queries(url) as queries:
        ads = queries.ads("Defrag", pool.world.clock // SECOND, UTC)
        assert [str(ad.eval("Name")).partition("@")[0] for ad in ads] == ["DEFRAG"]
