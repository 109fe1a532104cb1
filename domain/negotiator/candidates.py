"""The candidate slots for a job, best first.

A matching slot is either free or preemptable: because it prefers the job to its current job (rank), or because the
job's submitter has a better priority (priority). Slots are ordered by NEGOTIATOR_PRE_JOB_RANK, the job's Rank,
NEGOTIATOR_POST_JOB_RANK, the reason (unclaimed, rank, priority), PREEMPTION_RANK, and the pool's order. Source: the
manual, "Negotiation"; HTCondor's source for values that are not numbers. Sorting is expensive, so jobs whose ranks read
the same values share an order. The order is valid for the whole cycle, because slots only disappear during a cycle.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from math import isnan, nan
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from ..classad import ClassAd, Context, Expression, unparse
from ..classad.analysis import value_or_error
from ..classad.columnar import JOB, SLOT
from ..classad.tree import Literal
from ..classad.value_evidence import CALL, UNSCOPED, Read, names_in
from ..events import Denied
from ..state.accounting_groups import NO_GROUP
from ..state.caches import parse_cached
from .cycle_accounts import CycleSubmitter, CycleSubmitters
from .job_limits import JobLimits
from .negotiator_settings import NegotiatorSettings
from .slot_table import MOVING, AutoclusterPlan, CachedRank, Mask, RowNumbers, SlotAdTable

_MAX_CACHED_RANKS: Final = 16
"""The maximum number of ranks of all slots that are cached between cycles."""
LEAST: Final = -1.7976931348623157e308
"""The rank for a value that is not a number: HTCondor's -DBL_MAX."""
UNCLAIMED, RANK, PRIORITY = "", "rank", "priority"
_STATES: Final = {UNCLAIMED: 2, RANK: 1, PRIORITY: 0}

Floats = npt.NDArray[np.float64]
Key = tuple[float, float, float, int, float, int]
"""The sort key of a candidate: the negated ranks, state and preemption rank, and the slot's row. The smallest is
best."""


def round_to_single(values: Floats) -> Floats:
    """Round negotiator ranks to single precision, as HTCondor does. Values that are not numbers become LEAST."""
    with np.errstate(over="ignore"):
        ranks = values.astype(np.float32).astype(np.float64)
    return np.clip(np.where(np.isnan(values), LEAST, ranks), LEAST, -LEAST)


_SINGLE: Final = struct.Struct("f")


def round_number_to_single(value: float) -> float:
    """Round one negotiator rank as ``single`` does."""
    if isnan(value):
        return LEAST
    try:
        (rank,) = _SINGLE.unpack(_SINGLE.pack(value))
    except OverflowError:
        rank = value
    return float(min(max(rank, LEAST), -LEAST))


def job_rank(values: Floats) -> Floats:
    """Replace values of the job's Rank that are not numbers by 0."""
    return np.clip(np.where(np.isnan(values), 0.0, values), LEAST, -LEAST)


def is_true(values: Floats) -> Mask:
    """Return a mask of the values that count as true: numbers other than 0."""
    true: Mask = ~np.isnan(values) & (values != 0)
    return true


def evaluate_number(expression: Expression | None, my: ClassAd, target: ClassAd, context: Context) -> float:
    """Return the number that an expression evaluates to; NaN if it is not a number."""
    if expression is None:
        return nan
    value = expression.value if type(expression) is Literal else value_or_error(expression, my, target, context)
    return float(value) if isinstance(value, int | float) else nan


class PreemptableSlots(Struct):
    """The claimed slots that the jobs of one submitter may preempt, best first."""

    keys: list[Key]
    reasons: list[str]
    denied: Denied
    usage_changes: int  #: the value of ``CycleSubmitters.usage_changes`` when this was computed
    regrouping: bool = False  #: the value of ``CycleSubmitters.regrouping`` at that time
    index: int = 0


class ResourceRequest(Struct):
    """The jobs of one autocluster, and the slots that match them in this cycle."""

    job: ClassAd
    planned: AutoclusterPlan
    match: Mask
    ranks: tuple[str, str, str] | None = None
    """The names of the ranks that order the slots; None: not computed yet."""
    free_rows: list[int] | None = None  #: matching free slots, best first, from ``index`` on
    index: int = 0
    parts: Iterator[RowNumbers] | None = None  #: the source of ``free_rows``
    preemptable: dict[str, PreemptableSlots] = field(default_factory=dict)
    cut_slots: list[tuple[Key, int]] = field(default_factory=list)
    """A heap of slots that this cycle cut, with their current ranks."""
    cached_key: tuple[int, int, Key] | None = None  #: a slot's row, version and sort key
    cuts: int = 0  #: the number of the cycle's cuts that ``cut_slots`` includes
    limits: JobLimits | None = None  #: the concurrency limits that the jobs use


_SIDES: Final = {
    ("my", JOB): (JOB,), ("target", JOB): (SLOT,), (UNSCOPED, JOB): (JOB, SLOT), (CALL, JOB): (CALL,),
    ("my", SLOT): (SLOT,), ("target", SLOT): (JOB,), (UNSCOPED, SLOT): (SLOT, JOB), (CALL, SLOT): (CALL,),
}  # fmt: skip
"""The ads in which a name is looked up, by its scope and by the ad whose expression contains it."""


class SlotRanks(Struct):
    """The rank values of all slots, and the slot orders that result from them. Each is stored under a name that
    identifies all inputs of the values, so that requests with equal inputs share it."""

    pool: SlotAdTable
    rules: NegotiatorSettings
    values: dict[str, Floats] = field(default_factory=dict)
    orders: dict[tuple[str, str, str], RowNumbers] = field(default_factory=dict)
    request_counts: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _first_free_parts: dict[tuple[tuple[str, str, str], int], int] = field(default_factory=dict)
    """Where an order's first part with a free slot starts, by the order and the id of the mask of matching slots."""
    _reads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _names: dict[int, tuple[Expression, set[Read]]] = field(default_factory=dict)

    def names_of(self, request: ResourceRequest) -> tuple[str, str, str]:
        """Return the names of the three ranks for a request, computed on first use: most requests get no slot."""
        if request.ranks is None:
            job, pre, post = request.job, self.rules.pre_job_rank, self.rules.post_job_rank
            rank = job.get("Rank")
            job_name = "" if rank is None or isinstance(rank, Literal) else self._name("job", rank, job, JOB)
            request.ranks = self._optional_name("pre", pre, job), job_name, self._optional_name("post", post, job)
        return request.ranks

    def _optional_name(self, what: str, expression: Expression | None, job: ClassAd) -> str:
        return "" if expression is None else self._name(what, expression, job)

    def name_of(self, what: str, expression: Expression, job: ClassAd) -> str:
        """Return the name for another expression of a job; ``what`` distinguishes it from the others."""
        return self._name(what, expression, job, JOB)

    def _name(self, what: str, expression: Expression, job: ClassAd, my_side: str = SLOT) -> str:
        """Return a name that is equal for jobs in which everything that the expression reads has equal values."""
        key = f"{what} {self.pool.text(expression)}"
        names = self._reads.get(key)
        if names is None:
            names = self._reads[key] = self._names_of(expression, job, my_side)
        if any(name in job and type(job[name]) is not Literal for name in names):  # these attributes read more names
            names = self._names_of(expression, job, my_side)
        texts = [f"{name}={unparse(job[name])}" for name in names if name in job]
        if self.pool.reads_anything:
            texts.append(str(id(job)))  # the names are only known after evaluation
        return f"{key} {' '.join(texts)}"

    def _names_of(self, expression: Expression, job: ClassAd, my_side: str) -> tuple[str, ...]:
        return tuple(sorted(name for side, name in self.names_reached(expression, job, my_side) if side == JOB))

    def names_reached(self, expression: Expression, job: ClassAd, my_side: str) -> set[Read]:
        """Return all names that an expression may read, directly or indirectly.

        :param my_side: the ad that contains the expression, JOB or SLOT
        """
        reached: set[Read] = set()
        pending = [(expression, my_side)]
        while pending:
            mentioning, my_side = pending.pop()
            for scope, name in self._names_mentioned(mentioning):
                for read in ((side, name) for side in _SIDES[scope, my_side]):
                    if read not in reached:
                        reached.add(read)
                        pending += [(each, read[0]) for each in self._values(*read, job) if type(each) is not Literal]
        return reached

    def _values(self, side: str, name: str, job: ClassAd) -> Iterable[Expression]:
        if side == SLOT:
            return self.pool.table.expressions(name)
        return (job[name],) if side == JOB and name in job else ()

    def _names_mentioned(self, expression: Expression) -> set[Read]:
        known = self._names.get(id(expression))
        if known is None or known[0] is not expression:
            known = self._names[id(expression)] = expression, names_in(expression)
        return known[1]

    def rank_values(self, name: str, job: ClassAd, among: RowNumbers | None = None) -> Floats | None:
        """Return a rank's values for all slots, or for those in the rows ``among``, or None if all values are equal."""
        if not name:
            return None
        known = self.values.get(name)
        if known is None:
            table = self.pool.table
            if name.startswith("job "):
                return job_rank(table.rank(job, among))  # not cached: every autocluster may have its own
            expression = self.rules.pre_job_rank if name.startswith("pre ") else self.rules.post_job_rank
            assert expression is not None
            known = self.values[name] = self._cached_values(name, expression, job)
        return known if among is None else known[among]

    def _cached_values(self, name: str, expression: Expression, job: ClassAd) -> Floats:
        pool = self.pool
        ranked = pool.ranked.get(name)
        if ranked is not None and ranked.as_of == pool.versions(ranked.reads):
            return ranked.values
        values = round_to_single(pool.table.of_slots(expression, job))
        reached = self.names_reached(expression, job, SLOT)
        if not pool.reads_anything and not any(read in MOVING for _, read in reached):
            reads = tuple(sorted(read for side, read in reached if side == SLOT))
            if len(pool.ranked) >= _MAX_CACHED_RANKS:
                pool.ranked.clear()
            pool.ranked[name] = CachedRank(reads, pool.versions(reads), values)
        return values

    def parts(self, request: ResourceRequest, free: Mask) -> Iterator[RowNumbers]:
        """Yield the row numbers of matching free slots in parts, best slots first.

        :param free: the mask of free slots, which is read again for each part
        """
        names = self.names_of(request)
        shared = self.orders.get(names)
        if shared is None:
            if not bool((request.match & free).any()):
                return
            times = self.request_counts[names] = self.request_counts.get(names, 0) + 1
            if times == 1 and names[1]:
                yield from self._parts_of_request(request, free)  # probably the only request with these ranks
                return
            columns = [
                values for values in (self.rank_values(name, request.job) for name in names) if values is not None
            ]
            shared = self.orders[names] = _sort_rows(columns, np.arange(len(self.pool.names)))
        key = names, id(request.match)
        for start in range(self._first_free_parts.get(key, 0), len(shared), PART):
            rows = shared[start : start + PART]
            rows = rows[request.match[rows] & free[rows]]
            if len(rows):
                yield rows
            elif start == self._first_free_parts.get(key, 0):
                self._first_free_parts[key] = start + PART

    def _parts_of_request(self, request: ResourceRequest, free: Mask) -> Iterator[RowNumbers]:
        count, last = PART, -1
        while True:
            rows: RowNumbers = np.flatnonzero(request.match & free)
            ranks = (self.rank_values(name, request.job) for name in self.names_of(request))
            columns = [values for values in ranks if values is not None]
            if last >= 0:
                rows = rows[_rows_after(columns, rows, last)]
            if not len(rows):
                return
            part = _sort_rows(columns, _first_rows(columns, rows, count))
            count, last = 2 * count, int(part[-1])
            del columns
            yield part


PART: Final = 1024
"""The number of rows of an order to compute at a time; a cycle rarely needs more."""


def _rows_after(columns: list[Floats], rows: RowNumbers, last: int) -> Mask:
    behind: Mask = rows > last
    for values in reversed(columns):
        cells = values[rows]
        behind = (cells < values[last]) | ((cells == values[last]) & behind)
    return behind


def _first_rows(columns: list[Floats], rows: RowNumbers, count: int) -> RowNumbers:
    if len(rows) <= 2 * count:
        return rows
    certain = []
    for values in columns:
        cells = values[rows]
        least = -np.partition(-cells, count - 1)[count - 1]
        certain.append(rows[cells > least])
        rows = rows[cells == least]
        count -= len(certain[-1])
    best: RowNumbers = np.sort(np.concatenate([*certain, rows[:count]]))
    return best


def _sort_rows(columns: list[Floats], rows: RowNumbers) -> RowNumbers:
    """Sort rows by several columns, largest values first. Earlier columns take precedence; the sort is stable."""
    for values in reversed(columns):  # each sort preserves the order of equal elements
        cells = values[rows]
        if len(cells) and cells.min() != cells.max():
            order = np.argsort(-cells)
            least = cells[order]
            if (least[1:] == least[:-1]).any():  # the default sort is not stable
                order = np.argsort(-cells, kind="stable")
            rows = rows[order]
    return rows


def candidate_key(pre: float, rank: float, post: float, reason: str, preemption: float, row: int) -> Key:
    return -pre, -rank, -post, -_STATES[reason], -preemption, row


def submitter_attributes(account: CycleSubmitter, accounts: CycleSubmitters) -> dict[str, object]:
    """Return the attributes about the submitter that a job's ad contains only during negotiation."""
    attributes: dict[str, object] = {
        "SubmitterUserPrio": account.priority,
        "SubmittorPrio": account.priority,
        "SubmitterUserResourcesInUse": account.using,
        "SubmitterNegotiatingGroup": accounts.negotiating_group(account.name),
        "SubmitterAutoregroup": accounts.regrouping,
    }
    return attributes | accounts.of_group("Submitter", account.name)


REMOTE: Final = (
    "RemoteUserPrio", "RemoteUserResourcesInUse", "RemoteGroup", "RemoteGroupResourcesInUse", "RemoteGroupQuota",
    "RemoteNegotiatingGroup", "RemoteAutoregroup",
)  # fmt: skip
"""The attributes about a slot's user that the slot's ad contains during negotiation."""
_REMOTE: Final = frozenset(name.lower() for name in REMOTE)
_OF_SLOT: Final = re.compile(r"slot([0-9]+)_(remote[a-z]+)", re.ASCII)


def is_user_attribute(name: str) -> bool:
    """Check whether the cycle itself sets an attribute (in lower case) about the slots' users."""
    match = _OF_SLOT.fullmatch(name)
    return (name if match is None else match[2]) in _REMOTE


def publish_user_attributes(pool: SlotAdTable, accounts: CycleSubmitters, read: frozenset[str]) -> None:
    """Set the attributes in ``read`` (lower-case names) about the slots' current users in the slot ads."""
    published = [name for name in REMOTE if name.lower() in read]
    if not len(pool.names) or not (published or accounts.rules.cross_slot_prios):
        return
    ads = [_remote_attributes(submitter, accounts) for submitter in pool.submitters]
    users = pool.user_numbers
    if accounts.nodes[0].group.autoregroup:  # a slot matched by autoregroup has another RemoteNegotiatingGroup
        regrouped = np.array([slot.claim is not None and slot.claim.regrouped for slot in pool.slots])
        users = np.where(regrouped, users + len(ads), users)
        ads += [ad | {"RemoteNegotiatingGroup": NO_GROUP} for ad in ads]
    for name in published:
        _assign(pool, name, [ad.get(name) for ad in ads], users)
    if accounts.rules.cross_slot_prios:
        _publish_neighbours(pool, accounts, ads, users, read)


def publish_match_attributes(pool: SlotAdTable, attributes: Mapping[str, str], read: frozenset[str]) -> None:
    """Set the attributes of NEGOTIATOR_MATCH_EXPRS in the slot ads."""
    for name, text in attributes.items():
        if name.lower() in read and (expression := parse_cached(text)) is not None:
            pool.table.assign(name, *pool.table.heap.encode(expression))


def _remote_attributes(submitter: str, accounts: CycleSubmitters) -> dict[str, object]:
    account = accounts.account_of(submitter)
    return {
        "RemoteUserPrio": account.priority,
        "RemoteUserResourcesInUse": account.using,
        "RemoteNegotiatingGroup": accounts.nodes[account.group].name,
        "RemoteAutoregroup": False,
        **accounts.of_group("Remote", submitter),
    }


def _assign(pool: SlotAdTable, name: str, values: list[object], users: RowNumbers) -> None:
    """Set an attribute of each slot to the value for the slot's user; undefined for slots without a user.

    :param values: the values by user number
    :param users: the user number of each slot, or -1 for no user
    """
    cells = [(0, 0), *[(0, 0) if value is None else pool.table.encode(value) for value in values]]
    kinds, payloads = (np.array(column) for column in zip(*cells, strict=True))
    pool.table.assign(name, kinds.astype(np.uint8)[users + 1], payloads.astype(np.int64)[users + 1])


def _publish_neighbours(
    pool: SlotAdTable,
    accounts: CycleSubmitters,
    ads: list[dict[str, object]],
    user_numbers: RowNumbers,
    read: frozenset[str],
) -> None:
    """Set the attributes about the users of a machine's other slots, as slot<N>_<attribute>
    (NEGOTIATOR_CROSS_SLOT_PRIOS). Dynamic slots, which share their partitionable slot's number, are excluded."""
    slots = accounts.state.slots
    rows = [(slots[name], row) for name, row in pool.row_of.items() if slots[name].kind != "dynamic"]
    numbers = {(slot.machine, slot.ad.get("SlotID", "")): row for slot, row in rows}
    for key in sorted(read):
        match = _OF_SLOT.fullmatch(key)
        name = next((each for each in REMOTE if match and each.lower() == match[2]), "")
        if match and name:
            neighbours = [numbers.get((slots[each].machine, match[1]), -1) for each in pool.names]
            users = np.array([-1 if row < 0 else int(user_numbers[row]) for row in neighbours], np.int64)
            _assign(pool, f"slot{match[1]}_{name}", [each.get(name) for each in ads], users)
