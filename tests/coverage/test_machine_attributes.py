"""golden: the attributes of slots: those that the manual lists and no slot has are known, and none is promised."""

from __future__ import annotations

import pytest

from poolbook import Behaviour, ConfigWarning, Pool
from poolbook.adapters.machine.detection import FEATURES, system_ad, system_names
from poolbook.adapters.simulation.scenario_machines import system
from poolbook.domain.coverage.attributes import ability, listed, unadvertised

from . import code

MANUAL = (code.DATA / "machine_attributes.txt").read_text().split()
CONFIG = """
RUNBENCHMARKS = true
MACHINE_RESOURCE_GPUs = 2
STARTD_SLOT_ATTRS = State
START = LoadAvg < 0.5 || KeyboardIdle > 3
"""


def ads() -> list[str]:
    """The attributes of slots that are free, claimed, and drained, and what real machines say of themselves."""
    found = [*system_ad({"UID_DOMAIN": "a", "FILESYSTEM_DOMAIN": "b"}), *system_names(), *system()]
    with Pool.open("memory:", user="alice", behave=lambda launch: Behaviour(seconds=600), config=CONFIG) as pool:
        pool.add_machine("node1", cpus=4, memory=8192)
        pool.submit({"executable": "/bin/work"}, count=2)
        for change in (lambda: pool.advance(100), lambda: pool.drain("node1"), lambda: pool.advance(700)):
            change()
            found += [name for slot in pool.slots() for name in slot]
    return found


def test_no_slot_has_an_attribute_that_counts_as_unadvertised() -> None:
    assert [name for name in ads() if unadvertised(name)] == []


def test_an_ability_that_is_not_there_is_not_advertised() -> None:
    assert [name for name in ads() if ability(name)] == []
    assert ability("HasJava") and ability("HasVM")
    assert not ability("HasFileTransfer") and not ability("HasJobDeferral")


def test_an_ability_that_a_program_gives_a_machine_is_warned_of() -> None:
    with Pool.open() as pool, pytest.warns(ConfigWarning, match="HasVM: slots would advertise"):
        pool.add_machine("node1", attributes={"HasVM": "true"})


def test_every_attribute_of_the_manual_is_named_by_the_code_or_known_as_unadvertised() -> None:
    features = {f"has_{flag}".lower() for flag in FEATURES} | {"has_avx512dnni"}  # the manual's word for avx512_vnni
    rest = [name for name in MANUAL if "<" not in name and name.lower() not in features and not unadvertised(name)]
    assert [name for name in rest if not code.names(name)] == []


def test_the_two_lists_have_no_name_in_common() -> None:
    assert not set(listed("abilities")) & set(listed("facts"))
