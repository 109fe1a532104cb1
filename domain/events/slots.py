"""Machines, their slots and the claims on them."""

from __future__ import annotations

from attrs import Factory, frozen

from .base import Ad, MachineEvent, SlotEvent


@frozen
class MachineJoined(MachineEvent):
    """A machine is part of the pool. ``ad`` is what all its slots say of it, ``settings`` how its execution point works
    (``domain/policy/settings.py``); a setting that is not named has its default."""

    ad: Ad
    settings: Ad = Factory(dict)


@frozen
class MachineConfigured(MachineEvent):
    """The execution point read its configuration again. ``settings`` are those that differ from before (an empty text:
    back to the default); what changed in the slots' ads, ``SlotChanged`` events of the same stimulus say."""

    settings: Ad


@frozen
class BenchmarksRan(MachineEvent):
    """``mips`` and ``kflops`` are the results of this run alone; ``published`` are those that the slots' ads say from
    here on."""

    slot: str
    mips: int
    kflops: int
    published: tuple[int, int]


@frozen
class BusyBegan(SlotEvent):
    """CpuBusy is true from here on, or (``busy`` false) no longer. Written where an expression in force asks for
    CpuBusyTime."""

    busy: bool


@frozen
class DrainBegan(MachineEvent):
    """The machine takes no more jobs, and those that it has are to go by ``schedule``: Graceful, Quick or Fast.
    ``drain`` numbers the machine's drains. ``completion`` is what follows when it is done: nothing (empty), resume,
    reconfig, exit or restart. ``start`` is what START is meanwhile (empty: false)."""

    drain: int
    schedule: str
    reason: str = ""
    completion: str = ""
    start: str = ""


@frozen
class DrainMoved(MachineEvent):
    """The machine's drain went on by a row of the drains' table: complete, cancel, resume or stop."""

    drain: int
    row: str
    source: str
    target: str


@frozen
class DrainFinal(MachineEvent):
    """All jobs that the machine had when the drain began are gone: those that it accepted since have no retirement
    time, and no more are accepted."""

    drain: int


@frozen
class DrainCharged(MachineEvent):
    """A job that was ended by the drain had run for ``badput`` core-seconds (TotalMachineDrainingBadput)."""

    slot: str
    badput: int


@frozen
class ShutdownBegan(MachineEvent):
    """The execution point is to end when its claims have: ``how`` is Peaceful (jobs run to their end), Graceful (their
    retirement time is kept) or Fast (they are killed)."""

    how: str


@frozen
class MachineLeft(MachineEvent):
    """The machine and its slots are no longer in the pool."""


@frozen
class SlotBorn(SlotEvent):
    """A slot exists from here on, in Owner/Idle. ``kind``: static, partitionable or dynamic (then ``parent`` is the
    slot whose resources it was carved from). ``ad`` is its whole ad."""

    machine: str
    kind: str
    parent: str
    ad: Ad


@frozen
class SlotMoved(SlotEvent):
    """A transition of a slot's state and activity, by a row of the dialect's table. One that was imported and that no
    row allows has none, and ``reason`` is what the record says of it. ``evidence`` is the position of the
    ``EvidenceNoted`` with the expression that decided it (0: no expression did)."""

    row: str
    source: str
    target: str
    reason: str = ""
    evidence: int = 0


@frozen
class SlotChanged(SlotEvent):
    """The slot's ad has these new values (an empty text: the attribute is gone)."""

    changes: Ad


@frozen
class SlotDied(SlotEvent):
    """The slot is gone."""


@frozen
class ClaimMade(SlotEvent):
    """``submitter`` holds the slot from here on; ``weight`` is the slot's weight in thousandths, ``rank`` the value of
    RANK for its job. ``holder`` is empty if the pool's own access point holds it, else who does; then ``job`` and
    ``ad`` are the job that it asked for. Of a claim of the pool's own ``job`` says for which of the queue it waited
    (empty: it did not wait). ``lease``: seconds without a sign of the holder after which the claim ends (0: none)."""

    claim: str
    submitter: str
    weight: int
    rank: float = 0.0
    holder: str = ""
    job: str = ""
    ad: Ad = Factory(dict)
    lease: int = 0


@frozen
class ClaimWaits(SlotEvent):
    """A better match waits until the slot's present claim has gone (``ClaimMade`` explains the fields)."""

    claim: str
    submitter: str
    rank: float
    holder: str
    job: str
    ad: Ad
    lease: int = 0


@frozen
class ClaimWithdrawn(SlotEvent):
    """The better match waits no longer."""

    claim: str


@frozen
class ClaimMarked(SlotEvent):
    """What holds for the slot's claim from here on: each of ``marks`` is one of ``MARKS``. ``reason``, with HTCondor's
    code and subcode, is why its job is to go."""

    claim: str
    marks: tuple[str, ...]
    reason: str = ""
    code: int = 0
    subcode: int = 0


@frozen
class ClaimActivated(SlotEvent):
    """A holder outside of this pool started a job on its claim. ``ad`` is the job's, ``vacate`` the microseconds of
    MachineMaxVacateTime that it was promised."""

    claim: str
    job: str
    ad: Ad
    vacate: int


@frozen
class ClaimDeactivated(SlotEvent):
    """The job of a holder outside of this pool is gone from the slot."""

    claim: str
    job: str


@frozen
class StarterTold(SlotEvent):
    """The starter of a holder outside of this pool was told to end its job (``JobSignalled`` explains the fields)."""

    how: str
    until: int


@frozen
class ClaimUnheard(SlotEvent):
    """The claim's holder sends no more signs of life; if none comes, the lease is over at ``until``. With ``until`` 0
    it was heard again."""

    claim: str
    until: int


@frozen
class ClaimEnded(SlotEvent):
    """The claim is over. ``usage``: microseconds that it was held, times the slot's weight in thousandths."""

    claim: str
    submitter: str
    usage: int


MARKS: dict[str, str] = {
    "irrevocable": "the claim retires, and nothing ends that",
    "preempted": "PREEMPT was true: WANT_VACATE and WANT_HOLD count when the job is to go",
    "peaceful": "its job may run to its end, whatever its retirement time",
    "closing": "the claim was to end while its job cleaned up: it does when the job is gone",
    "by_command": "suspended by request: only a request lets it go on",
    "resumed": "a request let it go on",
    "drained": "its job ends because of a drain, and what it used counts as the drain's badput",
    "late": "accepted while the machine drained: it has no retirement time",
}
"""Every mark that a claim may have (``ClaimMarked``), with its meaning."""
