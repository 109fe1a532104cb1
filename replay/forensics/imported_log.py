"""Recognize imported logs, and name the locations of their records."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, tzinfo
from itertools import count, pairwise

from msgspec import Struct, field

from ...domain import events as e
from ...domain.imported.record_sources import KINDS, place_of
from ...domain.ports.log import EventStore
from ..narration.formatting import EVER, instant

# -- The source files of an import, by number --------------------------------------------------------------------------


def job_of(text: str) -> tuple[int, int] | None:
    """Return the job of a record's job id such as "12.3", or None if the text is not a job id."""
    cluster, _, proc = text.partition(".")
    return (int(cluster), int(proc)) if cluster.isdecimal() and proc.isdecimal() else None


class Sources(Struct):
    """The sources of a log, collected from its events. Paths are the latest known."""

    found_events: dict[int, e.SourceFound] = field(default_factory=dict)
    read_events: dict[int, e.SourceRead] = field(default_factory=dict)
    _letters: dict[int, tuple[str, int]] = field(default_factory=dict)

    def fold_event(self, event: e.Event) -> None:
        if isinstance(event, e.SourceFound):
            self.found_events[event.source] = event
            self._letters.clear()  # a rotated file may now belong to another chain
        elif isinstance(event, e.SourceRead):
            self.read_events[event.source] = event

    def path(self, source: int) -> str:
        if source in self.read_events:
            return self.read_events[source].path
        return self.found_events[source].path if source in self.found_events else f"source {source}"

    def kind(self, source: int) -> str:
        return self.found_events[source].kind if source in self.found_events else ""

    def chain(self, source: int) -> int:
        """Return the number of a source's chain: the first of its log's rotated files."""
        seen_sources = {source}
        while source in self.found_events and self.found_events[source].follows not in (0, *seen_sources):
            source = self.found_events[source].follows
            seen_sources.add(source)
        return source

    def letter(self, source: int) -> tuple[str, int]:
        """Return the letter of a source's kind (empty if unknown), and its chain."""
        known_letter = self._letters.get(source)
        if known_letter is None:
            kind = self.kind(source)
            if not kind:
                return "", source
            known_letter = self._letters[source] = KINDS[kind].letter, self.chain(source)
        return known_letter

    def location_of(self, stimulus: str) -> tuple[str, int]:
        """Return the file and line of an event's record, or the stimulus and 0 if the event was not imported."""
        place = place_of(stimulus)
        return (stimulus, 0) if place is None else (self.path(place.source), place.line)

    def line_of(self, at: int, stimulus: str, statement_text: str, zone: tzinfo = UTC) -> str:
        """Return a line of a story: the time, the text, and the file and line."""
        file, line = self.location_of(stimulus)
        return f"{instant(at, zone)}  {statement_text}  [{file}{f':{line}' if line else ''}]"


IMPORTED = "Imported"  #: the setting that marks the first event of an imported log


def is_imported(log: EventStore) -> bool:
    """Return True if a log was imported, according to its first event."""
    _, first_event = next(log.read(0, 1), (0, None))
    return isinstance(first_event, e.PoolFounded) and IMPORTED in first_event.settings


def time_span(log: EventStore) -> tuple[int, int]:
    """Return the first and the last instant of a log's events or records, in microseconds; zeros if there are none.
    This reads the whole log, because the events of an import are in the order in which the files were read."""
    first, last = EVER, 0
    for _, event in log.read(1):
        if isinstance(event, e.JobsLogged):
            entry_times = [entry[0] for entry in event.entries]
            first, last = min(first, *entry_times), max(last, *entry_times)
        elif not isinstance(event, e.SourceEvent | e.AdsKept):  # these events have the time of the import
            first, last = min(first, event.at), max(last, event.at)
    return (first, last) if last else (0, 0)


def single_entries(events: Iterable[tuple[int, e.Event]]) -> Iterator[tuple[int, e.Event]]:
    """Yield the events. An event with several job event log entries is replaced by its entries, at the same
    position."""
    for position, event in events:
        if type(event) is e.JobsLogged:
            for entry in event.logged():
                yield position, entry
        else:
            yield position, event


def records_between(
    log: EventStore, places: PlaceNames, kind: str, since: int, until: int
) -> Iterator[tuple[int, e.Event]]:
    """Yield the records between two instants from the sources of a kind, in the order in which they were read.

    An import appends a file in pieces, each followed by a ``SourceRead``. Because daemons write in chronological order,
    pieces that begin after `until` are skipped, and so are pieces whose next piece begins before `since`.
    """
    sources = list(places.all())
    ends_by_source = {source.source: _ends_of_pieces(log, source.source) for source in sources}
    position_before = dict(pairwise([0, *sorted(position for ends in ends_by_source.values() for position in ends)]))
    position_before = {end: position_after for position_after, end in position_before.items()}
    for number in (source.source for source in sources if source.kind == kind):
        pieces = [(end, *_first_record(log, number, position_before[end], end)) for end in ends_by_source[number]]
        pieces = [piece for piece in pieces if piece[1]]
        for index, (end, first_position, began) in enumerate(pieces):
            next_begin = pieces[index + 1][2] if index + 1 < len(pieces) else EVER
            if began <= until and next_begin >= since:
                for position, event in log.read(first_position - 1, end - first_position + 1):
                    if since <= event.at <= until and _is_of(event, number):
                        yield position, event


def _ends_of_pieces(log: EventStore, number: int) -> list[int]:
    """Return the positions of the events that record that a source was found or read; its records lie between them."""
    events = log.read_stream(f"source/{number}")
    return [position for position, event in events if isinstance(event, e.SourceFound | e.SourceRead)]


def _first_record(log: EventStore, number: int, after: int, last: int) -> tuple[int, int]:
    """Return the position and instant of a source's first record in a piece; zeros if there is none. Records of other
    sources may precede it in the same append."""
    records = ((position, event.at) for position, event in log.read(after, last - after) if _is_of(event, number))
    return next(records, (0, 0))


def _is_of(event: e.Event, number: int) -> bool:
    place = None if isinstance(event, e.SourceEvent) else place_of(event.stimulus)
    return place is not None and place.source == number


class PlaceNames(Struct):
    """Formats the locations of records for users, such as "EventLog:120". Reads the sources from the log on demand."""

    log: EventStore
    sources: Sources = field(default_factory=Sources)
    _read: set[int] = field(default_factory=set)
    _names: dict[int, str] = field(default_factory=dict)

    def source(self, number: int) -> Sources:
        if number not in self._read:
            self._read.add(number)
            for _, event in self.log.read_stream(f"source/{number}"):
                self.sources.fold_event(event)
        return self.sources

    def chain(self, stimulus: str) -> int:
        """Return the chain of the record's source, or 0 if the event was not imported."""
        place = place_of(stimulus)
        return 0 if place is None else self.source(place.source).chain(place.source)

    def kind(self, stimulus: str) -> str:
        """Return the kind of the record's source (``record_sources.KINDS``), or "" if the event was not imported."""
        place = place_of(stimulus)
        return "" if place is None else self.source(place.source).kind(place.source)

    def machine(self, stimulus: str) -> str:
        """Return the machine of the record's source, or "" if the event was not imported."""
        place = place_of(stimulus)
        return "" if place is None else self.source(place.source).found_events[place.source].machine

    def name(self, stimulus: str) -> str:
        """Return the location of the record for users, or "" if the event was not imported or its source is unknown."""
        place = place_of(stimulus)
        if place is None or place.source not in self.source(place.source).found_events:
            return ""
        file = self._file_name(place.source)
        return f"{file}:{place.line}" if place.line else file

    def _file_name(self, number: int) -> str:
        """Return the file's name, with as much of its path as distinguishes it from other sources."""
        if not self._names:
            self._names = shortest_tails({place.source: place.path for place in self.all()})
        path = self.source(number).path(number)
        first_path = self.sources.found_events[number].path
        # A file that has since been rotated has a new name; the path under which it was found identifies it.
        return (
            self._names.get(number, path)
            if path == first_path
            else _distinguishing_tail(path, self._names.get(number, path))
        )

    def all(self) -> Iterator[e.SourceFound]:
        """Yield the event by which each source was first found. Sources are numbered from 1 without gaps."""
        for number in count(1):
            _, event = next(self.log.read_stream(f"source/{number}"), (0, None))
            if not isinstance(event, e.SourceFound):
                return
            yield event


def _distinguishing_tail(path: str, like_path: str) -> str:
    return "/".join(path.split("/")[-(like_path.count("/") + 1) :])


def shortest_tails(paths: dict[int, str]) -> dict[int, str]:
    """Return for each path its shortest tail with which no other path ends, or the whole path if there is none."""
    names: dict[int, str] = {}
    ambiguous_sources: Iterable[int] = paths
    for part_count in range(1, 1 + max((path.count("/") + 1 for path in paths.values()), default=0)):
        sources_by_tail: dict[str, list[int]] = {}
        for number in ambiguous_sources:
            sources_by_tail.setdefault("/".join(paths[number].split("/")[-part_count:]), []).append(number)
        names.update((numbers[0], end) for end, numbers in sources_by_tail.items() if len(numbers) == 1)
        ambiguous_sources = [number for numbers in sources_by_tail.values() if len(numbers) > 1 for number in numbers]
    names.update((number, posixpath.normpath(paths[number])) for number in ambiguous_sources)
    return names


_ALIAS = r"[?&]alias=([^&>]+)"
_ADDRESS = r"<\[?([^?>\]]*?)\]?(?::\d+)?(?:\?[^>]*)?>"


def host_of(address: str) -> str:
    """Return the host of a daemon's address: its name if the address contains one, else its IP address."""
    alias = re.search(_ALIAS, address)
    if alias:
        return alias[1]
    match = re.search(_ADDRESS, address)
    return match[1] if match else address.strip()
