"""Table: which settings the negotiator follows, when they are in force, and what the log says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from poolbook import Pool
from poolbook.adapters.library.pool_administration import Configured
from poolbook.adapters.simulation import ScenarioMachines, Simulation, play
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.config import ConfigError, read
from poolbook.domain.decide import Refusal
from poolbook.domain.fold.evolve import fold
from poolbook.domain.negotiator.accounting import terms, updated
from poolbook.domain.negotiator.negotiator_settings import followed
from poolbook.domain.negotiator.negotiator_settings import read as read_settings
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.sensor_readings import Readings
from poolbook.domain.requests.autoclusters import declared
from poolbook.domain.state.pool_settings import FAMILIES, NOTHING, PACE
from poolbook.domain.state.state import State
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.scenario import PlayError
from poolbook.replay.scenario import read as read_play
from poolbook.replay.validation import validate
from poolbook.replay.virtual_world import VirtualWorld

from ..domain.pools import TestPool
from ..pool.real import Folder
from ..together import together
from .settings_page import PAGE, fill

HOUR = 3600


def configured(text: str) -> dict[str, str]:
    return followed(read(text, subsystem="NEGOTIATOR"))


# What a configuration says


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("PRIORITY_HALFLIFE = 86400\nPREEMPTION_REQUIREMENTS = False", {}),
        ("PRIORITY_HALFLIFE = 2 * $(HOUR)", {"PRIORITY_HALFLIFE": "7200"}),
        ("NEGOTIATOR.PRIORITY_HALFLIFE = 50.5\nPRIORITY_HALFLIFE = 3", {"PRIORITY_HALFLIFE": "50.5"}),
        ("SCHEDD.PRIORITY_HALFLIFE = 50", {}),
        ("default_prio_factor = 10", {"DEFAULT_PRIO_FACTOR": "10"}),
        ("NEGOTIATOR_CONSIDER_PREEMPTION = 0", {"NEGOTIATOR_CONSIDER_PREEMPTION": "false"}),
        ("PREEMPTION_RANK = \\\n  Cpus   + 1", {"PREEMPTION_RANK": "Cpus + 1"}),
        ("PREEMPTION_RANK =", {"PREEMPTION_RANK": NOTHING}),
        ("REMOVE_SIGNIFICANT_ATTRIBUTES =", {"REMOVE_SIGNIFICANT_ATTRIBUTES": NOTHING}),
        ("NEGOTIATOR_INTERVAL = 20", PACE | {"NEGOTIATOR_INTERVAL": "20"}),
        ("NEGOTIATOR_INTERVAL = $(MINUTE) / 2", PACE | {"NEGOTIATOR_INTERVAL": "30"}),
        ("NEGOTIATOR_CYCLE_DELAY = 0.5", PACE | {"NEGOTIATOR_CYCLE_DELAY": "0.5"}),
        ("GROUP_QUOTA_DYNAMIC_a = .1\nGROUP_PRIO_FACTOR_a.b = 7",
         {"GROUP_QUOTA_DYNAMIC_a": "0.1", "GROUP_PRIO_FACTOR_a.b": "7"}),
    ],
)  # fmt: skip
def test_what_the_negotiator_follows_is_what_is_not_the_default(text: str, found: dict[str, str]) -> None:
    assert configured(text) == found


@together(
    ("text", "words"),
    [
        ("PRIORITY_HALFLIFE = 0", "PRIORITY_HALFLIFE: 0 is out of range"),
        ("PRIORITY_HALFLIFE = soon", "soon is no number"),
        ("DEFAULT_PRIO_FACTOR = 0.5", "DEFAULT_PRIO_FACTOR = 0.5: a number of at least 1 is wanted"),
        ("PREEMPTION_REQUIREMENTS = 1 +", "PREEMPTION_REQUIREMENTS"),
        ("NEGOTIATOR_CONSIDER_PREEMPTION = perhaps", "neither true nor false"),
        ("NEGOTIATOR_INTERVAL = 0", "NEGOTIATOR_INTERVAL = 0: use a number of seconds, more than 0"),
        ("NEGOTIATOR_CYCLE_DELAY = -1", "NEGOTIATOR_CYCLE_DELAY = -1: use a number of seconds, 0 or more"),
        ("GROUP_QUOTA_a = -1", "GROUP_QUOTA_A = -1: a number, 0 or more, is wanted"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)) as error:
        configured(f"# a comment\n{text}")
    assert "<text>:2:" in str(error.value)


def test_a_setting_that_was_set_to_nothing_is_nothing_and_not_its_default() -> None:
    found = configured("NEGOTIATOR_PRE_JOB_RANK =\nREMOVE_SIGNIFICANT_ATTRIBUTES =\n")
    assert read_settings(found).pre_job_rank is None and declared(found).removed == ()
    assert read_settings({}).pre_job_rank is not None and declared({}).removed != ()


# What is in force


def changes(events: Iterator[tuple[int, e.Event]]) -> list[dict[str, str]]:
    return [event.settings for _, event in events if isinstance(event, e.PoolConfigured)]


def test_a_pool_follows_its_configuration_and_goes_back_to_what_it_was_begun_with() -> None:
    begun = {"PRIORITY_HALFLIFE": "50", "NEGOTIATOR_INTERVAL": "20"}
    with Pool.open(settings=begun, config="PRIORITY_HALFLIFE = 70\nGROUP_NAMES = a\n") as pool:
        pool.configure("NEGOTIATOR_INTERVAL = 30\nGROUP_NAMES = a\n")
        pool.configure("GROUP_NAMES = a\nNEGOTIATOR_INTERVAL = 30\n")
        pool.configure("")
        assert changes(pool.events()) == [
            {"PRIORITY_HALFLIFE": "70", "GROUP_NAMES": "a"},
            {"PRIORITY_HALFLIFE": "50", "NEGOTIATOR_INTERVAL": "30"},  # the rest of the pace as it was begun with
            {"NEGOTIATOR_INTERVAL": "20", "GROUP_NAMES": ""},
        ]
        assert pool.state.settings == pool.state.founded
        assert pool.judge() == []


def test_a_pool_that_is_opened_again_is_under_the_configuration_that_it_is_opened_with(tmp_path: Path) -> None:
    url = str(tmp_path / "pool.db")
    with Pool.open(url, config="PRIORITY_HALFLIFE = 70"):
        pass
    with Pool.open(url) as pool:
        assert pool.state.settings["PRIORITY_HALFLIFE"] == "70"
    with Pool.open(url, config="DEFAULT_PRIO_FACTOR = 5") as pool:
        assert changes(pool.events())[-1] == {"DEFAULT_PRIO_FACTOR": "5", "PRIORITY_HALFLIFE": ""}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"MATCH_TIMEOUT": "5"}, "MATCH_TIMEOUT is not a setting of the negotiator"),
        ({"QUEUE_SUPER_USERS": "mallory"}, "QUEUE_SUPER_USERS is not a setting of the negotiator"),
        ({"PRIORITY_HALFLIFE": "-1"}, "PRIORITY_HALFLIFE = -1"),
        ({"NO_SUCH": "1"}, "NO_SUCH is no setting"),
    ],
)
def test_what_no_configuration_of_the_negotiator_s_can_set_is_refused(settings: dict[str, str], words: str) -> None:
    pool = TestPool()
    before = len(pool.events())
    assert words in pool.handle(s.ConfigurePool(pool.id(), settings)).refusal
    assert len(pool.events()) == before


@pytest.mark.parametrize("interval", [20, 60, 300])
def test_cycles_are_held_as_often_as_the_configuration_says(interval: int) -> None:
    pool = TestPool()
    pool.handle(s.ConfigurePool(pool.id(), {"NEGOTIATOR_INTERVAL": str(interval)}))
    pool.machine(static=1)
    pool.submit(Args='"7200"')
    pool.advance(HOUR)
    updates = [event.at for event in pool.events() if isinstance(event, e.PrioritiesUpdated)]
    assert {after - before for before, after in pairwise(updates)} == {interval * 1_000_000}


def test_a_cycle_on_request_brings_the_priorities_up_to_date() -> None:
    with Pool.open() as pool:
        pool.add_machine("h", static=1)
        pool.submit({"executable": "/bin/sleep", "arguments": "7200"})
        pool.advance(30)
        assert pool.state.priorities_updated_at < round(pool.now * 1_000_000)
        pool.negotiate()
        assert pool.state.priorities_updated_at == round(pool.now * 1_000_000)


def test_while_nobody_uses_anything_and_nobody_waits_no_cycle_is_held() -> None:
    pool = TestPool()
    pool.machine()
    pool.submit()
    pool.advance(HOUR)
    before = len(pool.events())
    pool.advance(24 * HOUR)
    assert len(pool.events()) == before


# The half-life


def priorities_of(state: State, halflife: float) -> dict[str, float]:
    found = state.submitters.items()
    return {name: updated(one, state.priorities_updated_at, state.at, halflife) for name, one in found}


def test_before_the_half_life_changes_all_have_aged_by_the_old_one() -> None:
    """Also those who neither wait nor use anything, of whom no update tells."""
    pool = TestPool(settings={"PRIORITY_HALFLIFE": "3600"})
    pool.machine(static=1)
    pool.handle(s.SetSubmitter(pool.id(), "root", "idle@x", "priority", 100.0))
    pool.submit(Args='"86400"')
    pool.advance(2 * HOUR + 7)
    pool.handle(s.ConfigurePool(pool.id(), {"PRIORITY_HALFLIFE": "60"}))
    account, configured = pool.events()[-2:]
    assert isinstance(account, e.PrioritiesUpdated) and isinstance(configured, e.PoolConfigured)
    assert account.priorities["idle@x"] == pytest.approx(100 * 0.5 ** ((2 * HOUR + 7) / 3600))
    assert set(account.priorities) == {"idle@x", "alice@example.org"}
    pool.advance(60)
    found = priorities_of(pool.state, terms(pool.state.settings).halflife)
    assert found["idle@x"] == pytest.approx(account.priorities["idle@x"] / 2)
    assert list(validate(pool.log.read())) == []
    again = recheck(pool.log.read())
    assert again.sound and again.taken >= 120, "and it is no cycle"


def test_who_was_left_out_of_the_account_before_another_half_life_is_found_by_the_judge() -> None:
    pool = TestPool(settings={"PRIORITY_HALFLIFE": "3600"})
    pool.handle(s.SetSubmitter(pool.id(), "root", "idle@x", "priority", 100.0))
    pool.advance(HOUR)
    pool.handle(s.ConfigurePool(pool.id(), {"PRIORITY_HALFLIFE": "60"}))
    log = [
        replace(event, priorities={"idle@x": 49.0}) if isinstance(event, e.PrioritiesUpdated) else event
        for event in pool.events()
    ]
    assert [one.rule for one in validate(iter(enumerate(log, 1)))] == ["priority"]


def test_another_factor_needs_no_account_of_real_priorities() -> None:
    pool = TestPool()
    pool.handle(s.SetSubmitter(pool.id(), "root", "idle@x", "priority", 100.0))
    pool.advance(HOUR)
    pool.handle(s.ConfigurePool(pool.id(), {"DEFAULT_PRIO_FACTOR": "10"}))
    assert not any(isinstance(event, e.PrioritiesUpdated) for event in pool.events())


# Where it is read


SCENARIO = """\
machine a cores=1
machine b cores=1
config
    RUNBENCHMARKS = False
    NEGOTIATOR_INTERVAL = 45
    NEGOTIATOR.PRIORITY_HALFLIFE = 1000
    STARTD.DEFAULT_PRIO_FACTOR = 7
end
at 1:00 set DEFAULT_PRIO_FACTOR = 10
at 2:00 reconfigure
    RUNBENCHMARKS = False
    NEGOTIATOR_INTERVAL = 45
end
until 3:00
"""


def played(text: str) -> Simulation:
    scenario = read_play(text)
    stage = Simulation(scenario, ScenarioMachines(scenario), open_log("memory:", create=True), lambda told: None)
    play(stage)
    return stage


def test_a_scenario_s_configuration_is_the_negotiator_s_too() -> None:
    stage = played(SCENARIO)
    assert changes(stage.log.read()) == [
        PACE | {"NEGOTIATOR_INTERVAL": "45", "PRIORITY_HALFLIFE": "1000"},
        {"DEFAULT_PRIO_FACTOR": "10"},
        {"DEFAULT_PRIO_FACTOR": "", "PRIORITY_HALFLIFE": ""},
    ]
    assert list(validate(stage.log.read())) == []


def test_a_scenario_s_configuration_that_the_negotiator_cannot_take_is_told_with_its_line() -> None:
    with pytest.raises(PlayError, match="PREEMPTION_REQUIREMENTS"):
        played("config\nPREEMPTION_REQUIREMENTS = 1 +\nend\nuntil 1:00\n")


def test_a_configuration_is_looked_at_before_a_pool_is_opened_under_it() -> None:
    with pytest.raises(ConfigError, match="DEFAULT_PRIO_FACTOR"):
        Configured("DEFAULT_PRIO_FACTOR = 0")
    with Pool.open() as pool, pytest.raises(ConfigError, match="DEFAULT_PRIO_FACTOR"):
        pool.configure("DEFAULT_PRIO_FACTOR = 0")
    with pytest.raises(Refusal, match="no setting"):
        Pool.open(settings={"NO_SUCH": 1})


def test_a_pool_that_is_served_follows_its_files_at_its_start_and_when_told(tmp_path: Path) -> None:
    folder = Folder(tmp_path)

    def state() -> State:
        log = open_log(str(tmp_path / "pool.db"), create=False)
        try:
            return fold(log.read())
        finally:
            log.close()

    folder.write("poolbook.conf", "RUNBENCHMARKS = False\nPRIORITY_HALFLIFE = 3600\nNEGOTIATOR_INTERVAL = 7\n")
    with folder.served("-set", "DEFAULT_PRIO_FACTOR=20"):
        assert folder.call("reschedule") == 'Sent "Reschedule" command to local schedd\n'
        in_force = state().settings
        names = ("PRIORITY_HALFLIFE", "NEGOTIATOR_INTERVAL", "DEFAULT_PRIO_FACTOR")
        assert [in_force[name] for name in names] == ["3600", "7", "20"]
        folder.write("poolbook.conf", "RUNBENCHMARKS = False\nPREEMPTION_REQUIREMENTS = 1 +\n")
        assert "PREEMPTION_REQUIREMENTS" in folder.call("reconfig", code=1)
        assert state().settings == in_force
        folder.write("poolbook.conf", "RUNBENCHMARKS = False\nDEFAULT_PRIO_FACTOR = 30\n")
        folder.call("reconfig")
        assert state().settings == {**state().founded, "DEFAULT_PRIO_FACTOR": "30"}
    assert "sound" in folder.call("verify")


# The page


def test_the_page_lists_every_setting_of_the_negotiator() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert fill(page) == page, "docs/configuration.md is out of date: run python docs/generate.py"
    assert all(f"`{prefix}<group>`" in page for prefix in FAMILIES)


# Cycles that take their time


class Slow(VirtualWorld):
    """A world whose clock goes on while the pool decides: whenever its sensors are asked."""

    takes = 20_000_000

    def sense(self, machine: str) -> Readings:
        self.clock += self.takes
        return super().sense(machine)


def test_after_a_cycle_that_took_long_the_pool_rests_as_long_before_it_holds_another_on_request() -> None:
    pool = TestPool()
    pool.machine(static=1)
    world = pool.world = pool.engine.world = Slow(clock=pool.world.clock)
    pool.submit(Args='"7200"')
    held, world.takes = pool.state.at, 0
    pool.engine.reschedule()
    pool.engine.handle([])
    assert pool.state.at == held, "it rests"
    wake = pool.engine.next_wake()
    assert wake is not None and wake == held + 40_000_000, "and wakes up for it"
    world.clock = wake
    pool.engine.handle([])
    assert isinstance(pool.events()[-1], e.PrioritiesUpdated) and pool.state.at > held
