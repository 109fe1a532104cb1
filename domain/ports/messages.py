"""Messages between the roles of one pool, within a decision (``decision.draft.Draft.send``).

Roles affect each other only through messages. The receiver's rule emits events and returns an answer. Messages about
claims are stimuli (``stimuli.SlotMessage``), because access points outside the pool send them, too; this module has
the messages that only roles of one pool send. docs/architecture.md lists senders, receivers and answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

from ..classad import ClassAd
from ..events import Ad
from ..requests.autoclusters import Autoclusters
from ..state_machines.hold_codes import StopReason

Answer = TypeVar("Answer")


class Message(Struct, Generic[Answer], frozen=True):
    """A message whose receiver returns an ``Answer``."""


# To the execution point, about a slot


class SlotSeen(NamedTuple):
    """A slot as its startd shows it to the holder of its claim."""

    state_activity: str
    kind: str
    parent: str
    ad: Mapping[str, str]  #: its ad, without the attributes that change with time
    version: int  #: changes with the ad
    starts_jobs: bool  #: False while its machine is being shut down


class ShowSlot(Message[SlotSeen | None], frozen=True):
    """Return a slot; None if there is no slot of this name."""

    slot: str


class ShowAd(Message[ClassAd], frozen=True):
    """Return the slot's current ad as matching sees it, with ``additional_names`` (in small letters)."""

    slot: str
    additional_names: frozenset[str]


class DropMatch(Message[None], frozen=True):
    """A match of a slot with a job, as 12.3, will not be claimed, because the job is no longer idle."""

    slot: str
    job: str
    cause: str


class VacateClaim(Message[bool], frozen=True):
    """End the claim and its job, softly or fast. The answer is False if there is nothing to end."""

    slot: str
    fast: bool
    cause: str


class PauseJob(Message[bool], frozen=True):
    """Suspend the running job until a request continues it, or continue it (``resume``). The answer is False if it
    cannot be."""

    slot: str
    resume: bool


class EndJob(Message[str], frozen=True):
    """The last process of the slot's job is gone, and its access point is about to log that. The answer is the cause
    for which the claim was about to end; empty if it was not, or if the job has no separate cause."""

    slot: str


# To the access point


class JobPaused(Message[None], frozen=True):
    """A slot's job was suspended or continued: the ``row`` in the table of jobs, and the previous status."""

    cluster: int
    proc: int
    row: str
    source: str
    cause: str
    evidence: int = 0


class HoldJob(Message[Ad | None], frozen=True):
    """PREEMPT evicts a job whose WANT_HOLD is true: hold the job. The answer is None if it was held or is not running.
    Otherwise the job is only signalled, because it may not be held in the end; the answer is the eviction's attributes.
    """

    cluster: int
    proc: int
    why: StopReason


# To the execution point, about machines


class ShowHost(Message[Ad], frozen=True):
    """Return the ad of the machine on which the schedd runs (the machine with its name, or the first one) and of its
    first slot."""


class SensorsSay(Message[bool], frozen=True):
    """Return True if a machine's sensors publish attributes."""


class PublishReadings(Message[None], frozen=True):
    """Publish the current sensor readings of these attributes (in small letters) before a cycle reads them.
    ``touched``: the machines that have changed since the last cycle."""

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


class TellLikeness(Message[Autoclusters], frozen=True):
    """Return the significant attributes of jobs, which follow from the expressions of slots and negotiator."""


class OpenAccount(Message[float], frozen=True):
    """A job of this submitter is submitted or claims a slot. The answer is the priority factor of the new account; 0 if
    the submitter already has one."""

    submitter: str
    negotiator: str = ""  #: the negotiator that keeps the account, if there are several
