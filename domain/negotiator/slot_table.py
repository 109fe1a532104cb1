"""The negotiator's table of a pool's slots. All values come from the log.

The row of a slot is its published ad (``ports.slot_ads``). An attribute has a column only if it may be read by a job,
by a slot's own conditions, by the negotiator's expressions, or by an attribute that one of these reads. Rows are in the
order in which the slots were created. A row is rewritten when an event has changed the slot (``State.slot_changes``).
Columns of attributes that change with the clock store linear functions of time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from ..classad import ClassAd, Context, Expression, parse, unparse
from ..classad.columns import ABSENT, INTEGER
from ..classad.function_registry import FUNCTIONS, FunctionInputs
from ..classad.plans import Plan
from ..classad.table import SlotTable
from ..classad.tree import Literal
from ..classad.value_evidence import DYNAMIC_REFERENCES, integer_of, names_in
from ..events import Clause, Unmatched
from ..ports.slot_ads import EXPECTED, PAIRS_WITH_TOTAL, Advertise, SlotAds, Snapshot, total_name
from ..requests.autoclusters import Signature
from ..state.caches import Caches, parse_cached
from ..state.machine_times import ZONE, machine_context
from ..state.records import Slot
from ..state.state import Manager

Mask = npt.NDArray[np.bool_]
RowNumbers = npt.NDArray[np.int64]

ALWAYS_READ = ("requirements", "start", "withinresourcelimits", "rank", "slotweight", "cpus", "name", "currentrank")
_SINCE = re.compile(r"time\(\) - (\d+)", re.ASCII)
"""The format in which a point in time is published (``startd/updates.py``)."""
_MOVING_ATTRIBUTES = frozenset(
    {"mycurrenttime", "keyboardidle", "consoleidle", "cpubusytime", "totaljobruntime", "totaljobsuspendtime",
     "totalclaimruntime", *(total_name(pair).lower() for pair in PAIRS_WITH_TOTAL)}
)  # fmt: skip
_CLOCKS = ("clockmin", "clockday")
_CONTEXT_FUNCTIONS = {key for key, function in FUNCTIONS.items() if function.needs is FunctionInputs.CONTEXT}
MOVING = _MOVING_ATTRIBUTES.union(_CLOCKS, EXPECTED, _CONTEXT_FUNCTIONS, ("currenttime", "random"))
"""Names that make the value of an expression depend on time or chance."""
_WEIGHT = parse("SlotWeight")
CPUS, SLOT_RANK = parse("Cpus"), parse("MY.Rank")
NO_JOB: Final = ClassAd()
"""The job with which an expression is evaluated if it reads no job."""


@define
class _Moving:
    """A column for an attribute that changes with the clock: ``offset + rate * seconds`` where ``kinds`` is INTEGER."""

    name: str
    offsets: npt.NDArray[np.int64]
    rates: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.uint8]


def _zeros(count: int) -> npt.NDArray[Any]:
    return np.zeros(count, np.int64)


def _no_rows() -> Mask:
    return np.zeros(0, bool)


class ExhaustedAutocluster(NamedTuple):
    """The result that no slot is left for an autocluster: the number of slots considered, and the logged reason."""

    signature: Signature
    slots: int
    reason: Unmatched


@frozen
class SlotCounts:
    """How many slots match the jobs of one autocluster."""

    slots: int
    clauses: tuple[Clause, ...]
    fits: int  #: the number of matching slots
    rejecting: int  #: the number of slots that the jobs accept but that reject the jobs


@define(eq=False)
class AutoclusterPlan:
    """The plan of an autocluster, and the slots that matched it as of the versions ``as_of``."""

    signature: Signature
    plan: Plan
    as_of: object = None  #: versions of the attributes in ``reads``; None: not cached
    reads: tuple[str, ...] | None = None
    """The lower-case slot attributes that determine which slots match. None: that may change without an event for the
    slots."""
    match: Mask | None = None
    counts: SlotCounts | None = None


class CachedRank(NamedTuple):
    """The values of a negotiator expression for all slots, and the attributes that it reads with their versions."""

    reads: tuple[str, ...]
    as_of: tuple[int, ...]
    values: npt.NDArray[np.float64]


@define
class SlotAdTable:
    """The published slot ads as a table with a row per slot. The table is cached with the pool's state, and each cycle
    updates it, because few slots change between two cycles."""

    ads: SlotAds = field(init=False)  #: the ads from which the rows are made
    table: SlotTable = field(factory=SlotTable)
    names: list[str] = field(factory=list)
    slots: list[Slot] = field(factory=list)
    """The slots of the rows. A slot that is recreated with the same name is a new slot and comes last."""
    row_of: dict[str, int] = field(factory=dict)  #: row numbers, by slot name
    submitters: dict[str, int] = field(factory=dict)
    free: Mask = field(factory=_no_rows)  #: a match would preempt no job
    claimed: Mask = field(factory=_no_rows)  #: a match may preempt the slot's job
    shared: Mask = field(factory=_no_rows)  #: the slot is partitionable
    counted: Mask = field(factory=_no_rows)  #: rejection reasons count the slot; they do not count dynamic slots
    retiring: Mask = field(factory=_no_rows)  #: the slot's job has retirement time left
    user_numbers: RowNumbers = field(factory=lambda: _zeros(0))
    """The claims' submitters, as indexes into ``submitters``; -1: the slot has no claim."""
    ranks: npt.NDArray[np.float64] = field(factory=lambda: np.zeros(0))  #: the slots' RANKs of their current jobs
    weights: RowNumbers = field(factory=lambda: _zeros(0))  #: in thousandths of a core
    texts: dict[int, tuple[Expression, str]] = field(factory=dict)
    """The texts of expressions that every cycle needs."""
    plans: dict[int, AutoclusterPlan] = field(factory=dict)
    """The plans by autocluster number."""
    exhausted: dict[int, ExhaustedAutocluster] = field(factory=dict)
    """The autoclusters for which no slot is left, by number. They are valid as long as slots only disappear or are
    matched, the settings stay the same, and no condition reads the time."""
    matched_rows: RowNumbers = field(factory=lambda: _zeros(0))
    """The rows that the last cycle matched. Its ``exhausted`` results are valid only if these matches were made."""
    ranked: dict[str, CachedRank] = field(factory=dict)
    """The negotiator's own ranks, by names that identify the job attributes they depend on."""
    layout: int = 0  #: how often rows were added or removed
    reads_anything: bool = False  #: whether an expression computes names at run time, and so may read any attribute
    _requested: dict[str, None] = field(factory=dict)
    _moving: dict[str, _Moving] = field(factory=dict)
    _spellings: dict[str, str] = field(factory=dict)
    _references: set[str] = field(factory=set)
    _analyzed: set[int] = field(factory=set)
    _live: tuple[tuple[int, int], list[str]] = ((-1, -1), [])
    _watched: dict[str, None] = field(factory=dict)
    """The slots whose rows are rewritten in every cycle, because time alone may change what their machines' drains
    allow, or what they publish about each other."""
    _reads_rollups: bool = False
    """Whether anything reads what partitionable slots publish about dynamic slots; if so, their rows are rewritten
    too."""
    _weight_stamp: tuple[int, ...] = ()
    _configured: int = -1
    _cursors: tuple[int, int] = (-1, -1)
    """The numbers of slot changes and of matches that the rows include."""

    def attributes_read(self) -> frozenset[str]:
        """Return the lower-case attributes that have a column because something may read them."""
        return frozenset(self._requested)

    def versions(self, reads: Iterable[str]) -> tuple[int, ...]:
        """Return the versions of these attributes across all slots. Equal versions mean equal slots and values."""
        columns = self.table.columns
        return (self.layout, *[columns[name].version if name in columns else -1 for name in reads])

    def text(self, expression: Expression) -> str:
        """Return the text of an expression, cached by the expression's identity."""
        known = self.texts.get(id(expression))
        if known is None or known[0] is not expression:
            if len(self.texts) > 20_000:
                self.texts.clear()
            known = self.texts[id(expression)] = (expression, unparse(expression))
        return known[1]

    def update(self, state: Manager, now: int, context: Context, ads: SlotAds, requested: Iterable[str]) -> None:
        """Update the table to the published ads.

        :param requested: additional lower-case attributes that the cycle reads
        """
        self.table.context, self.ads = context, ads
        reader = _Reader(ads, self._spellings)
        changed, matched = self._changes(state) or (dict.fromkeys(state.slots), {})
        self._cursors = state.slot_changes.total, state.slots_matched.total
        self._sync_rows(state, reader, changed, matched)
        self._add_columns(state, reader, {*ALWAYS_READ, *requested})
        self._move_clocks(now // 1_000_000, context)
        self._estimate(reader)
        self._compute_weights()
        if (self.free[self.matched_rows] | self.claimed[self.matched_rows]).any():  # not all matches were made
            self.exhausted.clear()
        self.matched_rows = _zeros(0)

    def _changes(self, state: Manager) -> tuple[dict[str, None], dict[str, None]] | None:
        """Return the slots that changed and the slots that were matched since the last update, or None if unknown."""
        last_change, last_match = self._cursors
        changed, matched = state.slot_changes.since(last_change), state.slots_matched.since(last_match)
        return None if changed is None or matched is None else (changed, matched)

    def can_update_from(self, state: Manager) -> bool:
        """Check whether the changes since the last update are known."""
        return self._changes(state) is not None

    def stale_machines(self, state: Manager) -> set[str]:
        """Return the machines of the slots that changed since the last update."""
        changed, matched = self._changes(state) or (state.slots, {})
        return {slot.machine for name in (*changed, *matched) if (slot := state.slots.get(name)) is not None}

    def _sync_rows(
        self, state: Manager, reader: _Reader, touched: Mapping[str, None], matched: Mapping[str, None]
    ) -> None:
        known = [(name, self.row_of[name]) for name in touched if name in self.row_of]
        removed = [row for name, row in known if state.slots.get(name) is not self.slots[row]]
        if removed:
            self._remove(removed)
        new_names = [name for name in touched if name in state.slots and name not in self.row_of]
        parents = [self.names[row] for row in np.flatnonzero(self.shared)] if self._reads_rollups else ()
        changed = dict.fromkeys(name for name in (*touched, *self._watched, *parents) if name in self.row_of)
        row_of = self.row_of
        matched_rows = [row_of[name] for name in matched if name not in touched and name in row_of]
        self.free[matched_rows] = self.claimed[matched_rows] = False
        if new_names:
            self._add(state, new_names)
        for name in (*changed, *new_names):
            self._write(state, reader, state.slots[name], with_ad=name in changed)
        if new_names:
            columns = self._columns(state, reader, self._published_names(), new_names)
            self.table.extend(len(new_names), columns)
        if changed or new_names or state.configured != self._configured:
            self._configured = state.configured
            self.exhausted.clear()

    def _remove(self, removed: list[int]) -> None:
        self.layout += 1
        self.table.remove(removed)
        keep = np.ones(len(self.names), bool)
        keep[removed] = False
        self.matched_rows = (np.cumsum(keep) - 1)[self.matched_rows[keep[self.matched_rows]]]
        self.names = [name for name, keeps in zip(self.names, keep.tolist(), strict=True) if keeps]
        self.slots = [slot for slot, keeps in zip(self.slots, keep.tolist(), strict=True) if keeps]
        self.row_of = {name: row for row, name in enumerate(self.names)}
        for name in ("free", "claimed", "shared", "counted", "retiring", "user_numbers", "ranks", "weights"):
            setattr(self, name, getattr(self, name)[keep])
        for column in self._moving.values():
            column.offsets, column.rates, column.kinds = column.offsets[keep], column.rates[keep], column.kinds[keep]

    def _add(self, state: Manager, new_names: list[str]) -> None:
        self.layout += 1
        last_slots = [*islice(reversed(state.slots), len(new_names))][::-1]
        assert set(last_slots) == set(new_names), "the slots that were created last are the new ones"
        new_names[:] = last_slots
        count = len(new_names)
        for name in new_names:
            self.row_of[name] = len(self.names)
            self.names.append(name)
            self.slots.append(state.slots[name])
        for name in ("free", "claimed", "shared", "counted", "retiring", "user_numbers", "ranks", "weights"):
            before = getattr(self, name)
            setattr(self, name, np.concatenate([before, np.zeros(count, before.dtype)]))
        for clock in self._moving.values():
            clock.offsets, clock.rates = (np.concatenate([old, _zeros(count)]) for old in (clock.offsets, clock.rates))
            clock.kinds = np.concatenate([clock.kinds, np.zeros(count, np.uint8)])

    def _write(self, state: Manager, reader: _Reader, slot: Slot, with_ad: bool) -> None:
        """Write the columns of a slot that do not come from its ad. If ``with_ad``, also write the columns that do."""
        row, claim = self.row_of[slot.name], slot.claim
        m = reader.snapshot(slot)
        reader.spell(reader.ads.names(m))
        matched = slot.name in state.slot_matches
        self.free[row] = claim is None and slot.queued_claim is None and not matched and reader.ads.is_free(slot)
        is_claimed = claim is not None and not matched and slot.queued_claim is None and slot.state == "Claimed"
        self.claimed[row] = is_claimed and (state.dialect.preempts_idle_claims or slot.activity != "Idle")
        self.shared[row] = slot.kind == "partitionable"
        if self.shared[row]:  # a cycle's matches reduce these attributes
            self.table.varying |= set(map(str.lower, reader.ads.remaining_resources(slot)))
        self.counted[row] = slot.kind != "dynamic"
        users = self.submitters
        self.user_numbers[row] = -1 if claim is None else users.setdefault(claim.submitter, len(users))
        self.ranks[row] = 0.0 if claim is None else claim.rank
        self.retiring[row] = is_claimed and reader.ads.remaining_retirement(slot) > 0
        if self.retiring[row] or reader.ads.changes_over_time(m):
            self._watched[slot.name] = None
        else:
            self._watched.pop(slot.name, None)
        if with_ad:
            keys = [key for key in self._published_names() if key not in self._moving]
            cells = {key: reader.attribute(m, key) for key in keys}
            self._record_references(cells.values())
            self.table.set_attributes(row, cells)
            self._set_moving(reader, slot, m, row, self._moving)

    def _published_names(self) -> list[str]:
        stamp = (len(self._requested), len(self._spellings))
        if self._live[0] != stamp:
            live = [key for key in self._requested if key in self.ads.live or key in self._spellings]
            self._live = (stamp, live)
        return self._live[1]

    def _record_references(self, cells: Iterable[Expression | None]) -> None:
        for cell in cells:
            if cell is not None and type(cell) is not Literal and id(cell) not in self._analyzed:
                self._analyzed.add(id(cell))
                self._references |= {name for _, name in names_in(cell)}

    def _add_columns(self, state: Manager, reader: _Reader, requested: Iterable[str]) -> None:
        pending = {name for name in requested if name not in self._requested} | (
            self._references - self._requested.keys()
        )
        while pending:
            if not self.reads_anything and not pending.isdisjoint(DYNAMIC_REFERENCES):
                self.reads_anything = True  # an expression that computes names may read any attribute
            names = sorted(name for name in pending if name in reader.ads.live or name in self._spellings)
            self._requested |= dict.fromkeys(sorted(pending))
            self._reads_rollups = self._reads_rollups or any(map(reader.ads.is_rollup_attribute, pending))
            for name, cells in self._columns(state, reader, names, self.names).items():
                self.table.fill(name, cells)
            pending = self._references - self._requested.keys()
            if self.reads_anything:
                pending |= (self._spellings.keys() | reader.ads.live.keys()) - self._requested.keys()

    def _columns(
        self, state: Manager, reader: _Reader, keys: list[str], names: list[str]
    ) -> dict[str, list[Expression | None]]:
        """Return the cells of these attributes for these slots, by attribute. Clocks are written to ``_moving``."""
        moments = [(state.slots[name], reader.snapshot(state.slots[name])) for name in names] if keys else []
        columns: dict[str, list[Expression | None]] = {}
        for key in keys:
            if key in _MOVING_ATTRIBUTES:
                count = len(self.names)
                empty = _Moving(reader.ads.live[key], _zeros(count), _zeros(count), np.zeros(count, np.uint8))
                self._moving.setdefault(key, empty)
                continue
            if key in _CLOCKS or key in EXPECTED:
                continue
            cells = columns[reader.spelling(key)] = [reader.attribute(m, key) for slot, m in moments]
            self._record_references(cells)
        moving = {key: self._moving[key] for key in keys if key in self._moving}
        if moving:
            for slot, m in moments:
                self._set_moving(reader, slot, m, self.row_of[slot.name], moving)
        return columns

    def _set_moving(self, reader: _Reader, slot: Slot, m: Snapshot, row: int, moving: Mapping[str, _Moving]) -> None:
        if not moving:
            return
        clocks = reader.ads.moving(m)
        for key, column in moving.items():
            text = reader.ads.published_ad(slot).get(key)
            since = None if text is None else _SINCE.fullmatch(text)
            clock = clocks.get(key)
            value = reader.ads.value(m, key) if text is None else _parse_sensor_value(text)
            if since is not None:
                column.offsets[row], column.rates[row], column.kinds[row] = -int(since[1]), 1, INTEGER
            elif value is None:
                column.kinds[row] = ABSENT
            elif clock is not None:
                column.offsets[row], column.rates[row], column.kinds[row] = -clock.origin, 1, INTEGER
            else:
                column.offsets[row], column.rates[row], column.kinds[row] = int(value), 0, INTEGER

    def _move_clocks(self, seconds: int, context: Context) -> None:
        for column in self._moving.values():
            kinds: Any = column.kinds
            if len(kinds) and (kinds == kinds[0]).all():
                kinds = int(kinds[0])
            values: Any = 0 if type(kinds) is int and kinds == ABSENT else column.offsets + column.rates * seconds
            self.table.assign(column.name, kinds.copy() if isinstance(kinds, np.ndarray) else kinds, values)
        clocks = [key for key in _CLOCKS if key in self._requested]
        zones = [slot.ad.get(ZONE, "") for slot in self.slots] if clocks else []
        offsets_by_zone = {zone: machine_context({ZONE: zone}, context).utc_offset(seconds) for zone in {*zones}}
        offsets = [offsets_by_zone[zone] for zone in zones]
        local = seconds + np.array(offsets, np.int64)
        for key in clocks:
            # Not a single value for all slots, which plans would insert into conditions again every minute.
            value = local // 60 % 1440 if key == "clockmin" else (local // 86400 + 4) % 7
            self.table.assign(self.ads.live[key], INTEGER, value)

    def _estimate(self, reader: _Reader) -> None:
        """Rewrite the columns of drain costs, in every cycle, because they do not change linearly with the clock."""
        estimates = sorted(EXPECTED & self._requested.keys())
        moments = [reader.snapshot(slot) for slot in self.slots] if estimates else []
        for key in estimates:
            self.table.fill(reader.spelling(key), [reader.attribute(m, key) for m in moments])

    def _compute_weights(self) -> None:
        """Compute the slots' weights in thousandths of a core: SlotWeight or Cpus; 1 core if it is invalid."""
        columns = self.table.columns
        stamp = tuple(-1 if key not in columns else columns[key].version for key in ("slotweight", "cpus"))
        if stamp == self._weight_stamp and not self.table.expressions("SlotWeight"):
            return
        cpus = self.table.of_slots(CPUS, NO_JOB)
        if "slotweight" in columns:
            cpus = np.where(self.table.slots_without("slotweight"), cpus, self.table.of_slots(_WEIGHT, NO_JOB))
        fit = np.isfinite(cpus) & (cpus >= 0)
        self.weights = np.where(fit, np.rint(np.where(fit, cpus, 0.0) * 1000), 1000).astype(np.int64)
        self._weight_stamp = stamp


def _parse_sensor_value(text: str) -> int | None:
    if text.isdecimal():
        return int(text)
    parsed = parse_cached(text)
    return None if parsed is None else integer_of(parsed, None, None, Context())


class _Reader:
    """Reads the slot ads for the requested columns.

    :param spellings: the attributes' spellings, by lower-case name
    """

    def __init__(self, ads: SlotAds, spellings: dict[str, str]) -> None:
        self.ads, self._spellings = ads, spellings
        self.snapshot, self.attribute = ads.snapshot, ads.attribute
        self._known: set[str] = set(spellings.values())

    def spell(self, names: Set[str]) -> None:
        for name in names - self._known:
            self._known.add(name)
            if self.ads.is_published(name):
                self._spellings.setdefault(name.lower(), name)

    def spelling(self, key: str) -> str:
        return self.ads.live.get(key) or self._spellings.get(key, key)


def public_ads_of(
    state: Manager, caches: Caches, now: int, context: Context, requested: Iterable[str], advertise: Advertise
) -> SlotAdTable:
    """Return the table of the pool's current slots, which is cached with the state."""
    known = caches.get(SlotAdTable)
    if not known.can_update_from(state) or known.table.stored_values > 20 * len(state.slots) + 200_000:
        known = caches.replace_with_empty(SlotAdTable)
    known.update(state, now, context, advertise(state, caches, now, context), requested)
    return known
