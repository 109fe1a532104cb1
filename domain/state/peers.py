"""What a role with its own log knows about the logs of the roles elsewhere.

A peer's name is its role, and the name of its schedd or machine: access-point/NAME or execution-point/NAME. A role may
have several managers: manager is its pool's manager that it joined first, and manager/NAME is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct, field

from ..classad.old_form import literal_string
from ..names import JobId, SlotName
from ..units import SECOND
from .pool_settings import listed_names

MANAGER: Final = "manager"
ACCESS_POINT: Final = "access-point"
EXECUTION_POINT: Final = "execution-point"
UNAVAILABLE_FOR: Final = 5 * SECOND
"""How long a job whose match was void, although it is idle, is not matched again, in microseconds."""
FULL: Final = "jobs_limit"  #: the cause of a match's end if the access point runs as many jobs as it may
MOST_POSITIONS: Final = 1000  #: of each of the two lists of an outbox
ROLES: Final = (MANAGER, ACCESS_POINT, EXECUTION_POINT)


def peer_name(role: str, name: str) -> str:
    """Return the name of a role: for the manager, its role alone."""
    return role if role == MANAGER else f"{role}/{name}"


def role_of(peer: str) -> str:
    return peer.partition("/")[0]


def outbox_of(peer: str) -> str:
    """Return the name of the outbox that a peer reads. All managers read the same one, since each records in its own
    log how far it has read."""
    return MANAGER if role_of(peer) == MANAGER else peer


def peer_of_slot(slot: str) -> str:
    """Return the execution point that has a slot."""
    return f"{EXECUTION_POINT}/{SlotName.parse(slot).machine}"


def may_flock(settings: Mapping[str, str], access_point: str) -> bool:
    """Return True if FLOCK_FROM of a manager, if set, lists an access point of another pool."""
    name, allowed = access_point.partition("/")[2].lower(), listed_names(settings, "FLOCK_FROM")
    return not allowed or any(fnmatchcase(name, pattern.lower()) for pattern in allowed)


class Outbox(Struct):
    """The outbox for a peer. It may have millions of entries (`events.Sent`), so the positions of only some
    are known: the last entries, and equally distant ones between which the log must be searched."""

    version: int = 0  #: of the last entry
    digest: str = ""  #: the SHA-256 of all entries
    last: list[int] = field(default_factory=list)  #: the positions of the last entries
    marks: list[int] = field(default_factory=list)  #: the positions of the entries 1, 1 + stride, 1 + 2 * stride ...
    stride: int = 1

    def add(self, position: int, digest: str) -> None:
        """Add an entry."""
        if self.version % self.stride == 0:
            self.marks.append(position)
        if len(self.marks) > MOST_POSITIONS:
            self.marks, self.stride = self.marks[::2], 2 * self.stride
        self.last.append(position)
        if len(self.last) > MOST_POSITIONS:
            del self.last[: MOST_POSITIONS // 2]
        self.version, self.digest = self.version + 1, digest

    def position_before(self, version: int) -> int:
        """Return the position of an entry, or of one before it if its own is not known."""
        index = version - 1 - (self.version - len(self.last))
        return self.last[index] if index >= 0 else self.marks[(version - 1) // self.stride]


class FollowedPeer(Struct):
    """A peer, and how far its outbox was read."""

    log: str
    epoch: int
    version: int
    digest: str
    number: int  #: of an access point: from 1, in the order in which they were first read (``sent_forms.numbered``)


class Flocking(Struct):
    """To which managers in FLOCK_TO an access point offers the jobs of a submitter."""

    level: int
    managers: tuple[str, ...]
    since: int  #: when that changed last, in microseconds
    by_default: bool = True  #: FLOCK_BY_DEFAULT

    def includes(self, manager: str, flock_to: str) -> bool:
        """Return True if a manager may match a job with this text of FlockTo. Source: Scheduler::JobCanFlock; as where
        HTCondor counts idle jobs, the name ``default`` stands for all managers in FLOCK_TO."""
        if manager not in self.managers[: self.level]:
            return False
        if self.by_default:
            return True
        names = (literal_string(flock_to) or "").lower().replace(",", " ").split() if flock_to else ()
        return manager.lower() in names or "default" in names


class Peers(Struct):
    """The peers of a role."""

    outboxes: dict[str, Outbox] = field(default_factory=dict)
    followed: dict[str, FollowedPeer] = field(default_factory=dict)
    numbered: int = 0  #: how many access points have a number
    rejected: dict[str, str] = field(default_factory=dict)  #: why the last entries of a peer were rejected
    shown: dict[str, dict[str, str]] = field(default_factory=dict)
    """The slots that access points with separate logs have claims on: the claims' ids, each with its holder. A claim
    that has ended remains until its holder was sent the end."""
    full: set[int] = field(default_factory=set)
    """The numbers of access points that have not ended a job since they ran as many as MAX_JOBS_RUNNING allows."""
    unavailable: dict[JobId, int] = field(default_factory=dict)
    """The jobs whose match was just void at their access point, and when: their last run may not have ended there."""
    flocking: dict[str, Flocking] = field(default_factory=dict)  #: of an access point's submitters
    flocked: dict[str, str] = field(default_factory=dict)
    """The machines in the pools of managers in FLOCK_TO, each with its manager."""
    offered: dict[int, dict[str, Flocking]] = field(default_factory=dict)
    """The access points of other pools, by number, each with the submitters whose jobs this manager may match."""
    lapsed: list[tuple[str, str]] = field(default_factory=list)  #: the ended claims in ``shown``: slot and id
