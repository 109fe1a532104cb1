"""The settings that decisions read, by HTCondor's names. ``settings.txt`` contains their kinds, defaults and meanings.

They are logged (``PoolFounded``, ``PoolConfigured``), so that decisions can be repeated. They include the text of each
transform, the values of macros that transforms refer to (``$(NAME)``), and the lines of user maps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from .. import concurrency_limits
from ..classad import ClassAdSyntaxError, parse
from ..coverage.settings import DEFRAG as DEFRAG_DAEMON
from ..coverage.settings import is_defrag
from ..package_data import get_data, sections
from .negotiators import NEGOTIATORS, invalid_names, split_prefix


class AttributesOfAds(NamedTuple):
    """The settings that list the attributes which an administrator adds to ads, the daemon that reads these settings,
    and the prefix that the attributes get in the ads. The log has the list of the defined ones under the first
    setting's name, and the value of each under ``logged`` and the attribute's name."""

    daemon: str
    settings: tuple[str, ...]
    logged: str
    prefix: str = ""

    def as_settings(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the pool's settings for these values of an administrator's attributes."""
        names = {name if name.startswith(self.prefix) else self.prefix + name: text for name, text in values.items()}
        settings = {f"{self.logged}{name}": text for name, text in names.items()}
        return {self.settings[0]: " ".join(names), **settings} if names else {}

    def in_settings(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the attributes in a pool's settings."""
        return {name: settings[f"{self.logged}{name}"] for name in settings.get(self.settings[0], "").split()}


_DAEMONS_WITH_ATTRIBUTES: Final = ("MASTER", "SCHEDD", "NEGOTIATOR", "COLLECTOR")
DAEMON_ATTRIBUTES: Final = {
    name: AttributesOfAds(name, (f"{name}_ATTRS", f"{name}_EXPRS"), f"ATTRS.{name}.")
    for name in _DAEMONS_WITH_ATTRIBUTES
}
MATCH_ATTRIBUTES: Final = AttributesOfAds(
    "NEGOTIATOR", ("NEGOTIATOR_MATCH_EXPRS",), "MATCH_EXPRS.", "NegotiatorMatchExpr"
)
ATTRIBUTES_OF_ADS: Final = (*DAEMON_ATTRIBUTES.values(), MATCH_ATTRIBUTES)


class PoolSetting(NamedTuple):
    kind: str
    default: str = ""
    meaning: str = ""


def _rows(lines: list[str]) -> Iterator[tuple[str, PoolSetting]]:
    for line in lines:
        name, *columns = line.split(" | ")
        yield name, PoolSetting(*(text.strip() for text in columns))


_ROLES: Final = {each.kind: dict(_rows(each.lines)) for each in sections(get_data(__package__, "settings.txt"))}


def defaults(role: str) -> dict[str, str]:
    """Return the default settings in one section of the file."""
    return {name: setting.default for name, setting in _ROLES[role].items()}


SETTINGS: Final = _ROLES["pool"]
NEGOTIATOR: Final = _ROLES["negotiator"]
DEFRAG: Final = _ROLES["defrag"]
HAD: Final = _ROLES["had"]
COLLECTOR: Final = _ROLES["collector"]
GROUP_SETTINGS: Final = {name.removesuffix("*"): setting.kind for name, setting in _ROLES["group"].items()}
"""The kinds of the settings that each accounting group has, by the prefixes of their names."""
SUBMISSION: Final = defaults("submission")
DEFAULT_IF_EMPTY: Final = frozenset(name for name, setting in _ROLES["submission"].items() if setting.kind == "filled")
SUBMIT_TEMPLATE: Final = "SUBMIT_TEMPLATE_"
SUBMIT_ATTRIBUTE: Final = "SUBMIT_ATTRS."
"""The prefix of the settings that contain the attributes which submissions add to their jobs."""
CYCLE_TIMES: Final = defaults("pace")
ATTRIBUTE_LISTS: Final = defaults("guard")
JOB_LIMITS: Final = tuple(_ROLES["job limit"])
MAIL_SETTINGS: Final = tuple(_ROLES["mail"])
TRANSFER_LIMITS: Final = tuple(_ROLES["transfer"])
SCHEDD_NUMBERS: Final = tuple(
    name for name, setting in _ROLES["schedd"].items() if setting.kind in ("number", "part", "whole", "count")
)
ROUNDING: Final = "SCHEDD_ROUND_ATTR_"
USE_JOBSETS: Final = "USE_JOBSETS"
MACHINE_ATTRIBUTES: Final = "SYSTEM_JOB_MACHINE_ATTRS"
MACHINE_ATTRIBUTE_RUNS: Final = f"{MACHINE_ATTRIBUTES}_HISTORY_LENGTH"
START_SETTINGS: Final = {
    universe: (name, _ROLES["schedd"][name].default)
    for universe, name in (("12", "START_LOCAL_UNIVERSE"), ("7", "START_SCHEDULER_UNIVERSE"))
}
"""By universe without slots: the setting whose expression must be true for a job to start, and its default."""
PERIODIC_SETTINGS: Final = tuple(f"SYSTEM_PERIODIC_{action}" for action in ("HOLD", "RELEASE", "REMOVE", "VACATE"))
"""The access point's policies for all jobs. Each may also be defined several times, with different names."""
_SCHEDD: Final = {
    name: setting
    for role in ("guard", "job limit", "mail", "transfer", "schedd")
    for name, setting in _ROLES[role].items()
}
NO_DEFAULTS: Final[Mapping[str, str]] = {}
_OTHERS: Final = {
    **_ROLES["pace"],
    **_ROLES["submission"],
    **_ROLES["template"],
    **_ROLES["submit attribute"],
    **DEFRAG,
    **HAD,
    **COLLECTOR,
    **_ROLES["ad"],
}

UID_DOMAIN: Final = "UID_DOMAIN"
FILESYSTEM_DOMAIN: Final = "FILESYSTEM_DOMAIN"
DOMAINS: Final = (UID_DOMAIN, FILESYSTEM_DOMAIN)
"""The domains of user names and shared files. A pool has both; by default, they are the domain at its creation."""

SET_TO_EMPTY: Final = " "
"""The text that represents a setting set to an empty value, if that is not its default."""


def _kind_of(name: str, table: Mapping[str, PoolSetting]) -> str | None:
    """Return the kind of a setting in a table, by its name or by the first pattern that matches it."""
    if name in table:
        return table[name].kind
    patterns = ((pattern.partition("*"), setting) for pattern, setting in table.items() if "*" in pattern)
    kinds = (setting.kind for (start, _, end), setting in patterns if name.startswith(start) and name.endswith(end))
    return next(kinds, None)


def negotiator_kind(name: str) -> str | None:
    """Return the kind of a negotiator setting, or None if the name is not a negotiator setting."""
    kind = _kind_of(name, NEGOTIATOR) or _kind_of(name, _ROLES["group"])
    return "limit" if kind is None and concurrency_limits.is_limit_setting(name) else kind


def schedd_kind(name: str) -> str | None:
    """Return the kind of a schedd setting, or None if the name is not a schedd setting."""
    return _kind_of(name, _SCHEDD)


def split_defrag(name: str) -> tuple[str, str]:
    """Split DEFRAG2.DEFRAG_RANK into daemon and setting. For other names, the daemon is empty: it is DEFRAG."""
    daemon, dot, setting = name.partition(".")
    is_further = dot and is_defrag(daemon) and daemon != DEFRAG_DAEMON and setting in DEFRAG
    return (daemon, setting) if is_further else ("", name)


def defrag_setting(settings: Mapping[str, str], daemon: str, name: str) -> str:
    """Return a setting of a daemon that defragments the pool (empty: DEFRAG), or the setting's default."""
    text = settings.get(f"{daemon}.{name}" if daemon else name)
    return DEFRAG[name].default if text is None else text.strip()


def configurable_kind(name: str) -> str | None:
    """Return the kind of a setting that a configuration file can set and unset, or None if it cannot."""
    if name == NEGOTIATORS:
        return "text"
    negotiator, setting = split_prefix(name)
    if negotiator:
        return "number" if setting in CYCLE_TIMES else negotiator_kind(setting)
    if name in DOMAINS:
        return "domain"
    name = split_defrag(name)[1]
    if name in SETTINGS:
        return None
    return _kind_of(name, _OTHERS) or negotiator_kind(name) or schedd_kind(name)


def schedd_number(settings: Mapping[str, str], name: str) -> float:
    """Return one of the schedd's numeric settings, or its default."""
    return float(settings.get(name, _SCHEDD[name].default))


def schedd_seconds(settings: Mapping[str, str], name: str) -> int:
    """Return one of the schedd's settings in whole seconds, or its default."""
    return int(schedd_number(settings, name))


def job_limit(settings: Mapping[str, str], name: str, defaults: Mapping[str, str] = NO_DEFAULTS) -> int | None:
    """Return one of ``JOB_LIMITS``, or SYSTEM_MAX_RELEASES, or None for no limit.

    :param defaults: the dialect's ``setting_defaults``
    """
    text = settings.get(name, "").strip() or defaults.get(name) or _SCHEDD[name].default
    return int(float(text)) if text else None


def listed_names(settings: Mapping[str, str], name: str) -> list[str]:
    """Return the distinct names in a setting that is a list."""
    return list(dict.fromkeys(settings.get(name, "").replace(",", " ").split()))


def founding_settings(uid_domain: str, changes: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a new pool: both domains are ``uid_domain``, unless ``changes`` contains others."""
    return {**dict.fromkeys(DOMAINS, uid_domain), **changes}


def submission_settings(settings: Mapping[str, str], defaults: Mapping[str, str] = NO_DEFAULTS) -> dict[str, str]:
    """Return the settings that submissions read. ``defaults``: as in ``job_limit``."""
    further = (name for name in settings if name.startswith((SUBMIT_TEMPLATE, SUBMIT_ATTRIBUTE)))
    own_defaults = {name: text for name, text in defaults.items() if name in SUBMISSION}
    return own_defaults | {
        name: settings[name].strip() for name in (*DOMAINS, *SUBMISSION, USE_JOBSETS, *further) if name in settings
    }


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e300 else None


def _integer(text: str) -> int | None:
    try:
        value = int(text)
    except ValueError:
        return None
    return value if abs(value) < 2**31 else None


def _is_number(condition: Callable[[float], bool] = lambda value: True) -> Callable[[str], bool]:
    return lambda text: (value := _number(text)) is not None and condition(value)


def _is_integer(minimum: int) -> Callable[[str], bool]:
    return lambda text: (value := _integer(text)) is not None and value >= minimum


_ROUNDING_RULE = re.compile(r"(?a)[0-9]?|[0-9]{1,4}(?:\.[0-9]{1,9})?%")
_DOMAIN = re.compile(r"[^\s@\"\\]+")
_CHECKS: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "domain": (lambda text: _DOMAIN.fullmatch(text) is not None, "give a domain, such as example.org"),
    "truth": (lambda text: text.lower() in ("true", "false"), "give true or false"),
    "seconds": (_is_number(lambda value: value > 0), "give a number of seconds greater than 0"),
    "factor": (_is_number(lambda value: value >= 1), "give a number of at least 1"),
    "limit": (_is_number(), "give a number"),
    "number": (_is_number(lambda value: value >= 0), "give a number of at least 0"),
    "whole": (_is_number(float.is_integer), "give a whole number"),
    "part": (_is_number(lambda value: 0 <= value <= 1), "give a fraction of the cores, from 0 to 1"),
    "count": (_is_number(lambda value: value >= 1 and value.is_integer()), "give a whole number of at least 1"),
    "rate": (_is_number(lambda value: value >= 1), "give a number of at least 1"),
    "integer": (_is_integer(-(2**31)), "give a whole number"),
    "maximum": (_is_integer(-1), "give a whole number of at least -1"),
    "frequency": (_is_number(lambda value: 0 <= value < 1e9), "give a number of at least 0"),
    "rounding": (
        lambda text: _ROUNDING_RULE.fullmatch(text.strip()) is not None and float(text.strip(" %") or 0) <= 1000,
        "give a number of digits from 0 to 9, or a percentage from 0% to 1000%",
    ),
    "connection": (_is_integer(0), "give a whole number of seconds of at least 0"),
    "period": (
        lambda text: text in ("", "fast") or (_number(text) or 0) >= 1,
        "give fast, or a number of seconds of at least 1",
    ),
    "schedule": (lambda text: text.strip().lower() in ("graceful", "quick", "fast"), "give graceful, quick or fast"),
}
"""By kind: the check of a text, and the rule that a failing text violates. An expression must be valid or empty; one of
kind "expression!" must not be empty. Other kinds are not checked."""


def invalid_value(name: str, text: str) -> str:
    """Return an error message if a configurable setting cannot have this text, or an empty string if it can."""
    kind = configurable_kind(name) or ""
    if kind in _CHECKS:
        is_valid, rule = _CHECKS[kind]
        return "" if is_valid(text) else f"{name} = {text}: {rule}"
    if kind == "expression!" and not text.strip():
        return f"{name} is empty: give an expression"
    if kind.startswith("expression") and text.strip():
        try:
            parse(text)
        except ClassAdSyntaxError as error:
            return f"{name} = {text}: {error}"
    return ""


SUPER_USERS = "QUEUE_SUPER_USERS"
"""The users who may act on all jobs and machines, separated by commas. The user who creates a log is one of them."""
_DEFAULT_SUPER_USERS = "root, condor"


def super_users(settings: Mapping[str, str]) -> frozenset[str]:
    """Return the super users in a pool's settings."""
    return frozenset(settings.get(SUPER_USERS, _DEFAULT_SUPER_USERS).replace(",", " ").split())


_MAY_BE_NEGATIVE = frozenset({"CLAIM_WORKLIFE"})
MAX_SECONDS: Final = 10**10
"""The maximum valid time."""


_is_time = _is_number(lambda value: abs(value) < MAX_SECONDS)


def complete_settings(changes: dict[str, str]) -> dict[str, str]:
    """Return all settings: those in ``changes``, and the defaults of the others.

    :raises ValueError: if a name is unknown or a value is invalid
    """
    configurable = {name: text for name, text in changes.items() if configurable_kind(name) is not None}
    for name, text in configurable.items():
        if problem := invalid_value(name, text):
            raise ValueError(problem)
    if problem := invalid_names(changes):
        raise ValueError(problem)
    times = {name: text for name, text in changes.items() if name != SUPER_USERS and name not in configurable}
    for name, text in times.items():
        if name not in SETTINGS:
            known = ", ".join((*SETTINGS, SUPER_USERS, *NEGOTIATOR, *DOMAINS, *SUBMISSION, *DEFRAG, *HAD, *COLLECTOR))
            raise ValueError(f"{name} is not a setting of a pool; use one of {known}")
        if not _is_time(text) or (float(text) < 0 and name not in _MAY_BE_NEGATIVE):
            raise ValueError(f"{name} = {text}: give a number of seconds, as in {name} = 60")
    merged = {name: changes.get(name, setting.default) for name, setting in SETTINGS.items()} | configurable
    if any(name in changes for name in CYCLE_TIMES):
        merged = {**CYCLE_TIMES, **merged}
    return {**merged, SUPER_USERS: changes[SUPER_USERS]} if SUPER_USERS in changes else merged
