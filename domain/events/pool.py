"""Events of the pool: its settings, writers, requests, and matchmaking."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen
from msgspec import field

from .base import Event, SlotEvent, event


@frozen
class Clause:
    """A condition of a Requirements expression, and how many slots satisfy it."""

    text: str  #: the condition
    alone: int  #: slots that satisfy it
    left: int  #: slots that satisfy it and all earlier conditions


@frozen
class Match:
    """A match of a cycle: this job may claim this slot."""

    job: str  #: the job, as 12.3
    slot: str  #: the slot's name; from a partitionable slot, the claim carves a dynamic slot
    rank: float = 0.0  #: the job's Rank of the slot
    reason: str = ""  #: why the current claim is preempted: rank (RANK prefers the job) or priority; empty: no claim
    pre: float = 0.0  #: NEGOTIATOR_PRE_JOB_RANK
    post: float = 0.0  #: NEGOTIATOR_POST_JOB_RANK
    preemption: float = 0.0  #: PREEMPTION_RANK
    limits: str = ""  #: the job's ConcurrencyLimits, evaluated with the slot, which it uses from now on
    preempts: tuple[str, ...] = ()  #: dynamic slots whose resources it takes: their claims end immediately


@frozen
class Denied:
    """How many claimed slots that accept the job it may not preempt, by reason."""

    policy: int = 0  #: PREEMPTION_REQUIREMENTS was not true
    rank: int = 0  #: the slot prefers its current job
    priority: int = 0  #: the current submitter's priority is not worse than that of the job's submitter
    own: int = 0  #: the job's submitter has the slot
    never: int = 0  #: preemption is disabled


@frozen
class ReachedLimit:
    """A concurrency limit that prevented a match."""

    name: str  #: in small letters
    used: float  #: units in use
    most: float  #: units in total
    wanted: float  #: units that each of the jobs needs


@frozen
class Unmatched:
    """Why a cycle found no match for the jobs of an autocluster."""

    job: str  #: the first of them, as 12.3
    jobs: int  #: the number of jobs
    slots: int  #: the number of slots considered
    clauses: tuple[Clause, ...]  #: the conditions of the job's Requirements, in order
    refused_by_slot: int = 0  #: slots whose Requirements rejected the job
    taken: int = 0  #: matching slots that earlier jobs got
    submitter: str = ""  #: the submitter's name
    denied: Denied | None = None  #: claimed slots (None: they were not considered)
    limit: str = ""  #: another reason: concurrency, share (used up), ceiling, matches, running, quota
    allowed: float = 0.0  #: cores that the submitter, or its group, may have under `limit`
    used: float = 0.0  #: cores that the submitter, or its group, has
    reached: tuple[ReachedLimit, ...] = ()  #: the concurrency limits that were reached, for one or all slots
    group: str = ""  #: the accounting group whose quota was reached


@event("pool.founded")
class PoolFounded(Event, frozen=True):
    """The first event of every log."""

    stream: ClassVar[str] = "pool"
    name: str  #: the pool's name
    dialect: str  #: manual or htcondor-25: the tables of transitions in force
    uid_domain: str  #: UID_DOMAIN: the domain of users, after the @
    version: str  #: the version of Poolbook that created the log
    settings: dict[str, str]  #: HTCondor's names -> texts; other settings have their defaults
    log: str = ""  #: the log's id, 16 hexadecimal digits (empty: the first digits of the first append's digest)


@event("writer.began")
class WriterBegan(Event, frozen=True):
    """A process began to serve the log: the appends of earlier writers now fail."""

    stream: ClassVar[str] = "pool"
    epoch: int  #: the writer's number, from 1
    writer: str  #: the process: host and folder


@event("request.answered")
class RequestAnswered(Event, frozen=True):
    """A request and its answer, which a repeated request with the same id gets again."""

    stream: ClassVar[str] = "requests"
    user: str  #: the user who sent it
    request: str  #: the request, as hold
    arguments: str  #: its arguments
    answer: str  #: the answer (JSON)


@event("evaluation")
class EvaluationRecorded(Event, frozen=True):
    """An expression that decided something. It is recorded once per stimulus, even if it decided about several slots or
    jobs."""

    stream: ClassVar[str] = "evidence"
    name: str  #: its name, as START
    expression: str  #: its text
    value: str  #: its value
    read: dict[str, str]  #: the attributes that it read -> their values (with `MY.` or `TARGET.`)


@event("pool.configured")
class PoolConfigured(Event, frozen=True):
    """The negotiator read its configuration again."""

    stream: ClassVar[str] = "pool"
    settings: dict[str, str]  #: changed settings (an empty text: the default)


@event("cycle.held")
class CycleHeld(Event, frozen=True):
    """A negotiation cycle and its decisions. It includes rejections only if they differ from the last ones in the log
    for the same jobs."""

    stream: ClassVar[str] = "negotiator"
    matches: tuple[Match, ...]  #: the matches
    unmatched: tuple[Unmatched, ...]  #: the rejected jobs, and why
    statistics: dict[str, float] = field(default_factory=dict)  #: HTCondor's LastNegotiationCycle*, without that prefix
    offset: int = 0  #: the pool's offset from UTC in seconds, for expressions with local times
    rules: int = 0  #: the version of the rules for cycles: `verify` repeats only cycles of the current version
    negotiator: str = ""  #: the negotiator, if there are several (empty: NEGOTIATOR)
    regrouped: tuple[str, ...] = ()  #: the jobs in `matches` whose submitters negotiated by autoregroup, as 12.3
    remainders: tuple[str, ...] = ()  #: the accounting groups that got slots from the fractions of quotas


@frozen
class GroupQuota:
    """The quota of an accounting group, in cores."""

    name: str  #: the group, as in GROUP_NAMES
    quota: float  #: the quota of the group's submitters, without surplus from other groups
    subtree: float  #: the quota including its subgroups


@event("quotas.assigned")
class QuotasAssigned(Event, frozen=True):
    """A cycle assigned group quotas that differ from the previous ones."""

    stream: ClassVar[str] = "negotiator"
    total: float  #: the cores to divide
    groups: tuple[GroupQuota, ...]  #: all groups, breadth first; the first one is for submitters without a group


@event("match.voided")
class MatchVoided(SlotEvent, frozen=True):
    """A match was voided and will not be claimed."""

    job: str  #: the job that it was made for, as 12.3
