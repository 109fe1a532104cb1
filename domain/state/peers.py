"""What a role with its own log knows about the logs of the roles elsewhere.

A peer's name is manager, access-point/NAME or execution-point/NAME: its role, and the name of its schedd or machine.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from ..names import SlotName

MANAGER: Final = "manager"
ACCESS_POINT: Final = "access-point"
EXECUTION_POINT: Final = "execution-point"
JOBS_PER_ACCESS_POINT: Final = 1_000_000_000
"""In the manager's log, this number times the access point's number is added to its cluster numbers."""
FULL: Final = "jobs_limit"  #: the cause of a match's end if the access point runs as many jobs as it may
ROLES: Final = (MANAGER, ACCESS_POINT, EXECUTION_POINT)


def peer_name(role: str, name: str) -> str:
    """Return the name of a role: for the manager, its role alone."""
    return role if role == MANAGER else f"{role}/{name}"


def role_of(peer: str) -> str:
    return peer.partition("/")[0]


def peer_of_slot(slot: str) -> str:
    """Return the execution point that has a slot."""
    return f"{EXECUTION_POINT}/{SlotName.parse(slot).machine}"


class Outbox(Struct):
    """The outbox for a peer."""

    positions: list[int] = field(default_factory=list)  #: the positions of the entries (`events.Sent`), by version - 1
    digest: str = ""  #: the SHA-256 of all entries


class FollowedPeer(Struct):
    """A peer, and how far its outbox was read."""

    log: str
    epoch: int
    version: int
    digest: str
    number: int  #: of an access point: from 1, in the order in which they were first read (``sent_forms.numbered``)


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
    lapsed: list[tuple[str, str]] = field(default_factory=list)  #: the ended claims in ``shown``: slot and id
