"""The negotiator's configuration: what is in force from now on.

A pool goes by what its configuration sets; where that says nothing, by what was given when the log was begun, and else
by the defaults. What the log has is always what is in force, so that a cycle can be taken again.
"""

from __future__ import annotations

from typing import Final

from ..decision.draft import Draft, Refusal
from ..events import Ad, PoolConfigured, PrioritiesUpdated
from ..ports.stimuli import ConfigurePool
from ..state.negotiators import own_part, wrong
from ..state.settings import SETTINGS, SUPER_USERS, settings
from ..state.state import State
from .accounting import accounts_of, terms_of, updated

FOLLOWED: Final = ("NEGOTIATOR_INTERVAL",)
"""The times among a pool's settings that the negotiator's configuration may set. The others are execution points'."""


def configure_pool(draft: Draft, stimulus: ConfigurePool) -> None:
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


def _account(draft: Draft, negotiator: str) -> None:
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
