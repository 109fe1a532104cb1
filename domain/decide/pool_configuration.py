"""What a pool follows of its configuration: what its negotiator reads, what submissions to it go by, the domain of
its users, and how it is defragmented. It is in the log (``PoolConfigured``), so that it counts for whoever submits,
from wherever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..config import Configuration
from ..coverage.settings import DEFRAG
from ..decision.draft import Draft, Refusal
from ..defrag import defrag_settings as defragmentation
from ..events import Ad, PoolConfigured, PrioritiesUpdated
from ..macros.macros import macros_in
from ..negotiator import negotiator_settings as negotiation
from ..negotiator.accounting import accounts_of, terms_of, updated
from ..ports.stimuli import ConfigurePool
from ..state.negotiators import own_part, wrong
from ..state.pool_settings import DOMAINS, NOTHING, SETTINGS, SUBMISSION, SUBMIT_TEMPLATE, SUPER_USERS, settings, unfit
from ..state.state import State
from ..submit.submit_context import NAMES as TEMPLATE_NAMES

# The negotiator's configuration: what is in force from now on.
#
# A pool goes by what its configuration sets; where that says nothing, by what was given when the log was begun, and
# else by the defaults. What the log has is always what is in force, so that a cycle can be taken again.

FOLLOWED: Final = ("NEGOTIATOR_INTERVAL",)
"""The times among a pool's settings that the negotiator's configuration may set. The others are execution points'."""


def configure_pool(draft: Draft[State], stimulus: ConfigurePool) -> None:
    """The pool's configuration was read: what it sets is in force, and nothing that it set before and does no more.

    :raises Refusal: a setting that there is not, or a value that cannot be
    """
    changes = _changes(draft.state, stimulus.settings)
    if not changes:
        return
    if any(own_part(name)[1] == "PRIORITY_HALFLIFE" for name in changes):
        for negotiator in ("", *draft.state.accounted):
            _account(draft, negotiator)
    draft.emit(PoolConfigured(*draft.why("reconfigured"), changes))


def _changes(state: State, configured: Ad) -> Ad:
    """The settings that become others, with their texts; empty: the default."""
    try:
        settings(configured)
    except ValueError as error:
        raise Refusal(str(error)) from None
    for name in configured:
        if name == SUPER_USERS or (name in SETTINGS and name not in FOLLOWED):
            raise Refusal(f"{name} is no setting of the negotiator's: give it when the log is begun (-set)")
    wanted = {**state.founded, **configured}
    texts = {name: wanted.get(name, "") for name in (*wanted, *state.settings)}
    if words := wrong(wanted):
        raise Refusal(words)
    return {name: text for name, text in texts.items() if text != state.settings.get(name, "")}


def _account(draft: Draft[State], negotiator: str) -> None:
    """Write down all priorities of an accounting as of now: who has been left out of updates has aged by the half-life
    that was in force."""
    state = draft.state
    halflife = terms_of(state.settings, negotiator).halflife
    accounted = state.accounted[negotiator] if negotiator else state.priorities_updated_at
    found = {}
    for name, one in accounts_of(state.submitters, negotiator).items():
        real = updated(one, accounted, draft.now, halflife)
        if real != one.priority or one.used(draft.now) != one.usage_accounted:
            found[name] = real
    if found:
        draft.emit(PrioritiesUpdated(*draft.why("accounted"), found, negotiator))


Load = Callable[[str], Configuration]
"""Reads the configuration, as the daemon or tool that is named has it (NEGOTIATOR, SUBMIT)."""


def followed(load: Load, warn: Callable[[str], None] = lambda words: None) -> Ad:
    """All of it, where somebody has set it; ``warn`` is told of what has no effect.

    :raises ConfigError: a value that cannot be taken, with where it stands
    """
    from ..schedd.policy_configuration import schedd_policy

    negotiators = negotiation.followed(load("NEGOTIATOR"), warn)
    for words in negotiation.groups_in_vain(negotiators):
        warn(words)
    return {
        **negotiators,
        **submissions(load("SUBMIT")),
        **schedd_policy(load("SCHEDD"), warn),
        **defragmentation.followed(load(DEFRAG)),
    }


def submissions(configuration: Configuration) -> Ad:
    """What submissions go by.

    :raises ConfigError: a value that cannot be taken, with where it stands
    """
    found: Ad = {}
    for name in (*DOMAINS, *SUBMISSION):
        source = configuration.source(name)
        text = configuration.get(name).strip()
        if source.kind == "default" or (not text and name in DOMAINS):
            continue
        found[name] = text or NOTHING
        if wrong := unfit(name, found[name]):
            raise configuration.error(name, wrong)
    return found | _templates(configuration)


def _templates(configuration: Configuration) -> Ad:
    """The templates of submissions, with what the configuration has for the macros that they refer to."""
    names = configuration.get(TEMPLATE_NAMES).replace(",", " ").upper().split()
    texts = {f"{SUBMIT_TEMPLATE}{name}": configuration.raw(f"{SUBMIT_TEMPLATE}{name}") for name in names}
    return {name: _filled(configuration, text) for name, text in texts.items() if text is not None}


def _filled(configuration: Configuration, text: str) -> str:
    """A text with the macros replaced that the configuration has, and with the others as they stand."""
    out, at = [], 0
    for macro in macros_in(text, frozenset()):
        if configuration.defined(macro.body):
            out += [text[at : macro.start], configuration.get(macro.body)]
            at = macro.end
    return "".join([*out, text[at:]])
