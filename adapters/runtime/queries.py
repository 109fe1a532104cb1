"""The door of every question: `Queries` answers what can be asked of a log, a pool's own or an imported one.

Commands, `Log` and servers parse what they are asked and print what they get; where the answer stands (in the views, in
the log, in what was imported) is decided here. Modules are imported when a question needs them: many a command asks one
question and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from ...projections.job_query import ALL
from ..stores.location import shown
from .views import views_current

if TYPE_CHECKING:
    from datetime import tzinfo

    from ...domain.classad import ClassAd, Context
    from ...domain.events import Unmatched
    from ...domain.negotiator.accounting import Standing
    from ...domain.ports.log import Log
    from ...projections.imported_ads import Spent
    from ...projections.job_query import Selection
    from ...projections.views import Views
    from ...replay.audit_result import Audit
    from ...replay.listing import Member, Wanted
    from ...replay.narration.sentences import Answer
    from ...replay.usage.evictions import Told
    from ..condor_tools.userprio_records import Record
    from .archived_ads import Sieve
    from .verdicts import Verification

T = TypeVar("T")
_IMPORTED = "Imported"
"""The setting of an imported log (``imported_log.IMPORTED``, whose module takes long to load)."""


class NotRecorded(Exception):
    """The log does not have the answer; the text says why."""


class LogBeginsLater(NotRecorded):
    """The log begins after the instant that was asked about: at ``began``, in microseconds."""

    def __init__(self, began: int) -> None:
        super().__init__("the log begins later")
        self.began = began


class Queue(NamedTuple):
    """The ads of the jobs in a queue, and the instant that they are of, in microseconds."""

    ads: Iterable[ClassAd]
    at: int


class AccountantRecords(NamedTuple):
    """The accountant's records, and the instant that they are of, in microseconds; None: now."""

    records: list[Record]
    at: int | None


class Queries:
    """Questions about the log at a URL. Use it as a context manager: all that the views answer within is as of one
    moment, and what is yielded one by one is read within, too.

    Every method raises `LogError` where there is no log, or it cannot be read.
    """

    def __init__(self, url: str, log: Log | None = None) -> None:
        """Ask about the log at `url`; `log` is that log where it is open already."""
        self.url = url
        self._given = log

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if "views" in self.__dict__:
            self.views.close()
        if "log" in self.__dict__ and self._given is None:
            self.log.close()

    @cached_property
    def views(self) -> Views:
        """The views of the log, up to date."""
        return views_current(self.url)

    @cached_property
    def log(self) -> Log:
        """The log itself, read-only."""
        if self._given is not None:
            return self._given
        from ..stores import open_log

        return open_log(self.url, create=False, read_only=True)

    @cached_property
    def imported(self) -> bool:
        """Whether the log was imported from a real pool's records."""
        if self._given is not None or "log" in self.__dict__:
            from ...replay.forensics.imported_log import is_imported

            return is_imported(self.log)
        row = self.views.connection.execute("SELECT settings FROM pool").fetchone()
        return row is not None and f'"{_IMPORTED}"' in row[0]

    # Jobs

    def queue(self, selection: Selection = ALL, at: int | None = None) -> Queue:
        """Return the jobs in the queue; of an imported log all jobs of the queue at an instant, or of the last queue
        that it tells of.

        :raises NotRecorded: a pool's own log has its queue as it is now alone
        :raises NotKnown: nothing that was imported tells of the queue
        """
        if not self.imported:
            if at is not None:
                raise NotRecorded(f"{shown(self.url)} is a pool's own log, and its queue is kept as it is now alone")
            return Queue(self.views.ads(selection), self.views.at)
        from ...domain.state.expression_cache import ad_of
        from ...replay.forensics.daemon_tables import queue

        found = queue(self.log, at)
        return Queue(map(ad_of, found.jobs), found.at if at is None else at)

    def job_columns(self, names: Sequence[str], selection: Selection, context: Context) -> Iterator[tuple[str, ...]]:
        """Yield attributes of the jobs in a pool's own queue, as texts, without making ads."""
        return self.views.columns(names, selection, context)

    def history(
        self, selection: Selection = ALL, sieve: Sieve | None = None, forwards: bool = False
    ) -> Iterator[ClassAd]:
        """Yield the ads of the jobs that have left the queue, the last first, or with `forwards` the first; `sieve`
        leaves out ads of an import that nobody wants."""
        from .archived_ads import history_ads

        return history_ads(self.url, self.views, selection, sieve, forwards)

    # Slots and daemons

    def slots(self) -> Iterator[ClassAd]:
        """Yield the slots' ads."""
        from .archived_ads import slot_ads

        return slot_ads(self.url, self.views)

    def ads(self, kind: str, now: int) -> Iterator[ClassAd]:
        """Yield the ads of a kind (MyType; all if it is empty) as a collector shows them at an instant in seconds.

        :raises NotRecorded: an imported log has the ads of slots alone
        """
        if not self.imported:
            from .pool_ads import pool_ads

            return pool_ads(self, kind, now)
        if kind not in ("Machine", ""):
            raise NotRecorded(f"{shown(self.url)} was imported, and the records that are read tell of slots")
        return self.slots()

    # Users

    def accounting(self, now: int, at: int | None = None, *, whole: bool = True) -> AccountantRecords:
        """Return the accountant's records as of `now`, in seconds, or of an instant in microseconds; of an imported log
        the last that it has. With `whole`, also what no table shows.

        :raises LogBeginsLater: nothing had happened then
        :raises NotKnown: nothing that was imported tells of priorities
        """
        from .accounting_records import current_records, past_records

        if self.imported:
            from ..condor_tools.userprio_records import recorded

            found, last = recorded(self.log, at)
            return AccountantRecords(found, last if at is None else at)
        if at is None:
            return AccountantRecords(current_records(self.views, now, whole=whole), None)
        return AccountantRecords(self._begun(past_records(self.log, at, whole=whole)), at)

    def claims_of(self, submitter: str, at: int | None = None) -> list[tuple[str, int]]:
        """Return the slots that a submitter has, now or at an instant, and since when, in microseconds.

        :raises NotRecorded: the log was imported
        :raises LogBeginsLater: nothing had happened then
        """
        if self.imported:
            raise NotRecorded(f"{shown(self.url)} was imported; `poolbook status` tells who has slots")
        if at is None:
            return list(self.views.claims_of(submitter))
        from .accounting_records import past_claims

        return self._begun(past_claims(self.log, submitter, at))

    def _begun(self, found: T | None) -> T:
        if found is None:
            raise LogBeginsLater(next(event.at for _, event in self.log.read(0, 1)))
        return found

    def standings(self) -> list[Standing]:
        """Return how the submitters stand as of the log's last event; of an imported log, as its records have it.

        :raises NotKnown: nothing that was imported tells of priorities
        """
        from ...domain.negotiator.accounting import group_names, standings, terms

        if self.imported:
            from ..condor_tools.userprio_records import recorded, standing_of

            records, _ = recorded(self.log)
            return [standing_of(record) for record in records if not record.get("IsAccountingGroup")]
        pool, at = self.views.pool(), self.views.at
        since = pool.accounted or pool.founded
        return standings(self.views.submitters(), terms(pool.settings), group_names(pool.settings), since, at, at)

    def usage(self, by: str = "user") -> list[Spent]:
        """Return what the jobs that have left the queue used, by user, group or cluster.

        :raises ValueError: by something else
        """
        from ...projections.imported_ads import BY

        if by not in BY:
            raise ValueError(f"usage is told by {', '.join(BY)}, not by {by!r}")
        return self.views.spent(by)

    # Steps

    def runs(self, since: int, until: int, zone: tzinfo, *, evicted: bool = False) -> Told:
        """Return the runs of jobs between two instants, or those alone that were evicted then."""
        from ...replay.usage.evictions import told

        return told(self.log, since, until, evicted=evicted, zone=zone)

    def entries(self, what: Wanted | None, since: int, until: int) -> Iterator[Member]:
        """Yield the steps between two instants, of one stream if it is given, as `poolbook log` lists them."""
        from ...replay.listing import entries

        found = entries(self.log, what, since, until)
        if self.imported and what is not None:  # a log of an import stands in the order of reading
            return iter(sorted(found, key=lambda member: member.at))
        return found

    def places(self) -> Callable[[str], str]:
        """Return what names the place of a record by the stimulus of its event; an event of no import has none."""
        from ...replay.forensics.imported_log import PlaceNames, is_imported

        return PlaceNames(self.log).name if is_imported(self.log) else lambda stimulus: ""

    def why(self, name: str, at: int | None, zone: tzinfo) -> Answer:
        """Return why a job, cluster or slot is where it is, in at most five lines, and its life with the evidence.

        :raises UnknownThingError: the log knows no such thing
        :raises ValueError: the name is none of a job, cluster or slot
        """
        from ...replay.why.answer import why

        return why(self.log, name, at, zone)

    def job_rejections(self) -> Callable[[int, int], tuple[tuple[int, Unmatched] | None, int]]:
        """Return what tells when and why a job (cluster, proc) was rejected last, and when it was matched. The events
        of one cluster are kept at a time."""
        from functools import lru_cache

        from ...replay.why import job_events, judged

        events = lru_cache(1)(lambda cluster: job_events(self.log, cluster, slots=False))
        return lambda cluster, proc: judged(events(cluster), cluster, proc)

    # The log as a whole

    def verify(self, decisions: bool = False, tell: Callable[[int, int, int], None] | None = None) -> Verification:
        """Check the seal and judge every event; see ``verdicts.verified``."""
        from .verdicts import verified

        return verified(self.url, decisions, tell)

    def audit(self) -> Audit:
        """Judge the log and what its sources say of one another; see ``verdicts.audited``."""
        from .verdicts import audited

        return audited(self.url)
