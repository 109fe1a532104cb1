"""Make the accountant's records of a pool's own log, from its views or as of an instant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from ..condor_tools.userprio_records import Cycle, Groups, Record, records, weight

if TYPE_CHECKING:
    from ...domain.negotiator.accounting import Book
    from ...domain.ports.log import Log
    from ...domain.state.state import State
    from ...projections.views import Views

_SECOND = 1_000_000


class _Accountant(NamedTuple):
    """A pool's submitters and settings, when the priorities were updated last, and when its last event happened."""

    submitters: Iterable[Book]
    settings: Mapping[str, str]
    accounted: int
    at: int


def current_records(views: Views, now: int, *, whole: bool = True) -> list[Record]:
    """Return the records as of now, in seconds; with `whole`, also fields that no table shows."""
    pool, cycle = views.pool(), Cycle()
    if whole:
        cycle = Cycle(views.waiting(), sum(weight(slot.ad) for slot in views.slots()))
    accountant = _Accountant(views.submitters(), pool.settings, pool.accounted or pool.founded, views.at)
    return _records(accountant, cycle, now * _SECOND)


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
    return _records(
        _Accountant(state.submitters.values(), state.settings, state.priorities_updated_at or at, at), cycle, at
    )


def past_claims(log: Log, submitter: str, at: int) -> list[tuple[str, int]] | None:
    """Return the slots that a submitter had claimed at an instant, and since when; None if the log begins later."""
    state = _state_then(log, at)
    claims = [(slot.name, slot.claim) for slot in state.slots.values()]
    found = [(name, claim.since) for name, claim in claims if claim and claim.submitter == submitter]
    return found if state.position else None


def _state_then(log: Log, at: int) -> State:
    from ...domain.state.evolve import fold

    return fold(takewhile(lambda placed: placed[1].at <= at, log.read(0)))


def _records(accountant: _Accountant, cycle: Cycle, now: int) -> list[Record]:
    from ...domain.negotiator.accounting import standings, terms

    rules = terms(accountant.settings)
    groups = Groups.of(accountant.settings, rules.default)
    found = standings(accountant.submitters, rules, groups.names, accountant.accounted, accountant.at, now)
    return records(found, groups, accountant.accounted // _SECOND, cycle)
