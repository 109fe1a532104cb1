"""One negotiation cycle, from what the log says to what it decides.

The steps are the manual's ("Negotiation", "The Layperson's Description of the Pie Spin and Pie Slice"), in the
reference's order where it is more exact: priorities, floors, then the pie, spun until nothing changes any more. In the
first spin, whoever has its slice may still get slots that prefer its job to the one that they have. A submitter gets
one slot more than its slice allows if it has got none in this spin; from the second spin on, who may have less than the
lightest slot waits for the next cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from ..classad import Context
from ..classad.allowance import Allowance
from ..events import CycleHeld, PrioritiesUpdated, QuotasAssigned
from ..ports.slot_ads import Advertise
from ..requests.idle_jobs import idle_queues
from ..state.caches import Caches
from ..state.state import Manager
from .cycle_accounts import CycleSubmitters
from .matchmaker import Choice
from .negotiator_settings import settings_of
from .negotiator_view import seen_by
from .spins import Turn
from .waiting_submitters import waiting_submitters

RULES, OF_LIMITS, OF_GROUPS, OF_WHOLE = 8, 2, 4, 16
"""The number of the way in which cycles are decided here (``CycleHeld.rules``), and what is added to it where a job
named concurrency limits, and where there are accounting groups, at which earlier versions did not look, and where a
match names the partitionable slot as a whole: in earlier versions, what was carved from it."""
Why = Callable[[str], tuple[int, str, str]]


class CycleResult(Struct, frozen=True):
    """What a cycle decided."""

    priorities: PrioritiesUpdated | None  #: the priorities as of it, if any has changed
    quotas: QuotasAssigned | None  #: the quotas of the accounting groups, if any has changed
    held: CycleHeld | None  #: itself, if it matched something or learned something new
    choices: tuple[Choice, ...] = ()  #: the matches with what they are made of


def hold(
    state: Manager,
    caches: Caches,
    advertise: Advertise,
    why: Why,
    context: Context,
    offset: int = 0,
    turns: Sequence[str] = (),
    whose: str = "",
    once: bool = False,
    demand: Mapping[str, float] = {},
) -> CycleResult:
    """Hold a cycle. It changes nothing: what it decided stands in the events that it returns.

    :param advertise: gives the slots' ads
    :param why: what an event of a cause begins with: the instant, the cause, the stimulus
    :param context: what expressions see of the world; of the pool's time zone ``offset`` is the seconds from UTC
    :param turns: submitters in the order in which those of equal rights are asked; the others are asked by name
    :param whose: of several negotiators, whose cycle it is; empty: NEGOTIATOR's
    :param once: match partitionable slots without a consumption policy once, as the reference does
    :param demand: the cores that accounting groups request, by name, if that is not what the queue says
    """
    now, context = why("negotiated")[0], context.replace(allowance=Allowance())
    state, caches = seen_by(state, caches, whose, now)
    rules = settings_of(state, caches)
    accounts = CycleSubmitters(state, now, rules)
    waiting = waiting_submitters(state, caches, accounts)
    aged = accounts.aged(waiting.aging(idle_queues(state, caches)))
    priorities = PrioritiesUpdated(*why("accounted"), aged, whose) if aged else None
    if not state.idle:
        return CycleResult(priorities, None, None)
    numbered = {name: place for place, name in enumerate(turns)}
    turn = Turn(state, caches, advertise, now, context, rules, accounts, waiting, numbered)
    turn.chooser.shares.once = once
    turn.groups.demand = demand
    turn.run()
    quotas = turn.groups.quotas
    assigned = None if whose or quotas == state.quotas else QuotasAssigned(*why("negotiated"), turn.total, quotas)
    matches = turn.chooser.matches()
    turn.chooser.pool.given = np.array([choice.place for choice in turn.chooser.choices], np.int64)
    unmatched = tuple(turn.reasons.told())
    if not matches and not unmatched:
        return CycleResult(priorities, assigned, None)
    statistics = turn.statistics(len(matches))
    regrouped = tuple(f"{one.cluster.id}.{one.proc}" for one in turn.chooser.choices if one.regrouped)
    number = RULES + OF_LIMITS * turn.limits.named + OF_GROUPS * rules.tree.divides
    number += OF_WHOLE * turn.chooser.matches_whole()
    remainders = tuple(turn.groups.remainders)
    held = CycleHeld(*why("negotiated"), matches, unmatched, statistics, offset, number, whose, regrouped, remainders)
    return CycleResult(priorities, assigned, held, tuple(turn.chooser.choices))
