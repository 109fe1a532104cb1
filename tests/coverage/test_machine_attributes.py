"""golden: slot attributes that the manual lists: Poolbook knows which ones no slot has, and advertises none of them."""

from __future__ import annotations

import pytest

from poolbook import Behaviour, ConfigWarning, Pool
from poolbook.adapters.machine.detection import FEATURES, system_ad, system_names
from poolbook.adapters.simulation.scenario_machines import system
from poolbook.domain.coverage.attributes import absent_attribute, is_missing_capability, slot_attributes

from . import code

MANUAL = (code.DATA / "machine_attributes.txt").read_text().split()
CONFIG = """
RUNBENCHMARKS = true
MACHINE_RESOURCE_GPUs = 2
STARTD_SLOT_ATTRS = State
START = LoadAvg < 0.5 || KeyboardIdle > 3
"""


def attributes_of_slots() -> list[str]:
    """Return the attributes of unclaimed, claimed and drained slots, and those detected on this machine."""
    names = [*system_ad({"UID_DOMAIN": "a", "FILESYSTEM_DOMAIN": "b"}), *system_names(), *system()]
    with Pool.open("memory:", user="alice", behave=lambda launch: Behaviour(seconds=600), config=CONFIG) as pool:
        pool.add_machine("node1", cpus=4, memory=8192)
        pool.submit({"executable": "/bin/work"}, count=2)
        for change in (lambda: pool.advance(100), lambda: pool.drain("node1"), lambda: pool.advance(700)):
            change()
            names += [name for slot in pool.slots() for name in slot]
    return names


def test_no_slot_has_an_attribute_listed_as_unadvertised() -> None:
    assert [name for name in attributes_of_slots() if absent_attribute(name)] == []


def test_no_slot_advertises_a_missing_ability() -> None:
    assert [name for name in attributes_of_slots() if is_missing_capability(name)] == []
    assert is_missing_capability("HasJava") and is_missing_capability("HasVM")
    assert not is_missing_capability("HasFileTransfer") and not is_missing_capability("HasJobDeferral")


def test_adding_a_machine_with_a_missing_ability_warns() -> None:
    with Pool.open() as pool, pytest.warns(ConfigWarning, match="HasVM: slots would advertise"):
        pool.add_machine("node1", attributes={"HasVM": "true"})


def test_every_attribute_in_the_manual_is_in_the_code_or_listed_as_unadvertised() -> None:
    features = {f"has_{flag}".lower() for flag in FEATURES} | {"has_avx512dnni"}  # the manual's name for avx512_vnni
    names = [name for name in MANUAL if "<" not in name and name.lower() not in features and not absent_attribute(name)]
    assert [name for name in names if not code.contains_name(name)] == []


def test_abilities_and_facts_have_no_common_name() -> None:
    assert not set(slot_attributes("abilities")) & set(slot_attributes("facts"))
