"""What roles of one pool send each other within a decision (``decision.draft.Draft.send``).

A role affects another in no other way. The receiver's rule decides and writes the events that answer; the sender goes
by what it returns. Of claims and slots the messages are the stimuli of the same meaning (``stimuli.SlotMessage``): the
pool's own access point and one from outside ask for the same. Here is what only roles of one pool say.
docs/architecture.md has the table of senders, receivers and answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

from ..classad import ClassAd
from ..events import Ad
from ..requests.autoclusters import SignificantAttributes
from ..state_machines.hold_codes import Why

Answer = TypeVar("Answer")


class Message(Struct, Generic[Answer], frozen=True):
    """What a role sends to another, which answers with an ``Answer``."""


# To the execution point, of a slot


class SlotSeen(NamedTuple):
    """A slot as its startd shows it to the holder of its claim."""

    state_activity: str
    kind: str
    parent: str
    ad: Mapping[str, str]  #: its own ad, without what the moment makes of it
    version: int  #: another one when that has changed
    starts_jobs: bool  #: whether its machine is not shut down


class ShowSlot(Message[SlotSeen | None], frozen=True):
    """Show a slot; None: there is none of the name."""

    slot: str


class ShowAd(Message[ClassAd], frozen=True):
    """Give the slot's ad at this moment as a match sees it, with the attributes ``also`` (in small letters)."""

    slot: str
    also: frozenset[str]


class DropMatch(Message[None], frozen=True):
    """The match of a slot with a job, as 12.3, will not be claimed: the job no longer waits."""

    slot: str
    job: str
    cause: str


class VacateClaim(Message[bool], frozen=True):
    """End the claim, and its job, softly or at once. The answer says whether there is anything to end."""

    slot: str
    fast: bool
    cause: str


class PauseJob(Message[bool], frozen=True):
    """Suspend the job that runs until a request continues it, or continue it (``resume``); False: it is not to be."""

    slot: str
    resume: bool


class EndJob(Message[str], frozen=True):
    """The last process of the slot's job is gone: its access point is about to log that. The answer is the cause for
    which its claim was about to end; empty: it was not, or for no reason of its own."""

    slot: str


# To the access point


class JobPaused(Message[None], frozen=True):
    """A slot's job was suspended or continued: ``row`` of the job's table, from the status ``source``."""

    cluster: int
    proc: int
    row: str
    source: str
    cause: str
    evidence: int = 0


class HoldJob(Message[Ad | None], frozen=True):
    """PREEMPT evicts a job whose WANT_HOLD is true: hold it. The answer is None if it was held or does not run; else
    what its ad will record about the eviction: the job may be spared the hold when it ends, and is only signalled."""

    cluster: int
    proc: int
    why: Why


# To the execution point, of machines


class ShowHost(Message[Ad], frozen=True):
    """Show the machine on which the pool is, the one with its name or else the first, with the ad of its first slot."""


class SensorsSay(Message[bool], frozen=True):
    """Does any machine's sensor say anything?"""


class PublishReadings(Message[None], frozen=True):
    """Publish what the machines' sensors say now of these attributes (in small letters), where they have not been
    published before: a cycle is about to read them. ``touched``: the machines of which something has changed since the
    last cycle."""

    names: frozenset[str]
    touched: frozenset[str]


class BeginDrain(Message[None], frozen=True):
    """Drain a machine for the defragmentation (``DrainBegan`` explains the fields)."""

    machine: str
    schedule: str
    reason: str
    completion: str
    start: str


class EndDrain(Message[None], frozen=True):
    """Cancel the drain of a machine for the defragmentation."""

    machine: str


# To the negotiator


class TellLikeness(Message[SignificantAttributes], frozen=True):
    """Tell which attributes of jobs count for whether they are alike: it follows from what slots and the negotiator
    read of jobs."""


class OpenAccount(Message[float], frozen=True):
    """A job is submitted or claims a slot for this submitter. The answer is the priority factor with which its account
    begins; 0 if it has one already."""

    submitter: str
    negotiator: str = ""  #: in whose accounting, by the name of one of several negotiators
