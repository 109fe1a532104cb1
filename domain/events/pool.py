"""The pool, its writers and the requests that they answered; matchmaking."""

from __future__ import annotations

from typing import ClassVar

from attrs import Factory, frozen

from .base import Event, SlotEvent


@frozen
class Clause:
    """A condition of a Requirements expression, and how many of the slots it leaves (alone; with those before)."""

    text: str
    alone: int
    left: int


@frozen
class Match:
    """A cycle's decision: this job may use this slot; ``rank`` is the job's Rank of it. ``reason``: empty (nobody has
    the slot), rank (the slot prefers the job to the one that it runs) or priority (the job's submitter goes before the
    one who has the slot). ``pre`` and ``post`` are the negotiator's own ranks, ``preemption`` is PREEMPTION_RANK."""

    job: str
    slot: str
    rank: float = 0.0
    reason: str = ""
    pre: float = 0.0
    post: float = 0.0
    preemption: float = 0.0


@frozen
class Denied:
    """Slots that others use, that accept the job, and that it may not have: since PREEMPTION_REQUIREMENTS was not true
    (``policy``), the slot prefers the job that it has (``rank``), the one who has it does not come behind the job's
    submitter (``priority``), or is the same (``own``); or no preemption is considered at all (``never``)."""

    policy: int = 0
    rank: int = 0
    priority: int = 0
    own: int = 0
    never: int = 0


@frozen
class Unmatched:
    """Why jobs alike got nothing in a cycle: of ``slots`` looked at, what each clause of ``job``'s Requirements left,
    how many slots refused the job by their own, and how many that both accept were taken by jobs before it. Of those
    that others use, ``denied`` tells. ``limit`` says what else stood in the way: share (the submitter's fair share was
    used up) or ceiling, with the cores that it may have and has, or matches (it got as many as it may in a cycle)."""

    job: str
    jobs: int
    slots: int
    clauses: tuple[Clause, ...]
    refused_by_slot: int = 0
    taken: int = 0
    submitter: str = ""
    denied: Denied | None = None
    limit: str = ""
    allowed: float = 0.0
    used: float = 0.0


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
class PoolConfigured(Event):
    """The negotiator read its configuration again. ``settings`` are those that differ from before (an empty text: back
    to the default)."""

    stream: ClassVar[str] = "pool"
    settings: dict[str, str]


@frozen
class CycleHeld(Event):
    """A negotiation cycle and all that it decided. A refusal stands here when it differs from the last one that the
    log has for these jobs. ``statistics`` are HTCondor's LastNegotiationCycle*, without that prefix. ``offset`` is the
    pool's offset from UTC in seconds, for expressions that ask for local times. ``rules`` numbers the way in which
    cycles are decided, so that one of another version's is not taken again: 0 is that of logs that do not say."""

    stream: ClassVar[str] = "negotiator"
    matches: tuple[Match, ...]
    unmatched: tuple[Unmatched, ...]
    statistics: dict[str, float] = Factory(dict)
    offset: int = 0
    rules: int = 0


@frozen
class MatchVoided(SlotEvent):
    """A match that will not be claimed."""

    job: str
