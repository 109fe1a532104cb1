"""Jobs: their submission, their life, their processes."""

from __future__ import annotations

from ..late_attrs import Factory, frozen
from .base import Ad, ClusterEvent, Procs, event


@event("cluster.submitted")
@frozen
class ClusterSubmitted(ClusterEvent):
    """Jobs were submitted, alike but for ``columns``."""

    submitter: str  #: the submitter's name, as alice@example.org
    ad: Ad  #: what the ads of all of them say
    count: int  #: how many jobs
    columns: tuple[bytes, ...]  #: what differs between them (`domain/state/proc_ads.py` packs and unpacks it)
    status: str  #: in which status they begin: Idle or Held
    factor: float = 0.0  #: the priority factor of a submitter that is new (0: it is not, or the log is older)


@event("jobs.moved")
@frozen
class JobsTransitioned(ClusterEvent):
    """A transition of each of these jobs; its ``target`` is Left for those that leave the queue."""

    procs: Procs  #: their process numbers, in ranges
    row: str  #: the row of the table of jobs
    source: str  #: the status before
    target: str  #: the status from here on
    changes: Ad  #: what changes in the ad of each of them
    evidence: int = 0  #: where the log has what decided it (0: nothing had to be read)
    left: bool = False  #: in logs of format 1: jobs that became Removed, and of which nothing ran, left with this event
    reasons_kept: bool = False  #: whether their ads count holds and keep former reasons (in older logs they do not)


@event("jobs.edited")
@frozen
class JobsEdited(ClusterEvent):
    """Somebody changed attributes of these jobs."""

    procs: Procs  #: their process numbers, in ranges
    changes: Ad  #: what their ads say from here on


@event("job.activated")
@frozen
class JobActivated(ClusterEvent):
    """A claim was activated for the job, which is Running from here on. The position of this event in the log is the
    activation's key: by it the processes are found again."""

    proc: int  #: the job's process number
    slot: str  #: where it runs; local@ and the name of the pool for the local universe
    claim: str  #: the claim's id; empty for the local universe, which has none
    vacate: int = 0  #: microseconds of MachineMaxVacateTime that it was promised (0: what the pool's setting says)
    provides: Ad = Factory(dict)  #: of the slot: Cpus, Memory, Disk, GPUs, SlotWeight (empty: an older log, or no slot)
    expanded: Ad = Factory(dict)  #: what its ad keeps of each $$() that the slot filled in


@event("job.began")
@frozen
class JobExecuting(ClusterEvent):
    """The job's own process runs."""

    proc: int  #: the job's process number
    pid: int  #: the number of its process (0: it ran, and ended before anybody could tell)
    scratch: str  #: its scratch folder
    began: int = 0  #: when it was started, in microseconds, if earlier than `at` (else 0)


@event("job.measured")
@frozen
class JobMeasured(ClusterEvent):
    """What the job uses."""

    proc: int  #: the job's process number
    image: int  #: virtual memory in KiB
    resident: int  #: real memory in KiB
    disk: int  #: scratch folder in KiB
    user_cpu: int  #: user's time on processors, in microseconds
    system_cpu: int  #: system's time on processors, in microseconds


@event("job.signalled")
@frozen
class JobSignalled(ClusterEvent):
    """The job's processes were told to end."""

    proc: int  #: the job's process number
    how: str  #: soft (by its kill signal) or hard (at once)
    until: int = 0  #: when they are told so again, harder, in microseconds (0: by the pool's settings)


@event("job.exited")
@frozen
class JobExited(ClusterEvent):
    """All processes of an activation are gone. ``row``, ``source`` and ``target`` are empty if no transition of the job
    follows: one that was held or removed meanwhile stays so."""

    proc: int  #: the job's process number
    slot: str  #: where it ran
    key: str  #: the activation: the position of its `JobActivated`
    outcome: str  #: exited, evicted, failed or lost
    row: str  #: the row of the table of jobs by which it goes on
    target: str  #: its status from here on
    changes: Ad  #: what changes in its ad
    code: int | None = None  #: the exit code of the job's own process (None: a signal ended it, or nothing is known)
    signal: int | None = None  #: the signal that ended the job's own process (None: none did)
    user_cpu: int = 0  #: user's time on processors, in microseconds
    system_cpu: int = 0  #: system's time on processors, in microseconds
    resident: int = 0  #: real memory at most, in KiB
    disk: int = 0  #: scratch folder at most, in KiB
    ended: int = 0  #: when the job's own process ended, in microseconds, if earlier than `at` (else 0)
    source: str = ""  #: its status before
    evidence: int = 0  #: where the log has what the job's own policy read (0: nothing had to be read)
    left: bool = False  #: in logs of format 1: a job that was Completed or Removed then left the queue with this event
    reasons_kept: bool = False  #: whether its ad counts a hold by its reason (in older logs it does not)
