"""One negotiation cycle, from the logged state to the cycle's decisions.

The steps follow the manual ("Negotiation", "The Layperson's Description of the Pie Spin and Pie Slice"), but
HTCondor's source, which is more precise, determines their order: update the priorities, serve the floors, and spin the
pie until nothing changes. In the first spin, a submitter that has used up its slice may still receive slots that prefer
its job to their current job. A submitter without a slot in this spin may exceed its slice by one slot. From the second
spin on, a submitter whose remaining slice is smaller than the lightest slot waits for the next cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from ..classad import Context
from ..classad.allowance import Allowance
from ..events import CycleHeld, OfflineMatched, PrioritiesUpdated, QuotasAssigned
from ..ports.slot_ads import Advertise
from ..requests.idle_jobs import idle_queues
from ..state.caches import Caches
from ..state.state import Manager
from .cycle_accounts import CycleSubmitters
from .matchmaker import ChosenMatch
from .negotiator_settings import settings_of
from .negotiator_view import view_of_negotiator
from .offline_slots import match_offline
from .spins import NegotiationCycle
from .waiting_submitters import waiting_submitters

RULES, OF_LIMITS, OF_GROUPS, OF_WHOLE, OF_SEVERAL, OF_REASONS = 8, 2, 4, 16, 32, 64
"""The version of the cycle rules (``CycleHeld.rules``), and the numbers added to it if a job names concurrency limits,
if there are accounting groups (earlier versions ignored both), if a match names the whole partitionable slot (in
earlier versions: the dynamic slot), if there are several access points (earlier versions treated them as one), and if
the reasons of rejections may differ from earlier versions, which counted the slots that
NEGOTIATOR_SLOT_CONSTRAINT excludes, and omitted used-up group quotas if a partitionable slot had no cores left."""
Why = Callable[[str], tuple[int, str, str]]


class CycleResult(Struct, frozen=True):
    """The decisions of a cycle."""

    priorities: PrioritiesUpdated | None  #: the new priorities, if any changed
    quotas: QuotasAssigned | None  #: the quotas of the accounting groups, if any changed
    held: CycleHeld | None  #: the cycle's event, if it has matches or new reasons
    choices: tuple[ChosenMatch, ...] = ()  #: the matches with their details
    offline: tuple[OfflineMatched, ...] = ()  #: the offline slots for which there are jobs


def hold_cycle(
    state: Manager,
    caches: Caches,
    advertise: Advertise,
    why: Why,
    context: Context,
    offset: int = 0,
    submitter_order: Sequence[str] = (),
    negotiator: str = "",
    once: bool = False,
    demand: Mapping[str, float] = {},
) -> CycleResult:
    """Hold a negotiation cycle and return its events. The state does not change.

    :param advertise: returns the slot ads
    :param why: returns the first fields of an event with the given cause: time, cause and stimulus
    :param context: the context for evaluating expressions
    :param offset: the UTC offset of ``context``, in seconds
    :param submitter_order: the order of submitters with equal priority; other submitters follow, sorted by name
    :param negotiator: the name of the negotiator; empty: NEGOTIATOR
    :param once: whether to match each partitionable slot without a consumption policy only once, as HTCondor does
    :param demand: the cores that accounting groups request, by name, if they differ from the queue
    """
    now, context = why("negotiated")[0], context.replace(allowance=Allowance())
    state, caches = view_of_negotiator(state, caches, negotiator, now)
    rules = settings_of(state, caches)
    accounts = CycleSubmitters(state, now, rules)
    waiting = waiting_submitters(state, caches, accounts)
    aged = accounts.changed_priorities(waiting.submitters_to_age(idle_queues(state, caches)))
    priorities = PrioritiesUpdated(*why("accounted"), aged, negotiator) if aged else None
    if not state.idle:
        return CycleResult(priorities, None, None)
    positions = {name: position for position, name in enumerate(submitter_order)}
    cycle = NegotiationCycle(state, caches, advertise, now, context, rules, accounts, waiting, positions)
    cycle.matchmaker.remainders.once = once
    cycle.groups.demand = demand
    cycle.run()
    quotas = cycle.groups.quotas
    assigned = (
        None if negotiator or quotas == state.quotas else QuotasAssigned(*why("negotiated"), cycle.total_cores, quotas)
    )
    matches = cycle.matchmaker.matches()
    cycle.matchmaker.pool.matched_rows = np.array([choice.row for choice in cycle.matchmaker.choices], np.int64)
    unmatched = tuple(cycle.reasons.rejections())
    offline = tuple(OfflineMatched(*why("negotiated"), *pair) for pair in match_offline(cycle)) if state.offline else ()
    if not matches and not unmatched:
        return CycleResult(priorities, assigned, None, offline=offline)
    statistics = cycle.statistics(len(matches))
    regrouped = tuple(f"{choice.cluster.id}.{choice.proc}" for choice in cycle.matchmaker.choices if choice.regrouped)
    number = RULES + OF_LIMITS * cycle.concurrency.any_named + OF_GROUPS * rules.tree.has_groups
    number += OF_WHOLE * cycle.matchmaker.matches_whole() + OF_SEVERAL * (state.peers.numbered > 1)
    number += OF_REASONS * (
        rules.slot_constraint is not None or (rules.tree.has_groups and cycle.matchmaker.lightest <= 0)
    )
    remainders = tuple(cycle.groups.remainders)
    event = CycleHeld(
        *why("negotiated"), matches, unmatched, statistics, offset, number, negotiator, regrouped, remainders
    )
    return CycleResult(priorities, assigned, event, tuple(cycle.matchmaker.choices), offline)
