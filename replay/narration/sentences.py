"""A sentence of an answer, and what several of them need: who asked for what, and what evidence a match had."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, tzinfo
from typing import NamedTuple

from attrs import define, field, frozen

from ...domain import events as e
from ...domain.errors import PoolbookError
from .causes import cause_words
from .wording import instant, iso, shortened

Told = tuple[int, e.Event]
LEAST = -1.7e308
"""Ranks below this stand for what is no number."""


WANTED = frozenset({"vacate_command", "user_vacate", "drain_command", "draining", "shutdown", "better_match"})
"""Causes for which a slot's claim begins to end, other than that its policy decided so."""


_PREFERRED = {
    "rank": ("the slot's RANK prefers {} to the job that it has", "the slot's RANK prefers {} to the job of {}"),
    "priority": ("the submitter of {} goes before whoever has the slot", "the submitter of {} goes before {}"),
}


def preferred(reason: str, job: str, holder: str = "") -> str:
    """Why a slot that somebody (``holder``) has was matched with a job, as the rest of a sentence; empty: nobody had
    to go for it."""
    words = _PREFERRED.get(reason)
    return "" if words is None else f": {words[bool(holder)].format(job, holder)}"


def ranked(match: e.Match) -> str:
    """By what ranks a slot was chosen, as a sentence; empty: all are 0, or no numbers."""
    ranks = {
        "Rank": match.rank,
        "NEGOTIATOR_PRE_JOB_RANK": match.pre,
        "NEGOTIATOR_POST_JOB_RANK": match.post,
        "PREEMPTION_RANK": match.preemption,
    }
    said = [f"{name} {value:.12g}" for name, value in ranks.items() if value and value > LEAST]
    return f"Its ranks: {', '.join(said)}." if said else ""


class UnknownThingError(PoolbookError, LookupError):
    """The log knows no such job or slot."""


@frozen
class Sentence:
    """What happened at an instant (microseconds), by the event at ``position``; ``cause`` and ``stimulus`` are the
    event's. The first sentence of an answer is the answer; the others are how it came to it, in order of time. ``more``
    is what it rests on at length: expressions, ranks, counts; for who asks for it."""

    at: int
    position: int
    text: str
    cause: str
    stimulus: str
    more: str = ""

    def as_dict(self) -> dict[str, object]:
        return {
            "at": iso(self.at),
            "position": self.position,
            "text": self.text,
            "more": self.more,
            "cause": self.cause,
            "stimulus": self.stimulus,
        }


def tell(sentence: Sentence, zone: tzinfo = UTC, verbose: bool = False) -> str:
    """A line for people, with the time of `zone`; `verbose`: and with what the sentence rests on."""
    more = f" {sentence.more}" if verbose and sentence.more else ""
    return f"{instant(sentence.at, zone)}  {sentence.text}{more}"


@define
class Context:
    """What other events say under the same stimulus: who asked, and what a match was found by."""

    requests: dict[str, e.RequestAnswered] = field(factory=dict)
    evidence: dict[str, list[e.EvaluationRecorded]] = field(factory=dict)
    noted: dict[int, e.EvaluationRecorded] = field(factory=dict)
    """The same evidence by its position."""

    def note(self, position: int, event: e.Event) -> None:
        if isinstance(event, e.RequestAnswered):
            self.requests[event.stimulus] = event
        elif isinstance(event, e.EvaluationRecorded):
            self.evidence.setdefault(event.stimulus, []).append(event)
            self.noted[position] = event

    def decided(self, event: e.SlotTransitioned | e.JobsTransitioned | e.JobExited) -> Ground:
        """The expression that decided a transition."""
        note = self.noted.get(event.evidence)
        return ground(note) if note else NO_GROUND

    def asked(self, event: e.Event, name: str) -> Ground:
        """The same of an expression of this name that was asked in the decision which an event is of."""
        notes = [note for note in self.evidence.get(event.stimulus, ()) if note.name.startswith(name)]
        return ground(notes[-1]) if notes else NO_GROUND

    def words(self, event: e.Event) -> str:
        """The cause in words, with the name of whoever asked for it, and of what was to be vacated."""
        request = self.requests.get(event.stimulus)
        if request is None:
            return cause_words(event.cause)
        vacated = "the job" if request.arguments.startswith("{") else request.arguments
        return cause_words(event.cause, by=request.user, thing=vacated)


def capital(text: str) -> str:
    """A text that begins a sentence; names and numbers stay as they are."""
    return (
        text[:1].upper() + text[1:] if text.startswith(("it ", "its ", "the ", "a ", "somebody ", "nobody ")) else text
    )


def read_values(note: e.EvaluationRecorded) -> str:
    """The evidence of a match: the expression that was true, and what it read, of this job or one like it."""
    return f"Its {note.name} held there: {_reading(note)}."


class Ground(NamedTuple):
    """What the policy of a slot or a job went by: the rest of a sentence, and what is told at length behind it; one of
    them is empty, or both: nothing was evaluated."""

    text: str
    more: str


NO_GROUND = Ground("", "")
SHORT = 80
"""An expression with its values is told in the sentence itself if it is no longer."""


def ground(note: e.EvaluationRecorded) -> Ground:
    """The evidence of a slot's or a job's policy: the expression, its truth, and the values that it read."""
    truth, reading = f"{note.name} was {note.value}", _reading(note)
    if len(reading) <= SHORT:
        return Ground(f"; {truth}: {reading}", "")
    return Ground("", f"{truth}: {reading}.")  # the cause's own words say so


def _reading(note: e.EvaluationRecorded) -> str:
    values = shortened(", ".join(f"{name} = {value}" for name, value in note.read.items()), 200)
    return shortened(note.expression, 300) + (f" [{values}]" if values else "")


def until(events: Iterable[Told], at: int | None) -> Iterable[Told]:
    """The events up to the instant `at`; None: all."""
    return events if at is None else ((position, event) for position, event in events if event.at <= at)
