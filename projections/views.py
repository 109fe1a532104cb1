"""Reading the views: the queue, the history, the pool's slots, and who used how much, as of one position of the log.

Nothing here is computed that the folds could have written; whatever needs the ClassAd engine imports it when the first
ad is asked for.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ..domain.state_machines import DIALECTS
from . import imported_ads
from .checkpoint import reached
from .job_ads import Clusters, ad_of, ads, attributes
from .job_columns import QUEUES_OWN, Columns
from .job_query import ALL, Jobs, Selection, stretches
from .schema import SLOT_ATTRIBUTES

if TYPE_CHECKING:
    from ..domain.classad import ClassAd, Context, Expression


class ClusterCounts(NamedTuple):
    """A cluster's jobs in the queue: how many of each status (by number), the lowest and the highest process that is
    there, and how many were submitted. ``batch`` is the submission's JobBatchName, None without one; ``qdate`` is in
    seconds."""

    owner: str
    batch: str | None
    cluster: int
    qdate: int
    counts: dict[int, int]
    lowest: int
    highest: int
    submitted: int


class SlotRow(NamedTuple):
    """A slot. ``kind``: static, partitionable or dynamic, then with its ``parent``. Instants are in microseconds.
    ``claim``, ``submitter``, ``weight`` (thousandths) and ``claimed`` tell of the claim, if there is one; ``job`` is
    the job that runs there, as 12.3. ``ad`` is JSON, attribute -> text: the slot's own, its policy included; ``facts``
    likewise, what it has by its claim and by who waits for it."""

    name: str
    machine: str
    kind: str
    parent: str
    born: int
    state: str
    activity: str
    entered_state: int
    entered_activity: int
    claim: str
    submitter: str
    weight: int
    claimed: int
    job: str
    ad: str
    facts: str


class SubmitterRow(NamedTuple):
    """What the accountant has of a submitter: see ``Submitter``, whose fields these are."""

    submitter: str
    priority: float
    updated: int
    factor: float
    floor: float
    ceiling: float
    leases: dict[str, tuple[float, int]]
    weighted_in_use: int
    slots: int
    counted: int
    weighted_usage: int
    unweighted_usage: int
    usage_accounted: int
    ended_usage: int
    ended: int
    begin: int
    last: int

    @property
    def name(self) -> str:
        return self.submitter

    @property
    def appeared_under(self) -> None:
        """Its factor is always known: the fold has found it where the log does not say it."""
        return None


class PoolRow(NamedTuple):
    """The pool: when it was founded (microseconds), its settings in force, and when the priorities were brought up to
    date last (0: they never were)."""

    name: str
    dialect: str
    founded: int
    settings: dict[str, str]
    accounted: int


class RefusalRow(NamedTuple):
    """Why jobs like ``job`` got nothing in the cycle at ``at`` (microseconds): see ``Unmatched``.
    ``clauses``: the condition, how many slots it leaves alone, and how many with those before. ``denied``: the fields
    of ``events.Denied`` that are not 0."""

    job: str
    at: int
    jobs: int
    slots: int
    clauses: tuple[tuple[str, int, int], ...]
    refused_by_slot: int
    taken: int
    submitter: str
    denied: dict[str, int]
    limit: str
    allowed: float
    used: float


class CycleRow(NamedTuple):
    """A cycle that decided something, at ``at`` (microseconds): HTCondor's LastNegotiationCycle*, without that
    prefix."""

    position: int
    at: int
    statistics: dict[str, float]


class Views:
    """The tables of one database, to be read. Iterators read as they are consumed; close nothing before they end."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Views:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def position(self) -> int:
        """The position of the last event that these views tell of."""
        return reached(self.connection).position

    @property
    def at(self) -> int:
        """The instant of that event, in microseconds."""
        return reached(self.connection).at

    # Jobs in the queue

    def batches(self) -> list[ClusterCounts]:
        """The clusters that have jobs in the queue, by their numbers."""
        found: dict[int, ClusterCounts] = {}
        statement = (
            "SELECT c.owner, c.batch, c.cluster, c.qdate, c.count, j.status, j.jobs, j.lowest, j.highest FROM "
            "(SELECT cluster, status, SUM(last - first + 1) AS jobs, MIN(first) AS lowest, MAX(last) AS highest "
            "FROM jobs GROUP BY cluster, status) j JOIN clusters c USING (cluster) ORDER BY c.cluster, j.status"
        )
        for owner, batch, cluster, qdate, count, status, jobs, lowest, highest in self.connection.execute(statement):
            before = found.get(cluster)
            counts = {} if before is None else before.counts
            counts[status] = jobs
            if before is not None:
                lowest, highest = min(lowest, before.lowest), max(highest, before.highest)
            found[cluster] = ClusterCounts(owner, batch or None, cluster, qdate, counts, lowest, highest, count)
        return list(found.values())

    def totals(self) -> dict[str, dict[int, int]]:
        """How many jobs each owner has in the queue, by status (HTCondor's number)."""
        totals: dict[str, dict[int, int]] = {}
        statement = (
            "SELECT c.owner, j.status, SUM(j.last - j.first + 1) FROM jobs j JOIN clusters c USING (cluster) "
            "GROUP BY c.owner, j.status ORDER BY c.owner, j.status"
        )
        for owner, status, jobs in self.connection.execute(statement):
            totals.setdefault(owner, {})[status] = jobs
        return totals

    def counts(self) -> list[tuple[str, str, bool, int, int]]:
        """How many jobs each submitter has in the queue: the submitter, the jobs' owner, whether they are of the local
        universe, their status (HTCondor's number), how many."""
        statement = (
            "SELECT c.submitter, c.owner, COALESCE(json_extract(c.ad, '$.JobUniverse'), '') = '12', j.status, "
            "SUM(j.jobs) FROM (SELECT cluster, status, SUM(last - first + 1) AS jobs "
            "FROM jobs GROUP BY cluster, status) j "
            "JOIN clusters c USING (cluster) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
        )
        found = self.connection.execute(statement)
        return [(submitter, owner, bool(local), status, jobs) for submitter, owner, local, status, jobs in found]

    def job(self, cluster: int, proc: int) -> ClassAd | None:
        """The ad of one job in the queue; None if it is not there."""
        return next(self.ads(Jobs(((cluster, proc),))), None)

    def ads(self, selection: Selection = ALL) -> Iterator[ClassAd]:
        """The ads of jobs in the queue, by their ids. They share their clusters' ads: copy one before changing it."""
        clusters = Clusters(self.connection)
        for stretch in stretches(self.connection, selection):
            yield from ads(clusters, stretch)

    def columns(
        self, names: Sequence[str], selection: Selection = ALL, context: Context | None = None
    ) -> Iterator[tuple[str, ...]]:
        """The values of some attributes as ``-autoformat`` prints them, of jobs in the queue, by their ids. `context`:
        of attributes that are expressions."""
        changes = not QUEUES_OWN.keys() >= {name.lower() for name in names}
        columns = Columns(Clusters(self.connection), names, context)
        return columns.rows(stretches(self.connection, selection, changes=changes))

    # Jobs that have left

    def history_ads(
        self, selection: Selection = ALL, limit: int | None = None, forwards: bool = False
    ) -> Iterator[ClassAd]:
        """The ads of jobs that have left the queue, the last one first, or with `forwards` the first one; at most
        `limit`. Read as they are asked for: the last ten of a million cost no more than ten."""
        clusters = Clusters(self.connection)
        found = stretches(self.connection, selection, "oldest" if forwards else "newest")
        return islice((ad for stretch in found for ad in ads(clusters, stretch, not forwards)), limit)

    def kept(self, selection: Selection = ALL, forwards: bool = False) -> Iterator[imported_ads.Kept]:
        """Where in the log the ads of the history that an import kept are, the last one first, or with `forwards` the
        first one. Read as they are asked for."""
        return imported_ads.kept(self.connection, selection, forwards)

    def last_sample(self, kind: str) -> list[int]:
        """The positions of the events that keep the latest sample of ads of a kind; nothing if there is none."""
        return imported_ads.last_sample(self.connection, kind)

    # The pool

    def machines(self) -> dict[str, dict[str, str]]:
        """The machines in the pool, each with the texts of its ad, in the order in which they joined."""
        rows = self.connection.execute("SELECT machine, ad FROM machines ORDER BY joined, rowid")
        return {machine: json.loads(ad) for machine, ad in rows}

    def slots(self) -> list[SlotRow]:
        """The slots in the pool's order: of their births."""
        return [SlotRow(*row) for row in self.connection.execute("SELECT * FROM slots ORDER BY born")]

    def slot_ads(self) -> Iterator[ClassAd]:
        """The slots' ads, in the pool's order, as they are published (``domain/startd/public_ad.py``), with what the
        pool itself knows of them: state and activity and since when, the claim and the job, the machine's drain, and
        of a partitionable slot what was carved from it (manual: Machine ClassAd Attributes)."""
        rows = self.slots()
        pool = self.connection.execute("SELECT name, dialect FROM pool").fetchone() or ("", "")
        found = self.connection.execute("SELECT machine, shutdown, start, facts FROM machines")
        machines = {machine: _Machine(how, start, json.loads(facts)) for machine, how, start, facts in found}
        children: dict[str, list[SlotRow]] = {}
        for row in rows:
            if row.parent:
                children.setdefault(row.parent, []).append(row)
        ads = [_slot_ad(row, children.get(row.name, []), machines.get(row.machine), *pool) for row in rows]
        _show_each_other(rows, ads, machines)
        yield from ads

    # Accounting and matching

    def pool(self) -> PoolRow:
        """The pool itself."""
        row = self.connection.execute("SELECT name, dialect, founded, settings, accounted FROM pool").fetchone()
        name, dialect, founded, settings, accounted = row or ("", "", 0, "{}", 0)
        return PoolRow(name, dialect, founded, json.loads(settings), accounted)

    def submitters(self) -> list[SubmitterRow]:
        """All that ever submitted anything or held a claim, by name."""
        found = []
        for row in self.connection.execute("SELECT * FROM submitters ORDER BY submitter"):
            leases = {name: (value, until) for name, (value, until) in json.loads(row[6]).items()}
            found.append(SubmitterRow._make((*row[:6], leases, *row[7:10], *map(int, row[10:14]), *row[14:])))
        return found

    def waiting(self) -> set[str]:
        """The submitters that have idle jobs."""
        statement = "SELECT DISTINCT c.submitter FROM jobs j JOIN clusters c USING (cluster) WHERE j.status=1"
        return {name for (name,) in self.connection.execute(statement)}

    def claims_of(self, submitter: str) -> list[tuple[str, int]]:
        """The slots that a submitter has, each with the instant since when (microseconds), in the pool's order."""
        statement = "SELECT name, claimed FROM slots WHERE submitter=? AND claim<>'' ORDER BY born"
        return [(name, since) for name, since in self.connection.execute(statement, (submitter,))]

    def spent(self, by: str = "user") -> list[imported_ads.Spent]:
        """What the jobs that have left used, by user, group or cluster: those of an import's history, and the pool's
        own."""
        return imported_ads.spent(self.connection, by)

    def refusals(self) -> list[RefusalRow]:
        """Why jobs wait, by the first job of each kind that still does, in the order in which it was said last."""
        statement = (
            "SELECT r.* FROM refusals r JOIN jobs j ON j.cluster = r.cluster AND j.status = 1 AND j.last >= r.proc AND "
            "j.first = (SELECT MAX(first) FROM jobs WHERE cluster = r.cluster AND first <= r.proc) "
            "ORDER BY r.at, r.cluster, r.proc"
        )
        found = []
        for cluster, proc, *row in self.connection.execute(statement):
            at, jobs, slots, clauses, refused, taken, who, denied, limit, allowed, used = row
            told = tuple((clause["text"], clause["alone"], clause["left"]) for clause in json.loads(clauses))
            counts = {name: count for name, count in json.loads(denied or "{}").items() if count}
            found.append(
                RefusalRow(
                    f"{cluster}.{proc}", at, jobs, slots, told, refused, taken, who, counts, limit, allowed, used
                )
            )
        return found

    def cycles(self) -> list[CycleRow]:
        """The last cycles that decided anything, the last one first."""
        rows = self.connection.execute("SELECT position, at, statistics FROM cycles ORDER BY position DESC")
        return [CycleRow(position, at, json.loads(statistics)) for position, at, statistics in rows]


class _Machine(NamedTuple):
    shutdown: str
    start: str
    facts: dict[str, str]


_OF_THE_TIME = {
    "MyCurrentTime": "time()",
    "ClockMin": 'int(formatTime(time(), "%H")) * 60 + int(formatTime(time(), "%M"))',
    "ClockDay": 'int(formatTime(time(), "%w"))',
    "LastBenchmark": "0",
}
"""What every slot of the pool's own machines says, unless something has happened to it."""


def _show_each_other(rows: list[SlotRow], ads: list[ClassAd], machines: dict[str, _Machine]) -> None:
    """Put the attributes of STARTD_SLOT_ATTRS of each of a machine's slots into the ads of all of them, as
    slot<N>_<attribute>."""
    seen: dict[str, dict[str, Expression]] = {}
    for row, ad in zip(rows, ads, strict=True):
        machine = machines.get(row.machine)
        wanted = machine.facts.get(SLOT_ATTRIBUTES, "") if machine else ""
        for name in wanted.replace(",", " ").split():
            if name in ad:
                seen.setdefault(row.machine, {})[f"{row.name.partition('@')[0]}_{name}"] = ad[name]
    for row, ad in zip(rows, ads, strict=True):
        for name, meaning in seen.get(row.machine, {}).items():
            ad[name] = meaning


def _slot_ad(row: SlotRow, children: list[SlotRow], machine: _Machine | None, pool: str, dialect: str) -> ClassAd:
    texts, facts = json.loads(row.ad), json.loads(row.facts)
    if machine is not None:  # else it is a real pool's, and says itself what it publishes
        texts = _published(texts, row.state, machine, facts, dialect)
        facts = {**_OF_THE_TIME, **machine.facts, **facts}
        facts.pop(SLOT_ATTRIBUTES, None)
    ad = ad_of(attributes({**texts, **facts}))
    ad["Name"] = row.name
    ad["State"], ad["Activity"] = row.state, row.activity
    ad["EnteredCurrentState"] = row.entered_state // 1_000_000
    ad["EnteredCurrentActivity"] = row.entered_activity // 1_000_000
    if row.claim:
        if "RemoteUser" not in facts:
            ad["RemoteOwner"] = ad["RemoteUser"] = row.submitter
        ad["PublicClaimId"] = row.claim
        if "ClientMachine" not in facts:
            ad["ClientMachine"] = pool
    if row.job:
        ad["JobId"] = row.job
    if row.kind == "partitionable":
        carved: list[dict[str, Any]] = [json.loads(child.ad) for child in children]
        ad["NumDynamicSlots"] = len(children)
        ad["ChildState"] = [child.state for child in children]
        ad["ChildActivity"] = [child.activity for child in children]
        for name in ("Cpus", "Memory", "Disk"):
            values = [ad_of(attributes({name: text.get(name, "0")})).eval(name) for text in carved]
            ad[f"Child{name}"] = values
    return ad


def _published(
    texts: dict[str, str], state: str, machine: _Machine, facts: dict[str, str], dialect: str
) -> dict[str, str]:
    """What of a slot's own ad is shown to others."""
    from ..domain.startd.public_ad import published

    closed = bool(machine.shutdown) or "Draining" in machine.facts or "PreemptingUser" in facts
    willing = _willing(texts) if "Start" in texts else None
    return published(texts, DIALECTS[dialect], state, closed=closed, start=machine.start, willing=willing)


def _willing(texts: dict[str, str]) -> bool | None:
    """The value of START without a job, by what the log knows of the slot; None: it has none."""
    from ..domain.classad import EvaluationError

    try:
        found = ad_of(attributes(texts)).eval("Start")
    except EvaluationError:
        return None
    return found if isinstance(found, bool) else None
