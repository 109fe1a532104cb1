"""Parse and format the names of jobs and slots as HTCondor writes them: 12.3 and slot1_2@host."""

from __future__ import annotations

from collections.abc import Container
from typing import Final, NamedTuple

JOBS_PER_ACCESS_POINT: Final = 1_000_000_000
"""In the manager's log, this number times the access point's number is added to its cluster numbers."""


class JobId(NamedTuple):
    """A job's id: the number of its cluster (ClusterId), and its process number in the cluster (ProcId)."""

    cluster: int
    proc: int

    @classmethod
    def parse(cls, text: str) -> JobId:
        """Parse an id such as 12.3. Raise `ValueError` for any other text."""
        cluster, _, proc = text.partition(".")
        return cls(int(cluster), int(proc))

    @staticmethod
    def is_id(text: str) -> bool:
        """Return True if the text is an id such as 12.3."""
        cluster, _, proc = text.partition(".")
        return all(number.isascii() and number.isdigit() for number in (cluster, proc)) and len(text) < 30

    def __str__(self) -> str:
        return f"{self.cluster}.{self.proc}"


NEGOTIATOR: Final = "NEGOTIATOR"
"""The name of the main negotiator, which is the only one in most pools."""


class AccountName(NamedTuple):
    """The name of an account: its negotiator and its submitter, separated by a blank (submitter names contain none). In
    an account of the main negotiator, the name is the submitter alone."""

    negotiator: str  #: empty for ``NEGOTIATOR``
    submitter: str

    @classmethod
    def parse(cls, text: str) -> AccountName:
        negotiator, blank, submitter = text.partition(" ")
        return cls(negotiator, submitter) if blank and negotiator.startswith(f"{NEGOTIATOR}_") else cls("", text)

    def __str__(self) -> str:
        return f"{self.negotiator} {self.submitter}" if self.negotiator else self.submitter


class SlotName(NamedTuple):
    """A slot's name: its name on its machine, and the machine (empty if the name does not include it)."""

    slot: str
    machine: str

    @classmethod
    def parse(cls, text: str) -> SlotName:
        """Parse slot1@host, or slot1 without a machine."""
        slot, _, machine = text.partition("@")
        return cls(slot, machine)

    @property
    def dynamic(self) -> bool:
        """Whether this is a dynamic slot, carved from a partitionable slot (slot1_2)."""
        return "_" in self.slot

    @property
    def parent(self) -> SlotName:
        """The partitionable slot from which this dynamic slot was carved."""
        return SlotName(self.slot.rpartition("_")[0], self.machine)

    @property
    def number(self) -> str:
        """The number of a dynamic slot among its parent's dynamic slots: 2 for slot1_2."""
        return self.slot.rpartition("_")[2]

    @property
    def order(self) -> int:
        """The key that sorts the dynamic slots of one parent."""
        return int(self.number) if self.number.isdigit() else 0

    def __str__(self) -> str:
        return f"{self.slot}@{self.machine}" if self.machine else self.slot


def dynamic_name(parent: str, taken: Container[str]) -> str:
    """Return the name of the next slot carved from `parent`, with the lowest number that no existing slot has."""
    slot, machine = SlotName.parse(parent)
    number = 1
    while (name := f"{slot}_{number}@{machine}") in taken:
        number += 1
    return name


def global_id(pool: str, cluster: int, proc: int, qdate: int) -> str:
    """Return a GlobalJobId: the queue's name, the job's id, and the submission time."""
    return f"{pool}#{cluster}.{proc}#{qdate}"
