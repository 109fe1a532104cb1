"""Events of a role with its own log: what it sends to the roles elsewhere, and what it has read from them."""

from __future__ import annotations

from .base import Ad, ClusterEvent, Event, MachineEvent, SlotEvent, event


class PeerEvent(Event, frozen=True):
    """An event about another role's log. Its name is manager, manager/NAME, access-point/NAME or
    execution-point/NAME."""

    peer: str  #: the other role's name

    @property
    def stream(self) -> str:
        return f"peer/{self.peer}"


@event("peer.sent")
class Sent(PeerEvent, frozen=True):
    """An entry of the outbox for a peer: events of this log that concern the peer, in the form in which it reads
    them."""

    version: int  #: the number of the entry in this outbox, from 1
    positions: tuple[int, ...]  #: the positions of the events
    digest: str  #: the SHA-256 of the outbox up to this entry


@event("peer.followed")
class Followed(PeerEvent, frozen=True):
    """The outbox of a peer was read up to an entry. The same append contains all that results from these entries."""

    log: str  #: the id of the peer's log
    epoch: int  #: the peer's epoch (`WriterBegan`)
    version: int  #: the last entry read
    digest: str  #: the SHA-256 of the outbox up to that entry


@event("peer.rejected")
class PeerRejected(PeerEvent, frozen=True):
    """What a peer sent was rejected: it contradicts what was read from it before, or concerns what is not its own."""

    log: str  #: the id of the peer's log
    reason: str  #: why


@event("peer.commanded")
class PeerCommanded(PeerEvent, frozen=True):
    """The manager sent an execution point a command about its machine or one of its slots."""

    command: str  #: its kind: BeginDrain, EndDrain, BeginShutdown, VacateClaim or PauseJob
    fields: str  #: its fields as JSON


@event("claim.requested")
class ClaimRequested(SlotEvent, frozen=True):
    """The access point requested the slot of an execution point with a separate log, for a matched job."""

    claim: str  #: the claim's id
    submitter: str  #: the submitter, such as alice@example.org
    job: str  #: the matched job, such as 12.3
    ad: Ad  #: the job's ad
    preempts: tuple[str, ...] = ()  #: the dynamic slots to preempt for the claim
    limits: str = ""  #: the concurrency limits of the match
    negotiator: str = ""  #: the negotiator that made the match, if there are several (empty: NEGOTIATOR)
    reason: str = ""  #: why the match preempts the slot's current claim: rank or priority (empty: the slot has none)


@event("claim.granted")
class ClaimGranted(SlotEvent, frozen=True):
    """The execution point accepted an access point's claim request, and shows it the slot."""

    claim: str  #: the claim's id
    holder: str  #: the access point
    machine: str  #: the slot's machine
    kind: str  #: static or dynamic
    state_activity: str  #: the slot's state/activity, such as Claimed/Idle
    ad: Ad  #: the slot's published ad
    weight: int  #: the slot's weight in thousandths
    rank: float  #: the value of RANK for the job
    lease: int  #: the seconds of silence after which the claim ends, unless the job has a JobLeaseDuration


@event("claim.rejected")
class ClaimRejected(SlotEvent, frozen=True):
    """The execution point rejected an access point's claim request, or a job for a claim that has ended."""

    claim: str  #: the claim's id
    holder: str  #: the access point
    reason: str  #: why


@event("claim.commanded")
class ClaimCommanded(SlotEvent, frozen=True):
    """The access point sent the execution point a command about its claim or its claim request."""

    claim: str  #: the claim's id
    command: str  #: vacate, vacate_fast, suspend, continue, release, or withdraw (the request)


@event("match.notified")
class MatchNotified(SlotEvent, frozen=True):
    """The manager notified the execution point that the slot is matched."""

    job: str  #: the matched job, by its id in the manager's log
    part: str  #: the dynamic slot to carve from the slot (empty: none)
    ad: Ad  #: the ad of the job to carve it for (empty: none is carved)
    preempts: tuple[str, ...] = ()  #: the dynamic slots to preempt for it


@event("match.taken")
class MatchTaken(SlotEvent, frozen=True):
    """An access point with a separate log has started the matched job, so the match is over."""

    job: str  #: the job, such as 12.3


@event("flocking.changed")
class FlockingChanged(Event, frozen=True):
    """The access point offers the jobs of a submitter to more or fewer of the managers in FLOCK_TO."""

    peer: str  #: the access point, such as access-point/NAME
    submitter: str  #: the submitter, such as alice@example.org
    level: int  #: how many of these managers may match the submitter's jobs; the manager of its own pool always may
    managers: tuple[str, ...]  #: the names of the managers in FLOCK_TO, in order
    by_default: bool = True  #: FLOCK_BY_DEFAULT: if it is false, a manager may match only jobs whose FlockTo names it

    @property
    def stream(self) -> str:
        return f"submitter/{self.submitter}"


@event("job.disconnected")
class JobDisconnected(ClusterEvent, frozen=True):
    """The execution point of a running job is silent."""

    proc: int  #: the job's process number
    until: int  #: when the claim's lease expires, in microseconds


@event("job.reconnected")
class JobReconnected(ClusterEvent, frozen=True):
    """The execution point of a disconnected job answers again, and the job still runs."""

    proc: int  #: the job's process number


@event("machine.expired")
class MachineExpired(MachineEvent, frozen=True):
    """The machine's execution point does not answer, or answers again. The slots of an expired machine are not
    matched."""

    expired: bool  #: False: it answers again
    gone: bool = False  #: whether its ads are gone (CLASSAD_LIFETIME); False: only an access point did not reach it


@event("slot.absent")
class SlotAbsent(SlotEvent, frozen=True):
    """The ad of a slot is gone, and the collector keeps it: as an offline ad if Offline is true in it, or else as an
    absent ad, because ABSENT_REQUIREMENTS is true for it. It is dropped when the machine is heard again, or joins."""

    machine: str  #: the slot's machine
    ad: Ad  #: the ad, as it was last published
    until: int  #: when it is forgotten, in microseconds


@event("slot.offline_matched")
class OfflineMatched(SlotEvent, frozen=True):
    """The negotiator has a job for the slot of an offline machine. The job stays idle; the slot's offline ad shows the
    time (MachineLastMatchTime)."""

    job: str  #: the job's id
