"""The pool, its writers and the requests that they answered; matchmaking."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from .base import Event, SlotEvent


@frozen
class Clause:
    """A condition of a Requirements expression, and how many of the slots it leaves (alone; with those before)."""

    text: str
    alone: int
    left: int


@frozen
class Match:
    """A cycle's decision: this job may use this slot; ``rank`` is the job's Rank of it."""

    job: str
    slot: str
    rank: float = 0.0


@frozen
class Unmatched:
    """Why jobs alike got nothing in a cycle: of ``slots`` looked at, what each clause of ``job``'s Requirements left,
    how many slots refused the job by their own, and how many that both accept were taken by jobs before it."""

    job: str
    jobs: int
    slots: int
    clauses: tuple[Clause, ...]
    refused_by_slot: int = 0
    taken: int = 0


@frozen
class PoolFounded(Event):
    """The first event of every log."""

    stream: ClassVar[str] = "pool"
    name: str
    dialect: str
    uid_domain: str
    version: str
    settings: dict[str, str]


@frozen
class WriterBegan(Event):
    """A process that serves the log raised its epoch: every earlier writer's appends fail from here on."""

    stream: ClassVar[str] = "pool"
    epoch: int
    writer: str


@frozen
class RequestAnswered(Event):
    """What was asked, by whom, and the answer, which a repeated request with the same id gets again."""

    stream: ClassVar[str] = "requests"
    user: str
    request: str
    arguments: str
    answer: str


@frozen
class EvidenceNoted(Event):
    """An expression that decided something: its text, its value, and the values of the attributes that it read
    (``MY.`` and ``TARGET.`` tell whose). Written once for a stimulus, however many slots or jobs it decided about."""

    stream: ClassVar[str] = "evidence"
    name: str
    expression: str
    value: str
    read: dict[str, str]


@frozen
class CycleHeld(Event):
    """A negotiation cycle and all that it decided. A refusal stands here when it differs from the last one that the
    log has for these jobs."""

    stream: ClassVar[str] = "negotiator"
    matches: tuple[Match, ...]
    unmatched: tuple[Unmatched, ...]


@frozen
class MatchVoided(SlotEvent):
    """A match that will not be claimed."""

    job: str
