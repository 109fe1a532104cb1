"""The source files of an import, by number."""

from __future__ import annotations

from datetime import UTC, tzinfo

from attrs import define, field

from ...domain import events as e
from ...domain.imported.record_sources import KINDS, place_of
from ..narration.formatting import instant


def job_of(text: str) -> tuple[int, int] | None:
    """Return the job that a record names, "12.3"; None for anything else."""
    cluster, _, proc = text.partition(".")
    return (int(cluster), int(proc)) if cluster.isdecimal() and proc.isdecimal() else None


@define
class Sources:
    """The sources of a log, learned as it is read. Paths are the latest known."""

    found: dict[int, e.SourceFound] = field(factory=dict)
    reached: dict[int, e.SourceRead] = field(factory=dict)
    _letters: dict[int, tuple[str, int]] = field(factory=dict)

    def take(self, event: e.Event) -> None:
        if isinstance(event, e.SourceFound):
            self.found[event.source] = event
            self._letters.clear()  # a rotated file may now belong to another chain
        elif isinstance(event, e.SourceRead):
            self.reached[event.source] = event

    def path(self, source: int) -> str:
        if source in self.reached:
            return self.reached[source].path
        return self.found[source].path if source in self.found else f"source {source}"

    def kind(self, source: int) -> str:
        return self.found[source].kind if source in self.found else ""

    def chain(self, source: int) -> int:
        """Return the first of the rotated files to which a source belongs."""
        seen = {source}
        while source in self.found and self.found[source].follows not in (0, *seen):
            source = self.found[source].follows
            seen.add(source)
        return source

    def letter(self, source: int) -> tuple[str, int]:
        """Return the letter of a source's kind, and its chain; an empty letter for an unknown source."""
        known = self._letters.get(source)
        if known is None:
            kind = self.kind(source)
            if not kind:
                return "", source
            known = self._letters[source] = KINDS[kind].letter, self.chain(source)
        return known

    def place(self, stimulus: str) -> tuple[str, int]:
        """Return file and line of an event's record; the stimulus itself and 0 for an event of no import."""
        place = place_of(stimulus)
        return (stimulus, 0) if place is None else (self.path(place.source), place.line)

    def told(self, at: int, stimulus: str, words: str, zone: tzinfo = UTC) -> str:
        """Return a line of a story: time, words, place."""
        file, line = self.place(stimulus)
        return f"{instant(at, zone)}  {words}  [{file}{f':{line}' if line else ''}]"
