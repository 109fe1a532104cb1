"""The slots of a pool by column, as the negotiator sees them: what the log says of them, and nothing else.

A slot's row is its published ad (``ports.slot_ads``). Only those attributes have a column that anybody reads: a job, a
slot's own conditions, the negotiator's expressions, and what these lead to. Rows follow the pool's order, which is that
of the slots' births, and a slot's row is written again when an event has changed the slot (``State.slot_changes``);
attributes that move by the clock are columns of instants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from ..classad import ClassAd, Context, Expression, parse, unparse
from ..classad.columns import ABSENT, INTEGER
from ..classad.evidence import MAKES_NAMES, integer, mentioned
from ..classad.function_registry import FUNCTIONS, Needs
from ..classad.plans import Plan
from ..classad.table import SlotTable
from ..classad.tree import Literal
from ..events import Clause, Unmatched
from ..ports.slot_ads import EXPECTED, TOTALLED, Advertise, SlotAds, Snapshot, total_name
from ..requests.autoclusters import Signature
from ..state.caches import Caches, expression
from ..state.state import Manager, Slot

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]

ALWAYS_READ = ("requirements", "start", "withinresourcelimits", "rank", "slotweight", "cpus", "name", "currentrank")
_SINCE = re.compile(r"time\(\) - (\d+)", re.ASCII)
"""How an instant is published (``startd/updates.py``)."""
_MOVES = frozenset(
    {"mycurrenttime", "keyboardidle", "consoleidle", "cpubusytime", "totaljobruntime", "totaljobsuspendtime",
     "totalclaimruntime", *(total_name(pair).lower() for pair in TOTALLED)}
)  # fmt: skip
_CLOCKS = ("clockmin", "clockday")
MOVING = _MOVES.union(
    _CLOCKS, EXPECTED, (key for key, one in FUNCTIONS.items() if one.needs is Needs.CONTEXT), ("currenttime", "random")
)
"""Names that make what an expression comes to depend on the time, or on chance."""
_WEIGHT = parse("SlotWeight")
_CPUS = parse("Cpus")
_NOBODY = ClassAd()


@define
class _Moving:
    """A column of an attribute that moves by the clock: ``offset + rate * seconds`` where ``kinds`` says that it is."""

    name: str
    offsets: npt.NDArray[np.int64]
    rates: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.uint8]


def _zeros(count: int) -> npt.NDArray[Any]:
    return np.zeros(count, np.int64)


class Exhausted(NamedTuple):
    """Jobs alike that no slot is left for: among how many slots, and what was told of it."""

    signature: Signature
    slots: int
    told: Unmatched


@frozen
class SlotCounts:
    """What the slots say to one kind of jobs."""

    slots: int
    clauses: tuple[Clause, ...]
    fits: int  #: how many slots match
    refused: int  #: how many the jobs accept, but not these the jobs


@define(eq=False)
class Planned:
    """A kind of jobs, and what was found for it among the slots as they were ``as_of``."""

    signature: Signature
    plan: Plan
    as_of: object = None  #: the versions of what ``reads`` says; None: it is not kept
    reads: tuple[str, ...] | None = None
    """The attributes of slots, in small letters, that decide which of them match. None: that may change without an
    event of the slots."""
    match: Mask | None = None
    counts: SlotCounts | None = None


class Ranked(NamedTuple):
    """What an expression of the negotiator's comes to in each slot, and the attributes that it reads, as of which
    versions."""

    reads: tuple[str, ...]
    as_of: tuple[int, ...]
    values: npt.NDArray[np.float64]


@define
class PublicAds:
    """The slots at one instant. Made once for a state, and brought up to date for each cycle.

    ``names`` and ``places`` are the slots' names and rows. ``free``: a match needs nobody to go. ``held``: somebody has
    it, who may have to go. ``users``: who has it, as a number of ``submitters`` (-1: nobody). ``ranks``: the slot's
    RANK of the job that it has. ``shared``: partitionable; ``counted``: told of in reasons, as dynamic slots are not.
    ``retiring``: its job has retirement time left."""

    ads: SlotAds = field(init=False)  #: the ads of which the rows are made
    table: SlotTable = field(factory=SlotTable)
    names: list[str] = field(factory=list)
    slots: list[Slot] = field(factory=list)
    """The slots of the rows: one that died and was born again under its name is another, and comes last."""
    places: dict[str, int] = field(factory=dict)
    submitters: dict[str, int] = field(factory=dict)
    free: Mask = field(factory=lambda: np.zeros(0, bool))
    held: Mask = field(factory=lambda: np.zeros(0, bool))
    shared: Mask = field(factory=lambda: np.zeros(0, bool))
    counted: Mask = field(factory=lambda: np.zeros(0, bool))
    retiring: Mask = field(factory=lambda: np.zeros(0, bool))
    users: Places = field(factory=lambda: _zeros(0))
    ranks: npt.NDArray[np.float64] = field(factory=lambda: np.zeros(0))
    weights: Places = field(factory=lambda: _zeros(0))
    texts: dict[int, tuple[Expression, str]] = field(factory=dict)
    """What expressions look like, which are asked for in every cycle."""
    plans: dict[int, Planned] = field(factory=dict)
    """What is known of kinds of jobs, by their numbers."""
    barren: dict[int, Exhausted] = field(factory=dict)
    """Kinds of jobs that no slot is left for, by their numbers. It holds as long as slots only go or are matched, the
    settings stay, and no condition asks for the time."""
    given: Places = field(factory=lambda: _zeros(0))
    """The places that the last cycle gave away: what is barren since then is so only if they went."""
    ranked: dict[str, Ranked] = field(factory=dict)
    """The negotiator's own ranks, by the names that say what they depend on of a job."""
    layout: int = 0  #: how often rows came or went
    _wanted: dict[str, None] = field(factory=dict)
    _moving: dict[str, _Moving] = field(factory=dict)
    _spellings: dict[str, str] = field(factory=dict)
    _seen: set[str] = field(factory=set)
    _read: set[int] = field(factory=set)
    _live: tuple[tuple[int, int], list[str]] = ((-1, -1), [])
    _every: bool = False
    _watched: dict[str, None] = field(factory=dict)
    """The slots whose rows are written anew in every cycle: time alone may change what their machines' drains allow, or
    what they say of each other."""
    _rolled: bool = False
    """Whether anybody reads what partitionable slots tell of dynamic ones: their rows are written anew then, too."""
    _weighed: tuple[int, ...] = ()
    _configured: int = -1
    _cursors: tuple[int, int] = (-1, -1)
    """How many changes of slots, and how many matches, the rows are as of."""

    def read(self) -> frozenset[str]:
        """The attributes that anybody reads, in small letters."""
        return frozenset(self._wanted)

    @property
    def reads_anything(self) -> bool:
        """Whether some expression makes names when it is evaluated: it may read any attribute of a job."""
        return self._every

    def versions(self, reads: Iterable[str]) -> tuple[int, ...]:
        """Return which versions these attributes have in all slots: the same numbers for the same slots and values."""
        columns = self.table.columns
        return (self.layout, *[columns[name].version if name in columns else -1 for name in reads])

    def text(self, expression: Expression) -> str:
        """An expression as a text."""
        known = self.texts.get(id(expression))
        if known is None or known[0] is not expression:
            if len(self.texts) > 20_000:
                self.texts.clear()
            known = self.texts[id(expression)] = (expression, unparse(expression))
        return known[1]

    # Bringing up to date

    def update(self, state: Manager, now: int, context: Context, ads: SlotAds, asked: Iterable[str]) -> None:
        """Be as the ads say; ``asked`` are further attributes, in small letters, that somebody reads."""
        self.table.context, self.ads = context, ads
        see = _Seen(ads, self._spellings)
        changed, matched = self._changes(state) or (dict.fromkeys(state.slots), {})
        self._cursors = state.slot_changes.total, state.slots_matched.total
        self._follow(state, see, changed, matched)
        self._want(state, see, {*ALWAYS_READ, *asked})
        self._move(now // 1_000_000, context)
        self._estimate(see)
        self._weigh()
        self._check_given()

    def _changes(self, state: Manager) -> tuple[dict[str, None], dict[str, None]] | None:
        """Return the slots that changed, and those that were matched, since the last time; None: that is not known."""
        changed, matched = (
            log.since(seen) for log, seen in zip((state.slot_changes, state.slots_matched), self._cursors, strict=True)
        )
        return None if changed is None or matched is None else (changed, matched)

    def follows(self, state: Manager) -> bool:
        """Return whether it is known what has changed since the last time."""
        return self._changes(state) is not None

    def stale_machines(self, state: Manager) -> set[str]:
        """Return the machines with slots of which anything has changed since the last time."""
        changed, matched = self._changes(state) or (state.slots, {})
        return {slot.machine for name in (*changed, *matched) if (slot := state.slots.get(name)) is not None}

    def _check_given(self) -> None:
        """Forget what the last cycle found barren, if what it decided did not come about."""
        if (self.free[self.given] | self.held[self.given]).any():
            self.barren.clear()
        self.given = _zeros(0)

    def _follow(self, state: Manager, see: _Seen, touched: Mapping[str, None], matched: Mapping[str, None]) -> None:
        gone = [
            self.places[name]
            for name in touched
            if name in self.places and state.slots.get(name) is not self.slots[self.places[name]]
        ]
        if gone:
            self._remove(gone)
        fresh = [name for name in touched if name in state.slots and name not in self.places]
        parents = [self.names[place] for place in np.flatnonzero(self.shared)] if self._rolled else ()
        changed = dict.fromkeys(name for name in (*touched, *self._watched, *parents) if name in self.places)
        places = self.places
        taken = [places[name] for name in matched if name not in touched and name in places]
        self.free[taken] = self.held[taken] = False
        if fresh:
            self._add(state, fresh)
        for name in (*changed, *fresh):
            self._write(state, see, state.slots[name], cells=name in changed)
        if fresh:  # by column, which costs less
            self._fill(state, see, self._said(), fresh)
        if changed or fresh or state.configured != self._configured:
            self._configured = state.configured
            self.barren.clear()

    def _remove(self, gone: list[int]) -> None:
        self.layout += 1
        self.table.remove(gone)
        keep = np.ones(len(self.names), bool)
        keep[gone] = False
        self.given = (np.cumsum(keep) - 1)[self.given[keep[self.given]]]
        self.names = [name for name, keeps in zip(self.names, keep.tolist(), strict=True) if keeps]
        self.slots = [slot for slot, keeps in zip(self.slots, keep.tolist(), strict=True) if keeps]
        self.places = {name: place for place, name in enumerate(self.names)}
        for name in ("free", "held", "shared", "counted", "retiring", "users", "ranks", "weights"):
            setattr(self, name, getattr(self, name)[keep])
        for column in self._moving.values():
            column.offsets, column.rates, column.kinds = column.offsets[keep], column.rates[keep], column.kinds[keep]

    def _add(self, state: Manager, fresh: list[str]) -> None:
        """Rows at the end, in the order of the slots' births."""
        self.layout += 1
        if len(fresh) == len(state.slots):
            fresh[:] = state.slots
        else:
            order = {name: number for number, name in enumerate(state.slots)} if len(fresh) > 1 else {}
            fresh.sort(key=lambda name: order.get(name, 0))
        count = len(fresh)
        self.table.extend(count)
        for name in fresh:
            self.places[name] = len(self.names)
            self.names.append(name)
            self.slots.append(state.slots[name])
        for name in ("free", "held", "shared", "counted", "retiring", "users", "ranks", "weights"):
            before = getattr(self, name)
            setattr(self, name, np.concatenate([before, np.zeros(count, before.dtype)]))
        for one in self._moving.values():
            one.offsets, one.rates = (np.concatenate([old, _zeros(count)]) for old in (one.offsets, one.rates))
            one.kinds = np.concatenate([one.kinds, np.zeros(count, np.uint8)])

    def _write(self, state: Manager, see: _Seen, slot: Slot, cells: bool) -> None:
        """What is known of a slot apart from its ad, and with ``cells`` its row."""
        place, claim = self.places[slot.name], slot.claim
        m = see.snapshot(slot)
        see.spell(see.ads.names(m))
        matched = slot.name in state.slot_matches
        self.free[place] = claim is None and slot.waiting is None and not matched and see.ads.is_free(slot)
        held = claim is not None and not matched and slot.waiting is None and slot.state == "Claimed"
        self.held[place] = held and (state.dialect.preempts_idle_claims or slot.activity != "Idle")
        self.shared[place] = slot.kind == "partitionable"
        self.counted[place] = slot.kind != "dynamic"
        self.users[place] = -1 if claim is None else self.submitters.setdefault(claim.submitter, len(self.submitters))
        self.ranks[place] = 0.0 if claim is None else claim.rank
        self.retiring[place] = held and see.ads.retires_for(slot) > 0
        if self.retiring[place] or see.ads.moves_by_itself(m):
            self._watched[slot.name] = None
        else:
            self._watched.pop(slot.name, None)
        if cells:
            self._note(found := {key: see.attribute(m, key) for key in self._said() if key not in self._moving})
            self.table.put(place, found)
            self._set_moving(see, slot, m, place, self._moving)

    def _said(self) -> list[str]:
        """Those of the attributes wanted that any slot says: the others are words of other things."""
        stamp = (len(self._wanted), len(self._spellings))
        if self._live[0] != stamp:
            live = [key for key in self._wanted if key in self.ads.live or key in self._spellings]
            self._live = (stamp, live)
        return self._live[1]

    def _note(self, cells: Mapping[str, Expression | None]) -> None:
        for cell in cells.values():
            if cell is not None and type(cell) is not Literal:
                self._learn(cell)

    def _learn(self, expression: Expression) -> None:
        """Take note of what an expression of a slot may read."""
        if id(expression) not in self._read:
            self._read.add(id(expression))
            self._seen |= {name for _, name in mentioned(expression)}

    # Columns

    def _want(self, state: Manager, see: _Seen, asked: Iterable[str]) -> None:
        """Have a column for each of these, and for what they lead to."""
        pending = {name for name in asked if name not in self._wanted} | (self._seen - self._wanted.keys())
        while pending:
            if not self._every and not pending.isdisjoint(MAKES_NAMES):
                self._every = True  # an expression makes names when it is evaluated: any may be read
            names = sorted(name for name in pending if name in see.ads.live or name in self._spellings)
            self._wanted |= dict.fromkeys(sorted(pending))
            self._rolled = self._rolled or any(map(see.ads.is_rolled, pending))
            self._fill(state, see, names, self.names)
            pending = self._seen - self._wanted.keys()
            if self._every:
                pending |= (self._spellings.keys() | see.ads.live.keys()) - self._wanted.keys()

    def _fill(self, state: Manager, see: _Seen, keys: list[str], names: list[str]) -> None:
        """Write the cells of these attributes for these slots, which are all, or the last rows."""
        moments = [(state.slots[name], see.snapshot(state.slots[name])) for name in names] if keys else []
        complete = len(names) == len(self.names)
        for key in keys:
            if key in _MOVES:
                self._moving.setdefault(key, self._still(key))
                continue
            if key in _CLOCKS or key in EXPECTED:
                continue
            cells = [see.attribute(m, key) for slot, m in moments]
            for asked in {id(cell): cell for cell in cells if cell is not None and type(cell) is not Literal}.values():
                self._learn(asked)
            if complete:
                self.table.fill(see.spelling(key), cells)
            else:
                first = len(self.names) - len(names)
                for number, cell in enumerate(cells):
                    self.table.put(first + number, {key: cell})
        moving = {key: self._moving[key] for key in keys if key in self._moving}
        if moving:
            for slot, m in moments:
                self._set_moving(see, slot, m, self.places[slot.name], moving)

    def _still(self, key: str) -> _Moving:
        count = len(self.names)
        return _Moving(self.ads.live[key], _zeros(count), _zeros(count), np.zeros(count, np.uint8))

    def _set_moving(self, see: _Seen, slot: Slot, m: Snapshot, place: int, moving: Mapping[str, _Moving]) -> None:
        if not moving:
            return
        clocks = see.ads.moving(m)
        for key, column in moving.items():
            text = see.ads.public(slot).get(key)
            since = None if text is None else _SINCE.fullmatch(text)
            clock = clocks.get(key)
            value = see.ads.value(m, key) if text is None else _told(text)
            if since is not None:
                column.offsets[place], column.rates[place], column.kinds[place] = -int(since[1]), 1, INTEGER
            elif value is None:
                column.kinds[place] = ABSENT
            elif clock is not None:
                column.offsets[place], column.rates[place], column.kinds[place] = -clock.origin, 1, INTEGER
            else:
                column.offsets[place], column.rates[place], column.kinds[place] = int(value), 0, INTEGER

    def _move(self, seconds: int, context: Context) -> None:
        for column in self._moving.values():
            kinds: Any = column.kinds
            if len(kinds) and (kinds == kinds[0]).all():
                kinds = int(kinds[0])
            values: Any = 0 if type(kinds) is int and kinds == ABSENT else column.offsets + column.rates * seconds
            self.table.assign(column.name, kinds.copy() if isinstance(kinds, np.ndarray) else kinds, values)
        local = seconds + context.offset(seconds)
        for key, value in zip(_CLOCKS, (local // 60 % 1440, (local // 86400 + 4) % 7), strict=True):
            if key in self._wanted:
                # Not as one value for all slots, which plans would put into conditions, anew every minute.
                self.table.assign(self.ads.live[key], INTEGER, np.full(len(self.names), value, np.int64))

    def _estimate(self, see: _Seen) -> None:
        """The columns of what drains would cost, anew in every cycle: they move by the clock, and not evenly."""
        estimates = sorted(EXPECTED & self._wanted.keys())
        moments = [see.snapshot(slot) for slot in self.slots] if estimates else []
        for key in estimates:
            self.table.fill(see.spelling(key), [see.attribute(m, key) for m in moments])

    def _weigh(self) -> None:
        """The slots' weights in thousandths: SlotWeight, which is Cpus unless configured; 1 for what is no weight."""
        columns = self.table.columns
        stamp = tuple(-1 if key not in columns else columns[key].version for key in ("slotweight", "cpus"))
        if stamp == self._weighed and len(self.weights) == len(self.names) and not self.table.expressions("SlotWeight"):
            return
        cpus = self.table.of_slots(_CPUS, _NOBODY)
        if "slotweight" in columns:
            cpus = np.where(self.table.absent("slotweight"), cpus, self.table.of_slots(_WEIGHT, _NOBODY))
        fit = np.isfinite(cpus) & (cpus >= 0)
        self.weights = np.where(fit, np.rint(np.where(fit, cpus, 0.0) * 1000), 1000).astype(np.int64)
        self._weighed = stamp


def _told(text: str) -> int | None:
    """What an owner's own sensor says in place of an attribute that moves by the clock, as a whole number."""
    if text.isdecimal():
        return int(text)
    parsed = expression(text)
    return None if parsed is None else integer(parsed, None, None, Context())


class _Seen:
    """The slots' ads, for the columns that are read.

    :param spellings: how attributes are written, by their names in small letters
    """

    def __init__(self, ads: SlotAds, spellings: dict[str, str]) -> None:
        self.ads, self._spellings = ads, spellings
        self.snapshot, self.attribute = ads.snapshot, ads.attribute
        self._known: set[str] = set(spellings.values())

    def spell(self, names: Set[str]) -> None:
        """Take note of how attributes are written."""
        for name in names - self._known:
            self._known.add(name)
            if self.ads.is_published(name):
                self._spellings.setdefault(name.lower(), name)

    def spelling(self, key: str) -> str:
        return self.ads.live.get(key) or self._spellings.get(key, key)


def public_ads_of(
    state: Manager, caches: Caches, now: int, context: Context, asked: Iterable[str], advertise: Advertise
) -> PublicAds:
    """The pool's slots as of now: kept with the state, since little changes from one cycle to the next."""
    known = caches.of(PublicAds)
    if not known.follows(state) or known.table.waste > 20 * len(state.slots) + 200_000:
        known = caches.renew(PublicAds)
    known.update(state, now, context, advertise(state, caches, now, context), asked)
    return known
