"""Events of the pool: its settings, writers, requests and matchmaking."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from .base import Event, SlotEvent, event


class Clause(Struct, frozen=True):
    """A condition of a Requirements expression, and how many slots satisfy it."""

    text: str  #: the condition
    alone: int  #: the number of slots that satisfy it
    left: int  #: the number of slots that satisfy it and all earlier conditions


class Match(Struct, frozen=True):
    """A match made by a cycle: the job may claim the slot."""

    job: str  #: the job, such as 12.3
    slot: str  #: the slot's name; from a partitionable slot, the claim carves a dynamic slot
    rank: float = 0.0  #: the job's Rank of the slot
    reason: str = ""  #: why the current claim is preempted: rank (RANK prefers the job) or priority; empty: no claim
    pre: float = 0.0  #: NEGOTIATOR_PRE_JOB_RANK
    post: float = 0.0  #: NEGOTIATOR_POST_JOB_RANK
    preemption: float = 0.0  #: PREEMPTION_RANK
    limits: str = ""  #: the job's ConcurrencyLimits for this slot, which are in use from now on
    preempts: tuple[str, ...] = ()  #: dynamic slots whose resources it takes; their claims end immediately


class Denied(Struct, frozen=True):
    """The number of claimed slots that accept the job but may not be preempted for it, by reason."""

    policy: int = 0  #: PREEMPTION_REQUIREMENTS was not true
    rank: int = 0  #: the slot prefers its current job
    priority: int = 0  #: the current submitter's priority is not worse than that of the job's submitter
    own: int = 0  #: the job's submitter already has the slot
    never: int = 0  #: preemption is disabled


class ReachedLimit(Struct, frozen=True):
    """A concurrency limit that prevented a match."""

    name: str  #: the limit's name, in lower case
    used: float  #: units in use
    most: float  #: the maximum number of units
    wanted: float  #: units that each job needs


class Unmatched(Struct, frozen=True):
    """Why a cycle found no match for the jobs of an autocluster."""

    job: str  #: the first of these jobs, such as 12.3
    jobs: int  #: the number of jobs
    slots: int  #: the number of the negotiator's slots, without dynamic ones
    clauses: tuple[Clause, ...]  #: the conditions of the job's Requirements, in order
    refused_by_slot: int = 0  #: slots whose Requirements (START and the resources left) rejected the job
    taken: int = 0  #: matching slots that were not free, such as those given to earlier jobs
    submitter: str = ""  #: the submitter's name
    denied: Denied | None = None  #: claimed slots that may not be preempted (None: not considered)
    limit: str = ""  #: another reason: concurrency, share (used up), ceiling, matches, running or quota
    allowed: float = 0.0  #: cores that the submitter or its group may have under `limit`
    used: float = 0.0  #: cores that the submitter or its group has
    reached: tuple[ReachedLimit, ...] = ()  #: the concurrency limits that were reached, for one or all slots
    group: str = ""  #: the accounting group whose quota was reached


@event("pool.founded")
class PoolFounded(Event, frozen=True):
    """The first event of every log."""

    stream: ClassVar[str] = "pool"
    name: str  #: the pool's name
    dialect: str  #: manual or htcondor-25; determines the transition tables
    uid_domain: str  #: UID_DOMAIN, the domain of users after the @
    version: str  #: the version of Poolbook that created the log
    settings: dict[str, str]  #: HTCondor's names -> texts; other settings have their default values
    log: str = ""  #: the log's id, 16 hexadecimal digits (empty: the first digits of the first append's digest)
    roles: tuple[str, ...] = ()  #: the roles that act in this log: manager, access-point, execution-point (empty: all)


@event("writer.began")
class WriterBegan(Event, frozen=True):
    """A process started to serve the log. Appends by earlier writers now fail."""

    stream: ClassVar[str] = "pool"
    epoch: int  #: the number of the writer, from 1
    writer: str  #: the process: host and directory


@event("request.answered")
class RequestAnswered(Event, frozen=True):
    """A request and its answer. A repeated request with the same id receives the same answer."""

    stream: ClassVar[str] = "requests"
    user: str  #: the user who sent the request
    request: str  #: the name of the request, such as hold
    arguments: str  #: its arguments
    answer: str  #: the answer (JSON)


@event("requests.rejected")
class RequestsRejected(Event, frozen=True):
    """Requests from other machines to the role's HTTPS service were rejected. The first of a sender is recorded at
    once, and further ones for the same reason together within an hour."""

    stream: ClassVar[str] = "requests"
    address: str  #: the sender's address; empty: several senders, of whom there are too many to record each
    sender: str  #: the user or role that sent them, as far as it is known
    reason: str  #: for programs: expired, level, name, rate, size ...
    text: str  #: what the sender received as the answer to the first
    count: int  #: the number of requests
    since: int  #: when the first was rejected, in microseconds


@event("evaluation")
class EvaluationRecorded(Event, frozen=True):
    """The evidence for a decision: an expression, its value and what it read. It is logged once per stimulus."""

    stream: ClassVar[str] = "evidence"
    name: str  #: the name of the expression, such as START
    expression: str  #: its text
    value: str  #: its value
    read: dict[str, str]  #: the attributes it read -> their values (with `MY.` or `TARGET.`)


@event("pool.configured")
class PoolConfigured(Event, frozen=True):
    """The negotiator reread its configuration."""

    stream: ClassVar[str] = "pool"
    settings: dict[str, str]  #: changed settings (empty text: back to the default)


@event("schedd.published")
class ScheddPublished(Event, frozen=True):
    """The programs of SCHEDD_CRON printed other attributes for the schedd's ad than before."""

    stream: ClassVar[str] = "schedd"
    attributes: dict[str, str]  #: all attributes of the programs' last records, as expressions


@event("cycle.held")
class CycleHeld(Event, frozen=True):
    """A negotiation cycle and its decisions. Rejections are included only if they differ from the last ones logged for
    the same jobs."""

    stream: ClassVar[str] = "negotiator"
    matches: tuple[Match, ...]  #: the matches
    unmatched: tuple[Unmatched, ...]  #: the rejected jobs, with reasons
    statistics: dict[str, float] = field(default_factory=dict)  #: HTCondor's LastNegotiationCycle*, without that prefix
    offset: int = 0  #: the pool's offset from UTC in seconds, for expressions that use local time
    rules: int = 0  #: the version of the cycle rules; `verify` repeats only cycles of its own version
    negotiator: str = ""  #: the negotiator, if the pool has several (empty: NEGOTIATOR)
    regrouped: tuple[str, ...] = ()  #: the jobs in `matches` whose submitters negotiated by autoregroup, such as 12.3
    remainders: tuple[str, ...] = ()  #: the accounting groups that received slots from the fractions of quotas
    flocked: str = ""  #: at an access point: the manager in FLOCK_TO with these matches (empty: its own)


class GroupQuota(Struct, frozen=True):
    """The quota of an accounting group, in cores."""

    name: str  #: the group, as in GROUP_NAMES
    quota: float  #: the quota for its own submitters, without surplus from other groups
    subtree: float  #: the quota including its subgroups


@event("quotas.assigned")
class QuotasAssigned(Event, frozen=True):
    """A cycle assigned group quotas that differ from the previous ones."""

    stream: ClassVar[str] = "negotiator"
    total: float  #: the number of cores to divide
    groups: tuple[GroupQuota, ...]  #: all groups, breadth first; the first is for submitters without a group


@event("match.voided")
class MatchVoided(SlotEvent, frozen=True):
    """A match was voided and will not be claimed."""

    job: str  #: the job that was matched, such as 12.3
