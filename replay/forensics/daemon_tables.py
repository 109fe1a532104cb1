"""Fold an import's job_queue.log and Accountantnew.log into the daemons' tables of ads at an instant.

A file that begins with a 107 record contains the whole table, followed by every change. A daemon that compacts its log
starts a new file, with the next sequence number and the same creation time. So the table at an instant is the fold of
the last file started by then. Compaction loses the times of the records that it copies, so a file covers only the time
after the compaction. The dates in the schedd's compacted part do not show when that was, because jobs that had already
left the queue are missing. The compaction is dated by the previous file's end, else by the first change after the
compacted part, else by the time when the file was found.

Ads are modified as HTCondor modifies them. The schedd's table contains an ad for each cluster ("02.-1") and for each
job ("2.0"); a job's attributes override its cluster's. The other records are not jobs: the header "0.0", owners "0.2",
private ads "2.-2", job sets "2.-100".
"""

from __future__ import annotations

from typing import NamedTuple

from attrs import define, field

from ...domain import events as e
from ...domain.errors import PoolbookError
from ...domain.events import Ad
from ...domain.imported import packed_ads
from ...domain.imported.record_sources import (
    BEGIN_TRANSACTION,
    DELETE_ATTRIBUTE,
    DESTROY_AD,
    LOG_SEQUENCE,
    NEW_AD,
    SET_ATTRIBUTE,
    place_of,
)
from ...domain.ports.log import EventStore
from ..narration.formatting import EVER, instant


class NotKnown(PoolbookError, LookupError):
    """The imported records do not cover this instant. ``since`` is the first instant that they cover (microseconds; 0:
    none).

    >>> try:
    ...     jobs = log.jobs()
    ... except NotKnown as error:
    ...     print(f"import a job_queue.log: {error}")
    """

    def __init__(self, since: int, reason: str = "") -> None:
        beginning_text = f"it is known from {instant(since)} UTC on" if since else "no imported file shows this"
        super().__init__(f"{beginning_text}: {reason}" if since and reason else beginning_text)
        self.since = since
        self.reason = reason


# The reasons why a table is not known before an instant.
BEGUN = "the table starts then"
COMPACTED = "job_queue.log was compacted, which removed the earlier records"
FOUND = "job_queue.log was first read then, already compacted"
SAMPLED = "the first sample was taken then"
NOTHING = "no record of the log shows it"


class _TableAd(dict[str, tuple[str, str]]):
    """An ad: the name as first spelled and the text of each attribute, by lower-case name."""

    def set_attribute(self, name: str, text: str) -> None:
        lower = name.lower()
        first_name, _ = self.get(lower, (name, ""))
        self[lower] = first_name, text

    def ad(self) -> Ad:
        return dict(self.values())


@define
class DaemonTable:
    """A daemon's table, folded from one file."""

    kind: str
    sequence: int = 0
    born: int = 0  #: when the first file was started, in seconds
    since: int = 0  #: the first instant that the file covers, in microseconds
    at: int = 0
    taken: int = 0
    torn: bool = False  #: records are missing, so changes to ads without a creation record are accepted
    held: dict[str, _TableAd] = field(factory=dict)
    _is_whole: bool = True  #: all records so far belong to the compacted part

    def includes(self, event: e.TableWritten, at: int) -> bool:
        """Return True if the table at this instant includes the event."""
        return event.at <= at or (self._begin(event) and self._is_whole)

    def fold_line(self, event: e.TableWritten) -> None:
        if self._is_whole and self._begin(event):
            self.since = event.at
        else:
            self._is_whole = False
        self.at, self.taken = event.at, event.number
        for operation in event.operations:
            self._apply(*operation)

    def ads(self) -> dict[str, Ad]:
        return {key: table_ad.ad() for key, table_ad in self.held.items()}

    @staticmethod
    def _begin(event: e.TableWritten) -> bool:
        return not event.operations or event.operations[0][0] != BEGIN_TRANSACTION

    def _apply(self, operation: int, key: str, name: str, text: str) -> None:
        if operation == LOG_SEQUENCE:
            self.held.clear()
            self.torn = False
            self.sequence, self.born = _int_or_zero(key), _int_or_zero(text)
        elif operation == NEW_AD:
            self._add_ad(key, text.partition(" ")[0])
        elif operation == DESTROY_AD:
            self.held.pop(key, None)
        elif operation in (SET_ATTRIBUTE, DELETE_ATTRIBUTE):
            table_ad = self.held.get(key)
            if table_ad is None:
                if not self.torn:
                    return
                table_ad = self.held[key] = _TableAd()
            if operation == SET_ATTRIBUTE:
                table_ad.set_attribute(name, text)
            else:
                self._delete(key, table_ad, name)

    def _add_ad(self, key: str, ad_type: str) -> None:
        table_ad = self.held[key] = _TableAd()
        if ad_type not in ("", "(empty)"):
            table_ad.set_attribute("MyType", f'"{ad_type}"')
        if ad_type == "Job":
            table_ad.set_attribute("TargetType", '"Machine"')

    def _delete(self, key: str, table_ad: _TableAd, name: str) -> None:
        """Delete an attribute of a job's own ad, or set it to undefined if the cluster's ad also has it."""
        table_ad.pop(name.lower(), None)
        job = _job_of_key(key) if self.kind == "queue" else None
        cluster = None if job is None else self.held.get(cluster_key(job[0]))
        if cluster is not None and name.lower() in cluster:
            table_ad.set_attribute(name, "undefined")


def _job_of_key(key: str) -> tuple[int, int] | None:
    """Return the job with this key in the schedd's table, or None if the key is not a job's."""
    cluster, dot, proc = key.partition(".")
    if not dot or not (proc == "0" or _int_or_zero(proc)) or not _int_or_zero(cluster):
        return None
    return _int_or_zero(cluster), _int_or_zero(proc)


def _int_or_zero(text: str) -> int:
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0


def cluster_key(cluster: int) -> str:
    return f"0{cluster}.-1"


def jobs_of(table: DaemonTable) -> list[Ad]:
    """Return complete ads of the schedd's jobs, sorted by cluster and proc."""
    ads_by_job: list[tuple[tuple[int, int], Ad]] = []
    for key, table_ad in table.held.items():
        job = _job_of_key(key)
        if job is None:
            continue
        merged_ad = _TableAd(table.held.get(cluster_key(job[0]), {}))
        for name, text in (*table_ad.values(), ("ClusterId", str(job[0])), ("ProcId", str(job[1]))):
            merged_ad.set_attribute(name, text)
        ads_by_job.append((job, merged_ad.ad()))
    return [ad for _, ad in sorted(ads_by_job, key=lambda entry: entry[0])]


# -- Tables from a log -------------------------------------------------------------------------------------------------


def _gaps(log: EventStore, source: int) -> list[int]:
    return [event.line for _, event in log.read_stream(f"source/{source}") if isinstance(event, e.SourceGap)]


@define
class _SourceTable:
    table: DaemonTable
    over: bool = False
    change: int = 0  #: the first change after the compacted part, in microseconds, or 0 if none
    last: int = 0

    def fold(self, event: e.TableWritten) -> None:
        """Fold the next event into the table, unless the table is complete, and note the event's time."""
        if not self.over:
            self.table.fold_line(event)
        self.last = event.at
        if not self.change and event.at > self.table.since:
            self.change = event.at

    def known_since(self, previous: _SourceTable | None, written: int) -> tuple[int, str]:
        """Return the first instant at which the table is known, and the reason why it is not known earlier.

        :param previous: the table before the compaction, if its file was imported :param written: when the file was
        found
        """
        table = self.table
        if table.kind != "queue" or table.sequence <= 1:  # the accountant's changes all have a time
            return table.since, BEGUN
        if previous is not None:
            return max(table.since, previous.last), COMPACTED
        return (self.change, COMPACTED) if self.change else (written, FOUND)


def _tables_by_source(log: EventStore, kind: str, at: int, number: int | None) -> dict[int, _SourceTable]:
    """Return the table of each source at the instant, or after its transaction `number`."""
    tables_by_source: dict[int, _SourceTable] = {}
    gaps: dict[int, list[int]] = {}
    for _, event in log.read_stream(f"table/{kind}"):
        place = place_of(event.stimulus)
        if not isinstance(event, e.TableWritten) or place is None:
            continue
        if place.source not in tables_by_source:
            tables_by_source[place.source] = _SourceTable(DaemonTable(kind))
            gaps[place.source] = _gaps(log, place.source)
        source_table, missing = tables_by_source[place.source], gaps[place.source]
        is_beyond_number = number is not None and event.number > number
        source_table.over = source_table.over or is_beyond_number or not source_table.table.includes(event, at)
        while not source_table.over and missing and missing[0] <= place.line:
            missing.pop(0)
            source_table.table.torn = True
        source_table.fold(event)
    return {source: source_table for source, source_table in tables_by_source.items() if source_table.table.taken}


def _daemon_of(log: EventStore, source: int) -> tuple[str, int]:
    """Return a source's host and directory (two daemons may start tables in the same second), and when it was found."""
    for _, event in log.read_stream(f"source/{source}"):
        if isinstance(event, e.SourceFound):
            return f"{event.machine} {event.path.rpartition('/')[0]}", event.at
    return "", 0


def tables(log: EventStore, kind: str, at: int | None = None, number: int | None = None) -> list[DaemonTable]:
    """Return each daemon's table of a kind ("queue", "accountant") at an instant (microseconds; default: the last), or
    after the transaction `number` of its file.

    :raises NotKnown: the log has such tables, but at least one does not cover the instant
    """
    until = EVER if at is None else at
    files: dict[tuple[str, int, int], tuple[_SourceTable, int]] = {}
    for source, source_table in _tables_by_source(log, kind, until, number).items():
        daemon, written = _daemon_of(log, source)
        key = daemon, source_table.table.born, source_table.table.sequence
        known_table = files.get(key)
        if known_table is None or known_table[0].table.taken <= source_table.table.taken:
            files[key] = source_table, written
    latest: dict[tuple[str, int], _SourceTable] = {}
    early_tables: dict[tuple[str, int], tuple[int, str]] = {}
    for (daemon, born, sequence), (source_table, written) in sorted(files.items(), key=lambda item: item[0]):
        previous = files.get((daemon, born, sequence - 1))
        source_table.table.since, reason = source_table.known_since(None if previous is None else previous[0], written)
        if source_table.table.since <= until:
            latest[daemon, born] = source_table
            continue
        early_tables.setdefault((daemon, born), (source_table.table.since, reason))
        last_table = latest.get((daemon, born))
        if previous is None and last_table is not None and last_table.last < until:
            del latest[daemon, born]  # a file between these two is missing
    # A table that had not started by then was empty; a compacted table was not.
    unknown = [
        missing for key, missing in early_tables.items() if key not in latest and (not latest or missing[1] != BEGUN)
    ]
    if unknown:
        raise NotKnown(*max(unknown))
    return [source_table.table for source_table in latest.values()]


class QueueSnapshot(NamedTuple):
    """Complete ads of the jobs in the queue, sorted by schedd, cluster and proc, and the last instant recorded."""

    jobs: list[Ad]
    at: int


def queue(log: EventStore, at: int | None = None, number: int | None = None) -> QueueSnapshot:
    """Return the queue at an instant (default: the last known). If the schedd's table was not imported, use the last
    condor_q output.

    :raises NotKnown: the log does not cover the instant
    """
    queues = tables(log, "queue", at, number)
    if queues:
        return QueueSnapshot([ad for table in queues for ad in jobs_of(table)], max(table.at for table in queues))
    return _sampled_queue(log, EVER if at is None else at)


def _sampled_queue(log: EventStore, at: int) -> QueueSnapshot:
    ads, sample_time = last_sample(log, "job_ads", at)
    job_ads = [ad for ad in ads if _job_id(ad) is not None]
    return QueueSnapshot(sorted(job_ads, key=lambda ad: _job_id(ad) or (0, 0)), sample_time)


class AdSample(NamedTuple):
    """Ads printed by an HTCondor tool, and the last instant at which they were valid."""

    ads: list[Ad]
    at: int


def last_sample(log: EventStore, kind: str, at: int | None = None) -> AdSample:
    """Return the last sample (one file) of a kind ("job_ads", "submitter_ads") that was taken by an instant.

    :raises NotKnown: there is no such sample
    """
    until = EVER if at is None else at
    samples: dict[int, list[e.AdsKept]] = {}
    early_times: list[int] = []
    for _, event in log.read_stream(f"ads/{kind}"):
        place = place_of(event.stimulus)
        if not isinstance(event, e.AdsKept) or place is None:
            continue
        if event.at <= until:
            samples.setdefault(place.source, []).append(event)
        else:
            early_times.append(event.at)
    if not samples:
        raise NotKnown(min(early_times), SAMPLED) if early_times else NotKnown(0, NOTHING)
    newest = max(samples.values(), key=lambda events: events[-1].at)
    ads = [_parse_ad(packed_ad.text) for event in newest for packed_ad in packed_ads.unpack(event)]
    return AdSample(ads, newest[-1].at)


def _parse_ad(text: str) -> Ad:
    parts = (line.partition("=") for line in text.split("\n"))
    return {name.strip(): value.strip() for name, equals, value in parts if equals}


def _job_id(ad: Ad) -> tuple[int, int] | None:
    return _job_of_key(f"{ad.get('ClusterId', '')}.{ad.get('ProcId', '')}")
