"""The settings of the master: when daemons are started again, how they are stopped, and which mails are sent."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from attrs import evolve, field, frozen

from ..names import NEGOTIATOR
from ..settings_classes import setting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..config import Configuration

SPEEDS: Final = ("Peaceful", "Graceful", "Fast", "Kill")
"""How a daemon is stopped, from slow to fast: it waits for its jobs; vacates them; kills them; is killed."""
NEVER: Final = "Never"


@frozen
class BackOff:
    """How long the master waits before it starts a daemon again; in seconds."""

    constant: int = 9
    factor: float = 2.0
    ceiling: int = 3600
    recover: int = 300  #: of running, after which earlier deaths are forgotten

    def seconds(self, deaths: int) -> int:
        """Return the wait after a death that follows a number of deaths in a row."""
        return int(min(self._unlimited(deaths), self.ceiling))

    def is_exhausted(self, deaths: int) -> bool:
        """Return True if the wait cannot become longer."""
        return self._unlimited(deaths) > self.ceiling

    def _unlimited(self, deaths: int) -> float:
        try:
            return self.constant - (-(self.factor**deaths) // 1)  # the power is rounded up
        except OverflowError:
            return float("inf")


@frozen
class MasterPolicy:
    """The settings in force. Times are in seconds."""

    back_off: BackOff = BackOff()
    back_offs: Mapping[str, BackOff] = field(factory=dict)  #: of daemons with separate settings
    gives_up: bool = False  #: dialect `manual`: a daemon that continues to die is not started again
    starts_daemons: bool = field(default=True, metadata=setting("START_DAEMONS", bool))
    starts_master: bool = field(default=True, metadata=setting("START_MASTER", bool))
    obituaries: bool = field(default=True, metadata=setting("PUBLISH_OBITUARIES", bool))
    obituary_lines: int = field(default=200, metadata=setting("OBITUARY_LOG_LENGTH", int))
    graceful_timeout: int = field(default=1800, metadata=setting("SHUTDOWN_GRACEFUL_TIMEOUT", int))
    fast_timeout: int = field(default=300, metadata=setting("SHUTDOWN_FAST_TIMEOUT", int))
    check_interval: int = field(default=300, metadata=setting("MASTER_CHECK_NEW_EXEC_INTERVAL", int))  #: 0: never
    new_binary_delay: int = field(default=120, metadata=setting("MASTER_NEW_BINARY_DELAY", int))
    controlled: Mapping[str, str] = field(factory=dict)
    """The daemons that HAD starts where the manager is active, each with the process of which HAD is a part."""
    new_binary: str = "Graceful"  #: how to stop for a new version: a row of `SPEEDS`, or `NEVER`

    def back_off_of(self, daemon: str) -> BackOff:
        return self.back_offs.get(daemon, self.back_off)


def read_policy(
    configuration: Configuration, daemons: Collection[str], gives_up: bool, with_had: Iterable[str] = ()
) -> MasterPolicy:
    """Return the policy in a configuration. Raise `ConfigError` if a value is invalid.

    :param with_had: the daemons that HAD is a part of: MASTER_HAD_BACKOFF_CONSTANT applies to them if it is longer
    """
    values = configuration.field_values(MasterPolicy)
    for name in ("SHUTDOWN_GRACEFUL_TIMEOUT", "SHUTDOWN_FAST_TIMEOUT", "MASTER_NEW_BINARY_DELAY"):
        _at_least(configuration, name, configuration.integer(name, 1), 1)
    _at_least(configuration, "MASTER_CHECK_NEW_EXEC_INTERVAL", values["check_interval"], 0)
    general = _back_off(configuration, "MASTER", BackOff())
    back_offs = {name: _back_off(configuration, f"MASTER_{name}", general) for name in daemons}
    had = _back_off(configuration, "MASTER_HAD", general).constant
    for name in with_had:
        back_offs[name] = evolve(back_offs[name], constant=max(had, back_offs[name].constant))
    controlled = {name: had for had in with_had for name in _controlled(configuration, daemons)}
    return MasterPolicy(
        general, back_offs, gives_up, controlled=controlled, new_binary=_new_binary(configuration), **values
    )


def _controlled(configuration: Configuration, daemons: Collection[str]) -> Iterator[str]:
    """Yield the daemons that HAD controls, except the negotiator, which is a part of the manager."""
    for name in daemons:
        if configuration.get(f"MASTER_{name}_CONTROLLER").upper() == "HAD":
            yield name
    controllee = configuration.get("HAD_CONTROLLEE", NEGOTIATOR).upper()
    if controllee in daemons:
        yield controllee
    elif controllee != NEGOTIATOR:
        raise configuration.error("HAD_CONTROLLEE", f"HAD_CONTROLLEE = {controllee}: add it to DAEMON_LIST")


def _back_off(configuration: Configuration, prefix: str, default: BackOff) -> BackOff:
    names = {name: f"{prefix}_{name}" for name in ("BACKOFF_CONSTANT", "BACKOFF_CEILING", "RECOVER_FACTOR")}
    defaults = (default.constant, default.ceiling, default.recover)
    constant, ceiling, recover = (
        _at_least(configuration, name, configuration.integer(name, value), 1)
        for name, value in zip(names.values(), defaults, strict=True)
    )
    name = f"{prefix}_BACKOFF_FACTOR"
    factor = configuration.number(name, default.factor)
    if factor < 0:
        raise configuration.error(name, f"{name}: {factor} is out of range; it must be positive")
    return BackOff(constant, factor or default.factor, ceiling, recover)


def _new_binary(configuration: Configuration) -> str:
    name = "MASTER_NEW_BINARY_RESTART"
    mode = configuration.get(name, "GRACEFUL").strip().capitalize()
    if mode not in (*SPEEDS[:3], NEVER):
        raise configuration.error(name, f"{name}: {mode} is unknown; use GRACEFUL, PEACEFUL, FAST or NEVER")
    return mode


def _at_least(configuration: Configuration, name: str, value: int, least: int) -> int:
    if value < least:
        raise configuration.error(name, f"{name}: {value} is out of range; it must be at least {least}")
    return value
