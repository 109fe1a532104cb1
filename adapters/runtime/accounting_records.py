"""The accountant's records: attributes with plain values, under HTCondor's names.

They derive from a pool's own log, from its views or as of an instant, or were written by an HTCondor: in its
Accountantnew.log, or as output of condor_userprio. Submitters have records, and so have the accounting groups,
including that of those in no group.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from ...domain.negotiator.accounting import LEAST_PRIORITY, Standing, shares, standings, terms
from ...domain.state.accounting_groups import NO_GROUP, group_names, group_of
from ...domain.units import SECOND

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ...domain.negotiator.accounting import AccountantRecord
    from ...domain.negotiator.group_standings import GroupStanding
    from ...domain.ports.log import EventStore
    from ...projections.views import Views

Record = Mapping[str, Any]
"""Attribute -> a boolean, a number, or a string."""


SUMS = ("ResourcesUsed", "WeightedResourcesUsed", "AccumulatedUsage", "WeightedAccumulatedUsage")
"""Attributes that a group's record sums over its members."""
_LAST_OF_ALL = 3.4e38
"""The sort key of those in no group, if there are groups."""


def number(record: Record, name: str) -> float:
    value = record.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


# -- of the pool's own books ---------------------------------------------------------------------------------------


class Groups(NamedTuple):
    """The accounting groups of a pool: their names, how they stand (empty: there are none), and the priority factors of
    their members: the default, and those of groups (by names in small letters)."""

    names: tuple[str, ...]
    default: float
    standings: Sequence[GroupStanding] = ()
    factors: Mapping[str, float] = {}


class CycleShares(NamedTuple):
    """The submitters in a cycle that began now, and the weight of all slots, in cores."""

    taking_part: Container[str] = ()
    pie: float = 0.0


def records(standings: Sequence[Standing], groups: Groups, updated: int, cycle: CycleShares) -> list[Record]:
    """Return the records of the groups, those in none first, and of the submitters, by name.

    :param updated: when the priorities were updated last, in seconds
    """
    told = {one.name: one for one in groups.standings}
    members: dict[str, list[Standing]] = {name: [] for name in told or (NO_GROUP, *groups.names)}
    for one in standings:
        members[one.group].append(one)
    found = [_group(name, members, groups, told.get(name)) for name in members]
    parts = shares(standings, cycle.taking_part)
    found += [_submitter(one, parts.get(one.name, 0.0), cycle.pie) for one in standings]
    return [{**record, "LastUpdate": updated} for record in found]


def weight(ad: Mapping[str, str]) -> float:
    """Return a slot's weight, by the texts of its ad: its SlotWeight, or its Cpus if it has none."""
    from ...domain.classad import EvaluationError
    from ...domain.state.caches import ad_of as parsed

    name = "SlotWeight" if "SlotWeight" in ad else "Cpus"
    text = ad.get(ad[name] if ad.get(name) == "Cpus" else name, "1")
    if text.isdigit():
        return float(text)
    try:
        value = parsed(dict(ad)).eval(name)
    except EvaluationError:
        value = None
    return float(value) if isinstance(value, int | float) and 0 <= value < _LAST_OF_ALL else 1.0


def _submitter(one: Standing, share: float, pie: float) -> dict[str, Any]:
    return {
        "SubmitterShare": share,
        "SubmitterLimit": share * pie,
        "Name": one.name,
        "IsAccountingGroup": False,
        "AccountingGroup": one.group,
        "Priority": one.effective,
        "PriorityFactor": one.factor,
        "Floor": _bare(one.floor),
        "Ceiling": _bare(one.ceiling),
        "HierWeightedResourcesUsed": 0.0,
        **_usage([one]),
    }


def _bare(cores: float) -> float:
    """Return whole numbers as integers, since HTCondor has no others here."""
    return int(cores) if cores == int(cores) else cores


def _usage(members: Sequence[Standing]) -> dict[str, Any]:
    """Return the usage of some members. Without any usage, no time of it is given either."""
    now: dict[str, Any] = {
        "ResourcesUsed": sum(one.slots for one in members),
        "WeightedResourcesUsed": float(sum(one.cores for one in members)),
    }
    once = [one for one in members if one.begin]
    if once:
        now["AccumulatedUsage"] = sum(one.held for one in once)
        now["WeightedAccumulatedUsage"] = sum(one.used for one in once)
        now["BeginUsageTime"] = int(min(one.begin for one in once))
    if any(one.last for one in members):
        now["LastUsageTime"] = int(max(one.last for one in members))
    return now


def _group(
    name: str, members: Mapping[str, Sequence[Standing]], groups: Groups, told: GroupStanding | None
) -> dict[str, Any]:
    """Return a group's record. Its priority has no meaning (HTCondor's tools do not show it): it derives from its
    members', and is that of an only member."""
    own = members[name]
    under = [one for inner, ones in members.items() if name == NO_GROUP or _within(inner, name) for one in ones]
    priority = max([LEAST_PRIORITY, sum(one.priority for one in own if one.priority > LEAST_PRIORITY)])
    factor = groups.factors.get(name.lower(), groups.default)
    return {
        "Name": name,
        "IsAccountingGroup": True,
        "AccountingGroup": _parent(name, members),
        "Priority": priority * factor,
        "PriorityFactor": factor,
        "Floor": 0,
        "Ceiling": -1,
        "SubmitterShare": 0.0,
        "SubmitterLimit": 0.0,
        "EffectiveQuota": 0.0 if told is None else told.quota,
        "ConfigQuota": 0.0 if told is None else told.configured,
        "SubtreeQuota": 0.0 if told is None else told.subtree,
        "GroupSortKey": 0.0 if told is None else told.order,
        "SurplusPolicy": "byquota" if told is None else told.surplus,
        "Requested": 0.0 if told is None else told.requested,
        "HierWeightedResourcesUsed": float(sum(one.cores for one in under)),
        **_usage(own),
    }


def _within(inner: str, outer: str) -> bool:
    return f"{inner}.".lower().startswith(f"{outer}.".lower())


def _parent(name: str, groups: Iterable[str]) -> str:
    outer = name.rpartition(".")[0]
    return next((group for group in groups if group.lower() == outer.lower()), NO_GROUP)


def rolled_up(found: Iterable[Record]) -> list[Record]:
    """Return the records, with those of groups including their subgroups."""
    all_of_them = [dict(record) for record in found]
    groups = {str(record["Name"]): record for record in all_of_them if record.get("IsAccountingGroup")}
    inner_first = sorted(groups, key=lambda name: (name == NO_GROUP, -name.count(".")))
    for name in inner_first:
        outer = groups.get(str(groups[name].get("AccountingGroup", NO_GROUP)))
        if name == NO_GROUP or outer is None:
            continue
        inner = groups[name]
        for attribute in SUMS:
            if attribute in inner:
                total = number(outer, attribute) + number(inner, attribute)
                outer[attribute] = int(total) if attribute == "ResourcesUsed" else total
        for attribute, which in (("BeginUsageTime", min), ("LastUsageTime", max)):
            instants = [one for one in (number(inner, attribute), number(outer, attribute)) if one]
            outer |= {attribute: int(which(instants))} if instants else {}
    return [*all_of_them]


# -- of an HTCondor's ----------------------------------------------------------------------------------------------

_CUSTOMER, _ACCOUNTANT = "Customer.", "Accountant."
_FACTOR = 1000.0


def of_table(ads: Mapping[str, Mapping[str, str]]) -> list[Record]:
    """Return the records of an Accountantnew.log: of its ads, by their keys. It has real priorities, and no factor that
    is the default."""
    updated = _plain(ads.get(_ACCOUNTANT, {}).get("LastUpdateTime", "0"))
    customers = {key.removeprefix(_CUSTOMER): ad for key, ad in ads.items() if key.startswith(_CUSTOMER)}
    groups = [name for name in customers if "@" not in name]
    found: list[Record] = []
    for name in sorted(customers, key=lambda name: ("@" in name, name)):
        kept = {attribute: _plain(text) for attribute, text in customers[name].items()}
        kept = {attribute: value for attribute, value in kept.items() if not attribute.endswith("UnchargedTime")}
        factor = number(kept, "PriorityFactor") or _FACTOR
        real = max(LEAST_PRIORITY, number(kept, "Priority"))
        group = "@" not in name
        told = {
            "Name": name,
            "IsAccountingGroup": group,
            "AccountingGroup": _parent(name if group else group_of(name) + ".", groups),
            "Priority": real * factor,
            "PriorityFactor": factor,
            "Floor": kept.get("Floor", 0),
            "Ceiling": kept.get("Ceiling", -1),
            "LastUpdate": updated,
        }
        found.append({**kept, **told})
    return found


def _plain(text: str) -> Any:
    """Return the value of a plain attribute's text; of any other, the text."""
    if not _NUMBER.fullmatch(text):
        return {"true": True, "false": False}.get(text.lower(), text.strip('"'))
    if len(text) < _DIGITS and text.lstrip("-").isdigit():
        return int(text)
    value = float(text)
    return value if isfinite(value) else text


_DIGITS = 19
_NUMBER = re.compile(r"-?\d+(\.\d*)?([eE][-+]?\d+)?", re.ASCII)


def of_texts(ads: Iterable[Mapping[str, str]]) -> list[Record]:
    """Return the records that condor_userprio printed: an ad for each, or one ad for all of them, whose attributes'
    names end in a record's number."""
    found: list[Record] = []
    for ad in ads:
        record = {name: _plain(text) for name, text in ad.items()}
        found += _apart(record) if "NumSubmittors" in record else [record]
    return found


_NUMBERED = re.compile(r"(.*?\D)(\d+)", re.ASCII)


def _apart(whole: Record) -> list[Record]:
    found: dict[int, dict[str, Any]] = {}
    for name, value in whole.items():
        part = _NUMBERED.fullmatch(name)
        if part is not None:
            found.setdefault(int(part[2]), {"LastUpdate": whole.get("LastUpdate", 0)})[part[1]] = value
    return [found[number] for number in sorted(found)]


def recorded(log: EventStore, at: int | None = None) -> tuple[list[Record], int]:
    """Return the records of an imported log at an instant (microseconds; None: the last), and their instant: from its
    Accountantnew.log, or from condor_userprio's output. Raise `NotKnown` if nothing that was imported tells of them."""
    from ...replay.forensics.daemon_tables import NotKnown, sample, tables

    early = 0
    try:
        found = tables(log, "accountant", at)
        if found:
            return [record for one in found for record in of_table(one.ads())], max(one.at for one in found)
    except NotKnown as error:
        early = error.since
    try:
        last = sample(log, "submitter_ads", at)
    except NotKnown as error:
        raise NotKnown(min(filter(None, (early, error.since)), default=0)) from None
    return of_texts(last.ads), last.at


def standing_of(record: Record) -> Standing:
    """Return the standing of the submitter in an HTCondor record."""
    factor = number(record, "PriorityFactor") or _FACTOR
    ceiling = record.get("Ceiling")
    return Standing(
        str(record.get("Name", "")),
        str(record.get("AccountingGroup", NO_GROUP)),
        number(record, "Priority") / factor,
        factor,
        number(record, "Floor"),
        -1.0 if ceiling is None else number(record, "Ceiling"),
        int(number(record, "ResourcesUsed")),
        number(record, "WeightedResourcesUsed"),
        number(record, "WeightedAccumulatedUsage"),
        number(record, "AccumulatedUsage"),
        number(record, "BeginUsageTime"),
        number(record, "LastUsageTime"),
    )


def ad_of(record: Record) -> ClassAd:
    from ...domain.classad import ClassAd

    ad = ClassAd()
    for name, value in record.items():
        ad[name] = value
    return ad


def current_records(views: Views, now: int, *, whole: bool = True, whose: str = "") -> list[Record]:
    """Return the records as of now, in seconds; with `whole`, also fields that no table shows. ``whose``: of several
    negotiators, the one of this name."""
    from ...domain.state.negotiators import as_one, short

    pool, cycle = views.pool(), CycleShares()
    has_groups = bool(group_names(pool.settings))
    slots = [(slot.ad, weight(slot.ad)) for slot in views.slots()] if whole or has_groups else []
    if whole:
        cycle = CycleShares(views.waiting(), sum(weight for _, weight in slots))
    books = views.submitters(short(whose))
    since = (max((book.updated for book in books), default=0) if short(whose) else pool.accounted) or pool.founded
    told: Sequence[GroupStanding] = ()
    if has_groups:
        told = _groups(pool.settings, pool.dialect, slots, views.waiting_jobs(), books, now)
    return _records(books, as_one(pool.settings, whose), since, views.at, cycle, now * SECOND, told)


def past_records(log: EventStore, at: int, *, whole: bool = True, whose: str = "") -> list[Record] | None:
    """Return the records as of an instant, in microseconds; None if the log begins later."""
    from ...domain.fold.evolve import state_at
    from ...domain.negotiator.accounting import accounts_of
    from ...domain.state.cluster import IDLE
    from ...domain.state.negotiators import as_one, short

    state = state_at(log, at)
    if not state.position:
        return None
    cycle, has_groups = CycleShares(), bool(group_names(state.settings))
    books = list(accounts_of(state.submitters, short(whose)).values())
    waiting = [cluster for cluster in state.clusters.values() if cluster.counts[IDLE]]
    slots = [(slot.ad, weight(slot.ad)) for slot in state.slots.values()] if whole or has_groups else []
    if whole:
        cycle = CycleShares({cluster.submitter for cluster in waiting}, sum(weight for _, weight in slots))
    told: Sequence[GroupStanding] = ()
    if has_groups:
        jobs = [
            (cluster.submitter, cluster.counts[IDLE], cluster.value(cluster.next_idle(), "RequestCpus"))
            for cluster in waiting
            if not cluster.local
        ]
        told = _groups(state.settings, state.dialect.name, slots, jobs, books, at // SECOND)
    accounted = state.accounted.get(whose, 0) if short(whose) else state.priorities_updated_at
    return _records(books, as_one(state.settings, whose), accounted or at, at, cycle, at, told)


def _groups(
    settings: Mapping[str, str],
    dialect: str,
    slots: Iterable[tuple[Mapping[str, str], float]],
    jobs: Iterable[tuple[str, int, str]],
    books: Iterable[AccountantRecord],
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


def past_claims(log: EventStore, submitter: str, at: int) -> list[tuple[str, int]] | None:
    """Return the slots that a submitter had claimed at an instant, and since when; None if the log begins later."""
    from ...domain.fold.evolve import state_at

    state = state_at(log, at)
    claims = [(slot.name, slot.claim) for slot in state.slots.values()]
    found = [(name, claim.since) for name, claim in claims if claim and claim.submitter == submitter]
    return found if state.position else None


def _records(
    submitters: Iterable[AccountantRecord],
    settings: Mapping[str, str],
    accounted: int,
    at: int,
    cycle: CycleShares,
    now: int,
    told: Sequence[GroupStanding] = (),
) -> list[Record]:
    """Return the records at `now`, where the priorities were updated last at `accounted`, and the last event was at
    `at`."""
    rules = terms(settings)
    groups = Groups(group_names(settings), rules.default, told, rules.groups)
    found = standings(submitters, rules, groups.names, accounted, at, now, now)
    return records(found, groups, accounted // SECOND, cycle)
