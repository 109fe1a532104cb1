"""The settings of a negotiator that a cycle reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

from ..classad import Expression
from ..concurrency_limits import SUFFIX
from ..events import Ad
from ..names import NEGOTIATOR as SOLE
from ..settings_classes import setting, values
from ..state.accounting_groups import named_groups
from ..state.caches import Caches, parse_cached
from ..state.negotiators import NEGOTIATORS, invalid_negotiators, is_negotiator_name
from ..state.pool_settings import (
    CYCLE_TIMES,
    GROUP_SETTINGS,
    MAX_SECONDS,
    NEGOTIATOR,
    SET_TO_EMPTY,
    invalid_value,
    negotiator_kind,
)
from ..state.state import Manager
from .accounting import AccountantSettings, accountant_settings
from .groups.group_tree import AccountingGroup, GroupTree, group_tree
from .groups.rounds import QuotaRules

if TYPE_CHECKING:
    from ..config import Configuration


def _parse_boolean(text: str) -> bool:
    return text.lower() == "true"


def _to_expression(text: str) -> Expression | None:
    return parse_cached(text) if text.strip() else None


@frozen
class NegotiatorSettings:
    """The settings in force; ``domain/state/settings.txt`` explains them. An expression that is not set is None."""

    consider_preemption: bool = field(metadata=setting("NEGOTIATOR_CONSIDER_PREEMPTION", _parse_boolean))
    consider_early_preemption: bool = field(metadata=setting("NEGOTIATOR_CONSIDER_EARLY_PREEMPTION", _parse_boolean))
    use_slot_weights: bool = field(metadata=setting("NEGOTIATOR_USE_SLOT_WEIGHTS", _parse_boolean))
    ignore_user_priorities: bool = field(metadata=setting("NEGOTIATOR_IGNORE_USER_PRIORITIES", _parse_boolean))
    fair_access_points: bool = field(metadata=setting("NEGOTIATOR_FAIR_ACCESS_POINTS", _parse_boolean))
    cross_slot_prios: bool = field(metadata=setting("NEGOTIATOR_CROSS_SLOT_PRIOS", _parse_boolean))
    all_jobs: bool = field(metadata=setting("NEGOTIATE_ALL_JOBS_IN_CLUSTER", _parse_boolean))
    slot_constraint: Expression | None = field(metadata=setting("NEGOTIATOR_SLOT_CONSTRAINT", _to_expression))
    poolsize_constraint: Expression | None = field(
        metadata=setting("NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT", _to_expression)
    )
    job_constraint: Expression | None = field(metadata=setting("NEGOTIATOR_JOB_CONSTRAINT", _to_expression))
    pre_job_rank: Expression | None = field(metadata=setting("NEGOTIATOR_PRE_JOB_RANK", _to_expression))
    post_job_rank: Expression | None = field(metadata=setting("NEGOTIATOR_POST_JOB_RANK", _to_expression))
    preemption_requirements: Expression | None = field(metadata=setting("PREEMPTION_REQUIREMENTS", _to_expression))
    preemption_requirements_stable: bool = field(metadata=setting("PREEMPTION_REQUIREMENTS_STABLE", _parse_boolean))
    preemption_rank: Expression | None = field(metadata=setting("PREEMPTION_RANK", _to_expression))
    preemption_rank_stable: bool = field(metadata=setting("PREEMPTION_RANK_STABLE", _parse_boolean))
    allow_pslot_preemption: bool = field(metadata=setting("ALLOW_PSLOT_PREEMPTION", _parse_boolean))
    match_limits: bool = field(metadata=setting("SCHEDD_ENABLE_PER_USER_MATCH_LIMITS", _parse_boolean))
    most_matches: float = field(metadata=setting("MAX_CONCURRENT_UPLOADS_PER_USER", lambda text: float(text or 0)))
    tree: GroupTree  #: the accounting groups
    quotas: QuotaRules
    accounting: AccountantSettings

    @property
    def stable(self) -> bool:
        """Check whether the usage by submitters counts as fixed during the cycle. If not, PREEMPTION_REQUIREMENTS and
        PREEMPTION_RANK are evaluated again after each change of usage."""
        return self.preemption_requirements_stable and self.preemption_rank_stable


class _SettingsInForce:
    configured = -1
    settings: NegotiatorSettings


def settings_of(state: Manager, caches: Caches) -> NegotiatorSettings:
    """Return the settings in force."""
    known = caches.get(_SettingsInForce)
    if known.configured != state.configured:
        known.configured, known.settings = state.configured, parse_settings(state.settings)
    return known.settings


def parse_settings(settings: Mapping[str, str]) -> NegotiatorSettings:
    """Parse the settings, with defaults for settings that are not set."""

    def text(name: str) -> str:
        value = settings.get(name)
        return NEGOTIATOR[name].default if value is None else value

    return NegotiatorSettings(
        **values(NegotiatorSettings, lambda name, parse, _: parse(text(name))),
        tree=group_tree(named_groups(settings), _groups(settings)),
        quotas=_quota_rules(settings, text),
        accounting=accountant_settings(settings),
    )


_SURPLUS, _REGROUP = "GROUP_ACCEPT_SURPLUS", "GROUP_AUTOREGROUP"
_DYNAMIC, _STATIC = "GROUP_QUOTA_DYNAMIC_", "GROUP_QUOTA_"


def group_prefix(name: str) -> str:
    """Return the prefix of a setting that exists per accounting group, or an empty string for other settings."""
    upper = name.upper()
    return "" if upper in NEGOTIATOR else next((family for family in GROUP_SETTINGS if upper.startswith(family)), "")


def group_warnings(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each invalid name in GROUP_NAMES, and for each setting of an unknown accounting group."""
    tree = group_tree(named_groups(settings), {})
    for name, why in tree.ignored.items():
        yield f"GROUP_NAMES: {name} is not a valid accounting group: {why}"
    for name, value in settings.items():
        group = name[len(group_prefix(name)) :].lower()
        if group_prefix(name) and value.strip() and group not in tree.indexes:
            yield f"{name} has no effect: there is no accounting group {group}; add it to GROUP_NAMES"


def _groups(settings: Mapping[str, str]) -> dict[str, AccountingGroup]:
    own: dict[str, dict[str, str]] = {prefix: {} for prefix in GROUP_SETTINGS}
    for name, value in settings.items():
        prefix = group_prefix(name)
        if prefix and value.strip():
            own[prefix][name[len(prefix) :].lower()] = value
    groups: dict[str, AccountingGroup] = {}
    for name in named_groups(settings):
        lower = name.lower()
        static = own[_STATIC].get(lower)
        surplus, regroups = (
            own[f"{prefix}_"].get(lower, settings.get(prefix) or NEGOTIATOR[prefix].default).lower() == "true"
            for prefix in (_SURPLUS, _REGROUP)
        )
        quota = float(own[_DYNAMIC].get(lower, 0) if static is None else static)
        groups.setdefault(lower, AccountingGroup(name, quota, static is not None, surplus, regroups))
    return groups


def _quota_rules(settings: Mapping[str, str], text: Callable[[str], str]) -> QuotaRules:
    order, oversubscribes = text("GROUP_SORT_EXPR"), text("NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION").lower()
    is_default = not order.strip() or "".join(order.split()) == NEGOTIATOR["GROUP_SORT_EXPR"].default
    return QuotaRules(
        None if is_default else parse_cached(order),
        oversubscribes == "true" if oversubscribes.strip() else None,
        _parse_boolean(text("NEGOTIATOR_USE_WEIGHTED_DEMAND")),
        _parse_boolean(text("NEGOTIATOR_STRICT_ENFORCE_QUOTA")),
        round(float(text("GROUP_QUOTA_MAX_ALLOCATION_ROUNDS"))),
        float(text("GROUP_QUOTA_ROUND_ROBIN_RATE")),
    )


def configured_settings(configuration: Configuration, warn: Callable[[str], None] = lambda words: None) -> Ad:
    """Return the negotiator settings in a configuration that differ from the defaults, and the cycle intervals.

    :param warn: called with a sentence for each invalid expression that is ignored
    :raises ConfigError: if a value is invalid; the error gives its file and line
    """
    for name in IGNORED_IF_INVALID:
        if problem := invalid_value(name, configuration.get(name)):
            source = configuration.source(name)
            place = f"{source.file}:{source.line}: " if source.line else ""
            reason = problem.partition("\n")[0]
            warn(f"{place}{reason}; this is not a valid expression, so the setting is ignored")
    settings = changed_settings(configuration)
    if any(configuration.source(name).kind != "default" for name in CYCLE_TIMES):
        settings |= {name: _seconds(configuration, name) for name in CYCLE_TIMES}
    return settings | _negotiator_list(configuration, settings)


def _negotiator_list(configuration: Configuration, shared: Ad) -> Ad:
    """Return the names and settings of the negotiators in DAEMON_LIST; empty if NEGOTIATOR is the only one.

    :raises ConfigError: if a value is invalid, or two negotiators have the same slots
    """
    daemons = configuration.get("DAEMON_LIST").replace(",", " ").upper().split()
    named = tuple(dict.fromkeys(name for name in daemons if is_negotiator_name(name))) or (SOLE,)
    if named == (SOLE,):
        return {}
    settings: Ad = {NEGOTIATORS: " ".join(named)}
    for short in named:
        settings |= _own_settings(configuration, short, shared)
    if problem := invalid_negotiators({**shared, **settings}):
        raise configuration.error("DAEMON_LIST", problem)
    return settings


def _own_settings(configuration: Configuration, name: str, shared: Ad) -> Ad:
    """Return the settings in which one negotiator differs from the shared ones."""
    own = configuration.of_daemon(name)
    texts = changed_settings(own)
    paced = any(own.source(each).kind != "default" for each in CYCLE_TIMES)
    if paced:
        texts |= {each: _seconds(own, each) for each in CYCLE_TIMES}
    settings: Ad = {}
    for each in dict.fromkeys((*texts, *shared)):
        text, other = (ad.get(each, _DEFAULTS.get(each, "")) for ad in (texts, shared))
        if text != other or (each in CYCLE_TIMES and each not in shared):
            settings[f"{name}.{each}"] = text or SET_TO_EMPTY
    return settings


IGNORED_IF_INVALID: Final = ("GROUP_SORT_EXPR", "NEGOTIATOR_JOB_CONSTRAINT", "NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT")
"""Expressions that fall back to their defaults if invalid. With any other invalid expression, no negotiator starts.
HTCondor's negotiator does not start with an invalid GROUP_SORT_EXPR either."""
_DEFAULTS: Final = {name: setting.default for name, setting in NEGOTIATOR.items()} | CYCLE_TIMES
_INTERVAL: Final = "NEGOTIATOR_INTERVAL"
_BY_DIALECT: Final = frozenset({"NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION"})
"""Settings whose default depends on the pool's dialect."""


def changed_settings(configuration: Configuration) -> Ad:
    """Return the negotiator settings in a configuration that differ from the defaults.

    :raises ConfigError: if a value is invalid; the error gives its file and line
    """
    settings: Ad = {}
    for name, known in NEGOTIATOR.items():
        if name in _BY_DIALECT and not configuration.is_assigned(name):
            continue
        text = _setting_text(configuration, name, known.kind)
        if text != known.default:
            settings[name] = text
    for name in configuration.names():
        if prefix := group_prefix(name):
            settings[prefix + name[len(prefix) :]] = _setting_text(configuration, name, GROUP_SETTINGS[prefix])
    return settings | _limits(configuration)


_LIMIT: Final = "limit"
_OWN: Final = "NEGOTIATOR."
"""The prefix of settings that apply only to the negotiator."""


def _limits(configuration: Configuration) -> Ad:
    from ..config import is_known

    limits: Ad = {}
    for name in configuration.names():
        upper = name.upper().removeprefix(_OWN)
        if upper in NEGOTIATOR or negotiator_kind(upper) != _LIMIT or (upper.endswith(SUFFIX) and is_known(upper)):
            continue
        if configuration.get(upper).strip():
            limits[upper] = _setting_text(configuration, upper, _LIMIT)
    return limits


def _setting_text(configuration: Configuration, name: str, kind: str) -> str:
    default = NEGOTIATOR[name].default if name in NEGOTIATOR else ""
    if kind == "truth":
        return "true" if configuration.boolean(name, default == "true") else "false"
    if kind in ("seconds", "factor", "number", "part", "count", "rate", _LIMIT):
        value = configuration.number(name, float(default or 0))
        text = default if default and value == float(default) else _number(value)
    else:
        text = " ".join(configuration.get(name).split())
        if not text and default:
            text = SET_TO_EMPTY
    if problem := invalid_value(name.upper(), text):
        if name.upper() in IGNORED_IF_INVALID:
            return default
        raise configuration.error(name, problem)
    return text


def _seconds(configuration: Configuration, name: str) -> str:
    """Return a duration setting. An interval of 0 is an error, because it would leave no time between cycles."""
    seconds = configuration.number(name, float(CYCLE_TIMES[name]))
    if not 0 <= seconds < MAX_SECONDS or (name == _INTERVAL and not seconds):
        least = "more than 0" if name == _INTERVAL else "0 or more"
        message = f"{name} = {_number(seconds)}: use a number of seconds, {least}"
        raise configuration.error(name, message)
    return _number(seconds)


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")
