"""Read the views: the queue, the history, the slots and the accounting, at one position of the log.

Values that the folds can compute are stored in the tables. Functions that need the ClassAd engine import it on demand.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from ..domain.names import JOBS_PER_ACCESS_POINT, AccountName
from ..domain.units import SECOND
from . import imported_ads
from .checkpoint import read_checkpoint
from .job_ads import Clusters, ads
from .job_columns import QUEUE_ATTRIBUTES, Columns
from .job_query import ALL, JobSelection, ProcRange, SelectedJobs, select_ranges, select_ranges_after
from .schema import GONE, NEGOTIATOR_KEY

if TYPE_CHECKING:
    from ..domain.classad import ClassAd, Context
    from ..domain.requests.autoclusters import Autoclusters
    from ..domain.state.defrag_state import Defrag
    from ..domain.state.records import Machine, Slot
    from ..domain.state.state import State


class FactoryRow(NamedTuple):
    """A cluster with a factory: its ad and the edits of future jobs, as JSON, and its queued jobs, counted by
    status."""

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
    """The queued jobs of a cluster, counted by status."""

    owner: str
    batch: str | None  #: the submission's JobBatchName, if any
    cluster: int
    qdate: int  #: the submission time, in seconds
    counts: dict[int, int]  #: the number of jobs by status number
    lowest: int  #: the lowest process in the queue
    highest: int  #: the highest process in the queue
    submitted: int  #: the number of jobs submitted
    materialized: int | None = None  #: the number of jobs that its factory has materialized; None if it has no factory


class SubmitterRow(NamedTuple):
    """A submitter's account. ``Submitter`` describes the fields."""

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
        """None: the fold already computed the factor if the log does not record it."""
        return None


class PoolRow(NamedTuple):
    """The pool's name, dialect and settings."""

    name: str
    dialect: str
    founded: int  #: when it was created, in microseconds
    settings: dict[str, str]  #: the settings in force
    accounted: int  #: when the priorities were last updated (0: never)


class RejectionRow(NamedTuple):
    """Why a cycle found no match for the jobs of an autocluster. ``Unmatched`` describes the fields."""

    job: str  #: the first job of the autocluster
    at: int  #: when the cycle was held, in microseconds
    jobs: int
    slots: int
    clauses: tuple[tuple[str, int, int], ...]  #: the fields of each `Clause`
    refused_by_slot: int
    taken: int
    submitter: str
    denied: dict[str, int]  #: the fields of `Denied` that are not 0
    limit: str
    allowed: float
    used: float
    group: str


class CycleRow(NamedTuple):
    """A recorded cycle, held at ``at`` (microseconds). Its statistics are HTCondor's LastNegotiationCycle* attributes,
    without that prefix."""

    position: int
    at: int
    statistics: dict[str, float]


class Views:
    """Read access to the tables of a database. Iterators are lazy: exhaust them before `close`."""

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
        """The position of the last event in these views."""
        return read_checkpoint(self.connection).position

    @property
    def at(self) -> int:
        """The instant of the last event in these views, in microseconds."""
        return read_checkpoint(self.connection).at

    # Jobs in the queue

    def batches(self) -> list[ClusterCounts]:
        """Return the clusters with jobs in the queue, sorted by number."""
        clusters: dict[int, ClusterCounts] = {}
        statement = (
            "SELECT c.owner, c.batch, c.cluster, c.qdate, c.count, f.made, j.status, j.jobs, j.lowest, j.highest FROM "
            "(SELECT cluster, status, SUM(last - first + 1) AS jobs, MIN(first) AS lowest, MAX(last) AS highest "
            "FROM jobs GROUP BY cluster, status) j JOIN clusters c USING (cluster) "
            "LEFT JOIN factories f USING (cluster) ORDER BY c.cluster, j.status"
        )
        for row in self.connection.execute(statement):
            owner, batch, cluster, qdate, count, materialized, status, jobs, lowest, highest = row
            before = clusters.get(cluster)
            counts = {} if before is None else before.counts
            counts[status] = jobs
            if before is not None:
                lowest, highest = min(lowest, before.lowest), max(highest, before.highest)
            clusters[cluster] = ClusterCounts(
                owner, batch or None, cluster, qdate, counts, lowest, highest, count, materialized
            )
        return list(clusters.values())

    def has_dags(self) -> bool:
        """Return True if the queue may contain DAGs or nodes of DAGs; their ads determine their batches."""
        statement = (
            "SELECT EXISTS (SELECT 1 FROM clusters WHERE cluster IN (SELECT cluster FROM jobs) AND "
            "(json_extract(ad, '$.JobUniverse') = '7' OR json_extract(ad, '$.DAGManJobId') IS NOT NULL OR "
            "json_extract(ad, '$.JobBatchId') IS NOT NULL))"
        )
        return bool(self.connection.execute(statement).fetchone()[0])

    def factories(self) -> list[FactoryRow]:
        """Return the clusters with factories that have queued jobs or jobs to materialize, sorted by number."""
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

    def job_set_attributes(self) -> dict[int, dict[str, str]]:
        """Return the attributes that submissions gave to job sets, by the set's id; later submissions override."""
        statement = "SELECT ad->>'$.JobSetId', job_set FROM clusters WHERE job_set != '' ORDER BY cluster"
        attributes: dict[int, dict[str, str]] = {}
        for set_id, job_set in self.connection.execute(statement):
            given = json.loads(job_set)
            lower_names = {name.lower() for name in given}
            earlier = attributes.get(int(set_id), {}).items()
            attributes[int(set_id)] = {n: text for n, text in earlier if n.lower() not in lower_names} | given
        return attributes

    def totals(self) -> dict[str, dict[int, int]]:
        """Count each owner's jobs in the queue, by HTCondor's status number. As in condor_q, scheduler universe jobs
        are not counted."""
        totals: dict[str, dict[int, int]] = {}
        statement = (
            "SELECT c.owner, j.status, SUM(j.last - j.first + 1) FROM jobs j JOIN clusters c USING (cluster) "
            "WHERE json_extract(c.ad, '$.JobUniverse') IS NOT '7' GROUP BY c.owner, j.status ORDER BY c.owner, j.status"
        )
        for owner, status, jobs in self.connection.execute(statement):
            totals.setdefault(owner, {})[status] = jobs
        return totals

    def peers(self) -> list[tuple[str, int, int, int]]:
        """Return the roles elsewhere: the name, the number of an access point (0: another role), how many entries were
        read from it, and when the last one was, in microseconds."""
        statement = "SELECT peer, number, version, heard FROM peers ORDER BY peer"
        return self.connection.execute(statement).fetchall()

    def counts(self, access_point: int | None = None) -> list[tuple[str, str, str, int, int]]:
        """Count each submitter's jobs in the queue (of one access point, by its number).

        A row contains the submitter, the owner, the universe (``local`` or
        ``scheduler``, empty for all others), HTCondor's status number, and the number of jobs."""
        statement = (
            "SELECT c.submitter, c.owner, CASE json_extract(c.ad, '$.JobUniverse') WHEN '7' THEN 'scheduler' "
            "WHEN '12' THEN 'local' ELSE '' END, j.status, "
            "SUM(j.jobs) FROM (SELECT cluster, status, SUM(last - first + 1) AS jobs "
            "FROM jobs WHERE :number IS NULL OR cluster / :each = :number GROUP BY cluster, status) j "
            "JOIN clusters c USING (cluster) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
        )
        return self.connection.execute(statement, {"number": access_point, "each": JOBS_PER_ACCESS_POINT}).fetchall()

    def flocked(self, access_point: int) -> dict[str, int]:
        """Count each submitter's jobs of an access point that run in other pools, as far as this log has their pools:
        only the log of the access point does."""
        statement = (
            "SELECT c.submitter, SUM(j.last - j.first + 1) FROM jobs j JOIN clusters c USING (cluster) "
            "WHERE j.status = 2 AND j.cluster / ? = ? AND json_extract(j.changes, '$.RemotePool') <> '' GROUP BY 1"
        )
        return dict(self.connection.execute(statement, (JOBS_PER_ACCESS_POINT, access_point)))

    def job(self, cluster: int, proc: int) -> ClassAd | None:
        """Return the ad of one job, or None if it is not in the queue."""
        return next(self.ads(SelectedJobs(((cluster, proc),))), None)

    def ads(self, selection: JobSelection = ALL) -> Iterator[ClassAd]:
        """Yield the ads of jobs in the queue, sorted by id. They share their clusters' ads: copy an ad to modify it."""
        clusters = Clusters(self.connection)
        for job_range in select_ranges(self.connection, selection):
            yield from ads(clusters, job_range)

    def ads_after(self, job: tuple[int, int], owners: Sequence[str] = ()) -> Iterator[ClassAd]:
        """Yield the ads of the jobs in the queue that follow a job id, sorted by id: all, or only some owners' jobs."""
        clusters = Clusters(self.connection)
        for job_range in select_ranges_after(self.connection, owners, job):
            yield from ads(clusters, job_range)

    def columns(
        self,
        names: Sequence[str],
        selection: JobSelection = ALL,
        context: Context | None = None,
        statuses: Collection[int] | None = None,
    ) -> Iterator[tuple[str, ...]]:
        """Yield the values of some attributes of jobs in the queue as ``-autoformat`` prints them, sorted by job id.
        `context` is used to evaluate expressions. `statuses` selects jobs by status number (default: all)."""
        changes = not QUEUE_ATTRIBUTES.keys() >= {name.lower() for name in names}
        columns = Columns(Clusters(self.connection), names, context)
        selected = select_ranges(self.connection, selection, changes=changes)
        return columns.rows(
            selected if statuses is None else (job_range for job_range in selected if job_range.status in statuses)
        )

    def job_ranges(self) -> list[tuple[int, int, int, int, str, str]]:
        """Return the ranges of jobs in the queue: cluster, first and last process, status number, slot, submitter."""
        statement = "SELECT cluster, first, last, status, slot, submitter FROM jobs JOIN clusters USING (cluster)"
        return self.connection.execute(statement).fetchall()

    # Jobs that have left the queue

    def ended_ranges(self, after: int) -> list[tuple[int, int, int, int, str, str]]:
        """Return the ranges of jobs that have left the queue after a position, like `job_ranges`."""
        statement = (
            "SELECT cluster, first, last, status, '', submitter FROM history h JOIN clusters USING (cluster) "
            "WHERE h.position > ?"
        )
        return self.connection.execute(statement, (after,)).fetchall()

    @property
    def has_history(self) -> bool:
        """False if these views at a time were folded without the history."""
        return self.connection.execute("SELECT 1 FROM pragma_table_list WHERE name='history'").fetchone() is not None

    def history_ads(
        self, selection: JobSelection = ALL, limit: int | None = None, forwards: bool = False
    ) -> Iterator[ClassAd]:
        """Yield the ads of at most `limit` jobs that have left the queue, starting with the latest, or with `forwards`
        the earliest."""
        clusters = Clusters(self.connection)
        selected = select_ranges(self.connection, selection, "oldest" if forwards else "newest")
        return islice((ad for job_range in selected for ad in ads(clusters, job_range, not forwards)), limit)

    def ended_after(self, position: int) -> Iterator[tuple[int, ClassAd]]:
        """Yield the ads of the jobs that left the queue after a position of the log, each with the position of its
        event, in this order."""
        clusters = Clusters(self.connection)
        columns = "position, cluster, first, last, status, changes"
        statement = f"SELECT {columns} FROM history WHERE position > ? ORDER BY position, id"
        for at, *fields in self.connection.execute(statement, (position,)):
            for ad in ads(clusters, ProcRange(*fields)):
                yield at, ad

    def kept_ad_places(
        self, selection: JobSelection = ALL, forwards: bool = False, *, once: bool = False
    ) -> Iterator[imported_ads.AdPlace]:
        """Yield the locations in the log of an imported history's ads, starting with the latest, or with `forwards` the
        earliest. With `once`, yield only the last ad of each job."""
        return imported_ads.kept_ad_places(self.connection, selection, forwards, once)

    def last_sample(self, kind: str) -> list[int]:
        """Return the positions of the events that contain the latest sample of a kind of ads."""
        return imported_ads.last_sample(self.connection, kind)

    # The pool

    def machines(self) -> dict[str, dict[str, str]]:
        """Return the ads of the machines that are not gone, in the order in which they joined the pool."""
        return {machine.name: machine.ad for machine in self._machines() if not machine.gone}

    def _machines(self) -> list[Machine]:
        from .slots_view import decode_machine

        rows = self.connection.execute("SELECT record FROM machines ORDER BY joined, rowid")
        return [decode_machine(record) for (record,) in rows]

    def slots(self) -> list[Slot]:
        """Return the slots in order of creation."""
        from .slots_view import decode_slot

        return [decode_slot(record) for (record,) in self.connection.execute("SELECT record FROM slots ORDER BY born")]

    def slot_counts(self) -> list[tuple[str, str, int]]:
        """Count the slots by state and activity, without slots of machines that are gone."""
        statement = (
            f"SELECT state, activity, COUNT(*) FROM slots WHERE machine NOT IN ({GONE}) GROUP BY 1, 2 ORDER BY 1, 2"
        )
        return self.connection.execute(statement).fetchall()

    def slot_ads(self, now: int, timezone: tzinfo = UTC) -> Iterator[ClassAd]:
        """Yield the slots' ads as published at an instant (in seconds), in the order in which the slots were
        created, and then the ads of offline machines. The ads of a machine that is silent for too long are gone."""
        from ..domain.classad import Context
        from ..domain.startd.public_ad import PublishedSlots
        from ..domain.state.caches import Caches

        state = self._state_of_slots()
        context = Context(now=now, timezone=timezone, user_maps=state.user_maps)
        published = PublishedSlots(state, Caches(), now * 1_000_000, context)
        gone = {name for name, machine in state.machines.items() if machine.gone}
        live = (published.ad(slot) for slot in state.slots.values() if slot.machine not in gone)
        return chain(live, self._kept_ads(now, offline=True))

    def absent_ads(self, now: int) -> Iterator[ClassAd]:
        """Yield the ads of the slots that are absent at an instant (in seconds)."""
        for ad in self._kept_ads(now, offline=False):
            ad["Absent"] = True
            yield ad

    def _kept_ads(self, now: int, offline: bool) -> Iterator[ClassAd]:
        from ..domain.state.caches import ad_from_attributes
        from ..domain.state.offline_ads import is_offline

        statement = "SELECT since, until, ad FROM absent WHERE ? < until ORDER BY rowid"
        for since, until, text in self.connection.execute(statement, (now * SECOND,)):
            texts = json.loads(text)
            if is_offline(texts) == offline:
                ad = ad_from_attributes(texts)
                ad["LastHeardFrom"] = ad["MyCurrentTime"] = since // SECOND
                ad["ClassAdLifetime"] = (until - since) // SECOND
                yield ad

    def _state_of_slots(self) -> State:
        from ..domain.state.state import State
        from ..domain.state_machines import DIALECTS, MANUAL
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

    def autoclusters(self) -> Autoclusters:
        """Return the autoclusters of the jobs, for the current slots and negotiator."""
        from ..domain.requests.autoclusters import autoclusters_of
        from ..domain.state.caches import Caches

        return autoclusters_of(self._state_of_slots(), Caches())

    # Accounting and matching

    def pool(self) -> PoolRow:
        """Return the pool's row."""
        row = self.connection.execute("SELECT name, dialect, founded, settings, accounted FROM pool").fetchone()
        name, dialect, founded, settings, accounted = row or ("", "", 0, "{}", 0)
        return PoolRow(name, dialect, founded, json.loads(settings), accounted)

    def submitters(self, negotiator: str = "") -> list[SubmitterRow]:
        """Return a negotiator's accounts (default: of NEGOTIATOR), sorted by submitter, for everyone who has ever
        submitted jobs or had a claim."""
        submitters = []
        for account, *row in self.connection.execute("SELECT * FROM submitters ORDER BY submitter"):
            name = AccountName.parse(account)
            if name.negotiator != negotiator:
                continue
            row = [name.submitter, *row]
            leases = {name: (value, until) for name, (value, until) in json.loads(row[6]).items()}
            submitters.append(SubmitterRow._make((*row[:6], leases, *row[7:10], *map(int, row[10:14]), *row[14:])))
        return submitters

    def usage_of_ended_claims(self) -> dict[str, int]:
        """Return, by submitter, the microseconds of ended claims times the slots' weights in thousandths."""
        usage: dict[str, int] = {}
        for account, used in self.connection.execute("SELECT submitter, usage FROM submitters WHERE ended > 0"):
            name = AccountName.parse(account).submitter
            usage[name] = usage.get(name, 0) + int(used)
        return usage

    def submitters_with_idle_jobs(self) -> set[str]:
        """Return the submitters with idle jobs."""
        statement = "SELECT DISTINCT c.submitter FROM jobs j JOIN clusters c USING (cluster) WHERE j.status=1"
        return {name for (name,) in self.connection.execute(statement)}

    def idle_clusters(self) -> list[tuple[str, int, str]]:
        """Return a row for each cluster with jobs that wait for slots: the submitter, the number of idle jobs, and the
        expression text of RequestCpus."""
        statement = (
            "SELECT c.submitter, SUM(j.last - j.first + 1), COALESCE(json_extract(c.ad, '$.RequestCpus'), '1') "
            "FROM jobs j JOIN clusters c USING (cluster) "
            "WHERE j.status=1 AND COALESCE(json_extract(c.ad, '$.JobUniverse'), '') NOT IN ('7', '12') "
            "GROUP BY c.cluster"
        )
        return self.connection.execute(statement).fetchall()

    def claims_of(self, submitter: str) -> list[tuple[str, int]]:
        """Return the slots that a submitter has claimed, and when each was claimed, in microseconds."""
        statement = "SELECT name, claimed FROM slots WHERE submitter=? ORDER BY born"
        return [(name, since) for name, since in self.connection.execute(statement, (submitter,))]

    def usage(self, by: str = "user") -> list[imported_ads.Spent]:
        """Return the usage of the jobs that have left the queue, including an imported history, by user, group or
        cluster."""
        return imported_ads.usage(self.connection, by)

    def limits_in_use(self) -> dict[str, float]:
        """Return the units of each concurrency limit that claims and queued claims use, by the limit's lower-case
        name."""
        from ..domain.concurrency_limits import requested_amounts, to_units

        statement = (
            "SELECT json_extract(record, '$.claim.limits'), json_extract(record, '$.queued_claim.limits') FROM slots "
            'WHERE record GLOB \'*"limits":"[^"]*\''
        )
        totals: dict[str, float] = {}
        for row in self.connection.execute(statement):
            for amount in (amount for text in row if text for amount in requested_amounts(text)):
                totals[amount.name] = totals.get(amount.name, 0.0) + to_units(amount.units)
        return dict(sorted(totals.items()))

    def rejections(self) -> list[RejectionRow]:
        """Return the last rejection of each autocluster whose first job is still idle, in chronological order."""
        statement = (
            "SELECT r.* FROM refusals r JOIN jobs j ON j.cluster = r.cluster AND j.status = 1 AND j.last >= r.proc AND "
            "j.first = (SELECT MAX(first) FROM jobs WHERE cluster = r.cluster AND first <= r.proc) "
            "ORDER BY r.at, r.cluster, r.proc"
        )
        rejections = []
        for cluster, proc, *row, _ in self.connection.execute(statement):
            at, jobs, slots, clauses_json, refused, taken, submitter, denied, *limits = row
            clauses = tuple((clause["text"], clause["alone"], clause["left"]) for clause in json.loads(clauses_json))
            counts = {name: count for name, count in json.loads(denied or "{}").items() if count}
            job = f"{cluster}.{proc}"
            rejections.append(RejectionRow(job, at, jobs, slots, clauses, refused, taken, submitter, counts, *limits))
        return rejections

    def defrag(self) -> tuple[Defrag, dict[str, str]]:
        """Return the defragmentation record and the pool's settings in force."""
        from .defrag_view import read_record

        row = self.connection.execute("SELECT settings FROM pool").fetchone()
        return read_record(self.connection), {} if row is None else json.loads(row[0])

    def last_rejections(self) -> dict[tuple[int, int], tuple[int, str]]:
        """Return for each rejected job, by cluster and proc, when it was first rejected for the current reason
        (microseconds), and the negotiator's reason. An autocluster is listed under its first job."""
        rows = self.connection.execute("SELECT cluster, proc, at, reason FROM refusals")
        return {(cluster, proc): (at, reason) for cluster, proc, at, reason in rows}

    def cycles(self, negotiator: str = "") -> list[CycleRow]:
        """Return a negotiator's last recorded cycles (default: of NEGOTIATOR), the latest first."""
        rows = self.connection.execute("SELECT position, at, statistics FROM cycles ORDER BY position DESC")
        cycles = [(position, at, json.loads(statistics)) for position, at, statistics in rows]
        return [CycleRow(*row) for row in cycles if row[2].pop(NEGOTIATOR_KEY, "") == negotiator]
