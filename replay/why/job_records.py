"""Collect the records of an imported job in chronological order, and join records of the same event.

The events of an import are in the order in which files were read. An entry that is in a user's log and in the pool-wide
log becomes one record. Within a second, daemons' records are inserted where they are possible: a match precedes the run
to which it led.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from attrs import define, field, frozen
from msgspec.structs import replace

from ...domain import events as e
from ...domain.imported import job_event_log
from ...domain.imported.packed_ads import KeptAd, attributes, index_of_event, unpack_one, unquoted
from ...domain.imported.record_sources import DESTROY_AD, LOG_SEQUENCE, RecordPlace, place_of
from ...domain.ports.log import EventStore
from ...domain.state_machines import HTCONDOR_25
from ...domain.units import SECOND
from ..forensics.daemon_tables import DaemonTable, cluster_key, jobs_of
from ..forensics.imported_log import PlaceNames

APART: Final = 2 * SECOND  #: the maximum time between records of the same event in different sources
BEFORE: Final = 60 * SECOND  #: the maximum time from a job's QDate to the first entry in its log
ENDS: Final = frozenset({4, 5, 7, 9, 12, 21, 24})  #: the entries that end a run
BEGIN: Final = "1"  #: the entry for the start of a run
ERROR: Final = "21"  #: the entry for an error that ends a run; another entry for the end follows
FOUND: Final = "23"  #: the entry for a shadow that reconnected to its job
NOT_FOUND: Final = "24"  #: the entry for a shadow that could not reconnect
COOL_DOWN: Final = "JobCoolDownExpiration"
KINDS_OF_LOGS: Final = ("userlog", "eventlog")

Job = tuple[int, int]


class Place(NamedTuple):
    """The location of a record: its instant, its event's position, and its stimulus."""

    at: int
    position: int
    stimulus: str


@define
class Record:
    """A record about a job: what happened (an entry's number as text, or a daemon's report), and its facts. ``others``
    are records of the same event in other sources."""

    position: int
    event: e.JobLogged | e.JobReported
    what: str
    facts: dict[str, str]
    others: list[Record] = field(factory=list)

    @property
    def at(self) -> int:
        return self.event.at

    @property
    def stimulus(self) -> str:
        return self.event.stimulus

    @property
    def ending(self) -> str:
        """The end of the job's process, such as "code 3" or "signal 11"; empty if the record does not show it."""
        if "signal" in self.facts:
            return f"signal {self.facts['signal']}"
        return f"code {self.facts['code']}" if "code" in self.facts else ""


@frozen
class JobAd:
    """An ad of the job: the kind of its source, its location, and its text."""

    kind: str
    position: int
    at: int
    stimulus: str
    kept: KeptAd

    def text(self, name: str) -> str:
        """Return an attribute's text without quotation marks, or an empty string if the ad lacks it."""
        return unquoted(attributes(self.kept.text, (name,)).get(name, ""))

    def ending(self, prefix: str = "Exit") -> str:
        """Return the end of the job's process, like ``Record.ending``, from the attributes with this prefix."""
        if self.text(f"{prefix}BySignal").lower() == "true":
            return f"signal {self.text(f'{prefix}Signal')}"
        code = self.text(f"{prefix}Code")
        return f"code {code}" if code else ""

    @property
    def has_left(self) -> bool:
        """Whether its job has left the queue, or is about to."""
        return self.kind == "history" or (self.kind == "queue" and self.number("JobStatus") in _LEFT)

    def number(self, name: str) -> int:
        """Return a numeric attribute, rounded down, or 0 if it is not a number."""
        text = attributes(self.kept.text, (name,)).get(name, "")
        try:
            return int(float(text))
        except (ValueError, OverflowError):
            return 0

    def instant(self, name: str) -> int:
        """Return an attribute with an instant (seconds) in microseconds, or 0 if it is not a number."""
        return self.number(name) * SECOND


_LEFT = (HTCONDOR_25.job_status_numbers["Removed"], HTCONDOR_25.job_status_numbers["Completed"])


def record_of(position: int, event: e.JobLogged | e.JobReported) -> Record:
    if isinstance(event, e.JobLogged):
        return Record(position, event, str(event.number), job_event_log.facts(event.number, event.text))
    return Record(position, event, event.said, event.facts)


def records_of(events: Iterable[e.LoggedEvent], proc: int, places: PlaceNames) -> list[Record]:
    """Return the distinct records of one process, in order, from its cluster's events."""
    logged_records: dict[int, list[Record]] = {}
    reported_records: dict[int, list[Record]] = {}
    for position, event in events:
        if isinstance(event, e.JobLogged | e.JobReported) and event.proc == proc:
            source = places.chain(event.stimulus)
            chains = logged_records if isinstance(event, e.JobLogged) else reported_records
            chains.setdefault(source, []).append(record_of(position, event))
    return merge_reports(
        distinct(_ranked_chains(logged_records, places)), distinct(_ranked_chains(reported_records, places))
    )


def with_reports(records: Sequence[Record], other_records: Iterable[Record]) -> list[Record]:
    """Return records in order with other daemons' reports inserted."""
    entries = [record for record in records if isinstance(record.event, e.JobLogged)]
    reports = [record for record in records if isinstance(record.event, e.JobReported)]
    return merge_reports(entries, [*reports, *other_records])


def _ranked_chains(chains: dict[int, list[Record]], places: PlaceNames) -> list[list[Record]]:

    def rank(source: int) -> tuple[int, int]:
        kind = places.source(source).kind(source)
        kinds_in_order = [*KINDS_OF_LOGS, "matchlog"]
        return (kinds_in_order.index(kind) if kind in kinds_in_order else len(kinds_in_order), source)

    return [chains[source] for source in sorted(chains, key=rank)]


def distinct(chains: Sequence[list[Record]]) -> list[Record]:
    """Return the distinct records of all chains. A record that is also in an earlier chain is added to the ``others``
    of the record there."""
    distinct_records: list[Record] = []
    for chain in chains:
        earlier_records: dict[str, list[Record]] = {}
        for record in distinct_records:
            earlier_records.setdefault(_key(record), []).append(record)
        for record in chain:
            alike = [known for known in earlier_records.get(_key(record), ()) if abs(known.at - record.at) <= APART]
            if alike:
                known = min(alike, key=lambda other: abs(other.at - record.at))
                earlier_records[_key(record)].remove(known)
                known.others.append(record)
            else:
                distinct_records.append(record)
    return sorted(distinct_records, key=lambda record: (record.at, record.position))


def _key(record: Record) -> str:
    slot = record.facts.get("slot", "") if isinstance(record.event, e.JobReported) else ""
    return f"{record.what} {slot}"


def merge_reports(entries: Sequence[Record], reports: Sequence[Record]) -> list[Record]:
    """Return entries in their order with daemons' reports inserted. Within a second, reports that precede a run are put
    before the run's start, and reports that follow a run after its end."""
    ordered_records: list[Record] = []
    waiting_reports = deque(_in_causal_order(reports))
    runs = False
    for entry in entries:
        while waiting_reports and _before(waiting_reports[0], entry, runs):
            report = waiting_reports.popleft()
            runs = runs or (report.what == "shadow_began" and bool(report.facts.get("slot")))
            ordered_records.append(report)
        ordered_records.append(entry)
        runs = entry.what == BEGIN or (runs and int(entry.what) not in ENDS - {int(ERROR)})
    return [*ordered_records, *waiting_reports]


def _in_causal_order(reports: Sequence[Record]) -> Iterator[Record]:
    """Yield reports in chronological order, and within a second in a possible order: each source's reports stay in
    order, the end of a run comes first, and a shadow's reports follow its start, which another daemon reports."""
    for _, same_second in groupby(sorted(reports, key=lambda report: report.at // SECOND), lambda r: r.at // SECOND):
        sources: dict[str, deque[Record]] = {}
        for report in sorted(same_second, key=lambda report: (report.at, report.position)):
            sources.setdefault(report.event.stimulus.partition(":")[0], deque()).append(report)
        while sources:
            name = min(sources, key=lambda name: (_awaits_shadow(name, sources), _RANKS.get(sources[name][0].what, 0)))
            yield sources[name].popleft()
            if not sources[name]:
                del sources[name]


def _awaits_shadow(name: str, sources: Mapping[str, Iterable[Record]]) -> bool:
    """Return True if another source has yet to report the start of the shadow in this source's next report."""
    shadow = next(iter(sources[name])).facts.get("shadow", "")
    later_reports = (report for other_name, reports in sources.items() if other_name != name for report in reports)
    return bool(shadow) and any(r.what == "shadow_began" and r.facts.get("shadow") == shadow for r in later_reports)


_RANKS: Final = {
    "process_ended": -1, "over_there": 0, "shadow_gone": 0, "match_gone": 1, "rejected": 2, "matched": 3,
    "shadow_began": 4, "begun_there": 5,
}  # fmt: skip
"""The order of reports from several sources within a second."""
_PRECEDE: Final = frozenset({"matched", "rejected", "shadow_began"})
_OF_RUN: Final = frozenset({"4", "5", "7"})
"""Entries for a run's end, which may precede the entry for its start."""


def _before(report: Record, entry: Record, runs: bool) -> bool:
    """Return True if a report belongs before an entry. `runs`: whether the job had a slot before the entry."""
    second, entry_second = report.at // SECOND, entry.at // SECOND
    if second != entry_second:
        return second < entry_second
    if report.what in _PRECEDE:
        # A shadow without a slot reconnects to a running job.
        is_reconnecting = report.what == "shadow_began" and not report.facts.get("slot")
        return (
            entry.what in (BEGIN, FOUND)
            or (is_reconnecting and entry.what == NOT_FOUND)
            or (not runs and entry.what in _OF_RUN)
        )
    return entry.what == BEGIN and (not runs or report.what == "over_there")


def ads_of_cluster(log: EventStore, kind: str, cluster: int, only: int | None = None) -> Iterator[tuple[int, JobAd]]:
    """Return the ads of a cluster's jobs (or of one job) from sources of a kind, in order, each with its process
    number."""
    for position, event in log.read_stream(f"ads/{kind}"):
        if not isinstance(event, e.AdsKept):
            continue
        columns = index_of_event(event)
        clusters, procs = columns.integers("cluster"), columns.integers("proc")
        for number, pair in enumerate(zip(clusters, procs, strict=True)):
            if pair[0] == cluster and only in (None, pair[1]):
                place = place_of(event.stimulus)
                line = columns.lines[number]
                stimulus = event.stimulus if place is None else RecordPlace(place.source, line).stimulus
                yield int(pair[1]), JobAd(kind, position, event.at, stimulus, unpack_one(event, number))


def ads_of_queue(log: EventStore, cluster: int, at: int | None, only_proc: int | None = None) -> dict[int, JobAd]:
    """Return the last ads of a cluster's jobs (or of one job) in job_queue.log until an instant, by process number."""
    table = DaemonTable("queue", torn=True)
    table_events: dict[int, tuple[int, e.TableWritten]] = {}
    for position, event in log.read_stream("table/queue"):
        if not isinstance(event, e.TableWritten) or (at is not None and event.at > at):
            continue
        own = [operation for operation in event.operations if _is_of_cluster(operation[1], cluster, only_proc)]
        changes = tuple(operation for operation in own if operation[0] not in (DESTROY_AD, LOG_SEQUENCE))
        if changes:
            table.fold_line(replace(event, operations=changes))
        for _, key, _, _ in own:
            if key != cluster_key(cluster):
                table_events[int(key.partition(".")[2])] = position, event
    ads: dict[int, JobAd] = {}
    for ad in jobs_of(table):
        proc = int(ad["ProcId"])
        if proc in table_events:
            position, event = table_events[proc]
            text = "\n".join(f"{attribute} = {value}" for attribute, value in ad.items())
            ads[proc] = JobAd("queue", position, event.at, event.stimulus, KeptAd(0, text))
    return ads


def cool_downs(log: EventStore, job: Job, at: int | None) -> Iterator[tuple[int, Place]]:
    """Yield the end (microseconds) of each of a job's cool-downs in job_queue.log up to an instant, and its
    location."""
    for position, event in log.read_stream("table/queue"):
        if isinstance(event, e.TableWritten) and (at is None or event.at <= at):
            for _, key, name, text in event.operations:
                if name == COOL_DOWN and key == f"{job[0]}.{job[1]}" and text.isdecimal():
                    yield int(text) * SECOND, Place(event.at, position, event.stimulus)


def _is_of_cluster(key: str, cluster: int, only_proc: int | None) -> bool:
    cluster_text, _, proc = key.partition(".")
    return key == cluster_key(cluster) or (
        cluster_text == str(cluster) and proc.isdecimal() and only_proc in (None, int(proc))
    )


def last_life(records: list[Record], ads: list[JobAd], at: int | None) -> int:
    """Return when the last job of this number was submitted, or 0 if unknown."""
    entries = [record.at for record in records if record.what == "0"]
    queue_times = [queue_time for ad in ads if (queue_time := ad.instant("QDate")) and (at is None or queue_time <= at)]
    last_entry = max(entries, default=0)
    later = max(queue_times, default=0)
    return last_entry if not later or abs(last_entry - later) <= BEFORE or last_entry > later else later


def ads_of_life(ads: Iterable[JobAd], begin: int) -> list[JobAd]:
    """Return the ads of the job that was submitted at about `begin`, and all ads without a submission time."""
    return [ad for ad in ads if not begin or not ad.instant("QDate") or abs(ad.instant("QDate") - begin) <= BEFORE]


def ends_seen(records: Iterable[Record]) -> list[Record]:
    """Return the records of shadows and starters about the exit of a job's process that no signal ended."""
    return [
        record for record in records if record.what in ("terminated", "process_ended") and "told" not in record.facts
    ]


def ads_of_job(log: EventStore, job: Job, at: int | None, records: Sequence[Record]) -> list[JobAd]:
    """Return a job's ads up to an instant from the history, queue listings and epochs; if there are neither ads nor
    `records`, its ad in job_queue.log."""
    ads = [ad for kind in ("history", "job_ads", "epochs") for _, ad in ads_of_cluster(log, kind, *job)]
    ads = [ad for ad in ads if at is None or ad.instant("QDate") <= at]
    return ads if records or ads else list(ads_of_queue(log, job[0], at, job[1]).values())


def gaps_of(log: EventStore, records: Sequence[Record]) -> list[tuple[int, e.SourceGap]]:
    """Return the gaps in the sources of some records."""
    places = (place_of(record_part.event.stimulus) for record in records for record_part in (record, *record.others))
    gaps: list[tuple[int, e.SourceGap]] = []
    for source in sorted({place.source for place in places if place is not None}):
        for position, event in log.read_stream(f"source/{source}"):
            if isinstance(event, e.SourceGap):
                gaps.append((position, event))
    return gaps
