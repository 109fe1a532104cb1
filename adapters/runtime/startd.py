"""This machine as the pool's execution point, with the slots that its configuration defines.

It joins the pool when the pool is served, applies reconfigurations, and restarts or exits after a drain (``condor_drain
-restart-on-completion``) or a shutdown (``condor_restart -startd``). ``domain/startd/provisioning.py`` computes the
slots of a configuration, ``domain/startd/machines.py`` decides whether they may change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attrs import define, evolve, field
from msgspec.structs import replace

from ...domain.config import Configuration
from ...domain.decide import Refusal
from ...domain.decide.pool_configuration import Load, configured_pool_settings
from ...domain.events import Ad, DrainBegan, DrainTransitioned, Event, ShutdownBegan
from ...domain.ports import stimuli as s
from ...domain.startd.draining import SLOTS_CHANGED
from ...domain.startd.provisioning import Equipment, SlotTypeError, machine_offer, reconfiguration
from ...domain.state.records import Machine, Slot
from ...domain.state.state import AccessPoint, acts_as
from ...domain.state_machines.drain import RESTART
from ..machine.containers import container_problems
from ..machine.core_files import limit_core_files
from ..machine.detection import default_configuration, machine_equipment, system_ad
from ..machine.host import host_name
from ..machine.transfer_plugins import plugin_problems
from .engine import Engine
from .local_world import LocalWorld


@define
class ExecutionPoint:
    """A machine of the pool."""

    engine: Engine
    world: LocalWorld
    folder: Path  #: the directory in which jobs run
    tell: Callable[[str], None]  #: called with messages for the machine's administrator
    load: Load | None = None  #: reads the configuration; None: there is no configuration, and START is true
    static: int = 0  #: without a configuration, the number of equal slots; 0: one partitionable slot
    given: Mapping[str, int] = field(factory=dict)  #: Cpus and Memory to offer instead of the detected values
    ignore_unenforced: bool = False  #: accept a configuration whose policy Poolbook does not enforce
    benchmarks: bool = False  #: without a configuration, whether the machine's speed is measured
    name: str = field(factory=host_name)
    _completion: str = ""  #: the action after the current drain
    _again: bool = False  #: whether to reread the configuration because a drain has ended
    _restarts: bool = False  #: whether to rejoin the pool after the current shutdown

    def __attrs_post_init__(self) -> None:
        machine = self._machine()
        if machine is not None and machine.drain is not None:
            self._completion = machine.drain.completion
        self._restarts = machine is not None and machine.restart
        self.engine.subscribe(self._process_events)

    def _machine(self) -> Machine | None:
        return self.engine.state.machines.get(self.name)

    def _slots(self) -> list[Slot]:
        return [slot for slot in self.engine.state.slots.values() if slot.machine == self.name]

    def _configuration(self) -> Configuration:
        """Read the configuration. Raise `ConfigError` if it cannot be read, or has a policy that Poolbook does not
        enforce."""
        if self.load is None:
            return default_configuration(self.static, benchmarks=self.benchmarks)
        configuration = self.load("STARTD")
        if not self.ignore_unenforced:
            configuration.check_enforced("start with -ignore-unenforced")
        return configuration

    def _equipment(self, configuration: Configuration) -> Equipment:
        # The pool's own domains: its configuration may not be in force yet, and is read here anyway.
        detected = machine_equipment(configuration, self.folder, system_ad(self.engine.state.founding_settings))
        cpus = max(self.given.get("Cpus", detected.cpus), self.static)
        return evolve(detected, cpus=cpus, memory=self.given.get("Memory", detected.memory))

    # Joining, and taking another configuration

    def join(self) -> None:
        """Join the pool with the configured slots. A machine that is already in the pool keeps its slots while jobs run
        in them, and reports that in a message. Raise `ConfigError` if the configuration is invalid, `SlotTypeError` if
        this machine cannot provide its slots."""
        configuration = self._configuration()
        machine = self._machine()
        if machine is not None:  # apply it before jobs start and the policy is evaluated; suspended jobs stay suspended
            self._sense_by(configuration)
        self._configure_pool(self._pool_settings(lambda text: self.tell(f"warning: {text}")))
        if machine is None:
            self.come_back()
            return
        refused = self._apply_configuration(configuration)
        if not refused:
            return
        jobs = any(slot.claim or slot.name in self.engine.state.slot_matches for slot in self._slots())
        if jobs or machine.backfill is not None:
            reason = "Jobs run" if jobs else "A backfill client runs"
            self.tell(f"{refused}. {reason} in these slots: they stay as they are until `poolbook reconfig` drains it")
            return
        self.engine.handle([s.RemoveMachine(self.engine.id("machine"), self.name)])
        self.come_back()

    def come_back(self) -> list[str]:
        """Rejoin a pool that the machine has left; return warnings for the client. Raise `Refusal` if it is in the
        pool, `ConfigError` if the configuration is invalid, `SlotTypeError` if this machine cannot provide its
        slots."""
        machine = self._machine()
        if machine is not None:
            going = " and will leave it when its jobs have ended" if machine.shutdown else " already"
            raise Refusal(f"machine {self.name} is in the pool{going}")
        configuration = self._configuration()
        joins = machine_offer(self.engine.id("machine"), self.name, configuration, self._equipment(configuration))
        self._sense_by(configuration)
        self.engine.ask(joins)
        return _warnings(configuration)

    def reconfigure(self) -> list[str]:
        """Read and apply the configuration; return warnings for the client. If it is invalid, the current one stays in
        force. If it changes the machine's slots, the machine is drained first. Raise `Refusal` if the machine is not in
        the pool, or must be drained but cannot, `ConfigError` if the configuration is invalid."""
        without_effect: list[str] = []
        settings = self._pool_settings(without_effect.append)
        warnings = self._reconfigure_machine()
        self._configure_pool(settings)
        return [*warnings, *without_effect]

    def _pool_settings(self, warn: Callable[[str], None]) -> Ad:
        return {} if self.load is None else configured_pool_settings(self.load, warn)

    def _configure_pool(self, settings: Ad) -> None:
        self.engine.ask(s.ConfigurePool(self.engine.id("reconfigure"), settings))

    def _reconfigure_machine(self) -> list[str]:
        configuration = self._configuration()
        if self.load is not None:
            self.world.check(configuration)  # find errors before anything is changed
        refused = self._apply_configuration(configuration, drains=True)
        if refused:
            raise Refusal(refused)
        machine = self._machine()
        if machine is not None and machine.drain is not None and machine.drain.cause == SLOTS_CHANGED:
            rebuilding = f"{machine.drain.reason}; {self.name} is drained, and then has the new slots"
            self.tell(rebuilding)
            return [rebuilding]
        self._sense_by(configuration, wait=False)
        return _warnings(configuration)

    def _apply_configuration(self, configuration: Configuration, drains: bool = False) -> str:
        """Apply this configuration; return an error message if it is invalid. ``drains``: as in `Reconfigure`."""
        machine = self._machine()
        if machine is None:
            return f"machine {self.name} is not in the pool: `poolbook on` returns it"
        id = self.engine.id("reconfigure")
        try:
            command = reconfiguration(id, machine, self._slots(), configuration, self._equipment(configuration))
        except SlotTypeError as error:
            return str(error)
        (answer,) = self.engine.handle([replace(command, drains=drains)])
        return answer.refusal

    def _sense_by(self, configuration: Configuration, wait: bool = True) -> None:
        """Use the configuration's sensors; with ``wait``, wait briefly for the first reading of each."""
        for warning in _warnings(configuration):
            self.tell(f"warning: {warning}")
        self.world.configure(configuration, acts_as(self.engine.state, AccessPoint))
        limit_core_files(configuration)
        if wait:
            self.world.warm_up()

    def _process_events(self, first: int, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, DrainBegan) and event.machine == self.name:
                self._completion = event.completion
            elif isinstance(event, DrainTransitioned) and event.machine == self.name and event.target == "Open":
                self._again = event.row == "resume" and self._completion == "reconfig"
            elif isinstance(event, ShutdownBegan) and event.machine == self.name:
                self._restarts = event.restart

    def follow_up(self) -> None:
        """Execute the next step after a finished drain or shutdown: leave the pool, rejoin it, or read the
        configuration again."""
        try:
            if self._again:
                self._again = False
                self._reconfigure_machine()
            self._leave_after_drain()
            if self._restarts and self._machine() is None:
                self._restarts = False
                self.come_back()
        except (ValueError, Refusal) as error:
            self.tell(f"the step after the drain or shutdown failed: {error}")

    def _leave_after_drain(self) -> None:
        machine = self._machine()
        if machine is not None and machine.drain is not None and machine.drain.state == "Stopped":
            completion = machine.drain.completion
            self.engine.handle([s.RemoveMachine(self.engine.id("drained"), self.name)])
            self._restarts = completion == RESTART


class RoleWithoutMachine(ExecutionPoint):
    """A separate role that has no machine: an access point or a manager. It only reads its configuration."""

    def join(self) -> None:
        self._reconfigure_machine()
        self._configure_pool(self._pool_settings(lambda text: self.tell(f"warning: {text}")))

    def come_back(self) -> list[str]:
        raise Refusal("this role has no machine: `poolbook join` runs an execution point")

    def _reconfigure_machine(self) -> list[str]:
        configuration = self._configuration()
        self.world.check(configuration)
        self.world.configure(configuration, acts_as(self.engine.state, AccessPoint))
        limit_core_files(configuration)
        return configuration.warnings

    def follow_up(self) -> None:
        return


def _warnings(configuration: Configuration) -> list[str]:
    return [*configuration.warnings, *plugin_problems(configuration), *container_problems(configuration)]
