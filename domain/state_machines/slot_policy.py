"""The questions of rules and entry actions about a slot at one instant, which ``startd/slot_policy_evaluation.py``
answers. It has the facts of ``conditions.txt``, too, as properties of their names."""

from __future__ import annotations

from typing import Any, Protocol


class SlotPolicy(Protocol):
    """A slot's expressions, and the facts of its claim, its job, its machine and the machine's drain."""

    verdict: Any
    """The last expression that was asked and its value: the evidence of what follows from it."""

    def true(self, name: str) -> bool:
        """Return True if the expression is true."""

    def locally_false(self, name: str) -> bool:
        """Return True if the expression is false whatever the job."""

    def set_to_false(self, name: str) -> bool:
        """Return True if the expression is the constant false."""

    def has_flag(self, flag: str) -> bool:
        """Return True if the slot's claim has this one of ``events.CLAIM_FLAGS``."""

    @property
    def state_activity(self) -> str: ...

    @property
    def better_match_waits(self) -> bool: ...

    @property
    def in_retirement(self) -> bool: ...

    @property
    def machine_drains(self) -> bool: ...
