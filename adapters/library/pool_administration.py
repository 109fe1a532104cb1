"""The methods of `Pool` for machines (configuration, sensors and slots) and for queries of submitters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...domain.config import Configuration, ConfigWarning
from ...domain.coverage.attributes import is_missing_capability
from ...domain.decide import Refusal
from ...domain.decide.pool_configuration import configured_pool_settings
from ...domain.events import Ad
from ...domain.fold.evolve import fold
from ...domain.negotiator.accounting import Standing, accountant_settings, accounts_of, standings
from ...domain.ports import stimuli as s
from ...domain.ports.log import LogClosed
from ...domain.ports.sensor_readings import Readings
from ...domain.startd.provisioning import reconfiguration
from ...domain.state.accounting_groups import group_names
from ...domain.state.negotiators import name_in_events, negotiator_named, negotiator_settings
from ...domain.state.state import State
from ...domain.submit.resources import parse_amount
from ...domain.units import SECOND
from ...replay.virtual_world import VirtualWorld
from ..machine.host import host_name
from ..runtime.configuration import load
from ..runtime.engine import Engine
from ..runtime.queries import LogBeginsLater
from .pool_commands import PoolCommands
from .python_values import instant_of, text_of

Config = str | Path | Sequence[Path]
"""A configuration: its text, or the path of its file (several: each overrides those before it)."""


class Configured:
    """A configuration, parsed for each machine, since machines differ in their detected values. Environment variables
    do not affect it. Raises `ConfigError` if the configuration is invalid, or has a policy that Poolbook does not
    enforce, unless `ignore_unenforced` accepts that."""

    def __init__(self, config: Config, ignore_unenforced: bool = False, stacklevel: int = 3) -> None:
        self._config = config
        configuration = self.read()
        if not ignore_unenforced:
            configuration.check_enforced("pass ignore_unenforced=True")
        warnings_of_pool: list[str] = []
        self.pool_settings(warnings_of_pool.append)
        for warning in (*configuration.warnings, *warnings_of_pool):
            warnings.warn(warning, ConfigWarning, stacklevel=stacklevel)

    def read(self, resources: Mapping[str, int] | None = None) -> Configuration:
        """Parse the configuration as on a machine with these resources or, by default, as on this machine."""
        names = {"Cpus": "DETECTED_CPUS", "Memory": "DETECTED_MEMORY"}
        detected = {names[name]: str(parse_amount) for name, parse_amount in (resources or {}).items() if name in names}
        return self._load("STARTD", detected)

    def pool_settings(self, warn: Callable[[str], None] = lambda words: None) -> Ad:
        """Return the settings that the pool implements; call ``warn`` for each setting without effect."""
        return configured_pool_settings(lambda daemon: self._load(daemon, {}), warn)

    def _load(self, daemon: str, detected: Mapping[str, str]) -> Configuration:
        config = self._config
        if isinstance(config, str):
            return load(text=config, environment={}, detected=detected, subsystem=daemon)
        files = [config] if isinstance(config, Path) else config
        return load(files, environment={}, detected=detected, subsystem=daemon)


class Machines(PoolCommands):
    """The methods of `Pool` for machines, and its commands."""

    _administrator = "root"
    _configured: Configured | None
    _readings: dict[str, dict[str, object]]

    def _set_engine(self, engine: Engine, configured: Configured | None) -> None:
        self._opened, self._configured = engine, configured
        self._closed = False
        self._readings = {}

    @property
    def _engine(self) -> Engine:
        if self._closed:
            raise LogClosed("the pool was closed: `Pool.open` opens its log again")
        return self._opened

    @property
    def state(self) -> State:
        """Return the live state. The caller must not change it, and its fields are not stable."""
        return self._engine.state

    def _ask(self, stimulus: s.Stimulus) -> Any:
        return self._engine.ask(stimulus)

    def _new_id(self, command: str) -> str:
        return self._engine.id(command)

    def _is_queued(self, jobs: Sequence[tuple[int, int | None]]) -> Sequence[bool]:
        clusters = self._engine.state.clusters
        return [cluster in clusters and (proc is None or proc in clusters[cluster]) for cluster, proc in jobs]

    def configure(self, config: Config, *, ignore_unenforced: bool = False) -> None:
        """Apply another configuration (in the form of `open`) immediately to the pool's negotiator and submissions, and
        to machines added from now on. Present machines keep theirs: see `reconfigure`.

        >>> pool.configure("PREEMPTION_REQUIREMENTS = RemoteUserPrio > SubmitterUserPrio * 1.2")

        :param ignore_unenforced: as for `open`
        :raises ConfigError: the configuration is invalid
        :warns ConfigWarning: a setting has no effect, or not the likely intended one
        """
        configured = Configured(config, ignore_unenforced, stacklevel=4)
        self._ask(s.ConfigurePool(self._engine.id("reconfigure"), configured.pool_settings()))
        self._configured = configured

    def negotiate(self, *, negotiator: str = "") -> None:
        """Start a negotiation cycle now or, if the interval between cycles is configured, as soon as
        NEGOTIATOR_CYCLE_DELAY allows. The pool starts a cycle automatically whenever one may find a match (with a
        configured interval, when a job is submitted or released), and every NEGOTIATOR_INTERVAL.

        :param negotiator: the negotiator, if the pool has several
        """
        self._engine.reschedule(negotiator)
        self._engine.handle([])

    def add_machine(
        self,
        name: str = "",
        *,
        cpus: int = 1,
        memory: int | str = 1024,
        disk: int | str = 100_000_000,
        static: int = 0,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Add a machine with one partitionable slot, or with `static` equal ones. If the pool has a configuration, that
        defines the slots and their policy instead.

        >>> pool.add_machine("node2", cpus=8, memory="16 GB", attributes={"HasGlobalScratch": "true"})

        :param memory: in MiB, or a text with a unit as in a submit description: "4 GB"
        :param disk: in KiB, or a text with a unit
        :param attributes: further attributes of its slots' ads, as expressions
        :raises ValueError: a resource is invalid
        :raises SlotTypeError: the machine's resources do not suffice for the configured slots
        :raises Refusal: the pool already has a machine of this name
        :warns ConfigWarning: an attribute advertises an ability that slots do not have
        """
        resources = {
            "Cpus": _amount_in_units(cpus, "cpus", "cores"),
            "Memory": _amount_in_units(memory, "memory", "MiB", 1024**2),
            "Disk": _amount_in_units(disk, "disk", "KiB", 1024),
        }
        if isinstance(static, bool) or not isinstance(static, int):
            raise ValueError(f"static = {static!r}: give a whole number of slots")
        if self._configured is not None and static:
            raise ValueError("the pool's configuration defines the slots: set NUM_SLOTS in it instead of static=")
        for promised in filter(is_missing_capability, attributes or ()):
            text = f"{promised}: slots would advertise what Poolbook does not support"
            warnings.warn(text, ConfigWarning, stacklevel=3)
        from ..machine.detection import machine

        host, id = name or host_name(), self._engine.id("machine")
        configuration = None if self._configured is None else self._configured.read(resources)
        self._ask(machine(id, host, resources, self._engine.state.settings, static, attributes, configuration))

    def remove_machine(self, name: str) -> None:
        """Remove a machine without running jobs from the pool."""
        self._ask(s.RemoveMachine(self._engine.id("machine"), name))

    def reconfigure(self, machine: str, config: Config, *, ignore_unenforced: bool = False) -> None:
        """Apply another configuration (in the form of `open`) to a machine. Its slots must stay the same. The pool's
        negotiator keeps its configuration: see `configure`.

        >>> pool.reconfigure("node1", "START = KeyboardIdle > 900")

        :param ignore_unenforced: as for `open`
        :raises Refusal: unknown machine, or its slots would change
        :raises ConfigError: the configuration is invalid
        :warns ConfigWarning: a setting has no effect, or not the likely intended one
        """
        present = self._engine.state.machines.get(machine)
        if present is None:
            raise Refusal(f"unknown machine {machine}: `add_machine` adds one")
        slots = [slot for slot in self._engine.state.slots.values() if slot.machine == machine]
        from ..machine.detection import equipment_of

        equipment = equipment_of(present, slots, self._engine.state.settings)
        resources = {"Cpus": equipment.cpus, "Memory": equipment.memory}
        configuration = Configured(config, ignore_unenforced, stacklevel=4).read(resources)
        self._ask(reconfiguration(self._engine.id("reconfigure"), present, slots, configuration, equipment))
        from ..runtime.local_world import LocalWorld

        world = self._engine.world
        if isinstance(world, LocalWorld):
            world.configure(configuration)

    def read(self, /, machine: str, **readings: object) -> None:
        """Set a machine's sensor readings from now on, in virtual time: KeyboardIdle and ConsoleIdle (seconds before
        now), LoadAvg (without the jobs'), and any further attributes of all its slots.

        >>> pool.read("node1", KeyboardIdle=0, LoadAvg=0.8)

        :raises Refusal: time is real: the pool reads the real sensors
        """
        world = self._engine.world
        if not isinstance(world, VirtualWorld):
            raise Refusal("readings can only be set in virtual time: in real time, this machine's sensors count")
        machine_readings = self._readings.setdefault(machine, {})
        for name, value in readings.items():
            machine_readings[name] = world.now() - round(float(str(value)) * SECOND) if name in _INSTANTS else value
        typed, at_console = (machine_readings.get(name) for name in _INSTANTS)
        others = {
            name: text_of(value) for name, value in machine_readings.items() if name not in (*_INSTANTS, "LoadAvg")
        }
        load = float(str(machine_readings.get("LoadAvg", 0.0)))
        world.set_readings(machine, Readings(_instant(typed), _instant(at_console), load, attributes=others))


_INSTANTS = ("KeyboardIdle", "ConsoleIdle")  #: readings that are an elapsed time: their instant is stored


def _amount_in_units(value: int | str, name: str, counted: str, unit: int = 0) -> int:
    """Return the amount of a resource in units named `counted`, of `unit` bytes each (0: not bytes)."""
    parsed = parse_amount(value, unit) if isinstance(value, str) and unit else None
    number = value if parsed is None else parsed[0]
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        hint = ", or a text with a unit such as '4 GB'" if unit else ""
        raise ValueError(f"{name} = {value!r}: a machine has a whole number of {counted}, at least 1; give one{hint}")
    return number


def _instant(value: object) -> int | None:
    return value if isinstance(value, int) else None


class Submitters(Machines):
    """The methods of `Pool` for queries of submitters."""

    def _state_at(self, at: float | None) -> tuple[State, int]:
        """Return the state at an instant in seconds, or now, and this instant in microseconds."""
        if at is None:
            return self._engine.state, self._engine.world.now()
        log, instant = self._engine.log, instant_of(at, "at")
        position = log.position_at(instant)
        if not position:
            raise LogBeginsLater(next(event.at for _, event in log.read(0, 1)))
        return fold(log.read(0, position)), instant

    def submitters(self, *, negotiator: str = "", at: float | None = None) -> list[Standing]:
        state, now = self._state_at(at)
        try:
            name = negotiator_named(state.settings, negotiator)
        except LookupError as error:
            raise Refusal(str(error)) from None
        settings = negotiator_settings(state.settings, name)
        accounted = state.accounted.get(name, 0) if name_in_events(name) else state.priorities_updated_at
        books = accounts_of(state.submitters, name_in_events(name)).values()
        return standings(books, accountant_settings(settings), group_names(settings), accounted, now, now)
