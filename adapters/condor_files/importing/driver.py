"""Import the files in some directories; a repeated import reads only new content (docs/import.md).

An append contains events together with the position reached, so an import that is interrupted continues there. Memory
usage does not depend on the length of a file: files are read in chunks and appended in batches.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import groupby

from attrs import define, field, frozen

from ....domain import events as e
from ....domain.classad.time_zones import zone_of
from ....domain.imported.record_sources import place_of
from ....domain.ports.log import EventStore, LogError
from ....domain.state_machines import HTCONDOR_25
from ....replay.forensics.imported_log import IMPORTED, is_imported
from ...machine.host import VERSION
from ...machine.local_time import local_zone
from ...stores.codec import CODEC
from ...stores.log_id import new_log_id
from ..ads import AdsReader
from ..log_times import compile_format
from ..source_reader import SourceFile, SourceReader, mask_secrets
from .content import (
    DAMAGED,
    HEAD_BYTES,
    PIECE_BYTES,
    Prefix,
    TooMuchError,
    head_of,
    length_of,
    open_content,
    packed_bytes_read,
    read_exactly,
    starts_with_content,
    unpacked_limit,
)
from .folders import Candidate, FolderContents, family_of, folder_contents
from .source_recognition import Changed, Continued, Copy, KnownSource, begins_as, head_digest, known_sources, recognize
from .time_zones import SEARCHED_BYTES, ZoneSigns

BATCH = 5_000  #: events per append; larger batches are hardly faster
BATCH_BYTES = 8 << 20  #: maximum bytes read between two appends; a crash repeats them
LONGEST_RECORD = 16 << 20  #: reject a record that has not ended after this many bytes
LONGEST_TRANSACTION = 256 << 20  #: the limit for job_queue.log: submitting a million jobs is one transaction
KEPT_REFUSALS = 1000
Progress = Callable[[str, int, int, int], None]  #: arguments: a file's path, bytes read, its size, number of events


@frozen
class Options:
    """How to read files. ``zone`` and ``machine`` apply to daemon logs that do not name their zone or machine; "" means
    this machine's zone, or the directory's name. ``time_format`` is the pool's DEBUG_TIME_FORMAT, if it is unusual."""

    zone: str = ""
    machine: str = ""
    time_format: str = ""


@define
class SourceCounts:
    files: int = 0
    new: int = 0  #: files that were not in the log before
    lines: int = 0
    bytes: int = 0
    events: int = 0
    refused: int = 0


@define
class ImportResult:
    """The result of an import.

    >>> result = import_pool("condor", "audit.db")
    >>> print(result.events, "events from", len(result.paths), "files;", len(result.refused), "unreadable records")
    0 events from 0 files; 0 unreadable records
    """

    counts: dict[str, SourceCounts] = field(factory=dict)
    copies: list[tuple[str, str]] = field(factory=list)  #: (copy, original) for files that were not imported
    skipped: list[str] = field(factory=list)
    refused: list[e.SourceRefused] = field(factory=list)  #: the first ``KEPT_REFUSALS`` rejected records
    paths: dict[int, str] = field(factory=dict)
    zone: str = ""  #: the time zone of local times in the files
    events: int = 0
    seconds: float = 0.0


_KINDS_OF_ADS = ("history", "epochs", "startd_history", "job_ads", "machine_ads", "submitter_ads")
"""Kinds whose records are independent, so that a missing record does not make others wrong."""
PRINTED = frozenset({"job_ads", "machine_ads", "submitter_ads"})
"""Kinds that a tool printed completely; files of the other kinds grow, because daemons append to them."""
READERS: dict[str, tuple[str, str]] = {
    "startlog": ("startlog", "StartLogReader"),
    "schedlog": ("job_daemon_logs", "SchedLogReader"),
    "starterlog": ("job_daemon_logs", "StarterLogReader"),
    "shadowlog": ("job_daemon_logs", "ShadowLogReader"),
    "masterlog": ("daemon_log", "MasterLogReader"),
    "collectorlog": ("daemon_log", "CollectorLogReader"),
    "negotiatorlog": ("negotiatorlog", "NegotiatorLogReader"),
    "matchlog": ("negotiatorlog", "MatchLogReader"),
    **dict.fromkeys(("userlog", "eventlog"), ("job_event_log_reader", "JobEventLogReader")),
    **dict.fromkeys(("queue", "accountant"), ("daemon_table_reader", "TableReader")),
    **dict.fromkeys(_KINDS_OF_ADS, ("ads", "AdsReader")),
}
"""The module and the name of the reader for each kind."""


def begin_import(log: EventStore, machine: str, now: int) -> None:
    """Start an import into a new log. Raise `LogError` if the log does not belong to an import."""
    if not log.head.position:
        settings = {IMPORTED: "true"}
        names = machine, HTCONDOR_25.name, machine, VERSION
        log.append([e.PoolFounded(now, "founded", "import", *names, settings, new_log_id())])
    elif not is_imported(log):
        raise LogError("it is a pool's own log, and records of another pool cannot be added to it: use a new log")


class Importer:
    """Imports the files in some directories into a log. `run` can be called again, because the files may have grown."""

    def __init__(
        self, log: EventStore, folders: Sequence[str], options: Options, excluded_paths: Sequence[str] = ()
    ) -> None:
        """Exclude `excluded_paths`, such as the log itself. Raise ValueError for an unknown zone or time format, or a
        setting that is not a number."""
        self._log = log
        self._folders = folders
        self._options = options
        self._excluded_paths = excluded_paths
        self._zone = ""
        zone_of(options.zone or local_zone())
        if options.time_format:
            compile_format(options.time_format)
        unpacked_limit(0)
        self._known: dict[int, KnownSource] = {}
        self.open: dict[int, tuple[tuple[int, int], Prefix]] = {}
        """The identity of the file that was read for each source number, and the digest of the bytes read so far."""

    def run(self, progress: Progress | None = None) -> ImportResult:
        """Import new content. Raise `LogError`, OSError if a directory is missing, or ValueError if the files' local
        times contradict the given zone or each other."""
        began = time.monotonic()
        contents = folder_contents(self._folders, self._excluded_paths)
        now = time.time_ns() // 1000
        machine = self._options.machine or next(iter(contents.machines.values()), "") or "imported"
        begin_import(self._log, machine, now)
        self._known = self._known or known_sources(self._log)
        self._zone = self._zone or self._zone_of_files(contents)
        run = _Import(self, contents, now, progress)
        run.result.zone = self._zone
        for _, members in groupby(_without_copies(contents, run.result), key=lambda c: c.family):
            run.import_family(list(members))
        run.flush()  # the remaining events: files that could not be opened
        run.result.seconds = time.monotonic() - began
        run.result.skipped = contents.skipped
        run.result.paths = {number: known_source.path for number, known_source in self._known.items()}
        return run.result

    def _zone_of_files(self, contents: FolderContents) -> str:
        earlier_zone = next((source.origin.zone for source in self._known.values() if source.origin.kind), "")
        if earlier_zone and not self._options.zone:
            return earlier_zone
        signs = ZoneSigns()
        for candidate in contents.candidates:
            with suppress(*DAMAGED), open_content(candidate.path) as file:
                signs.scan_file_start(read_exactly(file, SEARCHED_BYTES), candidate.modified)
        return signs.zone(self._options.zone or local_zone(), given=bool(self._options.zone))


def _without_copies(contents: FolderContents, result: ImportResult) -> Iterator[Candidate]:
    copied_paths: set[str] = set()
    by_first_line: dict[tuple[str, bytes], list[Candidate]] = {}
    for candidate in contents.candidates:
        by_first_line.setdefault((candidate.kind, candidate.first), []).append(candidate)
    for same_start in by_first_line.values():
        if len(same_start) < 2:
            continue
        # Prefer the longest file, then an uncompressed one, then the newest of its log, because that one grows.
        lengths = {c.path: length_of(c.path) for c in same_start}
        same_start.sort(key=lambda c: (-lengths[c.path], c.size != lengths[c.path], [-c.rank[0]], c.path))
        originals: list[Candidate] = []
        for candidate in same_start:
            original = next((c for c in originals if starts_with_content(c.path, candidate.path)), None)
            if original is None:
                originals.append(candidate)
            else:
                copied_paths.add(candidate.path)
                result.copies.append((candidate.path, original.path))
    return (candidate for candidate in contents.candidates if candidate.path not in copied_paths)


class _Import:
    def __init__(self, importer: Importer, contents: FolderContents, now: int, progress: Progress | None) -> None:
        self._importer = importer
        self._log = importer._log
        self._known = importer._known
        self._contents = contents
        self._now = now
        self._progress = progress
        self._total_bytes = sum(candidate.size for candidate in contents.candidates)
        self._done_bytes = 0
        self._batch: list[e.Event] = []
        self.result = ImportResult()
        for path, reason in contents.unreadable:
            self._report_unreadable(path, reason)

    def _report_unreadable(self, path: str, reason: str) -> None:
        if any(known.origin.path == path and not known.origin.kind for known in self._known.values()):
            return  # it was reported by an earlier import
        source = self._add_source(path, "", "", 0)
        self._batch.append(self._refusal(source.number, 0, reason))

    def _add_source(self, path: str, kind: str, machine: str, follows_number: int) -> KnownSource:
        number = len(self._known) + 1
        zone = self._importer._zone
        event = e.SourceFound(self._now, "read", f"{number}:0", number, path, kind, machine, zone, follows_number)
        new_source = self._known[number] = KnownSource(event)
        self._batch.append(event)
        return new_source

    def import_family(self, members: list[Candidate]) -> None:
        """Import the files of one log, the oldest first."""
        files: list[tuple[Candidate, Continued | Copy | Changed | None]] = []
        for candidate in members:
            try:
                place = self._grown_file(candidate) or recognize(candidate.path, candidate.kind, self._known)
                files.append((candidate, place))
            except FileNotFoundError:
                continue  # rotated just now; the next run finds the new name
            except DAMAGED as error:
                self._report_unreadable(candidate.path, getattr(error, "strerror", None) or str(error))
        present_numbers = {recognized.source.number for _, recognized in files if recognized is not None}
        lost_source = self._missing_predecessor(members[0], present_numbers)
        previous: KnownSource | None = None
        for candidate, recognized in files:
            self.result.counts.setdefault(candidate.kind, SourceCounts()).files += 1
            try:
                previous, lost_source = self._import_or_continue(candidate, recognized, previous, lost_source)
            except FileNotFoundError:
                continue
            finally:
                self._done_bytes += candidate.size

    def _import_or_continue(
        self,
        candidate: Candidate,
        recognized: Continued | Copy | Changed | None,
        previous: KnownSource | None,
        lost_source: KnownSource | None,
    ) -> tuple[KnownSource | None, KnownSource | None]:
        """Import a file; return the source that the next file continues, and the source before it that is missing."""
        if recognized is None:
            return self._import_new(candidate, previous, lost_source), None
        match recognized:
            case Continued(source, prefix):
                self._read_rest(candidate, source, prefix, None)
            case Copy(source):
                self.result.copies.append((candidate.path, source.path))
            case Changed(source, same_bytes):
                self._report_changed(candidate, source, same_bytes)
        return recognized.source, lost_source

    def _import_new(self, candidate: Candidate, previous: KnownSource | None, lost: KnownSource | None) -> KnownSource:
        """Import a new file. `previous`: the source that it continues; `lost`: a missing source before it."""
        self.result.counts[candidate.kind].new += 1
        followed_source = previous or lost
        machine = self._importer._options.machine or self._contents.machines.get(candidate.folder, "")
        machine = machine or os.path.basename(os.path.abspath(candidate.folder))
        source = self._add_source(
            candidate.path, candidate.kind, machine, followed_source.number if followed_source else 0
        )
        if previous is None and lost is not None and candidate.kind not in _KINDS_OF_ADS:
            reason = f"the end of {lost.path} was deleted by rotation before it was read"
            self._batch.append(e.SourceGap(self._now, "read", f"{source.number}:1", source.number, 1, reason, 0, 0))
        self._read_rest(candidate, source, Prefix.open_at_start(candidate.path), previous)
        return source

    def _missing_predecessor(self, candidate: Candidate, present_numbers: set[int]) -> KnownSource | None:
        """Return the newest imported part of this log, if its file is missing."""
        same_family = [
            known_source
            for known_source in self._known.values()
            if known_source.origin.kind == candidate.kind
            and os.path.dirname(known_source.path) == candidate.folder
            and family_of(os.path.basename(known_source.path), candidate.kind)[0] == candidate.base
        ]
        return same_family[-1] if same_family and same_family[-1].number not in present_numbers else None

    def _grown_file(self, candidate: Candidate) -> Continued | None:
        """Return a file that this importer already read and that only grew, without rereading its start."""
        for number, (identity, prefix) in self._importer.open.items():
            if identity != candidate.identity or candidate.size < prefix.offset:
                continue
            known_source = self._known[number]
            file = open_content(candidate.path)
            status = os.fstat(file.fileno())
            # It may have been rotated since the directory was listed, or truncated and rewritten.
            is_same_file = (status.st_dev, status.st_ino) == identity and begins_as(known_source, candidate.path)
            if is_same_file and file.seek(prefix.offset) == prefix.offset:
                return Continued(known_source, Prefix(file, prefix.offset, prefix.sum))
            file.close()
        return None

    def _report_changed(self, candidate: Candidate, source: KnownSource, same_bytes: int) -> None:
        assert source.read is not None
        reason = (
            f"the part that was imported before has changed: equal up to byte {same_bytes}, different before byte "
            f"{source.read.offset}; it was not read again"
        )
        self._report_once(source, candidate.kind, 0, reason, candidate.path)

    def _report_once(self, source: KnownSource, kind: str, line: int, reason: str, text: str = "") -> None:
        refusals = [old for _, old in self._log.read_stream(source.origin.stream) if isinstance(old, e.SourceRefused)]
        if not any((old.line, old.words, old.text) == (line, reason, text) for old in refusals):
            self._add_events([self._refusal(source.number, line, reason, text)], kind)

    def _refusal(self, source: int, line: int, reason: str, text: str = "") -> e.SourceRefused:
        return e.SourceRefused(self._now, "refused", f"{source}:{line}", source, line, reason, text)

    def _read_rest(
        self, candidate: Candidate, source: KnownSource, prefix: Prefix, previous: KnownSource | None
    ) -> None:
        """Read a file from the position where reading its source stopped. For a new source, the reader continues from
        the state of `previous`, the source before it in the same log."""
        read = source.read
        state = read.state if read is not None else previous.read.state if previous and previous.read else ""
        lines = read.lines if read is not None else 0
        reader = self._reader(candidate, source, json.loads(state) if state else None, lines)
        head_bytes = head_of(candidate.path, HEAD_BYTES)  # the file may have been shorter before
        unread_bytes, appended_from = b"", prefix.offset
        size = PIECE_BYTES
        while True:
            try:
                chunk = read_exactly(prefix.file, size)
            except DAMAGED as error:
                reason = getattr(error, "strerror", None) or str(error)
                enough = isinstance(error, TooMuchError)
                text = f"{'the rest is not read' if enough else 'the file is damaged from here on'}: {reason}"
                self._report_once(source, candidate.kind, reader.line + 1, text)
                break
            if not chunk:
                if unread_bytes and candidate.kind in PRINTED and isinstance(reader, AdsReader):
                    self._add_events(reader.finish(mask_secrets(unread_bytes)), candidate.kind)
                    prefix.add_chunk(unread_bytes)
                    unread_bytes = b""
                break
            unread_bytes += chunk
            events, consumed = reader.read(mask_secrets(unread_bytes))
            if not consumed:
                # For a longer record, read twice as much next time, to avoid rereading it too often.
                size = len(unread_bytes)
                if len(unread_bytes) < (LONGEST_TRANSACTION if candidate.kind == "queue" else LONGEST_RECORD):
                    continue
                events, consumed = [self._too_long_record(source, reader, unread_bytes)], len(unread_bytes)
            size = PIECE_BYTES
            if consumed:
                prefix.add_chunk(unread_bytes[:consumed])
            unread_bytes = unread_bytes[consumed:]
            self._add_events(events, candidate.kind)
            if len(self._batch) >= BATCH or prefix.offset - appended_from >= BATCH_BYTES:
                self._record_progress(candidate, source, prefix, reader, head_bytes, len(unread_bytes))
                appended_from = prefix.offset
            self._report_progress(candidate, packed_bytes_read(prefix.file, prefix.offset))
        is_recorded = read is not None and (read.path, read.left) == (candidate.path, len(unread_bytes))
        if prefix.offset != appended_from or not is_recorded:
            self._record_progress(candidate, source, prefix, reader, head_bytes, len(unread_bytes))
        prefix.file.close()
        self._importer.open[source.number] = (candidate.identity, prefix)

    def _reader(
        self, candidate: Candidate, source: KnownSource, state: dict[str, object] | None, lines: int
    ) -> SourceReader:
        module, name = READERS[candidate.kind]
        start, zone = source.origin, zone_of(source.origin.zone)
        file = SourceFile(
            source.number, candidate.path, start.kind, start.machine, zone, candidate.modified, self._now,
            self._importer._options.time_format,
        )  # fmt: skip
        reader: SourceReader = getattr(import_module(f"..{module}", __package__), name)(file, state, lines)
        return reader

    def _too_long_record(self, source: KnownSource, reader: SourceReader, unread_bytes: bytes) -> e.Event:
        line = reader.line + 1
        reader.line += unread_bytes.count(b"\n")
        reason = f"a record that does not end within {len(unread_bytes) >> 20} MiB"
        text = mask_secrets(unread_bytes[:200]).decode("utf-8", "backslashreplace")
        return self._refusal(source.number, line, reason, text)

    def _add_events(self, events: Sequence[e.Event], kind: str) -> None:
        counts = self.result.counts.setdefault(kind, SourceCounts())
        counts.events += len(events)
        for event in events:
            if type(event) is e.SourceRefused:
                counts.refused += 1
                if len(self.result.refused) < KEPT_REFUSALS:
                    self.result.refused.append(event)
        self._batch.extend(events)

    def _record_progress(
        self,
        candidate: Candidate,
        source: KnownSource,
        prefix: Prefix,
        reader: SourceReader,
        head_bytes: bytes,
        unread_bytes: int,
    ) -> None:
        old = source.read
        state = json.dumps(reader.state(), separators=(",", ":"))
        event = e.SourceRead(
            self._now, "read", f"{source.number}:{reader.line}", source.number, candidate.path, prefix.offset,
            reader.line, len(head_bytes), head_digest(head_bytes), prefix.hex_digest, state, unread_bytes,
        )  # fmt: skip
        counts = self.result.counts[candidate.kind]
        counts.lines += event.lines - (old.lines if old is not None else 0)
        counts.bytes += event.offset - (old.offset if old is not None else 0)
        source.fold_read(event)
        self._batch.append(event)
        self.flush()

    def flush(self) -> None:
        batch, self._batch = self._batch, []
        if not batch:
            return
        try:
            self._log.append(batch)
        except LogError as error:
            if type(error) is not LogError:  # the log cannot be written; this is not caused by an event
                raise
            self._log.append([self._storable_event(event) for event in batch])
        self.result.events += len(batch)

    def _storable_event(self, event: e.Event) -> e.Event:
        """Return the event, or a rejection if a log cannot store it (JSON can contain an unpaired surrogate)."""
        try:
            CODEC.encode([event])
            reason = "a name contains the character NUL" if "\0" in event.stream else ""
        except LogError as error:
            reason = str(error)
        place = place_of(event.stimulus)
        if not reason or place is None:
            return event
        self.result.counts[self._known[place.source].origin.kind].refused += 1
        return e.SourceRefused(self._now, "refused", event.stimulus, *place, f"it cannot be stored: {reason}", "")

    def _report_progress(self, candidate: Candidate, read: int) -> None:
        if self._progress is not None:
            self._progress(
                candidate.path, self._done_bytes + min(read, candidate.size), self._total_bytes, self.result.events
            )
