"""What the web page shows, beyond the ads of the API: one request for each place of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from ...domain.units import SECOND
from ...projections.overview import MachineSummary
from ...replay.forensics.daemon_tables import NotKnown
from ..overview.effects import Effect, effect, possible_actions
from ..overview.event_list import EventPage, event_page, recorded_times
from ..overview.periods import load, waits
from ..overview.pool import LATEST, cluster_bars, machines, pool_overview
from ..overview.records import ClusterBar, Load, PoolOverview, Shares, Waits, status_counts
from ..overview.search import Hit, search
from ..overview.sentences import jobs_sentence, machines_sentence
from ..overview.share_history import ShareHistory, share_history
from ..overview.shares import shares
from ..overview.slot_grid import SlotGrid, slot_grid
from ..overview.things import Thing, thing
from .endpoints import AtTime, Endpoint
from .pool_access import Call

Kind = Literal["job", "cluster", "slot", "machine", "user", "group", "cycle", "event"]


class Period(AtTime, frozen=True, kw_only=True):
    hours: Annotated[int, Meta(ge=1, le=8_784, description="the hours before the time of the answer to include")] = 24


class LogSpan(Struct, frozen=True):
    """The log: its first and last time, in microseconds, and whether it was imported."""

    began: int
    ended: int
    position: int
    name: str
    imported: bool


class PoolPlace(Struct, frozen=True):
    pool: PoolOverview
    grid: SlotGrid
    load: Load


class JobsPlace(Struct, frozen=True):
    sentence: str
    bars: list[ClusterBar]
    before: Annotated[int, Meta(description="`before` of the next page; 0: there is none")]
    missing: list[str]


class SharesPlace(Struct, frozen=True):
    shares: Shares
    history: ShareHistory
    waits: Waits
    load: Load


class MachinesPlace(Struct, frozen=True):
    sentence: str
    machines: list[MachineSummary]


class JobsQuery(AtTime, frozen=True, kw_only=True):
    owner: Annotated[str, Meta(description="only this user's clusters; empty: all users' clusters")] = ""
    text: Annotated[str, Meta(description="only clusters whose number, owner or batch contains this text")] = ""
    history: Annotated[bool, Meta(description="also clusters that have left the queue")] = False
    before: Annotated[int, Meta(ge=0, le=2**62, description="only clusters with lower numbers; 0: all")] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class LogQuery(AtTime, frozen=True, kw_only=True):
    about: Annotated[str, Meta(description="only events of this job, cluster, slot or stream")] = ""
    text: Annotated[str, Meta(description="only events that contain this text")] = ""
    priorities: Annotated[bool, Meta(description="also updates of priorities, which a pool records every minute")] = (
        False
    )
    before: Annotated[int, Meta(ge=0, le=2**62, description="only events before this position; 0: all")] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class ThingQuery(AtTime, frozen=True, kw_only=True):
    kind: Kind
    name: str
    offset: Annotated[int, Meta(ge=0, le=2**62, description="the first row of tables")] = 0


class SearchQuery(AtTime, frozen=True, kw_only=True):
    text: str


class ActionsQuery(Struct, frozen=True, kw_only=True):
    kind: Kind
    name: str


class EffectQuery(ActionsQuery, frozen=True, kw_only=True):
    action: str
    value: Annotated[str, Meta(description="the new priority or factor")] = ""
    reason: str = ""


def _time(call: Call) -> int:
    """Return the time of the answer, in microseconds."""
    if call.at is not None:
        return call.at
    return recorded_times(call.queries)[1] if call.queries.imported else call.queries.views.at


def _began(call: Call) -> int:
    """Return the time of the log's first event, in microseconds."""
    if call.queries.imported:
        return recorded_times(call.queries)[0]
    return next(call.queries.log.read(0, 1))[1].at


def _load(call: Call, hours: int) -> Load:
    until = _time(call)
    return load(call.queries, max(until - hours * 3600 * SECOND, _began(call)), until + 1, 300)


def get_span(call: Call, query: AtTime) -> LogSpan:
    """Return the times of the log."""
    queries = call.queries
    pool, ended = queries.views.pool(), recorded_times(queries)[1] if queries.imported else queries.views.at
    return LogSpan(_began(call), ended, queries.log.head.position, pool.name, queries.imported)


def get_pool_place(call: Call, query: Period) -> PoolPlace:
    """Return the pool's sentence, slots, load and findings."""
    return PoolPlace(pool_overview(call.queries, 40), slot_grid(call.queries), _load(call, query.hours))


def get_jobs_place(call: Call, query: JobsQuery) -> JobsPlace:
    """Return the clusters of jobs, newest first, each with its jobs by status and the reason why jobs wait."""
    queries, before, missing = call.queries, query.before or LATEST, []
    try:
        bars = cluster_bars(queries, query.owner, before, query.limit, not query.history, query.text)
    except NotKnown as error:
        bars, missing = [], [f"The queue is unknown: {error}."]
    if queries.imported:
        counts: Counter[str] = Counter()
        for bar in bars:
            counts.update(bar.jobs)
    else:
        numbers: Counter[int] = Counter()
        for _, owner, _, status, jobs in queries.views.counts():
            numbers[status] += jobs if query.owner in ("", owner) else 0
        counts = Counter(status_counts(numbers))
    more = bars[-1].cluster if len(bars) == query.limit else 0
    sentence = missing[0] if missing else jobs_sentence(counts, query.owner)
    return JobsPlace(sentence, bars, more, missing)


def get_shares_place(call: Call, query: Period) -> SharesPlace:
    """Return who gets what: shares, waiting times and the queue over time."""
    queries = call.queries
    try:
        parts = shares(queries)
    except NotKnown as error:
        parts = Shares(f"The priorities are unknown: {error}.", [], [])
    until = _time(call)
    history = share_history(queries, max(until - query.hours * 3600 * SECOND, _began(call)), until)
    return SharesPlace(parts, history, waits(queries), _load(call, query.hours))


def get_machines_place(call: Call, query: AtTime) -> MachinesPlace:
    """Return the machines."""
    rows = machines(call.queries)
    return MachinesPlace(machines_sentence(rows), rows)


def get_log_place(call: Call, query: LogQuery) -> EventPage:
    """Return events, newest first."""
    return event_page(call.queries, query.about, query.text, query.before, query.limit, query.priorities)


def get_thing(call: Call, query: ThingQuery) -> Thing:
    """Return why a job, slot or other thing is in its state, its facts and its timeline."""
    return thing(call.queries, query.kind, query.name, query.offset)


def find(call: Call, query: SearchQuery) -> list[Hit]:
    """Find jobs, clusters, slots, machines, users, groups and events."""
    return search(call.queries, query.text)


def get_actions(call: Call, query: ActionsQuery) -> list[str]:
    """Return the actions on a thing that the caller may take."""
    return possible_actions(call.queries, query.kind, query.name, call.caller.user) if call.can_change else []


def get_effect(call: Call, query: EffectQuery) -> Effect:
    """Return what an action will do, and the request that does it."""
    return effect(call.queries, query.action, query.kind, query.name, call.caller.user, query.value, query.reason)


def _view(name: str, handle: Callable[..., Any]) -> Endpoint:
    return Endpoint("GET", f"/overview/{name}", handle, is_compressed=True)


VIEWS: Final = {
    "span": _view("span", get_span),
    "pool": _view("pool", get_pool_place),
    "jobs": _view("jobs", get_jobs_place),
    "shares": _view("shares", get_shares_place),
    "machines": _view("machines", get_machines_place),
    "log": _view("log", get_log_place),
    "thing": _view("thing", get_thing),
}
"""The endpoints whose results can be followed (`live_views`)."""
ENDPOINTS: Final = (
    *VIEWS.values(),
    Endpoint("GET", "/overview/search", find),
    Endpoint("GET", "/overview/actions", get_actions, is_live=True),
    Endpoint("GET", "/overview/effect", get_effect, is_live=True),
)
