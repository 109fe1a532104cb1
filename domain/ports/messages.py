"""Messages between the roles of a pool within a decision (``decision.draft.Draft.send``).

Roles affect each other only through messages. The receiver's rule emits events and returns an answer. Messages about
claims are stimuli (``stimuli.SlotMessage``), because external access points send them, too; this module contains the
messages that only roles of the same pool send. docs/architecture.md lists senders, receivers and answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeAlias, TypeVar

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
    """A slot as its startd shows it to the holder of the slot's claim."""

    state_activity: str
    kind: str
    parent: str
    ad: Mapping[str, str]  #: the ad, without attributes that change with time
    version: int  #: changes whenever the ad changes
    starts_jobs: bool  #: False while the slot's machine is shutting down
    suspended_by_request: bool  #: whether a user asked for its claim to be suspended


class ShowSlot(Message[SlotSeen | None], frozen=True):
    """Return a slot, or None if there is no slot with this name."""

    slot: str


class ShowAd(Message[ClassAd], frozen=True):
    """Return the slot's current ad as matching sees it, including ``additional_names`` (in lower case)."""

    slot: str
    additional_names: frozenset[str]


class DropMatch(Message[None], frozen=True):
    """The match of a slot with a job (such as 12.3) will not be claimed, because the job is no longer idle."""

    slot: str
    job: str
    cause: str


class VacateClaim(Message[bool], frozen=True):
    """End the claim and its job, softly or fast. The answer is False if there is no claim to end."""

    slot: str
    fast: bool
    cause: str


class PauseJob(Message[bool], frozen=True):
    """Suspend the running job until a request continues it, or ``resume`` it. False: that is not possible."""

    slot: str
    resume: bool


class EndJob(Message[str], frozen=True):
    """The last process of the slot's job has ended, and the job's access point is about to log the end. The answer is
    the cause for which the claim was about to end. It is empty if the claim was not, or if the job has no separate
    cause."""

    slot: str


# To the access point


class JobPaused(Message[None], frozen=True):
    """A slot's job was suspended or continued: the ``row`` of the job table, and the previous status."""

    cluster: int
    proc: int
    row: str
    source: str
    cause: str
    evidence: int = 0


class HoldJob(Message[Ad | None], frozen=True):
    """PREEMPT evicts a job whose WANT_HOLD is true, so hold the job. The answer is None if the job was held or is not
    running. Otherwise the job is only signalled, because its hold may yet be replaced; the answer is the eviction's
    attributes.
    """

    cluster: int
    proc: int
    why: StopReason


# To the execution point, about machines


class ShowHost(Message[Ad], frozen=True):
    """Return the ad of the machine on which the schedd runs (the machine with the schedd's name, or else the first
    one), merged with the ad of its first slot."""


class CheckSensors(Message[bool], frozen=True):
    """Return True if any machine's sensors publish attributes."""


class PublishReadings(Message[None], frozen=True):
    """Publish the sensor readings of these attributes (in lower case) before a cycle reads them."""

    names: frozenset[str]
    touched: frozenset[str]  #: the machines that changed since the last cycle


class BeginDrain(Message[None], frozen=True):
    """Drain a machine (``DrainBegan`` explains the fields)."""

    machine: str
    schedule: str
    reason: str
    completion: str
    start: str
    cause: str = "defrag"


class EndDrain(Message[None], frozen=True):
    """Cancel a machine's drain."""

    machine: str
    cause: str = "defrag_cancel"


class BeginShutdown(Message[None], frozen=True):
    """Shut a machine's startd down, or change a shutdown (``ShutdownBegan`` explains the fields)."""

    machine: str
    how: str
    restart: bool = False


MachineCommand: TypeAlias = BeginDrain | EndDrain | BeginShutdown | VacateClaim | PauseJob
"""What a manager with a separate log tells an execution point to do."""


# To the negotiator


class ShowAutoclusters(Message[Autoclusters], frozen=True):
    """Return the significant attributes of jobs, which are determined by the expressions of slots and negotiator."""


class OpenAccount(Message[float], frozen=True):
    """A submitter submits a job or claims a slot. The answer is a new account's priority factor, or 0 if it has one."""

    submitter: str
    negotiator: str = ""  #: the negotiator with the account, if there are several
