"""Query a log, a pool's own or an imported one.

Commands, `Log` and servers parse the query and print the answer; `Queries` finds it in the views, in the log, or in the
import. Modules are imported when a query needs them, because most commands make one query and exit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Self

from ...domain.errors import PoolbookError
from ...domain.units import SECOND
from ...projections.job_query import ALL
from ..stores.location import safe_url
from .elsewhere import QueryElsewhere, is_elsewhere
from .views import views_current

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Context
    from ...domain.negotiator.accounting import Standing
    from ...domain.ports.log import EventStore
    from ...projections.imported_ads import Spent
    from ...projections.job_query import JobSelection
    from ...projections.views import Views
    from ...replay.audit_result import Audit
    from ...replay.forensics.daemon_tables import QueueSnapshot
    from ...replay.listing.members import Member, StreamFilter
    from ...replay.narration.sentences import Explanation
    from ...replay.runs.epochs import Builders
    from ...replay.runs.of_log import Runs
    from ...replay.usage.preemptions import Preemption
    from ...replay.why.job import RejectionAnalysis
    from ...replay.why.select_events import SlotPositions
    from .accounting_records import Record
    from .archived_ads import Sieve
    from .log_verification import Verification

_IMPORTED = "Imported"  #: the setting of an imported log (``imported_log.IMPORTED``, whose module takes long to load)


class NotRecorded(Exception):
    """The log does not contain the answer; the text is the reason."""


class NoNegotiator(Exception):
    """The negotiator is unknown, or none was named although the pool has several. The message lists the negotiators."""


class LogBeginsLater(PoolbookError, LookupError):
    """The log begins after the requested time. ``began`` is the time when it begins, in microseconds.

    >>> try:
    ...     jobs = log.jobs(at=0)
    ... except LogBeginsLater as error:
    ...     jobs = log.jobs(at=error.began / 1_000_000)
    """

    def __init__(self, began: int) -> None:
        from ...replay.narration.formatting import instant

        super().__init__(f"the log begins at {instant(began)} UTC: give a later time")
        self.began = began


class QueueAds(NamedTuple):
    """The ads of the jobs in a queue, and their instant in microseconds."""

    ads: Iterable[ClassAd]
    at: int
    note: str = ""  #: where the ads are from, unless they are from the queue itself


class RunningProcess(NamedTuple):
    """The process of a job that has a slot."""

    slot: str  #: the slot in which it runs
    pid: int  #: the process id; 0: the process has not started, or has ended
    scratch: str  #: its scratch directory; empty: not created yet


class AccountantRecords(NamedTuple):
    """The accountant's records, and their time in microseconds. None means now."""

    records: list[Record]
    at: int | None


class Queries:
    """Queries of the log at a URL, now or at a past time, as a context manager. The views do not change within it, and
    results must be consumed within it. Every method raises `LogError` if the log does not exist or cannot be read."""

    def __init__(self, url: str, log: EventStore | None = None, at: int | None = None) -> None:
        """Query the log at `url`; `log` is that log if it is already open. With `at`, an instant in microseconds,
        answer as of the last event by then; methods raise `LogBeginsLater` if there is none. Raise `QueryElsewhere` for
        a pool on another machine."""
        if is_elsewhere(url):
            raise QueryElsewhere(url)
        self.url, self.at = url, at
        self._given = log

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if "_whole_log" in self.__dict__ and self._given is None:
            self._whole_log.close()
        for name in ("views", "history_views"):
            if name in self.__dict__:
                getattr(self, name).close()
        if error is not None and self.url:
            from .damage import raise_if_damaged

            raise_if_damaged(self.url, error)

    @cached_property
    def views(self) -> Views:
        return self._views(history=False)

    @cached_property
    def history_views(self) -> Views:
        """The views with the history, which views at a time may lack."""
        if self.at is None or self.imported or ("views" in self.__dict__ and self.views.has_history):
            return self.views
        return self._views(history=True)

    def _views(self, history: bool) -> Views:
        if self.at is None:
            return views_current(self.url)
        if self.imported:
            from .past_imports import imported_views_at

            views, began = imported_views_at(self.url, self._whole_log, self.at)
            if began is not None and self.at < began:
                views.close()
                raise LogBeginsLater(began)
            return views
        from .views import views_at

        return views_at(self.url, self._whole_log, self.log.head.position, history=history)

    @cached_property
    def log(self) -> EventStore:
        """The log, read-only; a pool's own log up to the past time."""
        if self.at is None or self.imported:
            return self._whole_log
        from ..stores.log_prefix import LogPrefix

        position = self._whole_log.position_at(self.at)
        if not position:
            for _, first in self._whole_log.read(0, 1):
                raise LogBeginsLater(first.at)
            raise PoolbookError("the log is empty: it has no past")
        return LogPrefix(self._whole_log, position)

    @cached_property
    def _whole_log(self) -> EventStore:
        if self._given is not None:
            return self._given
        from ..stores.opening import open_log

        return open_log(self.url, create=False, read_only=True)

    @cached_property
    def imported(self) -> bool:
        """Return True if the log was imported from an HTCondor pool's records."""
        if self._given is not None or self.at is not None or "_whole_log" in self.__dict__:
            from ...replay.forensics.imported_log import is_imported

            return is_imported(self._whole_log)
        row = self.views.connection.execute("SELECT settings FROM pool").fetchone()
        return row is not None and f'"{_IMPORTED}"' in row[0]

    def now(self, clock: int) -> int:
        """Return the instant of the answers, in seconds, when the clock shows this instant. It is not in the future,
        unless the log is: it may have been written in virtual time."""
        if self.at is None:
            return clock
        if self.imported or self.log.head.position < self._whole_log.head.position:
            return self.at // SECOND
        return min(self.at // SECOND, max(clock, self.views.at // SECOND))

    def queue(self, selection: JobSelection = ALL, rejections: bool = False) -> QueueAds:
        """Return the jobs in the queue or, for an imported log, in the queue at the past time or in the last recorded
        one. With `rejections`, the ads of idle jobs include the reason for their rejection. Raise `NotKnown` if no
        imported file contains the queue."""
        if not self.imported:
            ads = self.views.ads(selection)
            return QueueAds(self._with_rejections(ads) if rejections else ads, self.views.at)
        from ...domain.state.caches import ad_from_attributes

        past, note = self._imported_queue()
        return QueueAds(map(ad_from_attributes, past.jobs), past.at if self.at is None else self.at, note)

    def _imported_queue(self) -> tuple[QueueSnapshot, str]:
        from ...replay.accounts.recorded_queue import recorded_queue
        from ...replay.forensics.daemon_tables import NotKnown, queue

        try:
            return queue(self.log, self.at), ""
        except NotKnown as error:
            if self.at is None:
                raise
            note = "no imported job_queue.log covers this time; the history and the job event logs show these jobs"
            try:
                return recorded_queue(self.log, self.at), note
            except NotKnown as other:
                raise other if 0 < other.since < error.since else error from None

    def queue_after(self, job: tuple[int, int], owners: Sequence[str] = ()) -> Iterator[ClassAd]:
        """Yield the ads of the jobs in the `queue` that follow a job id, sorted by id, without building the ads of the
        others: all, or only some owners' jobs. Raise `NotKnown` if no imported file contains the queue."""
        if not self.imported:
            return self.views.ads_after(job, owners)
        by_id = {(int(ad.eval("ClusterId")), int(ad.eval("ProcId"))): ad for ad in self.queue().ads}
        later = (by_id[key] for key in sorted(by_id) if key > job)
        return (ad for ad in later if not owners or ad.eval("Owner") in owners)

    def _with_rejections(self, ads: Iterator[ClassAd]) -> Iterator[ClassAd]:
        """Add the attributes that the schedd sets for a rejection. Their time is that of the first cycle that rejected
        the job for this reason."""
        rejections, pool = self.views.last_rejections(), self.views.pool().name
        if not rejections:
            return ads

        def laid_over(ad: ClassAd) -> ClassAd:
            rejection = rejections.get((ad.eval("ClusterId"), ad.eval("ProcId")))
            if rejection is None:
                return ad
            at, reason = rejection
            copied = ad.copy()
            copied["LastRejMatchTime"] = at // 1_000_000
            copied["LastRejMatchReason"] = reason
            copied["LastRejMatchNegotiator"] = pool
            return copied

        return map(laid_over, ads)

    def job_columns(
        self, names: Sequence[str], selection: JobSelection, context: Context, statuses: Collection[int] | None = None
    ) -> Iterator[tuple[str, ...]]:
        """Yield attributes of the jobs in a pool's own queue, as strings, without building ads. With `statuses`, only
        jobs with one of these statuses are included."""
        return self.views.columns(names, selection, context, statuses)

    def job(self, cluster: int, proc: int) -> ClassAd | None:
        """Return the ad of a job, or None if the job is not in the queue."""
        from ...projections.job_query import SelectedJobs

        return next(iter(self.queue(SelectedJobs(((cluster, proc),))).ads), None)

    def any_job(self, cluster: int, proc: int) -> ClassAd | None:
        """Return the ad of a job in the queue or, if it has left the queue, in the history; None if neither contains
        it."""
        from ...projections.job_query import SelectedJobs
        from ...replay.forensics.daemon_tables import NotKnown

        try:
            ad = self.job(cluster, proc)
        except NotKnown:  # no imported file contains the queue
            ad = None
        return ad if ad is not None else next(self.history(SelectedJobs(((cluster, proc),))), None)

    def matchable(self) -> Callable[[ClassAd], bool]:
        """Return a function that checks whether an unused slot of the pool could match a job's ad."""
        from ...domain.classad.unparse import unparse_old
        from ...domain.state.user_maps import user_maps
        from ...replay.narration.unmatchable_jobs import misfit

        slots = [(slot.name, dict(slot.ad)) for slot in self.views.slots() if slot.kind != "dynamic"]
        significance, maps = self.views.autoclusters(), user_maps(self.views.pool().settings)
        cached: dict[object, bool] = {}

        def could_match(ad: ClassAd) -> bool:
            texts = {name: unparse_old(ad[name]) for name in ad}
            signature = significance.signature_of(texts)[0]
            if signature not in cached:
                cached[signature] = misfit(texts, slots, self.views.at // 1_000_000, maps) is None
            return cached[signature]

        return could_match

    def run(self, cluster: int, proc: int) -> RunningProcess | None:
        """Return the process and the directory of a job that has a slot, or None if it has no slot."""
        from ...domain.events import JobActivated, JobExecuting, JobExited

        run = None
        for _, event in self.log.read_stream(f"cluster/{cluster}"):
            if isinstance(event, JobActivated) and event.proc == proc:
                run = RunningProcess(event.slot, 0, "")
            elif isinstance(event, JobExecuting) and event.proc == proc and run is not None:
                run = run._replace(pid=event.pid, scratch=event.scratch)
            elif isinstance(event, JobExited) and event.proc == proc:
                run = None
        return run

    def history(
        self, selection: JobSelection = ALL, sieve: Sieve | None = None, forwards: bool = False
    ) -> Iterator[ClassAd]:
        """Yield the ads of the jobs that have left the queue. The latest is the first or, with `forwards`, the last.
        `sieve` skips imported ads that cannot match."""
        from .archived_ads import history_ads

        return history_ads(self.url, self.history_views, selection, sieve, forwards)

    def epochs(self, clusters: Collection[int] = (), forwards: bool = False) -> Iterator[ClassAd]:
        """Yield the ads of the runs that have ended, for all jobs or for some clusters. The latest is the first or,
        with `forwards`, the last. Raise `NotRecorded` for an import."""
        from ...replay.runs.epochs import EPOCHS

        return self._run_ads(EPOCHS, clusters, forwards)

    def transfers(self, forwards: bool = False) -> Iterator[ClassAd]:
        """Yield the ads of the file transfers that have ended, in the same order as `epochs`. Raise `NotRecorded` for
        an import."""
        from ...replay.runs.epochs import TRANSFERS

        return self._run_ads(TRANSFERS, (), forwards)

    def _run_ads(self, builders: Builders, clusters: Collection[int], forwards: bool) -> Iterator[ClassAd]:
        from ...domain.state.caches import ad_from_attributes
        from ...replay.runs.epochs import ads_of_clusters, ads_with_positions, latest_ads

        self._check_runs_are_recorded()
        if clusters:
            of_clusters = ads_of_clusters(self.log, clusters, builders)
            ads = iter(of_clusters if forwards else of_clusters[::-1])
        else:
            ads = ads_with_positions(self.log.read(), builders) if forwards else latest_ads(self.log, builders)
        return (ad_from_attributes(ad) for _, ad in ads)

    def startd_history(self, forwards: bool = False) -> Iterator[ClassAd]:
        """Yield the ads of the runs that have ended, as the startds write them to their histories, in the same order as
        `epochs`. Raise `NotRecorded` for an import."""
        from ...domain.state.caches import ad_from_attributes
        from ...replay.runs.startd_history import startd_history

        self._check_runs_are_recorded()
        ads = startd_history(self.log.read)
        return map(ad_from_attributes, ads if forwards else reversed(list(ads)))

    def _check_runs_are_recorded(self) -> None:
        if self.imported:
            raise NotRecorded(f"{safe_url(self.url)} was imported, so it lists jobs, but not their runs")

    def slots(self, now: int, timezone: tzinfo = UTC) -> Iterator[ClassAd]:
        """Yield the slots' ads as they are published at an instant in seconds."""
        from .archived_ads import slot_ads

        return slot_ads(self.url, self.views, now, timezone)

    def ads(self, kind: str, now: int, timezone: tzinfo = UTC, *, with_absent: bool = False) -> Iterator[ClassAd]:
        """Yield the ads with this MyType (or all ads if it is empty), as a collector would return them at an instant in
        seconds. Raise `NotRecorded` for an import, which has only the ads of slots."""
        if not self.imported:
            from .pool_ads import pool_ads

            return pool_ads(self, kind, now, timezone, with_absent=with_absent)
        if kind not in ("Machine", ""):
            raise NotRecorded(f"{safe_url(self.url)} was imported, and the imported records contain only slots")
        return self.slots(now, timezone)

    def negotiator(self, name: str) -> str:
        """Return the negotiator with this name, or the only one if the name is empty. Raise `NoNegotiator` if the name
        is unknown, or is empty although there are several negotiators."""
        from ...domain.state.negotiators import negotiator_named

        try:
            return negotiator_named(self.views.pool().settings, name)
        except LookupError as error:
            raise NoNegotiator(str(error)) from None

    def accounting(self, now: int, *, detailed: bool = True, negotiator: str = "") -> AccountantRecords:
        """Return the accountant's records at `now`, in seconds; for an imported log, the last ones that were recorded
        by the past time. With `detailed`, the records include fields that no table shows. Raise `NotKnown` if no
        imported file has priorities."""
        from .accounting_records import current_records, imported_records

        if self.imported:
            imported, last = imported_records(self.log, self.at)
            return AccountantRecords(imported, last if self.at is None else self.at)
        return AccountantRecords(current_records(self.views, now, detailed=detailed, negotiator=negotiator), None)

    def claims_of(self, submitter: str) -> list[tuple[str, int]]:
        """Return the slots that a submitter has, and since when, in microseconds. Raise `NotRecorded` if the log was
        imported."""
        if self.imported:
            raise NotRecorded(f"{safe_url(self.url)} was imported; `poolbook status` shows who uses the slots")
        return list(self.views.claims_of(submitter))

    def standings(self, negotiator: str = "") -> list[Standing]:
        """Return the submitters' standings with a negotiator (default: NEGOTIATOR) at the log's last event or, for an
        imported log, the recorded standings. Raise `NotKnown` if no imported file has priorities."""
        from ...domain.negotiator.accounting import accountant_settings, standings
        from ...domain.state.accounting_groups import group_names
        from ...domain.state.negotiators import name_in_events, negotiator_settings

        if self.imported:
            from .accounting_records import imported_records, standing_of

            records, _ = imported_records(self.log, self.at)
            return [standing_of(record) for record in records if not record.get("IsAccountingGroup")]
        pool, at = self.views.pool(), self.views.at
        since, now = pool.accounted or pool.founded, at if self.at is None else self.at
        settings: Mapping[str, str] = pool.settings
        books = self.views.submitters(name_in_events(negotiator))
        if name_in_events(negotiator):
            settings = negotiator_settings(settings, negotiator)
            since = max((book.updated for book in books), default=0) or pool.founded
        return standings(books, accountant_settings(settings), group_names(settings), since, at, now)

    def usage_of_claims(self) -> dict[str, float]:
        """Return the weighted usage of ended claims by submitter, in seconds of a slot of weight 1."""
        usage = self.views.usage_of_ended_claims()
        return {name: amount / 1000 / SECOND for name, amount in usage.items()}

    def usage(self, by: str = "user") -> list[Spent]:
        """Return the usage of the jobs that have left the queue, by user, group or cluster. Raise `ValueError` if `by`
        is invalid."""
        from ...projections.imported_ads import USAGE_STATEMENTS

        if by not in USAGE_STATEMENTS:
            raise ValueError(f"{by!r} is not a key of usage; use one of {', '.join(USAGE_STATEMENTS)}")
        return self.history_views.usage(by)

    def runs(self, since: int, until: int, zone: tzinfo, *, evicted: bool = False) -> Runs:
        """Return the runs of jobs between two instants, or only the runs that were evicted then."""
        from ...replay.runs.of_log import runs_of

        return runs_of(self.log, since, until, evicted=evicted, zone=zone)

    def preemptions(self) -> list[Preemption]:
        """Return which job caused each eviction, whether that job used the slot, and how much time was lost."""
        from ...replay.usage.preemptions import preemptions

        return preemptions(self.log)

    def entries(self, stream: StreamFilter | None, since: int, until: int) -> Iterator[Member]:
        """Yield the events between two instants, optionally of one stream, as `poolbook log` lists them."""
        from ...replay.listing.members import entries

        members = entries(self.log, stream, since, until)
        if self.imported and stream is not None:  # an imported log is in the order of reading
            return iter(sorted(members, key=lambda member: member.at))
        return members

    def places(self) -> Callable[[str], str]:
        """Return a function that maps an event's stimulus to the location of its record, or to an empty string if the
        event was not imported."""
        from ...replay.forensics.imported_log import PlaceNames, is_imported

        return PlaceNames(self.log).name if is_imported(self.log) else lambda stimulus: ""

    def why(self, name: str, at: int | None, zone: tzinfo, others: Sequence[str] = ()) -> Explanation:
        """Return at most five lines that explain why a job, cluster or slot is in its state, and its history with the
        evidence. Raise `UnknownThingError` if the log does not contain it, `ValueError` if the name is invalid.

        :param others: the logs of other roles of the pool, whose records the history cites
        """
        from ...replay.why.answer import why
        from ...replay.why.sources import cite_sources
        from ..stores.location import safe_url
        from ..stores.opening import open_log

        answer = why(self.log, name, at, zone, self._slot_positions(name, at))
        with ExitStack() as stack:
            logs = {
                safe_url(url): stack.enter_context(closing(open_log(url, create=False, read_only=True)))
                for url in others
            }
            return cite_sources(self.log, answer, logs)

    def _slot_positions(self, name: str, at: int | None) -> SlotPositions:
        """Return what the views know about a slot, if they are ready and of this time."""
        from ...domain.events import ClaimMade
        from ...replay.why.select_events import UNKNOWN, SlotPositions
        from .views import views_if_current

        if at is not None or self._given is not None or "@" not in name:
            return UNKNOWN
        if "views" not in self.__dict__ and self.at is None:
            views = views_if_current(self.url)
            if views is None:
                return UNKNOWN
            self.views = views
        statement = "SELECT born, claimed, record->>'$.kind' FROM slots WHERE name=?"
        row = self.views.connection.execute(statement, (name,)).fetchone()
        if row is None or self.imported:
            return UNKNOWN
        born, claimed, kind = row
        if not claimed:
            return SlotPositions(born, born if kind == "partitionable" else 0)
        claims = self.log.read_back(f"slot/{name}", self.log.position_at(claimed) + 1, [ClaimMade])
        position, claim = next(claims, (0, None))
        return SlotPositions(born, position if claim is not None and claim.at == claimed else 0)

    def job_rejections(self) -> Callable[[int, int], RejectionAnalysis]:
        """Return a function from a job (cluster, proc) to its last rejection, its last match, and the current obstacle
        to running it. It reads the events of one cluster at a time."""
        from functools import lru_cache

        from ...replay.why.job import analyze_rejection
        from ...replay.why.rejections import NextCycle
        from ...replay.why.select_events import job_events

        events = lru_cache(1)(lambda cluster: job_events(self.log, cluster))
        next_cycle, pool = NextCycle(self.log.read), self.views.pool().name
        return lambda cluster, proc: analyze_rejection(events(cluster), cluster, proc, next_cycle)._replace(pool=pool)

    def verify(
        self,
        decisions: bool = False,
        tell: Callable[[int, int, int], None] | None = None,
        workers: int = 0,
        scheduler: str = "",
    ) -> Verification:
        """Check the seal and every event: see ``log_verification.verify_log``. With a number of workers, or the address
        of a Dask scheduler, processes check parts of the log in parallel. Raise `ParallelReplayError` if they cannot be
        used."""
        from .log_verification import verify_log

        if not (workers or scheduler):
            return verify_log(self.url, decisions, tell)
        from .segments import Workers, executor_of

        with executor_of(Workers(workers, scheduler)) as executor:
            return verify_log(self.url, decisions, tell, executor)

    def audit(self) -> Audit:
        """Check the log and compare its sources: see ``log_verification.audited``."""
        from .log_verification import audit_log

        return audit_log(self.url)

    def audit_with(self, others: Sequence[str]) -> list[Audit]:
        """Audit the log and the logs of other roles of its pool, and compare them: see
        ``log_verification.audit_logs``."""
        from .log_verification import audit_logs

        return audit_logs([self.url, *others])
