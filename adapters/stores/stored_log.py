"""The log over any store: numbering, encoding, sealing, fencing and reading.

A store (``LogRecorder``) keeps rows and compares heads; the logic common to memory, SQLite and PostgreSQL is here. A
``StoredLog`` shows the log up to its head at the opening or the last append or refresh. So a state that was folded from
it matches the head that its next append is compared with. A failure changes nothing, and the object stays usable: after
`Fenced`, `refresh` and read the new events; after `LogUnavailable`, append again.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from threading import Lock

from ...domain.events import Event, WriterBegan
from ...domain.ports.log import ID_LENGTH, Fenced, Head, LogDamaged, LogError, LogUnavailable
from .codec import CODEC, Codec, topics_of
from .format import FORMAT
from .head_witness import Mark, disagreement, read_mark
from .log_id import chosen_id
from .recorder import InDoubt, LogRecorder, head_in
from .seal import GENESIS, AppendBatch, Row, recomputed_seal, seal

_STREAMS_KEPT = 100_000  # maximum number of streams whose version is cached: about 20 MB
_CHUNK = 1024  # rows to fetch at once; fewer if they are large
_CHUNK_BYTES = 1 << 21
_LAST_VERSION = (1 << 63) - 1
_STORED = (bytes, str)  # the types of stored events; an event of any other type is damaged
_FAILOVER = 20.0  #: seconds to wait for a server that failed during a commit, or for its successor
_RETRY = 0.2  #: seconds between two attempts to reach it
_MAX_TAKEOVERS = 100  # how often a new writer tries again because the old one is still appending


class StoredLog:
    """A `Log` in a store. Only one thread at a time can append or refresh; other threads wait."""

    def __init__(
        self,
        recorder: LogRecorder,
        head: Head,
        mark: Mark | None,
        read_only: bool = False,
        codec: Codec = CODEC,
        checked: bool = False,
    ) -> None:
        """Store the arguments. `mark` is None for a log in memory or one open for reading only. With `checked`, `read`
        recomputes the seal of an append before it yields its events, so that no fold sees altered events."""
        self._checked = checked
        self._recorder = recorder
        self.name = recorder.name
        self._read_only = read_only
        self._head = head
        self._mark = mark
        self._codec = codec
        self._id = ""
        self._versions: dict[str, int] = {}
        self._writing = Lock()

    @property
    def head(self) -> Head:
        """Return the head as of the opening or the last append or refresh."""
        return self._head

    @property
    def id(self) -> str:
        """Return the log's id: the chosen one, else the start of its first digest, or an empty string for an empty log.
        Raise as ``read`` does."""
        if not self._id and self._head.position:
            self._id = chosen_id(self) or self._recorder.read_appends(0, 1)[0][3][:ID_LENGTH]
        return self._id

    def append(self, events: Sequence[Event], after: int | None = None) -> int:
        """Store all of `events` or none, durably; return the position of the last one (without events, the head's).
        Raise `Fenced` if another append has moved the head (with `after`, the position that the events were decided on,
        also if this object itself moved or refreshed it), `LogUnavailable` if the store fails, `LogError` if a log
        cannot hold an event."""
        if WriterBegan in map(type, events):
            raise LogError(f"{self.name}: a WriterBegan raises the epoch: use raise_epoch(), not append()")
        with self._writing:
            if events and after not in (None, self._head.position):
                raise Fenced(
                    f"{self.name}: this was decided at position {after}, but another append has moved the log to "
                    f"{self._head.position}; nothing was stored; read the new events and decide again"
                )
            return self._append(events, self._head.epoch) if events else self._head.position

    def raise_epoch(self, writer: str, at: int, stimulus: str) -> int:
        """Become the writer: append a `WriterBegan` with the next epoch, which fences every earlier writer; return the
        epoch. This refreshes the head, so the caller must then read the new events. Raise `LogUnavailable` if the store
        fails, `Fenced` if another writer keeps appending."""
        with self._writing:
            for attempt in range(_MAX_TAKEOVERS):
                head = self._refresh()
                try:
                    self._append([WriterBegan(at, "writer", stimulus, head.epoch + 1, writer)], head.epoch + 1)
                except Fenced:
                    if attempt == _MAX_TAKEOVERS - 1:
                        raise
                else:
                    break
            return self._head.epoch

    def refresh(self) -> Head:
        """Read the head again: another process may have moved it."""
        with self._writing:
            return self._refresh()

    def read(self, after: int = 0, limit: int | None = None, size: int | None = None) -> Iterator[tuple[int, Event]]:
        """Yield the events after position `after` (at most `limit`) up to `head`, in order, each with its position. If
        `size` is given, stop soon after that many bytes of stored data. Raise `LogDamaged`, `LogNewer` or
        `LogUnavailable` if the events cannot be read."""
        after = max(after, 0)
        upto = self._head.position
        if limit is not None:
            upto = min(upto, after + max(limit, 0))
        return self._read_range(after, upto, size)

    def read_stream(self, stream: str, after: int = 0) -> Iterator[tuple[int, Event]]:
        """Yield the events of one stream after position `after` up to `head`, each with its position in the log."""
        return self._read_stream(stream, max(after, 0), self._head.position)

    def read_back(
        self, stream: str, before: int | None = None, kinds: Collection[type[Event]] = ()
    ) -> Iterator[tuple[int, Event]]:
        """Yield the events of one stream before position `before` and up to `head`, newest first, each with its
        position in the log; with `kinds`, only events of these classes."""
        upto = self._head.position if before is None else min(before - 1, self._head.position)
        topics = sorted({topic for kind in kinds for topic in topics_of(kind)})
        return self._read_back(stream, upto, topics)

    def position_at(self, at: int) -> int:
        # Without checking seals, because each check would read a complete append.
        def instant(position: int) -> int:
            rows = self._recorder.read_rows(position - 1, position, 1)
            return next(event.at for event in self._codec.decode(rows, self.name))

        return bisect_right(range(1, self._head.position + 1), at, key=instant)

    def digest_at(self, position: int) -> str | None:
        sealed_digest = self._recorder.seal_at(position)
        return None if sealed_digest is None else sealed_digest[1]

    def close(self) -> None:
        self._recorder.close()
        if self._mark is not None:
            self._mark.close()
            self._mark = None

    def _read_range(self, after: int, upto: int, size: int | None) -> Iterator[tuple[int, Event]]:
        """Yield the events in this range. Positions are unique and ordered, so if the positions of the first and last
        row are correct, no row is missing."""
        if after >= upto:
            return
        for rows in self._verified_rows(after, upto) if self._checked else self._rows(after, upto):
            part_rows = rows[max(0, after + 1 - rows[0][0]) : upto + 1 - rows[0][0]]
            yield from zip([row[0] for row in part_rows], self._codec.decode(part_rows, self.name), strict=True)
            if size is not None:
                size -= sum(len(row[4]) for row in part_rows)
                if size <= 0:
                    return

    def _rows(self, after: int, upto: int) -> Iterator[list[Row]]:
        count = _CHUNK // 8
        while after < upto:
            rows = self._recorder.read_rows(after, upto, count)
            if not rows or rows[0][0] != after + 1 or rows[-1][0] != after + len(rows):
                raise LogDamaged(f"{self.name}: events are missing after position {after}; restore it from a backup")
            yield rows
            after += len(rows)
            count = next_count(rows)

    def _verified_rows(self, after: int, upto: int) -> Iterator[list[Row]]:
        """Yield the rows of complete appends, from the append with the event after `after` to the one with `upto`.
        Raise `LogDamaged` at the first append whose seal is broken."""
        start, _, _, digest = self._recorder.last_append(after) or (0, 0, 0, GENESIS)
        rows: list[Row] = []  # fetched, but not yet checked
        for fetched_rows in self._rows(start, self._head.position):
            rows += fetched_rows
            checked_count = 0
            for end, version, epoch, expected in self._recorder.read_appends(start, len(rows)):
                if end > rows[-1][0] or start >= upto:
                    break
                part_rows = rows[checked_count : end - rows[0][0] + 1]
                if recomputed_seal(digest, version, epoch, start + 1, part_rows) != expected:
                    if checked_count:
                        yield rows[:checked_count]
                    raise LogDamaged(
                        f"{self.name} is damaged between positions {start + 1} and {end}: these events were altered "
                        "after they were written (their seal is broken) and cannot be used; `poolbook verify` lists "
                        "the problems. Restore the log from a backup"
                    )
                start, digest, checked_count = end, expected, checked_count + len(part_rows)
            if checked_count:
                yield rows[:checked_count]
                del rows[:checked_count]
            if start >= upto:
                return
        raise LogDamaged(f"{self.name} has events without an append after position {start}; restore it from a backup")

    def _read_stream(self, stream: str, after: int, upto: int) -> Iterator[tuple[int, Event]]:
        count, version = _CHUNK // 8, -1
        while rows := self._recorder.read_stream_rows(stream, after, upto, count, version):
            if rows[-1][0] <= after:
                raise LogDamaged(f"{self.name}: the events of {stream} are out of order; restore it from a backup")
            yield from zip([row[0] for row in rows], self._codec.decode(rows, self.name), strict=True)
            after, version = rows[-1][0], rows[-1][2]
            count = next_count(rows)

    def _read_back(self, stream: str, upto: int, topics: Sequence[str]) -> Iterator[tuple[int, Event]]:
        count, version = _CHUNK // 8, _LAST_VERSION
        while rows := self._recorder.read_back_rows(stream, upto, version, count, topics):
            if rows[0][0] > upto:
                raise LogDamaged(f"{self.name}: the events of {stream} are out of order; restore it from a backup")
            yield from zip([row[0] for row in rows], self._codec.decode(rows, self.name), strict=True)
            upto, version = rows[-1][0] - 1, rows[-1][2]
            count = next_count(rows)

    def _refresh(self) -> Head:
        head = head_in(self._recorder)
        if head != self._head:
            self._head = head
            self._versions.clear()
        return head

    def _append(self, events: Sequence[Event], epoch: int) -> int:
        if self._read_only:
            raise LogUnavailable(f"{self.name} was opened for reading only; open it for writing")
        old = self._head
        batch = self._batch(events, old.position + 1)
        new = Head(epoch, batch.last, seal(old.digest, FORMAT, epoch, batch))
        try:
            self._recorder.append(old, new, batch)
        except LogUnavailable as error:
            self._versions.clear()
            # A server that failed during the commit may have stored it: check the head, also after a failover.
            if not self._is_head(new, isinstance(error, InDoubt)):
                raise
        except BaseException:
            self._versions.clear()
            raise
        self._head = new
        if self._mark is not None:
            self._mark.write(new)
        return new.position

    def _batch(self, events: Sequence[Event], first: int) -> AppendBatch:
        topics, states = self._codec.encode(events)
        streams = [event.stream for event in events]
        self._load_versions(set(streams))
        versions = self._versions
        numbers = []
        for stream in streams:
            versions[stream] = number = versions[stream] + 1
            numbers.append(number)
        return AppendBatch(first, streams, numbers, topics, states)

    def _load_versions(self, needed_streams: set[str]) -> None:
        streams = needed_streams.difference(self._versions)
        if not streams:
            return
        for stream in streams:
            if "\0" in stream:  # PostgreSQL cannot store such a text, and a log can move from one store to another
                raise LogError(f"{self.name}: a stream's name cannot contain the character NUL: {stream!r}")
        if len(self._versions) > _STREAMS_KEPT:
            self._versions.clear()
            streams = needed_streams
        self._versions.update({**dict.fromkeys(streams, 0), **self._recorder.last_versions(streams)})

    def _is_head(self, new: Head, in_doubt: bool) -> bool:
        """Return True if the store has stored `new`. With `in_doubt`, wait a while until it answers, and make a commit,
        which waits until a synchronous standby has stored the head, too."""
        until = time.monotonic() + (_FAILOVER if in_doubt else 0)
        while True:
            try:
                with self._recorder.begin_write() if in_doubt else nullcontext():
                    is_stored = head_in(self._recorder) == new
            except LogError:
                if time.monotonic() >= until:
                    return False
                time.sleep(_RETRY)
            else:
                return is_stored


def next_count(rows: list[Row]) -> int:
    """Return how many rows to fetch next, so that large events do not exhaust the memory."""
    size = sum([len(row[4]) for row in rows if isinstance(row[4], _STORED)])
    return max(1, min(_CHUNK, 8 * len(rows), _CHUNK_BYTES * len(rows) // (size + 1)))


def open_stored_log(recorder: LogRecorder, mark_path: str | None, read_only: bool, checked: bool = True) -> StoredLog:
    """Open the log in `recorder`; for writing, it must agree with its mark. `checked`: see `StoredLog`; a log in
    memory, which has no mark, needs no check. Raise the same exceptions as `head_in`, and `LogDamaged` if the mark
    disagrees."""
    checked = checked and mark_path is not None
    if read_only or mark_path is None:
        return StoredLog(recorder, head_in(recorder), None, read_only, checked=checked)
    return StoredLog(recorder, marked_head(recorder, mark_path), Mark(mark_path), checked=checked)


def marked_head(recorder: LogRecorder, mark_path: str) -> Head:
    """Return the head of the log in `recorder`, which must agree with its mark and with the log's last append. Raise
    the same exceptions as `head_in`, and `LogDamaged` if they disagree, because such a log must not be written."""
    marked = read_mark(mark_path)
    head = head_in(recorder)
    last_rows = recorder.read_rows(head.position - 1, head.position, 1) if head.position else []
    if head.position and (not last_rows or recorder.seal_at(head.position) != (head.epoch, head.digest)):
        raise LogDamaged(
            f"{recorder.name} was truncated: its head is at position {head.position}, but the event or the seal there "
            "is missing or altered. It can still be read up to the last event; to write, restore it from a backup"
        )
    problem = disagreement(marked, head, recorder.seal_at)
    if problem:
        raise LogDamaged(
            f"{recorder.name} is not the log that was last written here: {problem}. It can still be read. Restore "
            f"the log from a backup; or, to continue from here, delete its mark, the file {mark_path}"
        )
    return head
