"""The names of jobs and slots, as HTCondor writes them: 12.3 and slot1_2@host."""

from __future__ import annotations

from collections.abc import Container
from typing import Final, NamedTuple


class JobId(NamedTuple):
    """A job: its cluster, and its number in the cluster (ClusterId, ProcId)."""

    cluster: int
    proc: int

    @classmethod
    def parse(cls, text: str) -> JobId:
        """Read 12.3. Raise `ValueError` for anything else."""
        cluster, _, proc = text.partition(".")
        return cls(int(cluster), int(proc))

    def __str__(self) -> str:
        return f"{self.cluster}.{self.proc}"


NEGOTIATOR: Final = "NEGOTIATOR"
"""The negotiator of a pool that has one."""


class AccountName(NamedTuple):
    """Whose account it is, in which negotiator's accounting. That of a pool with one negotiator is named by the
    submitter alone; no submitter's name has a blank."""

    negotiator: str  #: empty: ``NEGOTIATOR``
    submitter: str

    @classmethod
    def parse(cls, text: str) -> AccountName:
        negotiator, blank, submitter = text.partition(" ")
        return cls(negotiator, submitter) if blank and negotiator.startswith(f"{NEGOTIATOR}_") else cls("", text)

    def __str__(self) -> str:
        return f"{self.negotiator} {self.submitter}" if self.negotiator else self.submitter


class SlotName(NamedTuple):
    """A slot's name: what it is called on its machine, and the machine (empty: it was not given)."""

    slot: str
    machine: str

    @classmethod
    def parse(cls, text: str) -> SlotName:
        """Read slot1@host, or slot1 alone."""
        slot, _, machine = text.partition("@")
        return cls(slot, machine)

    @property
    def dynamic(self) -> bool:
        """Whether it was carved from a partitionable slot: slot1_2."""
        return "_" in self.slot

    @property
    def parent(self) -> SlotName:
        """The partitionable slot that a dynamic one was carved from."""
        return SlotName(self.slot.rpartition("_")[0], self.machine)

    @property
    def number(self) -> str:
        """The number of a dynamic slot among those of its parent: of slot1_2, 2."""
        return self.slot.rpartition("_")[2]

    @property
    def order(self) -> int:
        """What orders the slots that were carved from one."""
        return int(self.number) if self.number.isdigit() else 0

    def __str__(self) -> str:
        return f"{self.slot}@{self.machine}" if self.machine else self.slot


def dynamic_name(parent: str, taken: Container[str]) -> str:
    """Return the name of the next slot carved from `parent`: the lowest number that no living slot has."""
    slot, machine = SlotName.parse(parent)
    number = 1
    while (name := f"{slot}_{number}@{machine}") in taken:
        number += 1
    return name
