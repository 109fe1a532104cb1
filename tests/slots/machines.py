"""Machines for tests: what was detected on them, and pools that they join under a configuration."""

from __future__ import annotations

from poolbook.domain.config import Configuration, read
from poolbook.domain.ports import stimuli as s
from poolbook.domain.startd.provisioning import Equipment, ExecuteVolume, machine_offer, reconfiguration

from ..domain.pools import TestPool

SYSTEM = {"Arch": '"X86_64"', "OpSys": '"LINUX"'}


def equipment(cpus: int = 8, memory: int = 16_000, disk: int = 1_000_000, **inventories: str) -> Equipment:
    volume = ExecuteVolume("65024", disk, 2 * disk)
    return Equipment(cpus, memory, memory * 1024, {"": volume}, SYSTEM, inventories)


def configuration(text: str, here: Equipment | None = None) -> Configuration:
    here = here or equipment()
    detected = {"DETECTED_CPUS": here.cpus, "DETECTED_CORES": here.cpus, "DETECTED_MEMORY": here.memory}
    return read(text, detected={name: str(value) for name, value in detected.items()})


def offered(text: str, here: Equipment | None = None) -> s.AddMachine:
    here = here or equipment()
    return machine_offer("joins", "h", configuration(text, here), here)


def whole_ads(joins: s.AddMachine) -> dict[str, dict[str, str]]:
    """The ad of each slot, by its number."""
    return {plan.name.partition("@")[0]: {**joins.ad, **plan.ad} for plan in joins.slots}


def pool(text: str, here: Equipment | None = None, dialect: str = "manual") -> TestPool:
    found = TestPool(dialect=dialect)
    answer = found.handle(offered("RunBenchmarks = false\n" + text, here))
    assert not answer.refusal
    return found


def reconfigure(found: TestPool, text: str, here: Equipment | None = None) -> s.Reconfigure:
    """The stimulus by which the machine of a pool takes another configuration."""
    here = here or equipment()
    machine = found.state.machines["h"]
    wanted = configuration("RunBenchmarks = false\n" + text, here)
    return reconfiguration(found.id(), machine, machine.slots.values(), wanted, here)
