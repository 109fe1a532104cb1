"""The accountant's records: attributes with plain values, under HTCondor's names.

The records come from a pool's own log (from its views, or as of an instant), from an Accountantnew.log, or from output
of condor_userprio. Submitters have records, and so do accounting groups, including the group of submitters without one.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from ...domain.negotiator.accounting import LEAST_PRIORITY, Standing, accountant_settings, shares, standings
from ...domain.state.accounting_groups import NO_GROUP, group_names, group_of
from ...domain.units import SECOND

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ...domain.negotiator.accounting import AccountantRecord
    from ...domain.negotiator.group_standings import GroupStanding
    from ...domain.ports.log import EventStore
    from ...projections.views import Views

Record = Mapping[str, Any]
"""The value of each attribute is a boolean, a number or a string."""


SUMS = ("ResourcesUsed", "WeightedResourcesUsed", "AccumulatedUsage", "WeightedAccumulatedUsage")
"""Attributes that a group's record sums over its members."""
_LAST_OF_ALL = 3.4e38
"""The sort key of submitters without a group, if there are groups."""


def number(record: Record, name: str) -> float:
    value = record.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


class Groups(NamedTuple):
    """A pool's accounting groups, with their names, their standings (empty without groups), and the default and
    per-group priority factors of their members (by lower-case group name)."""

    names: tuple[str, ...]
    default: float
    standings: Sequence[GroupStanding] = ()
    factors: Mapping[str, float] = {}


class CycleShares(NamedTuple):
    """The submitters in a cycle that starts now, and the weight of all slots, in cores."""

    taking_part: Container[str] = ()
    pie: float = 0.0


def records(standings: Sequence[Standing], groups: Groups, updated: int, cycle: CycleShares) -> list[Record]:
    """Return the records of the groups and the submitters, by name. The record of the group "none" is the first.

    :param updated: when the priorities were last updated, in seconds
    """
    by_group = {standing.name: standing for standing in groups.standings}
    members: dict[str, list[Standing]] = {name: [] for name in by_group or (NO_GROUP, *groups.names)}
    for standing in standings:
        members[standing.group].append(standing)
    rows = [_group(name, members, groups, by_group.get(name)) for name in members]
    parts = shares(standings, cycle.taking_part)
    rows += [_submitter(standing, parts.get(standing.name, 0.0), cycle.pie) for standing in standings]
    return [{**record, "LastUpdate": updated} for record in rows]


def weight(ad: Mapping[str, str]) -> float:
    """Return a slot's weight from the texts of its ad: SlotWeight, or Cpus if it has no SlotWeight."""
    from ...domain.classad import EvaluationError
    from ...domain.state.caches import ad_from_attributes as parsed

    name = "SlotWeight" if "SlotWeight" in ad else "Cpus"
    text = ad.get(ad[name] if ad.get(name) == "Cpus" else name, "1")
    if text.isdigit():
        return float(text)
    try:
        value = parsed(dict(ad)).eval(name)
    except EvaluationError:
        value = None
    return float(value) if isinstance(value, int | float) and 0 <= value < _LAST_OF_ALL else 1.0


def _submitter(standing: Standing, share: float, pie: float) -> dict[str, Any]:
    return {
        "SubmitterShare": share,
        "SubmitterLimit": share * pie,
        "Name": standing.name,
        "IsAccountingGroup": False,
        "AccountingGroup": standing.group,
        "Priority": standing.effective,
        "PriorityFactor": standing.factor,
        "Floor": _whole_as_integer(standing.floor),
        "Ceiling": _whole_as_integer(standing.ceiling),
        "HierWeightedResourcesUsed": 0.0,
        **_usage([standing]),
    }


def _whole_as_integer(cores: float) -> float:
    """Return a whole number as an integer, as HTCondor prints it."""
    return int(cores) if cores == int(cores) else cores


def _usage(members: Sequence[Standing]) -> dict[str, Any]:
    """Return the total usage of the members, without times if there is no usage."""
    now: dict[str, Any] = {
        "ResourcesUsed": sum(member.slots for member in members),
        "WeightedResourcesUsed": float(sum(member.cores for member in members)),
    }
    once = [member for member in members if member.begin]
    if once:
        now["AccumulatedUsage"] = sum(member.held for member in once)
        now["WeightedAccumulatedUsage"] = sum(member.used for member in once)
        now["BeginUsageTime"] = int(min(member.begin for member in once))
    if any(member.last for member in members):
        now["LastUsageTime"] = int(max(member.last for member in members))
    return now


def _group(
    name: str, members: Mapping[str, Sequence[Standing]], groups: Groups, group: GroupStanding | None
) -> dict[str, Any]:
    """Return a group's record. The group's priority, which HTCondor's tools do not show, is computed from its members'
    priorities. If it has only one member, it has this member's priority."""
    own_members = members[name]
    inner_groups = [inner for inner in members if name == NO_GROUP or _is_within_group(inner, name)]
    under = [member for inner in inner_groups for member in members[inner]]
    priority = max([LEAST_PRIORITY, sum(member.priority for member in own_members if member.priority > LEAST_PRIORITY)])
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
        "EffectiveQuota": 0.0 if group is None else group.quota,
        "ConfigQuota": 0.0 if group is None else group.configured,
        "SubtreeQuota": 0.0 if group is None else group.subtree,
        "GroupSortKey": 0.0 if group is None else group.order,
        "SurplusPolicy": "byquota" if group is None else group.surplus,
        "Requested": 0.0 if group is None else group.requested,
        "HierWeightedResourcesUsed": float(sum(member.cores for member in under)),
        **_usage(own_members),
    }


def _is_within_group(inner: str, outer: str) -> bool:
    return f"{inner}.".lower().startswith(f"{outer}.".lower())


def _parent(name: str, groups: Iterable[str]) -> str:
    outer = name.rpartition(".")[0]
    return next((group for group in groups if group.lower() == outer.lower()), NO_GROUP)


def with_subgroups(records: Iterable[Record]) -> list[Record]:
    """Return the records, with the usage of subgroups included in each group's record."""
    all_of_them = [dict(record) for record in records]
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
            instants = [at for at in (number(inner, attribute), number(outer, attribute)) if at]
            outer |= {attribute: int(which(instants))} if instants else {}
    return [*all_of_them]


_CUSTOMER, _ACCOUNTANT = "Customer.", "Accountant."
_FACTOR = 1000.0


def records_of_table(ads: Mapping[str, Mapping[str, str]]) -> list[Record]:
    """Return the records in an Accountantnew.log from its ads, by key. It contains real priorities, and only those
    factors that differ from the default."""
    updated = _literal_value(ads.get(_ACCOUNTANT, {}).get("LastUpdateTime", "0"))
    customers = {key.removeprefix(_CUSTOMER): ad for key, ad in ads.items() if key.startswith(_CUSTOMER)}
    groups = [name for name in customers if "@" not in name]
    records: list[Record] = []
    for name in sorted(customers, key=lambda name: ("@" in name, name)):
        record = {attribute: _literal_value(text) for attribute, text in customers[name].items()}
        record = {attribute: value for attribute, value in record.items() if not attribute.endswith("UnchargedTime")}
        factor = number(record, "PriorityFactor") or _FACTOR
        real = max(LEAST_PRIORITY, number(record, "Priority"))
        group = "@" not in name
        fields = {
            "Name": name,
            "IsAccountingGroup": group,
            "AccountingGroup": _parent(name if group else group_of(name) + ".", groups),
            "Priority": real * factor,
            "PriorityFactor": factor,
            "Floor": record.get("Floor", 0),
            "Ceiling": record.get("Ceiling", -1),
            "LastUpdate": updated,
        }
        records.append({**record, **fields})
    return records


def _literal_value(text: str) -> Any:
    """Return the value of a text that is a literal; any other text is returned unchanged."""
    if not _NUMBER.fullmatch(text):
        return {"true": True, "false": False}.get(text.lower(), text.strip('"'))
    if len(text) < _DIGITS and text.lstrip("-").isdigit():
        return int(text)
    value = float(text)
    return value if isfinite(value) else text


_DIGITS = 19
_NUMBER = re.compile(r"-?\d+(\.\d*)?([eE][-+]?\d+)?", re.ASCII)


def records_of_output(ads: Iterable[Mapping[str, str]]) -> list[Record]:
    """Return the records that condor_userprio printed: one ad per record, or one ad for all records, in which attribute
    names end in the record's number."""
    records: list[Record] = []
    for ad in ads:
        record = {name: _literal_value(text) for name, text in ad.items()}
        records += _split_record(record) if "NumSubmittors" in record else [record]
    return records


_NUMBERED = re.compile(r"(.*?\D)(\d+)", re.ASCII)


def _split_record(record: Record) -> list[Record]:
    records: dict[int, dict[str, Any]] = {}
    for name, value in record.items():
        part = _NUMBERED.fullmatch(name)
        if part is not None:
            records.setdefault(int(part[2]), {"LastUpdate": record.get("LastUpdate", 0)})[part[1]] = value
    return [records[number] for number in sorted(records)]


def imported_records(log: EventStore, at: int | None = None) -> tuple[list[Record], int]:
    """Return the records from an imported Accountantnew.log or condor_userprio output at a time in microseconds (None
    means the last ones), and the time of these records. Raise `NotKnown` if no imported file contains them."""
    from ...replay.forensics.daemon_tables import NotKnown, last_sample, tables

    early = 0
    try:
        snapshots = tables(log, "accountant", at)
        if snapshots:
            records = [record for table in snapshots for record in records_of_table(table.ads())]
            return records, max(table.at for table in snapshots)
    except NotKnown as error:
        early = error.since
    try:
        last = last_sample(log, "submitter_ads", at)
    except NotKnown as error:
        raise NotKnown(min(filter(None, (early, error.since)), default=0)) from None
    return records_of_output(last.ads), last.at


def standing_of(record: Record) -> Standing:
    """Return the standing of the submitter described by an HTCondor record."""
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


def record_ad(record: Record) -> ClassAd:
    from ...domain.classad import ClassAd

    ad = ClassAd()
    for name, value in record.items():
        ad[name] = value
    return ad


def current_records(views: Views, now: int, *, detailed: bool = True, negotiator: str = "") -> list[Record]:
    """Return the current records, with times in seconds. With `detailed`, they include fields that no table shows.
    ``negotiator`` selects one if the pool has several."""
    from ...domain.state.negotiators import name_in_events, negotiator_settings

    pool, cycle = views.pool(), CycleShares()
    has_groups = bool(group_names(pool.settings))
    slots = [(slot.ad, weight(slot.ad)) for slot in views.slots()] if detailed or has_groups else []
    if detailed:
        cycle = CycleShares(views.submitters_with_idle_jobs(), sum(weight for _, weight in slots))
    books = views.submitters(name_in_events(negotiator))
    updated = max((book.updated for book in books), default=0) if name_in_events(negotiator) else pool.accounted
    since = updated or pool.founded
    group_standings: Sequence[GroupStanding] = ()
    if has_groups:
        group_standings = _groups(pool.settings, pool.dialect, slots, views.idle_clusters(), books, now)
    settings = negotiator_settings(pool.settings, negotiator)
    return _records(books, settings, since, views.at, cycle, now * SECOND, group_standings)


def _groups(
    settings: Mapping[str, str],
    dialect: str,
    slots: Iterable[tuple[Mapping[str, str], float]],
    jobs: Iterable[tuple[str, int, str]],
    books: Iterable[AccountantRecord],
    now: int,
) -> Sequence[GroupStanding]:
    """Return the standings of the accounting groups.

    :param jobs: the submitters with waiting jobs, each with the number of jobs and the cores that each job requests
    """
    from ...domain.negotiator.group_standings import SubmitterDemand, group_standings
    from ...domain.state_machines import dialect_named

    holdings = {
        book.name: SubmitterDemand(book.name, book.slots, book.weighted_in_use / 1000, 0, 0.0) for book in books
    }
    for name, count, cores in jobs:
        before = holdings.get(name, SubmitterDemand(name, 0, 0.0, 0, 0.0))
        cores_requested = count * (float(cores) if cores.isascii() and cores.isdecimal() else 1.0)
        holdings[name] = before._replace(
            jobs=before.jobs + count, requested_cores=before.requested_cores + cores_requested
        )
    weighted_ads = [(dict(ad), weight) for ad, weight in slots]
    return group_standings(settings, dialect_named(dialect), weighted_ads, holdings.values(), now)


def _records(
    submitters: Iterable[AccountantRecord],
    settings: Mapping[str, str],
    accounted: int,
    at: int,
    cycle: CycleShares,
    now: int,
    group_standings: Sequence[GroupStanding] = (),
) -> list[Record]:
    """Return the records at `now`. `accounted` is when priorities were last updated, and `at` is when the last event
    was."""
    rules = accountant_settings(settings)
    groups = Groups(group_names(settings), rules.default, group_standings, rules.groups)
    submitter_standings = standings(submitters, rules, groups.names, accounted, at, now, now)
    return records(submitter_standings, groups, accounted // SECOND, cycle)
