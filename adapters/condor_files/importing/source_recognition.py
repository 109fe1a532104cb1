"""Determine by its content whether a file is a source that is already in the log.

The log contains a digest of each source's first bytes, and a digest of all bytes read up to each point at which an
import stopped. So a log that was rotated, renamed, moved or compressed is recognized as the same source.
"""

from __future__ import annotations

from attrs import define, field

from ....domain import events as e
from ....domain.ports.log import EventStore
from .content import DAMAGED, HEAD_BYTES, Prefix, head_of, new_digest, starts_with_content


@define
class KnownSource:
    """A source in the log. ``stops``: the offsets at which reading stopped, each with the digest up to that offset."""

    origin: e.SourceFound
    read: e.SourceRead | None = None
    stops: list[tuple[int, str]] = field(factory=list)

    @property
    def number(self) -> int:
        return self.origin.source

    @property
    def path(self) -> str:
        return self.read.path if self.read is not None else self.origin.path

    def fold_read(self, event: e.SourceRead) -> None:
        self.read = event
        if not self.stops or self.stops[-1][0] != event.offset:
            self.stops.append((event.offset, event.digest))


def known_sources(log: EventStore) -> dict[int, KnownSource]:
    """Return the sources in a log by their numbers, which start at 1."""
    sources: dict[int, KnownSource] = {}
    while True:
        number = len(sources) + 1
        source: KnownSource | None = None
        for _, event in log.read_stream(f"source/{number}"):
            if isinstance(event, e.SourceFound):
                source = KnownSource(event)
            elif isinstance(event, e.SourceRead) and source is not None:
                source.fold_read(event)
        if source is None:
            return sources
        sources[number] = source


_REWRITTEN_KINDS = frozenset({"job_ads", "machine_ads", "submitter_ads"})  #: kinds whose files are rewritten


@define
class Continued:
    """A file that continues at the point where reading a source stopped; ``prefix`` has the digest up to that point."""

    source: KnownSource
    prefix: Prefix


@define
class Copy:
    """A file whose content was already imported from a source."""

    source: KnownSource


@define
class Changed:
    """A source's file whose content differs after byte ``same``."""

    source: KnownSource
    same: int


def recognize(path: str, kind: str, sources: dict[int, KnownSource]) -> Continued | Copy | Changed | None:
    """Return how a file relates to the known sources, or None if it is new. Raise OSError."""
    head_bytes = head_of(path, HEAD_BYTES)
    same_start = [
        source_known
        for source_known in sources.values()
        if source_known.read is not None
        and source_known.origin.kind == kind
        and source_known.read.head_size
        and head_digest(head_bytes[: source_known.read.head_size]) == source_known.read.head
    ]
    changed_source: Changed | None = None
    # The longest first: a file that continues the longest source also continues its copies.
    for source_known in sorted(same_start, key=lambda known: -known.stops[-1][0]):
        prefix = Prefix.open_at_start(path)
        same_bytes = _last_equal_stop(prefix, source_known)
        if same_bytes == source_known.stops[-1][0]:
            return Continued(source_known, prefix)
        ended = prefix.offset < source_known.stops[-1][0] and not prefix.file.read(1)
        prefix.file.close()
        if source_known.path == path:
            changed_source = None if kind in _REWRITTEN_KINDS else Changed(source_known, same_bytes)
        elif ended and _is_start_of(path, source_known.path):
            return Copy(source_known)
    return changed_source


def begins_as(known_source: KnownSource, path: str) -> bool:
    """Check whether a file has the same start as a source. Raise OSError."""
    source_read = known_source.read
    return source_read is not None and head_digest(head_of(path, source_read.head_size)) == source_read.head


def _last_equal_stop(prefix: Prefix, known_source: KnownSource) -> int:
    """Return the last of the source's stops up to which the file is equal."""
    same_bytes = 0
    for offset, expected in known_source.stops:
        if not prefix.advance_to(offset) or prefix.hex_digest != expected:
            break
        same_bytes = offset
    return same_bytes


def _is_start_of(path: str, longer_path: str) -> bool:
    """Check whether a file is the start of a longer one; False if that is missing."""
    try:
        return starts_with_content(longer_path, path)
    except DAMAGED:
        return False


def head_digest(data: bytes) -> str:
    """Return the digest of a file's first bytes, as stored in a log."""
    return str(new_digest(data).hexdigest())
