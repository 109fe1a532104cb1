"""The pool as one of several negotiators sees it: as if it was the only one, with an accounting of its own.

Each holds cycles of its own over the slots that are its own (``domain/state/negotiators``). What it matches, claims and
refuses is written with its name, and counts in its accounting alone. A pool that never had more than one is seen as it
is; the accounts of one that has gone stay, and are nobody's.
"""

from __future__ import annotations

from copy import copy

from ..names import NEGOTIATOR
from ..state import negotiators
from ..state.caches import Caches, ChangeLog
from ..state.state import Manager, Submitter
from .accounting import accounts_of


class _OfNegotiators(dict[str, Caches]):
    """What was computed of the state as each of several negotiators sees it."""


def seen_by(state: Manager, caches: Caches, negotiator: str, now: int) -> tuple[Manager, Caches]:
    """Return the state as a negotiator sees it, with what was computed of that. It must not be folded to.

    :param negotiator: its name as events have it; empty: NEGOTIATOR
    """
    if not (negotiator or state.has_further_accounts or negotiators.has_several(state.settings)):
        return state, caches
    name = negotiator or NEGOTIATOR
    own = accounts_of(state.submitters, negotiator)
    for cluster in state.clusters.values():
        if cluster.submitter not in own:
            own[cluster.submitter] = Submitter(cluster.submitter, updated=now, counted=now)
    seen = copy(state)
    seen.settings, seen.submitters = negotiators.settings_for(state.settings, name), own
    seen.submitter_changes = ChangeLog.unknown(state.position)
    if negotiator:
        seen.priorities_updated_at = state.accounted.get(negotiator, 0)
        seen.rejections = state.further_rejections.get(negotiator, {})
    return seen, caches.of(_OfNegotiators).setdefault(name, Caches())
