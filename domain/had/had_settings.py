"""The settings of high availability: in a manager's configuration, and in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ..coverage.settings import DAEMON_LIST, is_manager_option, parse_daemon_list
from ..events import Ad
from ..names import NEGOTIATOR
from ..state.pool_settings import HAD, invalid_value
from ..state_machines import Dialect
from ..units import SECOND
from .election import HadPolicy

if TYPE_CHECKING:
    from ..config import Configuration


_UNCONTROLLABLE: Final = frozenset({"MASTER", "COLLECTOR"})
FAST: Final = 4  #: seconds; the stabilization period `fast`, in which a takeover takes less than five seconds


def hosts(text: str) -> tuple[str, ...]:
    """Return the hosts in HAD_LIST or REPLICATION_LIST, such as `<cm1.example.org:9618>, cm2.example.org:9618`."""
    entries = (entry.strip("<>") for entry in text.replace(",", " ").split())
    return tuple(entry.partition("?")[0].rpartition(":")[0] or entry for entry in entries)


def configured_settings(configuration: Configuration) -> Ad:
    """Return the settings of high availability in a manager's configuration that differ from the defaults. The
    result is empty unless HAD is in DAEMON_LIST.

    :raises ConfigError: if a value is invalid, or this machine is not in HAD_LIST or REPLICATION_LIST
    """
    daemons = parse_daemon_list(configuration.get(DAEMON_LIST))
    if "HAD" not in daemons:
        return {}
    names = {configuration.get(name).lower() for name in ("FULL_HOSTNAME", "HOSTNAME", "IP_ADDRESS")}
    settings = {"HAD_NAME": _own_entry(configuration, "HAD_LIST", names)}
    for name, properties in HAD.items():
        text = " ".join(configuration.get(name, properties.default).split())
        text = {"yes": "true", "no": "false"}.get(text.lower(), text)
        if problem := invalid_value(name, text):
            raise configuration.error(name, problem)
        if name != "HAD_NAME" and text != properties.default:
            settings[name] = text
    controllee = settings.get("HAD_CONTROLLEE", NEGOTIATOR).upper()
    if controllee in _UNCONTROLLABLE or (controllee != NEGOTIATOR and is_manager_option(controllee)):
        problem = "it runs at each manager; name NEGOTIATOR or another daemon of the master"
        raise configuration.error("HAD_CONTROLLEE", f"HAD_CONTROLLEE = {controllee}: {problem}")
    settings["HAD_LIST"] = " ".join(hosts(settings["HAD_LIST"]))
    if configuration.get("HAD_USE_REPLICATION").lower() == "true":
        _own_entry(configuration, "REPLICATION_LIST", names)
        if "REPLICATION" not in daemons:
            raise configuration.error("HAD_USE_REPLICATION", "HAD_USE_REPLICATION: REPLICATION is not in DAEMON_LIST")
    return settings


def _own_entry(configuration: Configuration, setting: str, names: set[str]) -> str:
    listed = hosts(configuration.get(setting))
    own = [host for host in listed if host.lower() in names]
    if not own:
        host = configuration.get("FULL_HOSTNAME")
        raise configuration.error(setting, f"{setting} = {' '.join(listed)}: add this machine, {host}")
    return own[0]


def policy_in_force(settings: Mapping[str, str], dialect: Dialect) -> HadPolicy | None:
    """Return the policy in a manager's settings, or None if the manager has no others beside it."""
    managers = tuple(settings.get("HAD_LIST", "").split())
    if settings.get("HAD_NAME", "") not in managers:
        return None
    return HadPolicy(
        managers, managers.index(settings["HAD_NAME"]), is_set(settings, "HAD_USE_PRIMARY"),
        _interval(settings, len(managers), dialect),
    )  # fmt: skip


def _interval(settings: Mapping[str, str], managers: int, dialect: Dialect) -> int:
    """Return the time between decisions, of which a takeover takes at most three: the manual's stabilization period is
    ``12 * managers * HAD_CONNECTION_TIMEOUT``."""
    period = settings.get("HAD_STABILIZATION_PERIOD", "")
    if period:
        return round((FAST if period == "fast" else float(period)) * SECOND) // 3
    timeout = int(settings.get("HAD_CONNECTION_TIMEOUT", HAD["HAD_CONNECTION_TIMEOUT"].default))
    margin = 2 if dialect.adds_margin_to_had_interval else 0
    return max(1, 4 * managers * timeout + margin) * SECOND


def is_set(settings: Mapping[str, str], name: str) -> bool:
    """Return the value of a boolean setting of high availability."""
    return settings.get(name, HAD[name].default).lower() == "true"


def controls_negotiator(settings: Mapping[str, str]) -> bool:
    return settings.get("HAD_CONTROLLEE", NEGOTIATOR).upper() == NEGOTIATOR
