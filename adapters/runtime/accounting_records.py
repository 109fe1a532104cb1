"""Make the accountant's records of a pool's own log, from its views or as of an instant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING

from ..condor_tools.userprio_records import Cycle, Groups, Record, records, weight

if TYPE_CHECKING:
    from ...domain.negotiator.accounting import Book
    from ...domain.ports.log import Log
    from ...domain.state.state import State
    from ...projections.views import Views

_SECOND = 1_000_000


def current_records(views: Views, now: int, *, whole: bool = True) -> list[Record]:
    """Return the records as of now, in seconds; with `whole`, also fields that no table shows."""
    pool, cycle = views.pool(), Cycle()
    if whole:
        cycle = Cycle(views.waiting(), sum(weight(slot.ad) for slot in views.slots()))
    since = pool.accounted or pool.founded
    return _records(views.submitters(), pool.settings, since, views.at, cycle, now * _SECOND)


def past_records(log: Log, at: int, *, whole: bool = True) -> list[Record] | None:
    """Return the records as of an instant, in microseconds; None if the log begins later."""
    from ...domain.state.cluster import IDLE

    state = _state_then(log, at)
    if not state.position:
        return None
    cycle = Cycle()
    if whole:
        waiting = {cluster.submitter for cluster in state.clusters.values() if cluster.counts[IDLE]}
        cycle = Cycle(waiting, sum(weight(slot.ad) for slot in state.slots.values()))
    return _records(state.submitters.values(), state.settings, state.priorities_updated_at or at, at, cycle, at)


def past_claims(log: Log, submitter: str, at: int) -> list[tuple[str, int]] | None:
    """Return the slots that a submitter had claimed at an instant, and since when; None if the log begins later."""
    state = _state_then(log, at)
    claims = [(slot.name, slot.claim) for slot in state.slots.values()]
    found = [(name, claim.since) for name, claim in claims if claim and claim.submitter == submitter]
    return found if state.position else None


def _state_then(log: Log, at: int) -> State:
    from ...domain.state.evolve import fold

    return fold(takewhile(lambda placed: placed[1].at <= at, log.read(0)))


def _records(
    submitters: Iterable[Book], settings: Mapping[str, str], accounted: int, at: int, cycle: Cycle, now: int
) -> list[Record]:
    """Return the records at `now`, where the priorities were updated last at `accounted`, and the last event was at
    `at`."""
    from ...domain.negotiator.accounting import standings, terms

    rules = terms(settings)
    groups = Groups.of(settings, rules.default)
    found = standings(submitters, rules, groups.names, accounted, at, now)
    return records(found, groups, accounted // _SECOND, cycle)
