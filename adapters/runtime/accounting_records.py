"""Make the accountant's records of a pool's own log, from its views or as of an instant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from ...domain.negotiator.accounting import standings, terms
from ...domain.state.accounting_groups import group_names
from ..condor_tools.userprio_records import Cycle, Groups, Record, records, weight

if TYPE_CHECKING:
    from ...domain.negotiator.accounting import Book
    from ...domain.negotiator.group_standings import GroupStanding
    from ...domain.ports.log import Log
    from ...domain.state.state import State
    from ...projections.views import Views

_SECOND = 1_000_000


def current_records(views: Views, now: int, *, whole: bool = True, whose: str = "") -> list[Record]:
    """Return the records as of now, in seconds; with `whole`, also fields that no table shows. ``whose``: of several
    negotiators, the one of this name."""
    from ...domain.state.negotiators import as_one, short

    pool, cycle = views.pool(), Cycle()
    has_groups = bool(group_names(pool.settings))
    slots = [(slot.ad, weight(slot.ad)) for slot in views.slots()] if whole or has_groups else []
    if whole:
        cycle = Cycle(views.waiting(), sum(weight for _, weight in slots))
    books = views.submitters(short(whose))
    since = (max((book.updated for book in books), default=0) if short(whose) else pool.accounted) or pool.founded
    told: Sequence[GroupStanding] = ()
    if has_groups:
        told = _groups(pool.settings, pool.dialect, slots, views.waiting_jobs(), books, now)
    return _records(books, as_one(pool.settings, whose), since, views.at, cycle, now * _SECOND, told)


def past_records(log: Log, at: int, *, whole: bool = True, whose: str = "") -> list[Record] | None:
    """Return the records as of an instant, in microseconds; None if the log begins later."""
    from ...domain.negotiator.accounting import accounts_of
    from ...domain.state.cluster import IDLE
    from ...domain.state.negotiators import as_one, short

    state = _state_then(log, at)
    if not state.position:
        return None
    cycle, has_groups = Cycle(), bool(group_names(state.settings))
    books = list(accounts_of(state.submitters, short(whose)).values())
    waiting = [cluster for cluster in state.clusters.values() if cluster.counts[IDLE]]
    slots = [(slot.ad, weight(slot.ad)) for slot in state.slots.values()] if whole or has_groups else []
    if whole:
        cycle = Cycle({cluster.submitter for cluster in waiting}, sum(weight for _, weight in slots))
    told: Sequence[GroupStanding] = ()
    if has_groups:
        jobs = [
            (cluster.submitter, cluster.counts[IDLE], cluster.value(cluster.next_idle(), "RequestCpus"))
            for cluster in waiting
            if not cluster.local
        ]
        told = _groups(state.settings, state.dialect.name, slots, jobs, books, at // _SECOND)
    accounted = state.accounted.get(whose, 0) if short(whose) else state.priorities_updated_at
    return _records(books, as_one(state.settings, whose), accounted or at, at, cycle, at, told)


def _groups(
    settings: Mapping[str, str],
    dialect: str,
    slots: Iterable[tuple[Mapping[str, str], float]],
    jobs: Iterable[tuple[str, int, str]],
    books: Iterable[Book],
    now: int,
) -> Sequence[GroupStanding]:
    """Return how the accounting groups stand.

    :param jobs: the submitters of waiting jobs, each with how many these are, and the cores that each asks for
    """
    from ...domain.negotiator.group_standings import Holding, group_standings
    from ...domain.state_machines import dialect_named

    found = {one.name: Holding(one.name, one.slots, one.weighted_in_use / 1000, 0, 0.0) for one in books}
    for name, count, cores in jobs:
        before = found.get(name, Holding(name, 0, 0.0, 0, 0.0))
        asked = count * (float(cores) if cores.isascii() and cores.isdecimal() else 1.0)
        found[name] = before._replace(jobs=before.jobs + count, asked=before.asked + asked)
    return group_standings(
        settings, dialect_named(dialect), [(dict(ad), weight) for ad, weight in slots], found.values(), now
    )


def past_claims(log: Log, submitter: str, at: int) -> list[tuple[str, int]] | None:
    """Return the slots that a submitter had claimed at an instant, and since when; None if the log begins later."""
    state = _state_then(log, at)
    claims = [(slot.name, slot.claim) for slot in state.slots.values()]
    found = [(name, claim.since) for name, claim in claims if claim and claim.submitter == submitter]
    return found if state.position else None


def _state_then(log: Log, at: int) -> State:
    from ...domain.fold.evolve import fold

    return fold(takewhile(lambda placed: placed[1].at <= at, log.read(0)))


def _records(
    submitters: Iterable[Book],
    settings: Mapping[str, str],
    accounted: int,
    at: int,
    cycle: Cycle,
    now: int,
    told: Sequence[GroupStanding] = (),
) -> list[Record]:
    """Return the records at `now`, where the priorities were updated last at `accounted`, and the last event was at
    `at`."""
    rules = terms(settings)
    groups = Groups(group_names(settings), rules.default, told, rules.groups)
    found = standings(submitters, rules, groups.names, accounted, at, now, now)
    return records(found, groups, accounted // _SECOND, cycle)
