"""The pool, its writers and the requests that they answered; matchmaking."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen
from msgspec import field

from .base import Event, SlotEvent, event


@frozen
class Clause:
    """A condition of a Requirements expression, and how many of the slots it leaves."""

    text: str  #: the condition
    alone: int  #: slots that it leaves alone
    left: int  #: slots that it leaves with those before it


@frozen
class Match:
    """A cycle's decision: this job may use this slot."""

    job: str  #: the job, as 12.3
    slot: str  #: the slot's name; of a partitionable slot a part is meant, which is carved on the claim
    rank: float = 0.0  #: the job's Rank of the slot
    reason: str = ""  #: why the holder is preempted: rank (RANK prefers the job) or priority; empty: the slot is free
    pre: float = 0.0  #: NEGOTIATOR_PRE_JOB_RANK
    post: float = 0.0  #: NEGOTIATOR_POST_JOB_RANK
    preemption: float = 0.0  #: PREEMPTION_RANK
    limits: str = ""  #: ConcurrencyLimits of the job, evaluated with the slot: what it holds of them from here on
    preempts: tuple[str, ...] = ()  #: dynamic slots whose resources it takes: their claims end at once


@frozen
class Denied:
    """How many slots that others use and that accept the job it may not have, by why."""

    policy: int = 0  #: PREEMPTION_REQUIREMENTS was not true
    rank: int = 0  #: the slot prefers the job that it has
    priority: int = 0  #: the one who has it does not come behind the job's submitter
    own: int = 0  #: the same submitter has it
    never: int = 0  #: no preemption is considered at all


@frozen
class ReachedLimit:
    """A concurrency limit that kept jobs from a slot."""

    name: str  #: in small letters
    used: float  #: units that were held
    most: float  #: units that there are
    wanted: float  #: units that each of the jobs takes


@frozen
class Unmatched:
    """Why jobs alike got nothing in a cycle."""

    job: str  #: the first of them, as 12.3
    jobs: int  #: how many are alike
    slots: int  #: how many slots were looked at
    clauses: tuple[Clause, ...]  #: the conditions of the job's Requirements, in their order
    refused_by_slot: int = 0  #: slots that refused the job by their own Requirements
    taken: int = 0  #: slots that both accept, taken by jobs before it
    submitter: str = ""  #: the submitter's name
    denied: Denied | None = None  #: slots that others use (None: nothing was asked of them)
    limit: str = ""  #: what else was in the way: concurrency, share (used up), ceiling, matches, running, quota
    allowed: float = 0.0  #: cores that the submitter, or its group, may have, by `limit`
    used: float = 0.0  #: cores that the submitter, or its group, has, by `limit`
    reached: tuple[ReachedLimit, ...] = ()  #: the concurrency limits that were reached, for some slot or for all
    group: str = ""  #: the accounting group whose quota was in the way


@event("pool.founded")
class PoolFounded(Event, frozen=True):
    """The first event of every log."""

    stream: ClassVar[str] = "pool"
    name: str  #: the pool's name
    dialect: str  #: manual or htcondor-25: whose tables of transitions hold
    uid_domain: str  #: UID_DOMAIN: the domain after the @ of submitters
    version: str  #: the version of Poolbook that began the log
    settings: dict[str, str]  #: HTCondor's names -> texts; what is not named has its default
    log: str = ""  #: the log's id, 16 hexadecimal digits (empty: the beginning of the digest of the log's first append)


@event("writer.began")
class WriterBegan(Event, frozen=True):
    """A process that serves the log raised its epoch: every earlier writer's appends fail from here on."""

    stream: ClassVar[str] = "pool"
    epoch: int  #: the writer's number, from 1
    writer: str  #: which process: host and folder


@event("request.answered")
class RequestAnswered(Event, frozen=True):
    """A request and its answer, which a repeated request with the same id gets again."""

    stream: ClassVar[str] = "requests"
    user: str  #: who asked
    request: str  #: what for, as hold
    arguments: str  #: of what, and how
    answer: str  #: the answer (JSON)


@event("evaluation")
class EvaluationRecorded(Event, frozen=True):
    """An expression that decided something. Written once for a stimulus, however many slots or jobs it decided
    about."""

    stream: ClassVar[str] = "evidence"
    name: str  #: what it is called, as START
    expression: str  #: its text
    value: str  #: its value
    read: dict[str, str]  #: the attributes that it read -> their values (`MY.` and `TARGET.` tell whose)


@event("pool.configured")
class PoolConfigured(Event, frozen=True):
    """The negotiator read its configuration again."""

    stream: ClassVar[str] = "pool"
    settings: dict[str, str]  #: changed settings (an empty text: the default again)


@event("cycle.held")
class CycleHeld(Event, frozen=True):
    """A negotiation cycle and all that it decided. A refusal stands here when it differs from the last one that the
    log has for these jobs."""

    stream: ClassVar[str] = "negotiator"
    matches: tuple[Match, ...]  #: which jobs may use which slots
    unmatched: tuple[Unmatched, ...]  #: which jobs got nothing, and why
    statistics: dict[str, float] = field(default_factory=dict)  #: HTCondor's LastNegotiationCycle*, without that prefix
    offset: int = 0  #: the pool's offset from UTC in seconds, for expressions that ask for local times
    rules: int = 0  #: the way in which cycles are decided, as a number: one of another version is not taken again
    negotiator: str = ""  #: of several negotiators: whose cycle it is (empty: NEGOTIATOR's)
    regrouped: tuple[str, ...] = ()  #: of `matches` the jobs whose submitters negotiated by autoregroup, as 12.3
    remainders: tuple[str, ...] = ()  #: the accounting groups that got whole slots out of the fractions of quotas


@frozen
class GroupQuota:
    """What an accounting group may have, in cores."""

    name: str  #: the group, as GROUP_NAMES has it
    quota: float  #: what its own submitters may have, without what other groups leave
    subtree: float  #: the same with its subgroups'


@event("quotas.assigned")
class QuotasAssigned(Event, frozen=True):
    """A cycle divided the pool's cores among the accounting groups, otherwise than the last one."""

    stream: ClassVar[str] = "negotiator"
    total: float  #: the cores that were divided
    groups: tuple[GroupQuota, ...]  #: all groups, breadth first; the first is that of those in none


@event("match.voided")
class MatchVoided(SlotEvent, frozen=True):
    """A match that will not be claimed."""

    job: str  #: the job that it was made for, as 12.3
