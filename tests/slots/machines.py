"""Machines for tests: detected equipment, and pools that a machine joins with a configuration."""

from __future__ import annotations

from poolbook.domain.config import Configuration, read
from poolbook.domain.ports import stimuli as s
from poolbook.domain.startd.provisioning import Equipment, ExecuteVolume, machine_offer, reconfiguration

from ..domain.pools import TestPool

SYSTEM = {"Arch": '"X86_64"', "OpSys": '"LINUX"'}


def equipment(cpus: int = 8, memory: int = 16_000, disk: int = 1_000_000, **inventories: str) -> Equipment:
    volume = ExecuteVolume("65024", disk, 2 * disk)
    return Equipment(cpus, memory, memory * 1024, {"": volume}, SYSTEM, inventories)


def configuration(text: str, detected: Equipment | None = None) -> Configuration:
    detected = detected or equipment()
    cpus, memory = str(detected.cpus), str(detected.memory)
    values = {"DETECTED_CPUS": cpus, "DETECTED_CORES": cpus, "DETECTED_MEMORY": memory}
    return read(text, detected=values)


def offer(text: str, detected: Equipment | None = None) -> s.AddMachine:
    detected = detected or equipment()
    return machine_offer("joins", "h", configuration(text, detected), detected)


def slot_ads(machine: s.AddMachine) -> dict[str, dict[str, str]]:
    """Return the ad of each slot by its name without the host."""
    return {plan.name.partition("@")[0]: {**machine.ad, **plan.ad} for plan in machine.slots}


def new_pool(text: str, detected: Equipment | None = None, dialect: str = "manual") -> TestPool:
    pool = TestPool(dialect=dialect)
    answer = pool.handle(offer("RunBenchmarks = false\n" + text, detected))
    assert not answer.refusal
    return pool


def reconfigure(pool: TestPool, text: str, detected: Equipment | None = None) -> s.Reconfigure:
    """Return the stimulus that changes the configuration of a pool's machine."""
    detected = detected or equipment()
    machine = pool.state.machines["h"]
    new_configuration = configuration("RunBenchmarks = false\n" + text, detected)
    return reconfiguration(pool.id(), machine, machine.slots.values(), new_configuration, detected)
