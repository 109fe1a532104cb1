"""The tables of `poolbook userprio`: their columns, the order of their lines, and their cells.

As in condor_userprio, a column is shown only if a record has a value for it. Groups are shown only if a shown submitter
is in a group; users are then listed below their groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Final, NamedTuple

from ...domain.state.accounting_groups import NO_GROUP
from ...domain.units import HOUR
from ..condor_tools.cells import LAST_YEAR, short_date
from ..condor_tools.layout import Column, Layout, lay_out
from ..runtime.accounting_records import Record, number

PRIORITIES: Final = frozenset({"priority", "real", "factor"})
USAGE: Final = frozenset({"in use", "usage"})
QUOTAS: Final = frozenset({"effective quota", "config quota", "subtree quota", "surplus", "requested"})
MOST: Final = USAGE | {"config quota", "surplus", "priority", "factor", "since", "requested", "ceiling", "floor"}
ALL: Final = MOST | QUOTAS | PRIORITIES | {"begin", "last"}

DETAILS: Final[dict[str, frozenset[str]]] = {
    "priority": PRIORITIES,
    "usage": USAGE | {"begin", "last"},
    "quotas": QUOTAS,
    "most": MOST,
    "all": ALL,
    "groupid": frozenset({"group"}),
    "order": frozenset({"order"}),
    "sortkey": frozenset({"sort key"}),
    "surplus": frozenset({"surplus"}),
}
"""The columns that each option adds."""

_LEAST_NAME, _WIDEST_NAME = 10, 99
_NEVER_USED = -1.0
_ENDLESS = 3.40282001e38
_LAST_ORDER = 3.4028234663852886e38


class UserprioLayout(NamedTuple):
    details: frozenset[str] = MOST
    layout: str = ""  #: hierarchical, flat or grouporder; empty: determined by the records
    quotas: bool = False  #: quotas were requested, so their columns are always shown
    groups: bool = False  #: groups were requested, so unused groups are also shown
    since: float | None = None  #: show only submitters with usage since this time, in seconds; None: show all


class _Line(NamedTuple):
    """A record with its position in the table."""

    record: Record
    place: int  #: its index among the records
    name: str
    is_group: bool
    of: str
    has: frozenset[str]  #: the details for which it has values
    last: float
    surplus: str
    group: int = 0  #: the number of its group, or 0 for no group
    order: float = 0.0  #: the sort key of its group

    def number(self, name: str) -> float:
        return number(self.record, name)


_DETAILS_BY: Final[dict[str, frozenset[str]]] = {
    "PriorityFactor": frozenset({"factor", "real"}),
    "WeightedAccumulatedUsage": USAGE,
    "ResourcesUsed": USAGE,
    "WeightedResourcesUsed": frozenset({"usage"}),
    "Ceiling": frozenset({"ceiling"}),
    "Floor": frozenset({"floor"}),
    "Requested": frozenset({"requested"}),
    "BeginUsageTime": frozenset({"begin"}),
    "LastUsageTime": frozenset({"last", "since"}),
    "EffectiveQuota": frozenset({"effective quota"}),
    "ConfigQuota": frozenset({"config quota"}),
}
_DETAILS_BY_A_GROUP: Final[dict[str, frozenset[str]]] = {
    "GroupAutoRegroup": frozenset({"surplus"}),
    "SurplusPolicy": frozenset({"surplus"}),
    "GroupSortKey": frozenset({"sort key"}),
    "SubtreeQuota": frozenset({"subtree quota"}),
}
_NEVER_IF_0: Final = frozenset({"BeginUsageTime", "LastUsageTime"})
_POLICIES: Final = {"regroup": "Regroup", "byquota": "ByQuota", "no": "no"}


def _line(place: int, record: Record) -> _Line:
    is_group = record.get("IsAccountingGroup") is True
    table = _DETAILS_BY | _DETAILS_BY_A_GROUP if is_group else _DETAILS_BY
    shown = {name for name, value in record.items() if not (name in _NEVER_IF_0 and value == 0)}
    detail_names = frozenset({"priority"}).union(*(details for name, details in table.items() if name in shown))
    name, group_name = str(record["Name"]), str(record.get("AccountingGroup", NO_GROUP))
    surplus_text = "Regroup" if record.get("GroupAutoRegroup") is True else "no"
    if "SurplusPolicy" in record:
        surplus_text = _POLICIES.get(str(record["SurplusPolicy"]).lower(), "n/a")
    if is_group:
        detail_names -= {"priority"}  # a group has no priority
    last_usage = number(record, "LastUsageTime") or _NEVER_USED
    return _Line(record, place, name, is_group, group_name, detail_names, last_usage, surplus_text)


def _lines_by_group(lines: Sequence[_Line], details: frozenset[str]) -> list[_Line]:
    """Return the lines with the numbers of their groups. If no submitter is in a group, these numbers are only
    identifiers. Otherwise the groups come first, by name, in an order that depends on the details shown."""
    if not any(not line.is_group and line.of not in (NO_GROUP, ".") for line in lines):
        return [
            line._replace(group=-line.place, has=line.has | {"group"})
            if line.is_group and not _is_no_group(line.name)
            else line
            for line in lines
        ]
    has_sort_keys = any("sort key" in line.has for line in lines)
    groups = sorted((line for line in lines if line.is_group), key=lambda line: (_is_no_group(line.name), line.name))
    lines_by_group: dict[str, _Line] = {}
    for place, line in enumerate(groups, 1):
        group = 0 if _is_no_group(line.name) else place
        lines_by_group[line.name] = _in_group(line, group, _group_order(line, group, details, has_sort_keys))
    ungrouped = lines_by_group.get(NO_GROUP)
    members = []
    for line in lines:
        if not line.is_group:
            own = lines_by_group.get(line.of, ungrouped)
            members.append(_in_group(line, 0, _LAST_ORDER) if own is None else _in_group(line, own.group, own.order))
    return [*lines_by_group.values(), *members]


def _in_group(line: _Line, group: int, order: float) -> _Line:
    return line._replace(group=group, order=order, has=line.has | ({"order", "group"} if group else {"order"}))


def _group_order(line: _Line, group: int, details: frozenset[str], has_sort_keys: bool) -> float:
    if "priority" in details and has_sort_keys:
        return line.number("GroupSortKey")
    if "priority" not in details and details & USAGE:
        return line.number("WeightedAccumulatedUsage") / HOUR
    if not group:
        return _LAST_ORDER
    return line.number("Priority") if "priority" in details else float(group)


def _is_no_group(name: str) -> bool:
    return name in (NO_GROUP, ".")


class _Plan(NamedTuple):
    details: frozenset[str]
    lines: list[_Line]
    nested: bool
    hide_groups: bool
    hide_users: bool
    in_groups: bool
    surplus: str
    updated: float
    since: float
    zone: tzinfo
    all_groups: bool


def table(records: Sequence[Record], requested: UserprioLayout, zone: tzinfo) -> Iterator[str]:
    numbered = [(at, record) for at, record in enumerate(records, 1) if "Name" in record and "Priority" in record]
    read_lines = [_line(at, record) for at, record in numbered]
    if not read_lines:
        return
    plan = _make_plan(read_lines, requested, number(records[0], "LastUpdate"), zone)
    columns = [column for column in COLUMNS if column.detail in plan.details]
    width = min(_WIDEST_NAME, max([_LEAST_NAME, *(_name_width(line, plan) for line in plan.lines)]))
    width = max(width, len(_count(len(records)))) + 2 * plan.nested
    yield f"Last Priority Update: {short_date(plan.updated, zone)}\n"
    shown_lines = list(_shown_lines(plan))
    users = sum(not line.is_group and line.last >= plan.since for line in plan.lines)
    totals = [line for line in shown_lines if not line.is_group]
    first, second = _name_headings(plan)
    rule = ["-" * width, *("-" * column.width for column in columns)]
    layout = Layout((Column("", "", -width, cut=True), *(Column("", "", -col.width) for col in columns)), headed=False)
    rows = [
        [first, *(_center(column.heading, column.width) for column in columns)],
        [second, *(_center(column.below, column.width) for column in columns)],
        rule,
        *([_shown_name(line, plan), *(_cell(column, line, plan) for column in columns)] for line in shown_lines),
        rule,
        [_count(users), *(column.foot(totals, plan, column.width) if column.foot else "" for column in columns)],
    ]
    yield from lay_out(layout, rows)


def _count(users: int) -> str:
    return f"Number of users: {users}"


def _name_headings(plan: _Plan) -> tuple[str, str]:
    if plan.nested:
        return "Group", "Name" if plan.hide_users else "  User Name"
    return "", "Group Name" if plan.hide_users else "User Name"


def _make_plan(read_lines: Sequence[_Line], requested: UserprioLayout, updated: float, zone: tzinfo) -> _Plan:
    since = _NEVER_USED if requested.since is None else requested.since
    is_nested = requested.layout in ("hierarchical", "")
    hide_groups = False
    if requested.details <= PRIORITIES:  # groups have no priorities
        is_nested = requested.layout == "hierarchical"
        hide_groups = not is_nested
    present_details = frozenset[str]().union(*(line.has for line in read_lines))
    absent_details = (hidden for needed, hidden in _NEEDED if not present_details & needed)
    details = requested.details.difference(*absent_details)
    if not (requested.quotas or present_details & QUOTAS):
        details -= QUOTAS
    lines = _lines_by_group(read_lines, details)
    in_groups = any(line.group > 0 and (line.last >= since or requested.groups) for line in lines)
    if (hide_groups or not in_groups) and not requested.quotas:
        details -= QUOTAS
    is_nested = is_nested and in_groups
    surplus = next((line.surplus for line in reversed(read_lines) if line.surplus in ("Regroup", "ByQuota")), "")
    lines.sort(key=_sort_function(details, is_nested, requested.layout == "grouporder", surplus == "Regroup"))
    hide_users = bool(details & QUOTAS) and details <= QUOTAS
    groups = requested.groups
    return _Plan(details, lines, is_nested, hide_groups, hide_users, in_groups, surplus, updated, since, zone, groups)


_NEEDED = (
    (USAGE, USAGE),
    (frozenset({"factor"}), frozenset({"factor"})),
    (frozenset({"begin"}), frozenset({"begin"})),
    (frozenset({"last"}), frozenset({"last", "since"})),
)
"""Details that are hidden if no record has a value for them."""


def _sort_function(
    details: frozenset[str], is_nested: bool, groups_first: bool, none_last: bool
) -> Callable[[_Line], tuple[object, ...]]:
    def own(line: _Line) -> object:
        if "priority" in details:
            return line.number("Priority")
        return line.number("WeightedAccumulatedUsage") if details & USAGE else line.name

    def key(line: _Line) -> tuple[object, ...]:
        if is_nested:
            order = line.order if details & ({"priority"} | USAGE) else 0.0
            return (none_last and not line.group, order, line.group, not line.is_group, own(line))
        if groups_first:
            return (not line.is_group, line.place if line.is_group else own(line))
        return (own(line),)

    return key


def _shown_lines(plan: _Plan) -> Iterator[_Line]:
    """Yield the lines that are shown. Submitters without a group are shown only below a group."""
    hide_none = not plan.in_groups
    for line in plan.lines:
        old = line.last < plan.since and not (line.is_group and plan.all_groups)
        if old or (not line.is_group and plan.hide_users):
            continue
        if line.is_group:
            if plan.hide_groups or (not plan.nested and hide_none and not line.group):
                continue
            hide_none = False
        yield line


def _name_width(line: _Line, plan: _Plan) -> int:
    if line.last < plan.since and not (line.is_group and plan.all_groups):
        return 0
    width = len(line.name)
    if plan.nested and not line.is_group:
        width += 2 - (len(line.of) if line.group else 0)
    return width


def _shown_name(line: _Line, plan: _Plan) -> str:
    if not plan.nested or line.is_group:
        return line.name
    return "  " + (line.name[len(line.of) + 1 :] if line.group > 0 else line.name)


def _center(text: str, width: int) -> str:
    return " " * ((width - len(text)) // 2) + text


class _Column(NamedTuple):
    """A column. ``cell`` returns the text for a line that has ``detail``, ``foot`` that for the total of the shown
    users."""

    detail: str
    width: int
    heading: str
    below: str
    cell: Callable[[_Line, _Plan, int], str]
    foot: Callable[[Sequence[_Line], _Plan, int], str] | None = None


def _cell(column: _Column, line: _Line, plan: _Plan) -> str:
    if column.detail in line.has:
        return column.cell(line, plan, column.width)
    is_lacking = line.is_group and column.detail in QUOTAS | {"sort key"}
    return "n/d".rjust(column.width) if is_lacking else ""


def _format_real(value: float, width: int, digits: int) -> str:
    text = f"{value:{width}.{digits}f}"
    return text if len(text) <= width else f"{value:.{max(width - 6, 1)}g}".rjust(width)[:width]


def _number(name: str, digits: int = 2) -> Callable[[_Line, _Plan, int], str]:
    return lambda line, _, width: _format_real(line.number(name), width, digits)


def _limit_cell(name: str, none_value: float) -> Callable[[_Line, _Plan, int], str]:
    return lambda line, _, width: _format_real(line.number(name), width, 2) if line.number(name) > none_value else ""


def _instant(seconds: float, zone: tzinfo, width: int) -> str:
    if not 0 < seconds < LAST_YEAR:
        return ""
    at = datetime.fromtimestamp(int(seconds), zone)
    return f"{at.month:2d}/{at.day:02d}/{at.year:<4d} {at.hour:02d}:{at.minute:02d}".rjust(width)[:width]


def _format_duration(seconds: float, width: int) -> str:
    if seconds <= 0:
        return "<now>".rjust(width)
    days, remaining = divmod(int(seconds), 86400)
    return f"{days:3d}+{remaining // 3600:02d}:{remaining % 3600 // 60:02d}".rjust(width)[:width]


def _real_priority(line: _Line, plan: _Plan, width: int) -> str:
    factor = line.number("PriorityFactor")
    return _format_real(line.number("Priority") / factor if factor > 0 else 0.0, width, 2)


def _weight(line: _Line) -> float:
    return line.number("WeightedResourcesUsed" if "WeightedResourcesUsed" in line.record else "ResourcesUsed")


def _sort_key(line: _Line, plan: _Plan, width: int) -> str:
    key = line.number("GroupSortKey")
    return _format_real(key, width, 2) if key < _ENDLESS else "<last>".rjust(width)


COLUMNS: tuple[_Column, ...] = (
    _Column("group", 5, "Group", "Id", lambda line, _, width: _format_real(line.group, width, 0)),
    _Column("order", 9, "Group", "Order", lambda line, _, width: _format_real(line.order, width, 2)),
    _Column("sort key", 9, "Group", "Sort Key", _sort_key),
    _Column("effective quota", 9, "Effective", "Quota", _number("EffectiveQuota")),
    _Column("config quota", 9, "Config", "Quota", _number("ConfigQuota")),
    _Column(
        "surplus", 7, "Use", "Surplus",
        lambda line, _, width: (line.surplus if line.group else "yes")[:width],
        lambda lines, plan, width: plan.surplus,
    ),
    _Column("subtree quota", 9, "Subtree", "Quota", _number("SubtreeQuota")),
    _Column("priority", 12, "Effective", "Priority", _number("Priority")),
    _Column("real", 8, "Real", "Priority", _real_priority),
    _Column("factor", 9, "Priority", "Factor", _limit_cell("PriorityFactor", 0.0)),
    _Column(
        "in use", 6, "Wghted", "In Use",
        lambda line, _, width: _format_real(_weight(line), width, 0),
        lambda lines, _, width: _format_real(sum(map(_weight, lines)), width, 0),
    ),
    _Column(
        "usage", 12, "Total Usage", "(wghted-hrs)",
        lambda line, _, width: _format_real(line.number("WeightedAccumulatedUsage") / HOUR, width, 2),
        lambda lines, _, width: _format_real(
            sum(line.number("WeightedAccumulatedUsage") for line in lines) / HOUR, width, 2
        ),
    ),
    _Column(
        "begin", 16, "Usage", "Start Time",
        lambda line, plan, width: _instant(line.number("BeginUsageTime"), plan.zone, width),
    ),
    _Column(
        "last", 16, "Last", "Usage Time",
        lambda line, plan, width: _instant(line.last, plan.zone, width),
        lambda lines, plan, width: _instant(plan.since, plan.zone, width),
    ),
    _Column(
        "since", 10, "Time Since", "Last Usage",
        lambda line, plan, width: _format_duration(plan.updated - line.last, width) if line.last > 0 else "",
        lambda lines, plan, width: _format_duration(plan.updated - plan.since, width) if plan.since > 0 else "",
    ),
    _Column("requested", 10, "Weighted", "Requested", _number("Requested", 0)),
    _Column("floor", 9, "Submitter", "Floor", _limit_cell("Floor", 0.0)),
    _Column("ceiling", 9, "Submitter", "Ceiling", _limit_cell("Ceiling", -1.0)),
)  # fmt: skip
