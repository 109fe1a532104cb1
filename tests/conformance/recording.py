"""The records of a real pool's negotiator: its input, and its decisions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from attrs import Factory, frozen

from poolbook.domain.events import ClusterSubmitted, Event

VARIOUS: Final = "various_dSlot_users"
"""The name in the negotiator's log for the submitter of a match that preempts the resources of dynamic slots."""


def clock(at: int) -> str:
    """Return the time of day of an instant."""
    return f"{datetime.fromtimestamp(at // 1_000_000, UTC):%H:%M:%S}"


class CountedClaim(NamedTuple):
    """A slot's submitter, as the accountant counts it. ``weight`` is in thousandths."""

    slot: str
    submitter: str
    weight: int


@frozen
class RecordedMatch:
    """A match, logged or decided again. ``preempting`` is the submitter that it preempts ("": none), ``job`` the first
    job of the autocluster."""

    at: int
    submitter: str
    slot: str
    preempting: str
    job: str


@frozen
class RecordedCycle:
    """A cycle of the real negotiator, at the instant of its priority update. ``asked`` are the submitters asked for
    jobs, ``requested`` the jobs offered, ``usage`` the cores logged for a submitter when its turn began, ``effective``
    its priority. ``whole``: the log of the cycle is complete. ``after``: the previous cycle (0: unknown); ``until``:
    the latest end of the accounting; ``ended``: the cycle's end (0: unknown). ``doubts`` are contradictions of the
    matches in the negotiator's own logs. ``refused`` has, from these logs, the reasons why a submitter's requests were
    rejected, ``again`` how many jobs of a cluster were offered again after their match in the same cycle, ``demand``
    the cores that each accounting group requested, by the submitters' ads."""

    at: int
    matches: tuple[RecordedMatch, ...] = ()
    asked: tuple[str, ...] = ()
    requested: frozenset[str] = frozenset()
    usage: Mapping[str, float] = Factory(dict)
    effective: Mapping[str, float] = Factory(dict)
    whole: bool = True
    after: int = 0
    until: int = 0
    ended: int = 0
    doubts: tuple[str, ...] = ()
    refused: Mapping[str, frozenset[str]] = Factory(dict)
    again: Mapping[int, int] = Factory(dict)
    demand: Mapping[str, float] = Factory(dict)


@frozen
class RecordedAccounting:
    """The accountant's log of a cycle: all counted claims and matches, and the changed real priorities and usages
    (seconds). ``after``: the previous cycle (0: unknown); ``since``: the instant from which the claims count."""

    at: int
    claims: tuple[CountedClaim, ...]
    priorities: Mapping[str, float]
    usage: Mapping[str, float]
    after: int = 0
    since: int = 0


@frozen
class KnownAccount:
    """A submitter's account: real priority, set factor (0: none), weighted usage in seconds."""

    submitter: str
    real: float
    factor: float
    usage: float


@frozen
class UserprioSample:
    """A submitter's line of condor_userprio as of ``at``, in the file ``where``."""

    at: int
    where: str
    submitter: str
    effective: float
    factor: float
    usage: float


@frozen
class JobMove:
    """A job's status from an instant on: Completed however it ended, Running once a claim on ``slot`` is requested."""

    at: int
    proc: int
    status: str
    slot: str = ""


@frozen
class RecordedSubmission:
    """A submission, and the moves of its jobs, in order."""

    event: ClusterSubmitted
    moves: tuple[JobMove, ...] = ()


@frozen
class NegotiatorRecording:
    """A folder's records. ``pool`` is the events of a Poolbook pool whose machines had the same events, ``settings``
    those of the negotiator and its submitters, ``queue`` the submissions. ``known`` are the accounts at ``began`` (0:
    unknown until the first sample). ``lost`` counts cycles whose beginning is not logged; ``left_out`` are submissions
    not in the queue, with the reasons."""

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
