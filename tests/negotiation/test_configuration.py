"""Table: which settings the negotiator implements, when they take effect, and what the log records about them."""

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
from poolbook.domain.negotiator.accounting import accountant_settings, priority_at
from poolbook.domain.negotiator.negotiator_settings import configured_settings, parse_settings
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.sensor_readings import Readings
from poolbook.domain.requests.autoclusters import declared_attributes
from poolbook.domain.state.pool_settings import CYCLE_TIMES, GROUP_SETTINGS, SET_TO_EMPTY
from poolbook.domain.state.state import State
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.scenario import PlayError
from poolbook.replay.scenario import parse_scenario as read_play
from poolbook.replay.validation import validate
from poolbook.replay.virtual_world import VirtualWorld

from ..domain.pools import TestPool
from ..pool.real import Folder
from ..together import together
from .settings_page import PAGE, fill

HOUR = 3600


@together("text", ["true", "True", "1 > 0", "false"])
def test_a_setting_whose_default_depends_on_the_dialect_may_be_set_to_htcondors_default(text: str) -> None:
    name = "NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION"
    assert configured_settings(read(f"{name} = {text}\n"))[name] == ("false" if text == "false" else "true")
    assert name not in configured_settings(read(""))


def configured(text: str) -> dict[str, str]:
    return configured_settings(read(text, subsystem="NEGOTIATOR"))


# Reading a configuration


@pytest.mark.parametrize(
    ("text", "configured_settings"),
    [
        ("", {}),
        ("PRIORITY_HALFLIFE = 86400\nPREEMPTION_REQUIREMENTS = False", {}),
        ("PRIORITY_HALFLIFE = 2 * $(HOUR)", {"PRIORITY_HALFLIFE": "7200"}),
        ("NEGOTIATOR.PRIORITY_HALFLIFE = 50.5\nPRIORITY_HALFLIFE = 3", {"PRIORITY_HALFLIFE": "50.5"}),
        ("SCHEDD.PRIORITY_HALFLIFE = 50", {}),
        ("default_prio_factor = 10", {"DEFAULT_PRIO_FACTOR": "10"}),
        ("NEGOTIATOR_CONSIDER_PREEMPTION = 0", {"NEGOTIATOR_CONSIDER_PREEMPTION": "false"}),
        ("PREEMPTION_RANK = \\\n  Cpus   + 1", {"PREEMPTION_RANK": "Cpus + 1"}),
        ("PREEMPTION_RANK =", {"PREEMPTION_RANK": SET_TO_EMPTY}),
        ("REMOVE_SIGNIFICANT_ATTRIBUTES =", {"REMOVE_SIGNIFICANT_ATTRIBUTES": SET_TO_EMPTY}),
        ("NEGOTIATOR_INTERVAL = 20", CYCLE_TIMES | {"NEGOTIATOR_INTERVAL": "20"}),
        ("NEGOTIATOR_INTERVAL = $(MINUTE) / 2", CYCLE_TIMES | {"NEGOTIATOR_INTERVAL": "30"}),
        ("NEGOTIATOR_CYCLE_DELAY = 0.5", CYCLE_TIMES | {"NEGOTIATOR_CYCLE_DELAY": "0.5"}),
        ("GROUP_QUOTA_DYNAMIC_a = .1\nGROUP_PRIO_FACTOR_a.b = 7",
         {"GROUP_QUOTA_DYNAMIC_a": "0.1", "GROUP_PRIO_FACTOR_a.b": "7"}),
    ],
)  # fmt: skip
def test_only_settings_that_differ_from_the_default_are_recorded(
    text: str, configured_settings: dict[str, str]
) -> None:
    assert configured(text) == configured_settings


@together(
    ("text", "message"),
    [
        ("PRIORITY_HALFLIFE = 0", "PRIORITY_HALFLIFE: 0 is out of range"),
        ("PRIORITY_HALFLIFE = soon", "soon is not a number"),
        ("DEFAULT_PRIO_FACTOR = 0.5", "DEFAULT_PRIO_FACTOR = 0.5: give a number of at least 1"),
        ("PREEMPTION_REQUIREMENTS = 1 +", "PREEMPTION_REQUIREMENTS"),
        ("NEGOTIATOR_CONSIDER_PREEMPTION = perhaps", "neither true nor false"),
        ("NEGOTIATOR_INTERVAL = 0", "NEGOTIATOR_INTERVAL = 0: use a number of seconds, more than 0"),
        ("NEGOTIATOR_CYCLE_DELAY = -1", "NEGOTIATOR_CYCLE_DELAY = -1: use a number of seconds, 0 or more"),
        ("GROUP_QUOTA_a = -1", "GROUP_QUOTA_A = -1: give a number of at least 0"),
    ],
)
def test_an_invalid_setting_is_rejected_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        configured(f"# a comment\n{text}")
    assert "<text>:2:" in str(error.value)


def test_an_empty_setting_is_empty_and_not_the_default() -> None:
    configuration = configured("NEGOTIATOR_PRE_JOB_RANK =\nREMOVE_SIGNIFICANT_ATTRIBUTES =\n")
    assert parse_settings(configuration).pre_job_rank is None and declared_attributes(configuration).removed == ()
    assert parse_settings({}).pre_job_rank is not None and declared_attributes({}).removed != ()


# Which settings are in effect


def changes(events: Iterator[tuple[int, e.Event]]) -> list[dict[str, str]]:
    return [event.settings for _, event in events if isinstance(event, e.PoolConfigured)]


def test_a_pool_follows_its_configuration_and_returns_to_its_initial_settings() -> None:
    initial_settings = {"PRIORITY_HALFLIFE": "50", "NEGOTIATOR_INTERVAL": "20"}
    with Pool.open(settings=initial_settings, config="PRIORITY_HALFLIFE = 70\nGROUP_NAMES = a\n") as pool:
        pool.configure("NEGOTIATOR_INTERVAL = 30\nGROUP_NAMES = a\n")
        pool.configure("GROUP_NAMES = a\nNEGOTIATOR_INTERVAL = 30\n")
        pool.configure("")
        assert changes(pool.events()) == [
            {"PRIORITY_HALFLIFE": "70", "GROUP_NAMES": "a"},
            {"PRIORITY_HALFLIFE": "50", "NEGOTIATOR_INTERVAL": "30"},  # the initial values of the other pace settings
            {"NEGOTIATOR_INTERVAL": "20", "GROUP_NAMES": ""},
        ]
        assert pool.state.settings == pool.state.founding_settings
        assert pool.judge() == []


def test_a_reopened_pool_uses_the_configuration_that_it_is_opened_with(tmp_path: Path) -> None:
    url = str(tmp_path / "pool.db")
    with Pool.open(url, config="PRIORITY_HALFLIFE = 70"):
        pass
    with Pool.open(url) as pool:
        assert pool.state.settings["PRIORITY_HALFLIFE"] == "70"
    with Pool.open(url, config="DEFAULT_PRIO_FACTOR = 5") as pool:
        assert changes(pool.events())[-1] == {"DEFAULT_PRIO_FACTOR": "5", "PRIORITY_HALFLIFE": ""}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"MATCH_TIMEOUT": "5"}, "MATCH_TIMEOUT cannot be set in the configuration"),
        ({"QUEUE_SUPER_USERS": "mallory"}, "QUEUE_SUPER_USERS cannot be set in the configuration"),
        ({"PRIORITY_HALFLIFE": "-1"}, "PRIORITY_HALFLIFE = -1"),
        ({"NO_SUCH": "1"}, "NO_SUCH is not a setting"),
    ],
)
def test_unknown_negotiator_settings_are_rejected(settings: dict[str, str], message: str) -> None:
    pool = TestPool()
    before = len(pool.events())
    assert message in pool.handle(s.ConfigurePool(pool.id(), settings)).refusal
    assert len(pool.events()) == before


@pytest.mark.parametrize("interval", [20, 60, 300])
def test_cycles_are_held_at_the_configured_interval(interval: int) -> None:
    pool = TestPool()
    pool.handle(s.ConfigurePool(pool.id(), {"NEGOTIATOR_INTERVAL": str(interval)}))
    pool.machine(static=1)
    pool.submit(Args='"7200"')
    pool.advance(HOUR)
    updates = [event.at for event in pool.events() if isinstance(event, e.PrioritiesUpdated)]
    assert {after - before for before, after in pairwise(updates)} == {interval * 1_000_000}


def test_a_requested_cycle_updates_the_priorities() -> None:
    with Pool.open() as pool:
        pool.add_machine("h", static=1)
        pool.submit({"executable": "/bin/sleep", "arguments": "7200"})
        pool.advance(30)
        assert pool.state.priorities_updated_at < round(pool.now * 1_000_000)
        pool.negotiate()
        assert pool.state.priorities_updated_at == round(pool.now * 1_000_000)


def test_no_cycle_is_held_while_no_one_waits_or_uses_slots() -> None:
    pool = TestPool()
    pool.machine()
    pool.submit()
    pool.advance(HOUR)
    before = len(pool.events())
    pool.advance(24 * HOUR)
    assert len(pool.events()) == before


# The half-life


def priorities_of(state: State, halflife: float) -> dict[str, float]:
    submitters = state.submitters.items()
    return {
        name: priority_at(submitter, state.priorities_updated_at, state.at, halflife) for name, submitter in submitters
    }


def test_all_priorities_age_by_the_old_half_life_before_it_changes() -> None:
    """This includes submitters that neither wait nor use slots, which updates do not mention."""
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
    priorities = priorities_of(pool.state, accountant_settings(pool.state.settings).halflife)
    assert priorities["idle@x"] == pytest.approx(account.priorities["idle@x"] / 2)
    assert list(validate(pool.log.read())) == []
    rechecked = recheck(pool.log.read())
    assert rechecked.sound and rechecked.taken >= 120, "which is not a cycle"


def test_the_validator_finds_submitters_missing_from_the_update_before_a_half_life_change() -> None:
    pool = TestPool(settings={"PRIORITY_HALFLIFE": "3600"})
    pool.handle(s.SetSubmitter(pool.id(), "root", "idle@x", "priority", 100.0))
    pool.advance(HOUR)
    pool.handle(s.ConfigurePool(pool.id(), {"PRIORITY_HALFLIFE": "60"}))
    log = [
        replace(event, priorities={"idle@x": 49.0}) if isinstance(event, e.PrioritiesUpdated) else event
        for event in pool.events()
    ]
    assert [violation.rule for violation in validate(iter(enumerate(log, 1)))] == ["priority"]


def test_a_factor_change_needs_no_update_of_real_priorities() -> None:
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


def run_scenario(text: str) -> Simulation:
    scenario = read_play(text)
    stage = Simulation(scenario, ScenarioMachines(scenario), open_log("memory:", create=True), lambda line: None)
    play(stage)
    return stage


def test_a_scenarios_configuration_applies_to_the_negotiator() -> None:
    stage = run_scenario(SCENARIO)
    assert changes(stage.log.read()) == [
        CYCLE_TIMES | {"NEGOTIATOR_INTERVAL": "45", "PRIORITY_HALFLIFE": "1000"},
        {"DEFAULT_PRIO_FACTOR": "10"},
        {"DEFAULT_PRIO_FACTOR": "", "PRIORITY_HALFLIFE": ""},
    ]
    assert list(validate(stage.log.read())) == []


def test_an_invalid_setting_in_a_scenario_is_reported_with_its_line() -> None:
    with pytest.raises(PlayError, match="PREEMPTION_REQUIREMENTS"):
        run_scenario("config\nPREEMPTION_REQUIREMENTS = 1 +\nend\nuntil 1:00\n")


def test_a_configuration_is_checked_before_a_pool_is_opened_with_it() -> None:
    with pytest.raises(ConfigError, match="DEFAULT_PRIO_FACTOR"):
        Configured("DEFAULT_PRIO_FACTOR = 0")
    with Pool.open() as pool, pytest.raises(ConfigError, match="DEFAULT_PRIO_FACTOR"):
        pool.configure("DEFAULT_PRIO_FACTOR = 0")
    with pytest.raises(Refusal, match="not a setting"):
        Pool.open(settings={"NO_SUCH": 1})


def test_a_served_pool_reads_its_files_at_start_and_on_reconfig(tmp_path: Path) -> None:
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
        assert state().settings == {**state().founding_settings, "DEFAULT_PRIO_FACTOR": "30"}
    assert "sound" in folder.call("verify")


# The documentation page


def test_the_page_lists_every_setting_of_the_negotiator() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert fill(page) == page, "docs/configuration.md is out of date: run python docs/generate.py"
    assert all(f"`{prefix}<group>`" in page for prefix in GROUP_SETTINGS)


# Slow cycles


class SlowWorld(VirtualWorld):
    """A world whose clock advances while the pool decides: each time its sensors are read."""

    takes = 20_000_000

    def sense(self, machine: str) -> Readings:
        self.clock += self.takes
        return super().sense(machine)


def test_after_a_slow_cycle_the_pool_pauses_as_long_before_the_next_requested_one() -> None:
    pool = TestPool()
    pool.machine(static=1)
    world = pool.world = pool.engine.world = SlowWorld(clock=pool.world.clock)
    pool.submit(Args='"7200"')
    cycle_time, world.takes = pool.state.at, 0
    pool.engine.reschedule()
    pool.engine.handle([])
    assert pool.state.at == cycle_time, "it rests"
    wake = pool.engine.next_wake()
    assert wake is not None and wake == cycle_time + 40_000_000, "and wakes up for it"
    world.clock = wake
    pool.engine.handle([])
    assert isinstance(pool.events()[-1], e.PrioritiesUpdated) and pool.state.at > cycle_time
