"""Who gets which share of a pool."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from ...domain.negotiator.accounting import shares as priority_shares
from ...domain.state.accounting_groups import NO_GROUP
from ...domain.units import SECOND
from ...projections import overview as tables
from ...replay.narration.formatting import counted
from ..runtime.accounting_records import number
from .records import Share, Shares

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..runtime.queries import Queries

_DAY: Final = 86_400 * SECOND
_IDLE: Final = 1
_MISSING: Final = "The records do not show how many jobs of each user wait, or preemptions."


def shares(queries: Queries) -> Shares:
    """Return the shares of the accounting groups and of the users with jobs or priorities, groups first, then by use.
    For an import, raise `NotKnown` if no imported file has priorities."""
    standings = queries.standings()
    if queries.imported:
        records = {str(record["Name"]): record for record in queries.accounting(0, detailed=False).records}
        active = {standing.name for standing in standings if standing.cores}
        return _shares(records, priority_shares(standings, active), 0.0, {}, {}, [_MISSING])
    views = queries.views
    at = views.at if queries.at is None else queries.at
    records = {str(record["Name"]): record for record in queries.accounting(at // SECOND, detailed=False).records}
    waiting: Counter[str] = Counter()
    for submitter, _, _, status, jobs in views.counts():
        waiting[submitter] += jobs if status == _IDLE else 0
    active = {standing.name for standing in standings if standing.cores or waiting[standing.name]}
    _, cores, _ = tables.core_counts(views.connection)
    groups = {standing.name: standing.group for standing in standings}
    parts: dict[str, float] = {}
    for group in set(groups.values()):
        parts |= priority_shares(standings, {name for name in active if groups[name] == group})
    return _shares(records, parts, cores, waiting, tables.preemptions(views.connection, at - _DAY), [])


def _shares(
    records: Mapping[str, Mapping[str, Any]],
    parts: Mapping[str, float],
    cores: float,
    waiting: Mapping[str, int],
    preemptions: Mapping[str, tuple[int, int]],
    missing: list[str],
) -> Shares:
    """Return the shares.

    :param parts: each active user's part of its group's cores
    :param cores: the number of cores of the pool; 0: unknown
    """
    rows = []
    for name, record in records.items():
        is_group, group = bool(record.get("IsAccountingGroup")), str(record.get("AccountingGroup", NO_GROUP))
        quota = number(records.get(name if is_group else group, {}), "SubtreeQuota" if is_group else "EffectiveQuota")
        total = quota or cores
        entitled = (quota or None) if is_group else parts[name] * total if total and name in parts else None
        used = number(record, "HierWeightedResourcesUsed" if is_group else "WeightedResourcesUsed")
        members = [member for member in waiting if is_group and _is_in_group(member, records, name)]
        jobs = sum(waiting[member] for member in members) if is_group else waiting.get(name, 0)
        won, lost = preemptions.get(name, (0, 0))
        priority = None if is_group else number(record, "Priority")
        if is_group and name == NO_GROUP:
            continue
        rows.append(
            Share(name, "" if group == NO_GROUP else group, is_group, entitled, used, jobs, priority, won, lost)
        )
    rows.sort(key=lambda share: (not share.is_group, -share.used, -share.waiting, share.name))
    return Shares(_sentence([row for row in rows if not row.is_group]), rows, missing)


def _is_in_group(user: str, records: Mapping[str, Mapping[str, Any]], group: str) -> bool:
    own = str(records.get(user, {}).get("AccountingGroup", NO_GROUP))
    return f"{own}.".lower().startswith(f"{group}.".lower())


def _sentence(users: list[Share]) -> str:
    using = [user for user in users if user.used]
    if not using:
        return "No user has slots."
    most = max(using, key=lambda user: user.used)
    verb = "has" if len(using) == 1 else "have"
    text = f"{counted(len(using), 'user')} {verb} slots; {most.name} uses the most, {most.used:,g} cores"
    waiting = [user for user in users if user.waiting and user.entitled and user.used < 0.9 * user.entitled]
    if waiting:
        worst = max(waiting, key=lambda user: (user.entitled or 0) - user.used)
        text += f"; {worst.name} waits with {worst.used:,g} of the {worst.entitled:,.1f} cores of its share"
    return f"{text}."
