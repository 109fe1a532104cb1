"""The machines of a scenario as the pool knows them: under their configurations, with what is detected on them.

Nothing here depends on the machine that plays: each machine of a scenario is an X86_64 under Linux, with the cores and
the memory that the scenario says.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from attrs import define, field

from ...domain.config import ConfigError, Configuration, read
from ...domain.events import Ad
from ...domain.negotiator.pool_configuration import followed
from ...domain.ports.stimuli import AddMachine, ConfigurePool, Reconfigure
from ...domain.startd.provisioning import Equipment, Volume, offer, reconfigured
from ...domain.startd.slot_types import SlotTypeError
from ...domain.state.job_ad import quoted
from ...domain.state.state import State
from ...replay.scenario import ConfigurationSource, PlayError, Scenario, ScenarioMachine
from ..machine.host import CONDOR_VERSION
from ..runtime.configuration import Disk

DOMAIN = "example.org"
ARCH, OPSYS = "X86_64", "LINUX"
PLATFORM = "$CondorPlatform: x86_64_Linux $"
Text = tuple[str, str]
"""A part of a configuration: where it stands, and its text."""


def system() -> Ad:
    """What every machine of a scenario says of itself."""
    return {
        "Arch": quoted(ARCH),
        "OpSys": quoted(OPSYS),
        "CondorVersion": quoted(CONDOR_VERSION),
        "CondorPlatform": quoted(PLATFORM),
        "FileSystemDomain": quoted(DOMAIN),
        "UidDomain": quoted(DOMAIN),
    }


def _equipment(machine: ScenarioMachine) -> Equipment:
    """What is detected on a machine."""
    volume = Volume("disk", machine.disk, machine.disk)
    return Equipment(machine.cores, machine.memory, machine.memory * 1024, {"": volume}, system())


@define
class ScenarioMachines:
    """The machines, and the configuration of each as it is now. ``name`` is what the scenario's file is called,
    ``folder`` where it lies: the files that it names are looked for there. ``before`` are configuration files that
    count for all machines, before what the scenario says."""

    scenario: Scenario
    name: str = "scenario"
    folder: Path = Path()
    before: Sequence[Path] = ()
    seed: int = 0
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
            return path, Disk().read(path)
        except OSError as error:
            raise PlayError(f"the configuration {path} cannot be read: {error.strerror or error}", line) from None

    def machine(self, name: str) -> ScenarioMachine:
        return next(machine for machine in self.scenario.machines if machine.name == name)

    def configuration(self, machine: ScenarioMachine, daemon: str = "STARTD") -> Configuration:
        """The machine's configuration as it is now. Machines alike share one, unless it asks for their names."""
        texts = self._texts[machine.name]
        named = any("HOSTNAME" in text.upper() for _, text in texts)
        key = (texts, machine.cores, machine.memory, machine.name if named else "", daemon)
        if key not in self._read:
            detected = {
                "ARCH": ARCH,
                "OPSYS": OPSYS,
                "DETECTED_CORES": str(machine.cores),
                "DETECTED_CPUS": str(machine.cores),
                "DETECTED_PHYSICAL_CPUS": str(machine.cores),
                "DETECTED_CPUS_LIMIT": str(machine.cores),
                "DETECTED_MEMORY": str(machine.memory),
                "HOSTNAME": machine.name.partition(".")[0],
                "FULL_HOSTNAME": machine.name,
                "CONFIG_ROOT": str(self.folder),
            }
            self._read[key] = read(
                texts, files=Disk(), environment=dict(os.environ), detected=detected, subsystem=daemon, seed=self.seed
            )
        return self._read[key]

    def warnings(self) -> list[str]:
        """What is allowed in the configurations and probably not meant, each once."""
        found = [self.configuration(machine).warnings for machine in self.scenario.machines]
        return list(dict.fromkeys(warning for warnings in found for warning in warnings))

    def joining(self, id: str, machine: ScenarioMachine) -> AddMachine:
        """The machine joins the pool.

        :raises PlayError: its configuration cannot be
        """
        try:
            return offer(id, machine.name, self.configuration(machine), _equipment(machine))
        except (ConfigError, SlotTypeError) as error:
            raise PlayError(f"the configuration of {machine.name}: {error}", machine.line) from None

    def reconfigured(self, id: str, name: str, state: State, line: int) -> Reconfigure:
        """The machine reads its configuration again.

        :raises PlayError: it is none
        """
        machine, there = self.machine(name), state.machines[name]
        try:
            configuration = self.configuration(machine)
            return reconfigured(id, there, there.slots.values(), configuration, _equipment(machine))
        except (ConfigError, SlotTypeError) as error:
            raise PlayError(f"the configuration of {name}: {error}", line) from None

    @property
    def first(self) -> str:
        """The machine on which the pool's negotiator and queue are: the pool follows its configuration."""
        return self.scenario.machines[0].name

    def configured(self, id: str, line: int) -> ConfigurePool:
        """The pool reads the configuration.

        :raises PlayError: it is none
        """
        try:
            first = self.machine(self.first)
            return ConfigurePool(id, followed(lambda daemon: self.configuration(first, daemon)))
        except ConfigError as error:
            raise PlayError(f"the configuration of {self.first}: {error}", line) from None

    def replace(self, name: str, sources: Sequence[ConfigurationSource]) -> None:
        """From now on this is all that the scenario says of the machine's configuration."""
        before = self._texts[name][: len(self.before)]
        self._texts[name] = (*before, *map(self._text, sources))

    def add(self, name: str, setting: str, value: str, line: int) -> None:
        """One more line at the end of the machine's configuration."""
        self._texts[name] = (*self._texts[name], (self.name, "\n" * (line - 1) + f"{setting} = {value}\n"))
