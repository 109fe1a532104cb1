"""The pool settings that come from the configuration: for the negotiator, submissions, users' domains and
defragmentation. They are in the log (``PoolConfigured``) and therefore apply to all clients."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ..config import Configuration
from ..coverage.settings import DEFRAG
from ..decision.draft import Draft, Refusal
from ..defrag import defrag_settings as defragmentation
from ..events import Ad, PoolConfigured, PrioritiesUpdated
from ..had import had_settings as availability
from ..macros.macros import macros_in
from ..negotiator import negotiator_settings as negotiation
from ..negotiator.accounting import accountant_settings_of, accounts_of, priority_at
from ..ports.stimuli import ConfigurePool
from ..startd.custom_resources import split_list
from ..state.negotiators import invalid_negotiators, split_prefix
from ..state.pool_settings import (
    ATTRIBUTES_OF_ADS,
    COLLECTOR,
    DOMAINS,
    SET_TO_EMPTY,
    SETTINGS,
    SUBMISSION,
    SUBMIT_ATTRIBUTE,
    SUBMIT_TEMPLATE,
    SUPER_USERS,
    AttributesOfAds,
    complete_settings,
    invalid_value,
)
from ..state.state import State
from ..submit.submit_context import TEMPLATE_NAMES

# The value of a setting comes from the configuration, or else from the start of the log, or else is the default. The
# log always contains the effective values, so that a cycle can be repeated.

CONFIGURABLE_TIMES: Final = ("NEGOTIATOR_INTERVAL",)
"""The pool's time settings that the configuration may set; the others belong to execution points."""


def configure_pool(draft: Draft[State], stimulus: ConfigurePool) -> None:
    """Apply a pool's configuration. Settings that it no longer contains return to their earlier values.

    :raises Refusal: if a setting is unknown or its value is invalid
    """
    changes = _changes(draft.state, stimulus.settings)
    if not changes:
        return
    if any(split_prefix(name)[1] == "PRIORITY_HALFLIFE" for name in changes):
        for negotiator in ("", *draft.state.accounted):
            _record_priorities(draft, negotiator)
    draft.emit(PoolConfigured(*draft.header("reconfigured"), changes))


def _changes(state: State, configured: Ad) -> Ad:
    """Return the settings that change, with their new values; an empty value selects the default."""
    try:
        complete_settings(configured)
    except ValueError as error:
        raise Refusal(str(error)) from None
    for name in configured:
        if name == SUPER_USERS or (name in SETTINGS and name not in CONFIGURABLE_TIMES):
            raise Refusal(f"{name} cannot be set in the configuration; set it when you create the log (-set)")
    new_settings = {**state.founding_settings, **configured}
    texts = {name: new_settings.get(name, "") for name in (*new_settings, *state.settings)}
    if problem := invalid_negotiators(new_settings):
        raise Refusal(problem)
    return {name: text for name, text in texts.items() if text != state.settings.get(name, "")}


def _record_priorities(draft: Draft[State], negotiator: str) -> None:
    """Record all current priorities of a negotiator, because they have decayed with the old half-life until now."""
    state = draft.state
    halflife = accountant_settings_of(state.settings, negotiator).halflife
    accounted = state.accounted[negotiator] if negotiator else state.priorities_updated_at
    priorities = {}
    for name, account in accounts_of(state.submitters, negotiator).items():
        priority = priority_at(account, accounted, draft.now, halflife)
        if priority != account.priority or account.usage_until(draft.now) != account.usage_accounted:
            priorities[name] = priority
    if priorities:
        draft.emit(PrioritiesUpdated(*draft.header("accounted"), priorities, negotiator))


Load = Callable[[str], Configuration]
"""A function that loads the configuration of a daemon or tool (NEGOTIATOR, SUBMIT)."""


def configured_pool_settings(load: Load, warn: Callable[[str], None] = lambda warning: None) -> Ad:
    """Return all configured settings of a pool; call ``warn`` with a message for each setting that has no effect.

    :raises ConfigError: a value is invalid; the error has its file and line
    """
    from ..schedd.policy_configuration import schedd_policy

    negotiator = load("NEGOTIATOR")
    negotiators = negotiation.configured_settings(negotiator, warn)
    for warning in negotiation.group_warnings(negotiators):
        warn(warning)
    return {
        **negotiators,
        **configured_submission_settings(load("SUBMIT")),
        **schedd_policy(load("SCHEDD"), warn),
        **defragmentation.configured_settings(load(DEFRAG)),
        **availability.configured_settings(load("HAD")),
        **_configured_ads(load("COLLECTOR")),
        **_attributes_of_ads(negotiator, load, warn),
    }


def _attributes_of_ads(negotiator: Configuration, load: Load, warn: Callable[[str], None]) -> Ad:
    """Return the settings for the attributes that an administrator adds to ads. Loading a daemon's configuration takes
    time, so daemons without such attributes are skipped."""
    attributes: Ad = {}
    for lists in ATTRIBUTES_OF_ADS:
        names = (*lists.settings, *(f"{lists.daemon}.{name}" for name in lists.settings))
        if any(map(negotiator.is_defined, names)):
            attributes |= _attributes_listed(load(lists.daemon), lists, warn)
    return attributes


def _attributes_listed(configuration: Configuration, lists: AttributesOfAds, warn: Callable[[str], None]) -> Ad:
    from ..classad.old_form import expression_text
    from ..schedd.policy_configuration import valid_expression

    values: Ad = {}
    for name in dict.fromkeys(word for each in lists.settings for word in split_list(configuration.get(each))):
        if text := valid_expression(configuration, name, configuration.get(name), warn):
            values[name] = expression_text(text)
        elif not configuration.is_defined(name):
            warn(f"{name} is not defined: define it, or remove it from {lists.settings[0]}")
    return lists.as_settings(values)


def _configured_ads(configuration: Configuration) -> Ad:
    """Return the collector's settings that differ from the defaults.

    :raises ConfigError: a value is invalid; the error has its file and line
    """
    configured: Ad = {}
    for name, properties in COLLECTOR.items():
        text = " ".join(configuration.get(name).split())
        if properties.kind == "truth":
            text = str(configuration.boolean(name, False)).lower()
        elif properties.kind == "number":
            text = repr(configuration.number(name, float(properties.default))).removesuffix(".0")
        if text and text != properties.default:
            configured[name] = text
            if problem := invalid_value(name, text):
                raise configuration.error(name, problem)
    return configured


def configured_submission_settings(configuration: Configuration) -> Ad:
    """Return the configured settings for submissions.

    :raises ConfigError: a value is invalid; the error has its file and line
    """
    configured: Ad = {}
    for name in (*DOMAINS, *SUBMISSION):
        source = configuration.source(name)
        text = configuration.get(name).strip()
        if source.kind == "default" or (not text and name in DOMAINS):
            continue
        configured[name] = text or SET_TO_EMPTY
        if problem := invalid_value(name, configured[name]):
            raise configuration.error(name, problem)
    return configured | _templates(configuration) | _submit_attributes(configuration)


_SUBMIT_ATTRIBUTE_LISTS: Final = ("SUBMIT_ATTRS", "SUBMIT_EXPRS", "SYSTEM_SUBMIT_ATTRS")


def _submit_attributes(configuration: Configuration) -> Ad:
    """Return the attributes that submissions add to their jobs. Attributes without a value are ignored."""
    listed = split_list(" ".join(configuration.get(name) for name in _SUBMIT_ATTRIBUTE_LISTS))
    names = {name.lower(): name for name in (re.sub(r"(?i)^MY\.", "+", name) for name in reversed(listed))}
    texts = {name: configuration.get(name.removeprefix("+")).strip() for name in names.values()}
    return {f"{SUBMIT_ATTRIBUTE}{name}": text for name, text in sorted(texts.items()) if text}


def _templates(configuration: Configuration) -> Ad:
    """Return the submit templates, with the macros that the configuration defines expanded."""
    names = configuration.get(TEMPLATE_NAMES).replace(",", " ").upper().split()
    texts = {f"{SUBMIT_TEMPLATE}{name}": configuration.raw_value(f"{SUBMIT_TEMPLATE}{name}") for name in names}
    return {name: _expand(configuration, text) for name, text in texts.items() if text is not None}


def _expand(configuration: Configuration, text: str) -> str:
    parts, end = [], 0
    for macro in macros_in(text, frozenset()):
        if configuration.is_defined(macro.body):
            parts += [text[end : macro.start], configuration.get(macro.body)]
            end = macro.end
    return "".join([*parts, text[end:]])
