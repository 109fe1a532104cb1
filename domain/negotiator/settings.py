"""The negotiator's settings, as a cycle reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from attrs import frozen

from ..classad import Expression
from ..events import Ad
from ..state.caches import Caches
from ..state.expression_cache import expression
from ..state.settings import FAMILIES, LONGEST, NEGOTIATOR, NOTHING, PACE, negotiators, unfit
from ..state.state import State
from .accounting import Terms, terms

if TYPE_CHECKING:
    from ..config import ConfigError, Configuration


@frozen
class Negotiator:
    """The settings in force (``domain/state/settings.py`` says what each means). An expression that is not set is None;
    ``own`` are the texts of the expressions that are asked about slots."""

    consider_preemption: bool
    consider_early_preemption: bool
    use_slot_weights: bool
    ignore_user_priorities: bool
    cross_slot_prios: bool
    all_jobs: bool
    significant: tuple[str, ...]
    add_significant: tuple[str, ...]
    remove_significant: tuple[str, ...]
    slot_constraint: Expression | None
    poolsize_constraint: Expression | None
    job_constraint: Expression | None
    pre_job_rank: Expression | None
    post_job_rank: Expression | None
    preemption_requirements: Expression | None
    preemption_requirements_stable: bool
    preemption_rank: Expression | None
    preemption_rank_stable: bool
    match_limits: bool
    most_matches: float
    groups: tuple[str, ...]
    quotas: Mapping[str, float]
    shares: Mapping[str, float]
    accounting: Terms
    own: tuple[str, ...]


class _InForce:
    """The settings that were configured at a position of the log."""

    configured = -1
    settings: Negotiator


def settings_of(state: State, caches: Caches) -> Negotiator:
    """The settings that are in force."""
    known = caches.of(_InForce)
    if known.configured != state.configured:
        known.configured, known.settings = state.configured, read(state.settings)
    return known.settings


def read(settings: Mapping[str, str]) -> Negotiator:
    """The settings, where they are not set the defaults."""

    def text(name: str) -> str:
        found = settings.get(name)
        return NEGOTIATOR[name].default if found is None else found

    def truth(name: str) -> bool:
        return text(name).lower() == "true"

    def words(name: str) -> tuple[str, ...]:
        return tuple(text(name).replace(",", " ").split())

    def meaning(name: str) -> Expression | None:
        return expression(text(name)) if text(name).strip() else None

    def family(prefix: str) -> dict[str, float]:
        others = [one for one in FAMILIES if one != prefix and one.startswith(prefix)]
        return {
            name[len(prefix) :].lower(): float(value)
            for name, value in settings.items()
            if name.startswith(prefix) and not name.startswith(tuple(others)) and value
        }

    asked = ("NEGOTIATOR_SLOT_CONSTRAINT", "NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT", "NEGOTIATOR_PRE_JOB_RANK",
             "NEGOTIATOR_POST_JOB_RANK", "PREEMPTION_REQUIREMENTS", "PREEMPTION_RANK")  # fmt: skip
    return Negotiator(
        consider_preemption=truth("NEGOTIATOR_CONSIDER_PREEMPTION"),
        consider_early_preemption=truth("NEGOTIATOR_CONSIDER_EARLY_PREEMPTION"),
        use_slot_weights=truth("NEGOTIATOR_USE_SLOT_WEIGHTS"),
        ignore_user_priorities=truth("NEGOTIATOR_IGNORE_USER_PRIORITIES"),
        cross_slot_prios=truth("NEGOTIATOR_CROSS_SLOT_PRIOS"),
        all_jobs=truth("NEGOTIATE_ALL_JOBS_IN_CLUSTER"),
        significant=words("SIGNIFICANT_ATTRIBUTES"),
        add_significant=words("ADD_SIGNIFICANT_ATTRIBUTES"),
        remove_significant=words("REMOVE_SIGNIFICANT_ATTRIBUTES"),
        slot_constraint=meaning("NEGOTIATOR_SLOT_CONSTRAINT"),
        poolsize_constraint=meaning("NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT"),
        job_constraint=meaning("NEGOTIATOR_JOB_CONSTRAINT"),
        pre_job_rank=meaning("NEGOTIATOR_PRE_JOB_RANK"),
        post_job_rank=meaning("NEGOTIATOR_POST_JOB_RANK"),
        preemption_requirements=meaning("PREEMPTION_REQUIREMENTS"),
        preemption_requirements_stable=truth("PREEMPTION_REQUIREMENTS_STABLE"),
        preemption_rank=meaning("PREEMPTION_RANK"),
        preemption_rank_stable=truth("PREEMPTION_RANK_STABLE"),
        match_limits=truth("SCHEDD_ENABLE_PER_USER_MATCH_LIMITS"),
        most_matches=float(text("MAX_CONCURRENT_UPLOADS_PER_USER") or 0),
        groups=words("GROUP_NAMES"),
        quotas=family("GROUP_QUOTA_"),
        shares=family("GROUP_QUOTA_DYNAMIC_"),
        accounting=terms(settings),
        own=tuple(text(name) for name in asked if text(name).strip()),
    )


def followed(configuration: Configuration) -> Ad:
    """What a pool follows of a configuration, read as the negotiator's: ``offered``, and when cycles are held.

    :raises ConfigError: a value that cannot be taken, with where it stands
    """
    found = offered(configuration)
    if any(configuration.source(name).kind != "default" for name in PACE):
        found |= {name: _seconds(configuration, name) for name in PACE}
    return found


_INTERVAL: Final = "NEGOTIATOR_INTERVAL"


def offered(configuration: Configuration) -> Ad:
    """The negotiator's settings of a configuration, where they are not the defaults.

    :raises ConfigError: a value that cannot be taken, with where it stands
    """
    found: Ad = {}
    for name, setting in NEGOTIATOR.items():
        text = _told(configuration, name, setting.kind)
        if text != setting.default:
            found[name] = text
    for name in configuration.names():
        upper = name.upper()
        if upper not in NEGOTIATOR and (kind := negotiators(upper)) is not None:
            prefix = next(one for one in FAMILIES if upper.startswith(one))
            found[prefix + name[len(prefix) :]] = _told(configuration, name, kind)
    return found


def _told(configuration: Configuration, name: str, kind: str) -> str:
    default = NEGOTIATOR[name].default if name in NEGOTIATOR else ""
    if kind == "truth":
        return "true" if configuration.boolean(name, default == "true") else "false"
    if kind in ("seconds", "factor", "number"):
        value = configuration.number(name, float(default or 0))
        text = default if default and value == float(default) else _number(value)
    else:
        text = " ".join(configuration.get(name).split())
        if not text and default:
            text = NOTHING
    if wrong := unfit(name.upper(), text):
        raise _error(configuration, name, wrong)
    return text


def _seconds(configuration: Configuration, name: str) -> str:
    """A setting that is a time; an interval of 0 would leave no time between cycles."""
    seconds = configuration.number(name, float(PACE[name]))
    if not 0 <= seconds < LONGEST or (name == _INTERVAL and not seconds):
        least = "more than 0" if name == _INTERVAL else "0 or more"
        words = f"{name} = {_number(seconds)}: a number of seconds, {least}, is wanted"
        raise _error(configuration, name, words)
    return _number(seconds)


def _error(configuration: Configuration, name: str, words: str) -> ConfigError:
    from ..config import ConfigError  # commands decide without a configuration, which takes long to load

    where = configuration.source(name)
    return ConfigError(words, where.file, where.line)


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")
