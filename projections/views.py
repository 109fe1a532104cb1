"""Reading the views: the queue, the history, the pool's slots, and who used how much, as of one position of the log.

Nothing here is computed that the folds could have written; whatever needs the ClassAd engine imports it when the first
ad is asked for.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..domain.names import AccountName
from ..domain.state_machines import DIALECTS, MANUAL
from . import imported_ads
from .checkpoint import read_checkpoint
from .job_ads import Clusters, ads
from .job_columns import QUEUES_OWN, Columns
from .job_query import ALL, JobSelection, SelectedJobs, stretches
from .schema import WHOSE

if TYPE_CHECKING:
    from ..domain.classad import ClassAd, Context
    from ..domain.requests.autoclusters import Autoclusters
    from ..domain.state.defrag_state import Defrag
    from ..domain.state.records import Machine, Slot
    from ..domain.state.state import State


class FactoryRow(NamedTuple):
    """A cluster with a factory: its own ad and the edits of it, as JSON; its jobs in the queue, by status."""

    cluster: int
    owner: str
    qdate: int
    total: int
    ad: str
    made: int
    mode: str
    reason: str
    changes: str
    counts: Mapping[int, int]


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
    made: int | None = None  #: how many its factory has made; None without one


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
    counted_until: int
    weighted_usage: int
    unweighted_usage: int
    usage_accounted: int
    ended_usage: int
    ended_claims: int
    first_used: int
    last_used: int

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
    group: str


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
        return read_checkpoint(self.connection).position

    @property
    def at(self) -> int:
        """The instant of that event, in microseconds."""
        return read_checkpoint(self.connection).at

    # Jobs in the queue

    def batches(self) -> list[ClusterCounts]:
        """The clusters that have jobs in the queue, by their numbers."""
        clusters: dict[int, ClusterCounts] = {}
        statement = (
            "SELECT c.owner, c.batch, c.cluster, c.qdate, c.count, f.made, j.status, j.jobs, j.lowest, j.highest FROM "
            "(SELECT cluster, status, SUM(last - first + 1) AS jobs, MIN(first) AS lowest, MAX(last) AS highest "
            "FROM jobs GROUP BY cluster, status) j JOIN clusters c USING (cluster) "
            "LEFT JOIN factories f USING (cluster) ORDER BY c.cluster, j.status"
        )
        for owner, batch, cluster, qdate, count, made, status, jobs, lowest, highest in self.connection.execute(
            statement
        ):
            before = clusters.get(cluster)
            counts = {} if before is None else before.counts
            counts[status] = jobs
            if before is not None:
                lowest, highest = min(lowest, before.lowest), max(highest, before.highest)
            clusters[cluster] = ClusterCounts(
                owner, batch or None, cluster, qdate, counts, lowest, highest, count, made
            )
        return list(clusters.values())

    def has_dags(self) -> bool:
        """Return True if jobs in the queue are nodes of DAGs, or may stand for DAGs: their ads say to which batch they
        belong."""
        statement = (
            "SELECT EXISTS (SELECT 1 FROM clusters WHERE cluster IN (SELECT cluster FROM jobs) AND "
            "(json_extract(ad, '$.JobUniverse') = '7' OR json_extract(ad, '$.DAGManJobId') IS NOT NULL OR "
            "json_extract(ad, '$.JobBatchId') IS NOT NULL))"
        )
        return bool(self.connection.execute(statement).fetchone()[0])

    def factories(self) -> list[FactoryRow]:
        """The clusters with factories that have jobs in the queue, or to make, by their numbers."""
        statement = (
            "SELECT cluster, owner, qdate, count, ad, made, mode, reason, f.changes FROM factories f "
            "JOIN clusters c USING (cluster) ORDER BY cluster"
        )
        counts: dict[int, dict[int, int]] = {}
        jobs = "SELECT cluster, status, SUM(last - first + 1) FROM jobs GROUP BY cluster, status"
        for cluster, status, number in self.connection.execute(jobs):
            counts.setdefault(cluster, {})[status] = number
        rows: list[tuple[int, str, int, int, str, int, str, str, str]] = self.connection.execute(statement).fetchall()
        factories = [FactoryRow(*row, counts.get(row[0], {})) for row in rows]
        return [row for row in factories if row.counts or (row.made < row.total and row.mode != "Removed")]

    def totals(self) -> dict[str, dict[int, int]]:
        """How many jobs each owner has in the queue, by status (HTCondor's number). As condor_q counts, jobs of the
        scheduler universe are left out."""
        totals: dict[str, dict[int, int]] = {}
        statement = (
            "SELECT c.owner, j.status, SUM(j.last - j.first + 1) FROM jobs j JOIN clusters c USING (cluster) "
            "WHERE json_extract(c.ad, '$.JobUniverse') IS NOT '7' GROUP BY c.owner, j.status ORDER BY c.owner, j.status"
        )
        for owner, status, jobs in self.connection.execute(statement):
            totals.setdefault(owner, {})[status] = jobs
        return totals

    def counts(self) -> list[tuple[str, str, str, int, int]]:
        """How many jobs each submitter has in the queue: the submitter, the jobs' owner, their universe if that is one
        of the access point's (``local``, ``scheduler``; else empty), their status (HTCondor's number), how many."""
        statement = (
            "SELECT c.submitter, c.owner, CASE json_extract(c.ad, '$.JobUniverse') WHEN '7' THEN 'scheduler' "
            "WHEN '12' THEN 'local' ELSE '' END, j.status, "
            "SUM(j.jobs) FROM (SELECT cluster, status, SUM(last - first + 1) AS jobs "
            "FROM jobs GROUP BY cluster, status) j "
            "JOIN clusters c USING (cluster) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
        )
        return self.connection.execute(statement).fetchall()

    def job(self, cluster: int, proc: int) -> ClassAd | None:
        """The ad of one job in the queue; None if it is not there."""
        return next(self.ads(SelectedJobs(((cluster, proc),))), None)

    def ads(self, selection: JobSelection = ALL) -> Iterator[ClassAd]:
        """The ads of jobs in the queue, by their ids. They share their clusters' ads: copy one before changing it."""
        clusters = Clusters(self.connection)
        for stretch in stretches(self.connection, selection):
            yield from ads(clusters, stretch)

    def columns(
        self,
        names: Sequence[str],
        selection: JobSelection = ALL,
        context: Context | None = None,
        statuses: Collection[int] | None = None,
    ) -> Iterator[tuple[str, ...]]:
        """The values of some attributes as ``-autoformat`` prints them, of jobs in the queue, by their ids. `context`:
        of attributes that are expressions. `statuses`: only of jobs in one of these."""
        changes = not QUEUES_OWN.keys() >= {name.lower() for name in names}
        columns = Columns(Clusters(self.connection), names, context)
        selected = stretches(self.connection, selection, changes=changes)
        return columns.rows(
            selected if statuses is None else (stretch for stretch in selected if stretch.status in statuses)
        )

    # Jobs that have left

    def history_ads(
        self, selection: JobSelection = ALL, limit: int | None = None, forwards: bool = False
    ) -> Iterator[ClassAd]:
        """The ads of jobs that have left the queue, the last one first, or with `forwards` the first one; at most
        `limit`. Read as they are asked for: the last ten of a million cost no more than ten."""
        clusters = Clusters(self.connection)
        selected = stretches(self.connection, selection, "oldest" if forwards else "newest")
        return islice((ad for stretch in selected for ad in ads(clusters, stretch, not forwards)), limit)

    def kept(
        self, selection: JobSelection = ALL, forwards: bool = False, *, once: bool = False
    ) -> Iterator[imported_ads.Kept]:
        """Where in the log the ads of the history that an import kept are, the last one first, or with `forwards` the
        first one; with `once` no job's earlier ads. Read as they are asked for."""
        return imported_ads.kept_ad_places(self.connection, selection, forwards, once)

    def last_sample(self, kind: str) -> list[int]:
        """The positions of the events that keep the latest sample of ads of a kind; nothing if there is none."""
        return imported_ads.last_sample(self.connection, kind)

    # The pool

    def machines(self) -> dict[str, dict[str, str]]:
        """The machines in the pool, each with the texts of its ad, in the order in which they joined."""
        return {machine.name: machine.ad for machine in self._machines()}

    def _machines(self) -> list[Machine]:
        from .slots_view import machine_of

        rows = self.connection.execute("SELECT record FROM machines ORDER BY joined, rowid")
        return [machine_of(record) for (record,) in rows]

    def slots(self) -> list[Slot]:
        """The slots in the pool's order: of their births."""
        from .slots_view import slot_of

        return [slot_of(record) for (record,) in self.connection.execute("SELECT record FROM slots ORDER BY born")]

    def slot_ads(self, now: int, timezone: tzinfo = UTC) -> Iterator[ClassAd]:
        """The slots' ads, in the pool's order, as they are published at an instant in seconds."""
        from ..domain.classad import Context
        from ..domain.startd.public_ad import PublishedSlots
        from ..domain.state.caches import Caches

        state = self._state_of_slots()
        context = Context(now=now, timezone=timezone, user_maps=state.user_maps)
        published = PublishedSlots(state, Caches(), now * 1_000_000, context)
        return map(published.ad, state.slots.values())

    def _state_of_slots(self) -> State:
        """The state of the pool as far as slots are concerned: machines, slots, and the jobs that run on them."""
        from ..domain.state.state import State
        from .running_jobs import running_jobs

        pool = self.pool()
        slots = {slot.name: slot for slot in self.slots()}
        machines = {machine.name: machine for machine in self._machines()}
        for slot in slots.values():
            if slot.machine in machines:
                machines[slot.machine].slots[slot.name] = slot
        dialect = DIALECTS.get(pool.dialect, MANUAL)
        return State(
            at=self.at, name=pool.name, dialect=dialect, settings=pool.settings, machines=machines, slots=slots,
            clusters=running_jobs(self.connection, slots.values()),
        )  # fmt: skip

    def significance(self) -> Autoclusters:
        """Which attributes of jobs count in a match, as the slots and the negotiator are now."""
        from ..domain.requests.autoclusters import autoclusters_of
        from ..domain.state.caches import Caches

        return autoclusters_of(self._state_of_slots(), Caches())

    # Accounting and matching

    def pool(self) -> PoolRow:
        """The pool itself."""
        row = self.connection.execute("SELECT name, dialect, founded, settings, accounted FROM pool").fetchone()
        name, dialect, founded, settings, accounted = row or ("", "", 0, "{}", 0)
        return PoolRow(name, dialect, founded, json.loads(settings), accounted)

    def submitters(self, negotiator: str = "") -> list[SubmitterRow]:
        """All that ever submitted anything or held a claim, by name; of several negotiators, those of one's accounting
        (empty: NEGOTIATOR's)."""
        submitters = []
        for account, *row in self.connection.execute("SELECT * FROM submitters ORDER BY submitter"):
            name = AccountName.parse(account)
            if name.negotiator != negotiator:
                continue
            row = [name.submitter, *row]
            leases = {name: (value, until) for name, (value, until) in json.loads(row[6]).items()}
            submitters.append(SubmitterRow._make((*row[:6], leases, *row[7:10], *map(int, row[10:14]), *row[14:])))
        return submitters

    def waiting(self) -> set[str]:
        """The submitters that have idle jobs."""
        statement = "SELECT DISTINCT c.submitter FROM jobs j JOIN clusters c USING (cluster) WHERE j.status=1"
        return {name for (name,) in self.connection.execute(statement)}

    def waiting_jobs(self) -> list[tuple[str, int, str]]:
        """The submitters of jobs that wait for slots, each with how many of a cluster's they are, and the text of that
        cluster's RequestCpus."""
        statement = (
            "SELECT c.submitter, SUM(j.last - j.first + 1), COALESCE(json_extract(c.ad, '$.RequestCpus'), '1') "
            "FROM jobs j JOIN clusters c USING (cluster) "
            "WHERE j.status=1 AND COALESCE(json_extract(c.ad, '$.JobUniverse'), '') NOT IN ('7', '12') "
            "GROUP BY c.cluster"
        )
        return self.connection.execute(statement).fetchall()

    def claims_of(self, submitter: str) -> list[tuple[str, int]]:
        """The slots that a submitter has, each with the instant since when (microseconds), in the pool's order."""
        statement = "SELECT name, claimed FROM slots WHERE submitter=? ORDER BY born"
        return [(name, since) for name, since in self.connection.execute(statement, (submitter,))]

    def spent(self, by: str = "user") -> list[imported_ads.Spent]:
        """What the jobs that have left used, by user, group or cluster: those of an import's history, and the pool's
        own."""
        return imported_ads.spent(self.connection, by)

    def limits_in_use(self) -> dict[str, float]:
        """The units of each concurrency limit that claims, and claims that wait, hold; by the limit's name in small
        letters."""
        from ..domain.concurrency_limits import in_units, requested_amounts

        statement = (
            "SELECT json_extract(record, '$.claim.limits'), json_extract(record, '$.waiting.limits') FROM slots "
            'WHERE record GLOB \'*"limits":"[^"]*\''
        )
        totals: dict[str, float] = {}
        for row in self.connection.execute(statement):
            for amount in (amount for text in row if text for amount in requested_amounts(text)):
                totals[amount.name] = totals.get(amount.name, 0.0) + in_units(amount.units)
        return dict(sorted(totals.items()))

    def refusals(self) -> list[RefusalRow]:
        """Why jobs wait, by the first job of each kind that still does, in the order in which it was said last."""
        statement = (
            "SELECT r.* FROM refusals r JOIN jobs j ON j.cluster = r.cluster AND j.status = 1 AND j.last >= r.proc AND "
            "j.first = (SELECT MAX(first) FROM jobs WHERE cluster = r.cluster AND first <= r.proc) "
            "ORDER BY r.at, r.cluster, r.proc"
        )
        refusals = []
        for cluster, proc, *row, _ in self.connection.execute(statement):
            at, jobs, slots, clauses, refused, taken, who, denied, *rest = row
            refused_clauses = tuple((clause["text"], clause["alone"], clause["left"]) for clause in json.loads(clauses))
            counts = {name: count for name, count in json.loads(denied or "{}").items() if count}
            job = f"{cluster}.{proc}"
            refusals.append(RefusalRow(job, at, jobs, slots, refused_clauses, refused, taken, who, counts, *rest))
        return refusals

    def defrag(self) -> tuple[Defrag, dict[str, str]]:
        """The defragmentation as the live state has it, and the pool's settings in force."""
        from .defrag_view import read_record  # few ask for it

        row = self.connection.execute("SELECT settings FROM pool").fetchone()
        return read_record(self.connection), {} if row is None else json.loads(row[0])

    def last_rejections(self) -> dict[tuple[int, int], tuple[int, str]]:
        """When the jobs that a cycle rejected last were first rejected so (microseconds), and the negotiator's reason,
        by cluster and proc. Of jobs that are alike, the first stands for all, as a negotiator asks for it."""
        rows = self.connection.execute("SELECT cluster, proc, at, reason FROM refusals")
        return {(cluster, proc): (at, reason) for cluster, proc, at, reason in rows}

    def cycles(self, negotiator: str = "") -> list[CycleRow]:
        """The last cycles that decided anything, the last one first; of several negotiators, those of one (empty:
        NEGOTIATOR's)."""
        rows = self.connection.execute("SELECT position, at, statistics FROM cycles ORDER BY position DESC")
        cycles = [(position, at, json.loads(statistics)) for position, at, statistics in rows]
        return [CycleRow(*row) for row in cycles if row[2].pop(WHOSE, "") == negotiator]
