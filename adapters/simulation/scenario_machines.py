"""The machines of a scenario: their configurations and detected equipment.

Regardless of the machine that runs the simulation, the scenario's machines are X86_64 under Linux, with the cores and
memory that the scenario gives.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from attrs import define, field
from msgspec.structs import replace

from ...domain.config import ConfigError, Configuration, read
from ...domain.decide.pool_configuration import configured_pool_settings
from ...domain.events import Ad
from ...domain.ports.sensor_readings import NOTHING_READ, Readings
from ...domain.ports.stimuli import AddMachine, ConfigurePool, Reconfigure
from ...domain.startd.provisioning import Equipment, ExecuteVolume, machine_offer, reconfiguration
from ...domain.startd.slot_types import SlotTypeError
from ...domain.state.job_ad import quoted
from ...domain.state.pool_settings import TRANSFER_LIMITS
from ...domain.state.state import State
from ...domain.units import SECOND
from ...replay.scenario import ConfigurationSource, PlayError, Scenario, ScenarioMachine, ScenarioStep
from ...replay.scenario.scenario_times import length
from ...replay.scenario.statements import NO_INPUT
from ..machine.host import CONDOR_VERSION
from ..machine.limit_policy import LimitPolicy
from ..runtime.config_sources import files_of
from ..runtime.disk import Disk, ReadOnlyDisk

DOMAIN = "example.org"
ARCH, OPSYS = "X86_64", "LINUX"
PLATFORM = "$CondorPlatform: x86_64_Linux $"
Text = tuple[str, str]  #: the location and the text of a part of a configuration


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
    """The machines, and the current configuration of each. ``name`` is the scenario's file name; the files that it
    names are relative to ``folder``. ``before`` are configuration files for all machines, or their texts, which the
    scenario's own override. ``config_files`` runs the commands and writes the files that these request, or refuses
    to."""

    scenario: Scenario
    name: str = "scenario"
    folder: Path = Path()
    before: Sequence[Path | str] = ()
    seed: int = 0
    config_files: Disk = field(factory=ReadOnlyDisk)
    _texts_before: list[Text] = field(factory=list)
    _warned: set[str] = field(factory=set)
    _texts: dict[str, tuple[Text, ...]] = field(factory=dict)
    _read: dict[tuple[object, ...], Configuration] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for path in self.before:
            self._texts_before += (
                [("the configuration", path)] if isinstance(path, str) else self._files(path.absolute(), 0)
            )
        for machine in self.scenario.machines:
            self._texts[machine.name] = tuple(self._texts_before)
            self.replace(machine.name, [each for each in self.scenario.sources if each.machine in ("", machine.name)])

    def _texts_of(self, source: ConfigurationSource) -> Sequence[Text]:
        if source.file:
            return self._files(self.folder / source.file, source.line)
        # Keep the line numbers of the scenario.
        return [(self.name, "\n" * source.line + source.text)]

    def _files(self, path: Path, line: int) -> list[Text]:
        """Return the configuration file or, of a directory, all its files."""
        try:
            return [(str(file), self.config_files.read(str(file))) for file in files_of(path)]
        except OSError as error:
            raise PlayError(f"the configuration {path} cannot be read: {error.strerror or error}", line) from None

    def machine(self, name: str) -> ScenarioMachine:
        return next(machine for machine in self.scenario.machines if machine.name == name)

    def configuration(self, machine: ScenarioMachine, daemon: str = "STARTD") -> Configuration:
        """Return the machine's current configuration. Equal machines share one, unless it refers to their names."""
        texts = self._texts[machine.name]
        names_host = any("HOSTNAME" in text.upper() for _, text in texts)
        key = (texts, machine.cores, machine.memory, machine.name if names_host else "", daemon)
        if key not in self._read:
            counts = ("DETECTED_CORES", "DETECTED_CPUS", "DETECTED_PHYSICAL_CPUS", "DETECTED_CPUS_LIMIT")
            detected_settings = {
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
                files=self.config_files,
                environment=dict(os.environ),
                detected=detected_settings,
                subsystem=daemon,
                seed=self.seed,
            )
        return self._read[key]

    def new_warnings(self) -> list[str]:
        """Return the warnings of all current configurations that were not returned before."""
        warnings = [self.configuration(machine).warnings for machine in self.scenario.machines]
        pool_warnings: list[str] = []
        with suppress(ConfigError):  # the pool raises it when it reads its configuration
            self._pool_settings(pool_warnings.append)
        warnings += [pool_warnings, self._settings_without_effect()]
        new = [warning for warning in dict.fromkeys(chain(*warnings)) if warning not in self._warned]
        self._warned.update(new)
        return new

    def _settings_without_effect(self) -> list[str]:
        """Return a warning about each configured limit that no job of a scenario can reach."""
        configurations = [self.configuration(machine) for machine in self.scenario.machines]
        return [
            f"{name} has no effect in a scenario, whose jobs have no files"
            for name in TRANSFER_LIMITS
            if any(configuration.source(name).kind != "default" for configuration in configurations)
        ]

    def join_stimulus(self, id: str, machine: ScenarioMachine) -> AddMachine:
        """Return the stimulus that adds the machine to the pool. Raise PlayError if its configuration is invalid."""
        try:
            self.limits(machine)
            return machine_offer(id, machine.name, self.configuration(machine), _equipment(machine))
        except (ConfigError, SlotTypeError) as error:
            raise PlayError(f"the configuration of {machine.name}: {error}", machine.line) from None

    def reconfigure_stimulus(self, id: str, name: str, state: State, line: int) -> Reconfigure:
        """Return the stimulus that makes the machine reread its configuration. Raise PlayError if that is invalid."""
        machine, present = self.machine(name), state.machines[name]
        try:
            configuration = self.configuration(machine)
            self.limits(machine)
            return reconfiguration(id, present, present.slots.values(), configuration, _equipment(machine))
        except (ConfigError, SlotTypeError) as error:
            raise PlayError(f"the configuration of {name}: {error}", line) from None

    def limits(self, machine: ScenarioMachine) -> LimitPolicy:
        """Return which resources the machine's jobs may not exceed. Raise ConfigError if that is invalid."""
        return LimitPolicy.from_configuration(self.configuration(machine))

    @property
    def first(self) -> str:
        """Return the machine of the negotiator and the schedd, whose configuration is the pool's."""
        return self.scenario.machines[0].name

    def _pool_settings(self, warn: Callable[[str], None]) -> Ad:
        first_machine = self.machine(self.first)
        return configured_pool_settings(lambda daemon: self.configuration(first_machine, daemon), warn)

    def configure_stimulus(self, id: str, line: int) -> ConfigurePool:
        """Return the stimulus that makes the pool read its configuration. Raise PlayError if that is invalid."""
        try:
            return ConfigurePool(id, self._pool_settings(lambda warning: None))
        except ConfigError as error:
            raise PlayError(f"the configuration of {self.first}: {error}", line) from None

    def replace(self, name: str, sources: Sequence[ConfigurationSource]) -> None:
        """Replace the scenario's part of the machine's configuration."""
        self._texts[name] = (*self._texts_before, *(text for source in sources for text in self._texts_of(source)))

    def add_setting_line(self, name: str, setting: str, value: str, line: int) -> None:
        """Add a line at the end of the machine's configuration."""
        self._texts[name] = (*self._texts[name], (self.name, "\n" * (line - 1) + f"{setting} = {value}\n"))


# The readings of a scenario's machines, line by line.

_IDLE = ("KeyboardIdle", "ConsoleIdle")


@define
class ScenarioSensors:
    """The sensors of one machine: ``lasting`` readings, and temporary readings (``passing``, by line), which override
    the lasting ones."""

    lasting: Readings = NOTHING_READ
    passing: dict[int, Readings] = field(factory=dict)
    _names: dict[int, frozenset[str]] = field(factory=dict)

    def apply(self, step: ScenarioStep, now: int, slots: tuple[str, ...], start: int) -> None:
        """Apply a line of readings to these slots or to the machine."""
        if step.verb == "unread":
            self.passing.pop(step.line, None)
            idle_values = {name: value for name, value in step.attributes.items() if name in _IDLE}
            self.lasting = _merge(self.lasting, idle_values, slots, now)  # the last key was pressed now
        elif step.until:
            until = start + step.until
            self._names[step.line] = frozenset(step.attributes)
            self.passing[step.line] = _merge(NOTHING_READ, step.attributes, slots, now, until)
        else:
            self.lasting = _merge(self.lasting, step.attributes, slots, now)

    def readings(self) -> Readings:
        readings = self.lasting
        for line, line_readings in self.passing.items():
            load = "LoadAvg" in self._names[line] and not line_readings.slots
            readings = Readings(
                readings.last_input if line_readings.last_input is None else line_readings.last_input,
                readings.last_console if line_readings.last_console is None else line_readings.last_console,
                line_readings.load if load else readings.load,
                readings.condor_load,
                {**readings.attributes, **line_readings.attributes},
                {
                    name: {**readings.slots.get(name, {}), **line_readings.slots.get(name, {})}
                    for name in {**readings.slots, **line_readings.slots}
                },
            )
        # Input at the console also counts as use of the machine.
        if (readings.last_console or 0) > (readings.last_input or 0):
            readings = replace(readings, last_input=readings.last_console)
        return readings


def _merge(readings: Readings, values: Mapping[str, str], slots: tuple[str, ...], now: int, until: int = 0) -> Readings:
    """Return the readings, overridden by a line's readings, which hold until ``until`` (0: without end)."""
    if slots:
        own = {name: _of_slot(name, value, now, until) for name, value in values.items()}
        changed_slots = {slot: {**readings.slots.get(slot, {}), **own} for slot in slots}
        return replace(readings, slots={**readings.slots, **changed_slots})
    for name, value in values.items():
        last_input = _last_input_at(value, now, until) if name in _IDLE else None
        if name == "KeyboardIdle":
            readings = replace(readings, last_input=last_input)
        elif name == "ConsoleIdle":
            readings = replace(readings, last_console=last_input)
        elif name == "LoadAvg":
            readings = replace(readings, load=float(value))
        else:
            readings = replace(readings, attributes={**readings.attributes, name: value})
    return readings


def _last_input_at(value: str, now: int, until: int) -> int | None:
    """Return the instant of the last input: ``value`` before now or, with ``until``, the end of continuous typing."""
    return None if value == NO_INPUT else (until or now - length(value))


def _of_slot(name: str, value: str, now: int, until: int) -> str:
    """Return a slot's reading as the expression that the slot publishes."""
    if name not in _IDLE or value == NO_INPUT or until:
        return "time()" if value == NO_INPUT else value
    return f"time() - {(now - length(value)) // SECOND}"
