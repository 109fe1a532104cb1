"""The pool as one of several negotiators sees it, with its own accounting.

Each negotiator matches only its own slots (``domain/state/negotiators``). Its matches, claims and rejections are
recorded with its name and affect only its own accounting. If the pool never had a second negotiator, the view is the
unchanged state. The accounts of a removed negotiator remain in the log, but are not used.
"""

from __future__ import annotations

from copy import copy

from ..names import NEGOTIATOR
from ..state import negotiators
from ..state.caches import Caches, ChangeLog
from ..state.records import Submitter
from ..state.state import Manager
from .accounting import accounts_of


class _NegotiatorCaches(dict[str, Caches]):
    """The caches of each negotiator's view of the state."""


def view_of_negotiator(state: Manager, caches: Caches, negotiator: str, now: int) -> tuple[Manager, Caches]:
    """Return the state as a negotiator sees it, with the caches for this view. Do not fold events into this state.

    :param negotiator: the negotiator's name in events; empty: NEGOTIATOR
    """
    if not (negotiator or state.has_further_accounts or negotiators.has_several(state.settings)):
        return state, caches
    name = negotiator or NEGOTIATOR
    accounts = accounts_of(state.submitters, negotiator)
    for cluster in state.clusters.values():
        if cluster.submitter not in accounts:
            accounts[cluster.submitter] = Submitter(cluster.submitter, updated=now, counted_until=now)
    view = copy(state)
    view.settings, view.submitters = negotiators.settings_for(state.settings, name), accounts
    view.submitter_changes = ChangeLog.unknown(state.position)
    if negotiator:
        view.priorities_updated_at = state.accounted.get(negotiator, 0)
        view.rejections = state.further_rejections.get(negotiator, {})
    return view, caches.get(_NegotiatorCaches).setdefault(name, Caches())
