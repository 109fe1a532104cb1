"""What the records of a real pool tell of its negotiator: what happened to it, and what it made of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from attrs import Factory, frozen

from ...domain.events import ClusterSubmitted, Event


class CountedClaim(NamedTuple):
    """Who has a slot, as the accountant counts it. ``weight`` is in thousandths."""

    slot: str
    submitter: str
    weight: int


@frozen
class RecordedMatch:
    """A match that the negotiator told of. ``preempting``: whose job has to go for it (empty: nobody's). ``job`` is the
    job that it names, which of jobs that are alike is the first."""

    at: int
    submitter: str
    slot: str
    preempting: str
    job: str


@frozen
class RecordedCycle:
    """A cycle of the real negotiator, at the instant at which it brought the priorities up to date. ``asked`` are the
    submitters whose jobs it asked for, ``requested`` the jobs that it was offered, ``usage`` the cores that it said
    somebody had as it began with him, ``effective`` the priority that it gave him. ``whole``: all that it logged of the
    cycle is there. ``after``: when the cycle before it was (0: that is not known); ``until``: when the accounting was
    over at the latest."""

    at: int
    matches: tuple[RecordedMatch, ...] = ()
    asked: tuple[str, ...] = ()
    requested: frozenset[str] = frozenset()
    usage: Mapping[str, float] = Factory(dict)
    effective: Mapping[str, float] = Factory(dict)
    whole: bool = True
    after: int = 0
    until: int = 0


@frozen
class RecordedAccounting:
    """What the accountant wrote down in a cycle: every claim and match that it counted, and the real priorities and the
    usage in seconds that had changed. ``after``: when the cycle before it was (0: that is not known); ``since``: from
    when on the claims count."""

    at: int
    claims: tuple[CountedClaim, ...]
    priorities: Mapping[str, float]
    usage: Mapping[str, float]
    after: int = 0
    since: int = 0


@frozen
class KnownAccount:
    """Where a submitter's account stood: the real priority, the factor that was set (0: none was), and the weighted
    usage in seconds."""

    submitter: str
    real: float
    factor: float
    usage: float


@frozen
class UserprioSample:
    """What condor_userprio said of a submitter: as of ``at``, in the file ``where``."""

    at: int
    where: str
    submitter: str
    effective: float
    factor: float
    usage: float


@frozen
class JobMove:
    """A job's status from an instant on; it is Completed when it is over, however it ended, and Running as soon as a
    claim on ``slot`` is requested for it."""

    at: int
    proc: int
    status: str
    slot: str = ""


@frozen
class RecordedSubmission:
    """A submission, and what became of its jobs, in order."""

    event: ClusterSubmitted
    moves: tuple[JobMove, ...] = ()


@frozen
class NegotiatorRecording:
    """A folder's records. ``pool`` is what a pool of ours makes of what happened to the real machines, ``settings`` is
    what was set of the negotiator and its submitters, ``queue`` the submissions. ``began`` is the instant at which
    ``known`` says where the accounts stood (0: it is not known until the first sample). ``lost`` counts the cycles of
    which the log has no beginning. ``left_out`` are submissions that are not in the queue, with the reasons."""

    name: str
    pool: tuple[Event, ...]
    settings: tuple[Event, ...]
    queue: tuple[RecordedSubmission, ...]
    cycles: tuple[RecordedCycle, ...]
    counted: Mapping[int, RecordedAccounting]
    samples: tuple[UserprioSample, ...]
    began: int
    known: tuple[KnownAccount, ...]
    lost: int = 0
    left_out: tuple[str, ...] = ()
