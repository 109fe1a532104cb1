"""Make the machines of a scenario: their configurations and detected equipment.

All are X86_64 under Linux with the scenario's cores and memory, whatever machine runs the simulation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from attrs import define, field

from ...domain.config import ConfigError, Configuration, read
from ...domain.events import Ad
from ...domain.negotiator.pool_configuration import followed
from ...domain.ports.stimuli import AddMachine, ConfigurePool, Reconfigure
from ...domain.startd.provisioning import Equipment, ExecuteVolume, offer, reconfigured
from ...domain.startd.slot_types import SlotTypeError
from ...domain.state.job_ad import quoted
from ...domain.state.state import State
from ...replay.scenario import ConfigurationSource, PlayError, Scenario, ScenarioMachine
from ..machine.host import CONDOR_VERSION
from ..runtime.disk import Disk, ReadOnlyDisk

DOMAIN = "example.org"
ARCH, OPSYS = "X86_64", "LINUX"
PLATFORM = "$CondorPlatform: x86_64_Linux $"
Text = tuple[str, str]  #: the place and the text of a part of a configuration


def system() -> Ad:
    """Return the attributes that every machine of a scenario has."""
    return {
        "Arch": quoted(ARCH),
        "OpSys": quoted(OPSYS),
        "CondorVersion": quoted(CONDOR_VERSION),
        "CondorPlatform": quoted(PLATFORM),
        "FileSystemDomain": quoted(DOMAIN),
        "UidDomain": quoted(DOMAIN),
        "HasJobDeferral": "true",
    }


def _equipment(machine: ScenarioMachine) -> Equipment:
    volume = ExecuteVolume("disk", machine.disk, machine.disk)
    return Equipment(machine.cores, machine.memory, machine.memory * 1024, {"": volume}, system())


@define
class ScenarioMachines:
    """The machines, and the current configuration of each. ``name`` is that of the scenario's file; files that it names
    are relative to ``folder``. ``before`` are configuration files of all machines that the scenario's own override.
    ``disk`` does, or refuses, what all these ask to run or to write."""

    scenario: Scenario
    name: str = "scenario"
    folder: Path = Path()
    before: Sequence[Path] = ()
    seed: int = 0
    disk: Disk = field(factory=ReadOnlyDisk)
    _warned: set[str] = field(factory=set)
    _texts: dict[str, tuple[Text, ...]] = field(factory=dict)
    _read: dict[tuple[object, ...], Configuration] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        before = [self._file(str(path.absolute()), 0) for path in self.before]
        for machine in self.scenario.machines:
            mine = [source for source in self.scenario.sources if source.machine in ("", machine.name)]
            self._texts[machine.name] = (*before, *map(self._text, mine))

    def _text(self, source: ConfigurationSource) -> Text:
        if source.file:
            return self._file(str(self.folder / source.file), source.line)
        # The lines keep the numbers that they have in the scenario.
        return self.name, "\n" * source.line + source.text

    def _file(self, path: str, line: int) -> Text:
        try:
            return path, self.disk.read(path)
        except OSError as error:
            raise PlayError(f"the configuration {path} cannot be read: {error.strerror or error}", line) from None

    def machine(self, name: str) -> ScenarioMachine:
        return next(machine for machine in self.scenario.machines if machine.name == name)

    def configuration(self, machine: ScenarioMachine, daemon: str = "STARTD") -> Configuration:
        """Return the machine's current configuration. Machines alike share one, unless it asks for their names."""
        texts = self._texts[machine.name]
        named = any("HOSTNAME" in text.upper() for _, text in texts)
        key = (texts, machine.cores, machine.memory, machine.name if named else "", daemon)
        if key not in self._read:
            counts = ("DETECTED_CORES", "DETECTED_CPUS", "DETECTED_PHYSICAL_CPUS", "DETECTED_CPUS_LIMIT")
            detected = {
                "ARCH": ARCH,
                "OPSYS": OPSYS,
                **dict.fromkeys(counts, str(machine.cores)),
                "DETECTED_MEMORY": str(machine.memory),
                "HOSTNAME": machine.name.partition(".")[0],
                "FULL_HOSTNAME": machine.name,
                "CONFIG_ROOT": str(self.folder),
            }
            self._read[key] = read(
                texts,
                files=self.disk,
                environment=dict(os.environ),
                detected=detected,
                subsystem=daemon,
                seed=self.seed,
            )
        return self._read[key]

    def new_warnings(self) -> list[str]:
        """Return the warnings of all current configurations that were not returned before."""
        found = [self.configuration(machine).warnings for machine in self.scenario.machines]
        of_pool: list[str] = []
        with suppress(ConfigError):  # which the pool raises when it reads its configuration
            self._followed(of_pool.append)
        found.append(of_pool)
        new = [warning for warning in dict.fromkeys(chain(*found)) if warning not in self._warned]
        self._warned.update(new)
        return new

    def joining(self, id: str, machine: ScenarioMachine) -> AddMachine:
        """Return the stimulus that adds the machine to the pool. Raise PlayError if its configuration is invalid."""
        try:
            return offer(id, machine.name, self.configuration(machine), _equipment(machine))
        except (ConfigError, SlotTypeError) as error:
            raise PlayError(f"the configuration of {machine.name}: {error}", machine.line) from None

    def reconfigured(self, id: str, name: str, state: State, line: int) -> Reconfigure:
        """Return the stimulus with which the machine reads its configuration again. Raise PlayError if its
        configuration is invalid."""
        machine, there = self.machine(name), state.machines[name]
        try:
            configuration = self.configuration(machine)
            return reconfigured(id, there, there.slots.values(), configuration, _equipment(machine))
        except (ConfigError, SlotTypeError) as error:
            raise PlayError(f"the configuration of {name}: {error}", line) from None

    @property
    def first(self) -> str:
        """The machine of the negotiator and the schedd: the pool follows its configuration."""
        return self.scenario.machines[0].name

    def _followed(self, warn: Callable[[str], None]) -> Ad:
        first = self.machine(self.first)
        return followed(lambda daemon: self.configuration(first, daemon), warn)

    def configured(self, id: str, line: int) -> ConfigurePool:
        """Return the stimulus with which the pool reads the configuration. Raise PlayError if it is invalid."""
        try:
            return ConfigurePool(id, self._followed(lambda warning: None))
        except ConfigError as error:
            raise PlayError(f"the configuration of {self.first}: {error}", line) from None

    def replace(self, name: str, sources: Sequence[ConfigurationSource]) -> None:
        """Replace all that the scenario says of the machine's configuration."""
        before = self._texts[name][: len(self.before)]
        self._texts[name] = (*before, *map(self._text, sources))

    def add(self, name: str, setting: str, value: str, line: int) -> None:
        """Add a line at the end of the machine's configuration."""
        self._texts[name] = (*self._texts[name], (self.name, "\n" * (line - 1) + f"{setting} = {value}\n"))
