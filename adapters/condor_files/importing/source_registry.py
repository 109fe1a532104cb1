"""What a log has of its sources already, and which file is which of them now.

A source is known by its content: by a digest of its first bytes, and by digests of all that was read of it, one for
each time that the import stopped. So a log that was rotated, renamed, moved or compressed is the source that it was.
"""

from __future__ import annotations

from attrs import define, field

from ....domain import events as e
from ....domain.ports.log import Log
from .content import DAMAGED, HEAD, Prefix, begins_with, digest, head_of


@define
class KnownSource:
    """A source, as the log has it. ``stops`` are the places where reading stopped, each with the digest up to there."""

    found: e.SourceFound
    read: e.SourceRead | None = None
    stops: list[tuple[int, str]] = field(factory=list)

    @property
    def number(self) -> int:
        return self.found.source

    @property
    def path(self) -> str:
        return self.read.path if self.read is not None else self.found.path

    def take(self, event: e.SourceRead) -> None:
        self.read = event
        if not self.stops or self.stops[-1][0] != event.offset:
            self.stops.append((event.offset, event.digest))


def known_sources(log: Log) -> dict[int, KnownSource]:
    """The sources of a log by their numbers, which count from 1."""
    sources: dict[int, KnownSource] = {}
    while True:
        number = len(sources) + 1
        source: KnownSource | None = None
        for _, event in log.read_stream(f"source/{number}"):
            if isinstance(event, e.SourceFound):
                source = KnownSource(event)
            elif isinstance(event, e.SourceRead) and source is not None:
                source.take(event)
        if source is None:
            return sources
        sources[number] = source


_SAMPLES = frozenset({"job_ads", "machine_ads", "submitter_ads"})
"""Kinds of files that are written anew under the same name: another one is another sample."""


@define
class Continued:
    """A file that goes on where a source was left; its prefix has been taken into the digest."""

    source: KnownSource
    prefix: Prefix


@define
class Copy:
    """A file that has nothing which a source did not have."""

    source: KnownSource


@define
class Changed:
    """The file of a source, which still begins as it did, and is something else now: the same up to byte `same`."""

    source: KnownSource
    same: int


def recognize(path: str, kind: str, sources: dict[int, KnownSource]) -> Continued | Copy | Changed | None:
    """Which source a file is; None if it is a new one. Raises OSError."""
    head = head_of(path, HEAD)
    alike = [
        known
        for known in sources.values()
        if known.read is not None
        and known.found.kind == kind
        and known.read.head_size
        and head_digest(head[: known.read.head_size]) == known.read.head
    ]
    changed: Changed | None = None
    # The longest first: what continues it continues its copies, too.
    for known in sorted(alike, key=lambda known: -known.stops[-1][0]):
        prefix = Prefix.of(path)
        same = _same(prefix, known)
        if same == known.stops[-1][0]:
            return Continued(known, prefix)
        ended = prefix.offset < known.stops[-1][0] and not prefix.file.read(1)
        prefix.file.close()
        if known.path == path:
            changed = None if kind in _SAMPLES else Changed(known, same)
        elif ended and _is_beginning(path, known.path):
            return Copy(known)
    return changed


def begins_as(known: KnownSource, path: str) -> bool:
    """Whether a file begins as a source did. Raises OSError."""
    read = known.read
    return read is not None and head_digest(head_of(path, read.head_size)) == read.head


def _same(prefix: Prefix, known: KnownSource) -> int:
    """Up to which of the source's stops the file is what was read of the source."""
    same = 0
    for offset, wanted in known.stops:
        if not prefix.go(offset) or prefix.hex != wanted:
            break
        same = offset
    return same


def _is_beginning(path: str, longer: str) -> bool:
    """Whether a file is the beginning of another one; of one that is not there any more nobody knows it."""
    try:
        return begins_with(longer, path)
    except DAMAGED:
        return False


def head_digest(data: bytes) -> str:
    """The digest of a file's first bytes, as a log keeps it."""
    sum = digest()
    sum.update(data)
    return str(sum.hexdigest())
