"""The defragmentation policy in force, and the settings of the defrag daemon in a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

from ..coverage.settings import DAEMON_LIST, is_defrag, parse_daemon_list
from ..coverage.settings import DEFRAG as DAEMON
from ..events import Ad
from ..settings_classes import setting, values
from ..state.pool_settings import DEFRAG, SET_TO_EMPTY, defrag_setting, invalid_value, split_defrag

if TYPE_CHECKING:
    from ..config import Configuration

_HTCONDOR_NAMES: Final[dict[str, str]] = {"DEFRAG_DRAINING_SCHEDULE": "DEFRAG_SCHEDULE"}
"""A setting with different names in the manual and in HTCondor; HTCondor's name has precedence if both are set."""


@frozen
class DefragPolicy:
    """The settings in force; ``domain/state/settings.txt`` explains them. Expressions are strings; an empty one is not
    evaluated. A maximum of -1 means no limit."""

    name: str = field(metadata=setting("DEFRAG_NAME", str))
    interval: int = field(metadata=setting("DEFRAG_INTERVAL", int))
    update_interval: int = field(metadata=setting("DEFRAG_UPDATE_INTERVAL", int))
    per_hour: float = field(metadata=setting("DEFRAG_DRAINING_MACHINES_PER_HOUR", float))
    requirements: str = field(metadata=setting("DEFRAG_REQUIREMENTS", str))
    cancel: str = field(metadata=setting("DEFRAG_CANCEL_REQUIREMENTS", str))
    whole: str = field(metadata=setting("DEFRAG_WHOLE_MACHINE_EXPR", str))
    rank: str = field(metadata=setting("DEFRAG_RANK", str))
    start: str = field(metadata=setting("DEFRAG_DRAINING_START_EXPR", str))
    schedule: str = field(metadata=setting("DEFRAG_DRAINING_SCHEDULE", str.capitalize))
    most_draining: int = field(metadata=setting("DEFRAG_MAX_CONCURRENT_DRAINING", int))
    most_whole: int = field(metadata=setting("DEFRAG_MAX_WHOLE_MACHINES", int))

    @property
    def reason(self) -> str:
        """Return the DrainReason of the drains that this policy starts."""
        return f"Defrag {self.name}"


def policy_in_force(settings: Mapping[str, str], daemon: str = "") -> DefragPolicy | None:
    """Return the policy of a daemon (empty: DEFRAG) in a pool's settings, or None if that daemon does not run."""
    if not defrag_setting(settings, daemon, "DEFRAG_NAME"):
        return None
    return DefragPolicy(**values(DefragPolicy, lambda name, read, _: read(defrag_setting(settings, daemon, name))))


def policies_in_force(settings: Mapping[str, str]) -> dict[str, DefragPolicy]:
    """Return the policies in a pool's settings, by the names of the daemons (empty: DEFRAG), in alphabetical order."""
    daemons = sorted([split_defrag(name)[0] for name in settings if name.endswith("DEFRAG_NAME")])
    policies = ((daemon, policy_in_force(settings, daemon)) for daemon in daemons)
    return {daemon: policy for daemon, policy in policies if policy is not None}


def configured_settings(configuration: Configuration) -> Ad:
    """Return the settings in a configuration of the defrag daemons in DAEMON_LIST: their names, and the settings that
    differ from the defaults. Those of DEFRAG2 are named DEFRAG2.DEFRAG_NAME and so on.

    :raises ConfigError: if a value is invalid
    """
    settings: Ad = {}
    for daemon in sorted(filter(is_defrag, parse_daemon_list(configuration.get(DAEMON_LIST)))):
        own, prefix = (configuration, "") if daemon == DAEMON else (configuration.of_daemon(daemon), f"{daemon}.")
        settings[f"{prefix}DEFRAG_NAME"] = _daemon_name(own, daemon)
        for name, properties in DEFRAG.items():
            if name != "DEFRAG_NAME" and (text := _value(own, name)) != properties.default:
                settings[prefix + name] = text or SET_TO_EMPTY
    return settings


def _daemon_name(configuration: Configuration, daemon: str) -> str:
    """Return the name of the defrag daemon, built as in HTCondor (``build_valid_daemon_name``). By default it is the
    name in DAEMON_LIST, which HTCondor's master passes to the daemon as its local name."""
    name, host = configuration.get("DEFRAG_NAME").strip() or daemon, configuration.get("FULL_HOSTNAME").strip()
    if name.lower() in (host.lower(), host.lower().partition(".")[0]):
        return host
    return name if "@" in name or not host else f"{name}@{host}"


def _value(configuration: Configuration, name: str) -> str:
    htcondor_name = _HTCONDOR_NAMES.get(name, name)
    set_name = htcondor_name if configuration.source(name).kind == "default" else name
    kind = DEFRAG[name].kind
    if kind in ("integer", "maximum", "frequency"):
        value = configuration.number(set_name, float(DEFRAG[name].default))
        text = repr(value).removesuffix(".0")
    else:
        text = " ".join(configuration.get(set_name).split())
        if kind == "schedule":
            text = text.lower() or DEFRAG[name].default
    if problem := invalid_value(name, text):
        raise configuration.error(set_name, problem)
    return text
