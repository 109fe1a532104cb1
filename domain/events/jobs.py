"""Jobs: their submission, their life, their processes."""

from __future__ import annotations

from attrs import frozen

from .base import Ad, ClusterEvent, Procs


@frozen
class ClusterSubmitted(ClusterEvent):
    """``count`` jobs, alike but for ``columns`` (``domain/variants.py`` packs and unpacks them)."""

    submitter: str
    ad: Ad
    count: int
    columns: tuple[bytes, ...]
    status: str


@frozen
class JobsMoved(ClusterEvent):
    """A transition of each of these jobs, by a row of the job table; ``changes`` are the same for all of them.
    ``target`` is Left for those that leave the queue. ``evidence``: where the log has what decided it (0: nothing had
    to be read). ``left``: only in logs of format 1, where jobs that became Removed and of which nothing ran left the
    queue with this event."""

    procs: Procs
    row: str
    source: str
    target: str
    changes: Ad
    evidence: int = 0
    left: bool = False


@frozen
class JobsEdited(ClusterEvent):
    procs: Procs
    changes: Ad


@frozen
class JobActivated(ClusterEvent):
    """A claim was activated for the job, which is Running from here on. A job of the local universe has no claim, and
    "local@" and the pool's name for its slot. The position of this event in the log is the
    activation's key: by it the processes are found again. ``vacate``: the microseconds of MachineMaxVacateTime
    that it was promised (0: what the pool's setting says)."""

    proc: int
    slot: str
    claim: str
    vacate: int = 0


@frozen
class JobExecuting(ClusterEvent):
    """The job's own process runs (``pid`` 0: it did, and ended before anybody could tell). ``began``: when it was
    started, if earlier than ``at``."""

    proc: int
    pid: int
    scratch: str
    began: int = 0


@frozen
class JobMeasured(ClusterEvent):
    """Memory in KiB (``image`` virtual, ``resident`` real), scratch ``disk`` in KiB, CPU times in microseconds."""

    proc: int
    image: int
    resident: int
    disk: int
    user_cpu: int
    system_cpu: int


@frozen
class JobSignalled(ClusterEvent):
    """The job's processes were told to end: ``soft`` by its kill signal, ``hard`` at once. ``until``: when they are
    told so again, harder, if they have not (0: by the pool's settings)."""

    proc: int
    how: str
    until: int = 0


@frozen
class JobExited(ClusterEvent):
    """All processes of the activation ``key`` are gone. ``outcome``: exited, evicted, failed or lost. ``source``,
    ``row`` and ``target`` are the job's transition that follows (empty if there is none: a job that was held or removed
    meanwhile stays so). ``code`` or ``signal`` is how the job's own process ended, ``ended`` when that was, if earlier
    than ``at``. CPU times in microseconds, memory and disk in KiB. ``evidence``: where the log has the expression of
    the job's own policy that decided the row (0: nothing had to be read). ``left``: only in logs of format 1, where a
    job that was Completed or Removed then left the queue with this event."""

    proc: int
    slot: str
    key: str
    outcome: str
    row: str
    target: str
    changes: Ad
    code: int | None = None
    signal: int | None = None
    user_cpu: int = 0
    system_cpu: int = 0
    resident: int = 0
    disk: int = 0
    ended: int = 0
    source: str = ""
    evidence: int = 0
    left: bool = False
