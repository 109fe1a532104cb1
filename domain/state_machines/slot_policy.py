"""The questions of a rule about a slot at one instant. ``startd/slot_policy_evaluation.py`` answers them."""

from __future__ import annotations

from typing import Any, Protocol


class SlotPolicy(Protocol):
    """A slot's expressions, and the facts of its claim, its job, its machine and the machine's drain."""

    verdict: Any
    """The last expression that was asked and its value: the evidence of what follows from it."""

    def true(self, name: str) -> bool:
        """Tell whether the expression is true."""

    def locally_false(self, name: str) -> bool:
        """Tell whether the expression is false whatever the job."""

    def set_to_false(self, name: str) -> bool:
        """Tell whether the expression is the constant false."""

    @property
    def state_activity(self) -> str: ...

    @property
    def is_dynamic(self) -> bool: ...

    # The claim and its job

    @property
    def is_claimed(self) -> bool: ...

    def has_flag(self, flag: str) -> bool:
        """Tell whether the slot's claim has this one of ``events.CLAIM_FLAGS``; false without a claim."""

    @property
    def better_match_waits(self) -> bool: ...

    @property
    def job_is_ending(self) -> bool:
        """Tell whether the slot's job was told to end."""

    @property
    def in_retirement(self) -> bool:
        """Tell whether the claim is to end: a better match waits, the machine drains, or something irrevocable."""

    @property
    def retirement_over(self) -> bool:
        """Tell whether the job must be told to end now, so that it ends within MaxJobRetirementTime."""

    @property
    def worklife_over(self) -> bool:
        """Tell whether the claim is older than CLAIM_WORKLIFE, and has had a job."""

    @property
    def waits_for_activation(self) -> bool:
        """Tell whether the job may still be on its way (MAX_DRAINING_ACTIVATION_DELAY)."""

    # The machine

    @property
    def machine_drains(self) -> bool: ...

    @property
    def machine_is_drained(self) -> bool:
        """Tell whether every slot of the machine is in Drained."""

    @property
    def machine_benchmarks(self) -> bool:
        """Tell whether a slot of the machine runs benchmarks."""

    @property
    def benchmarks_never_ran(self) -> bool: ...

    # The machine's backfill

    @property
    def may_backfill(self) -> bool:
        """Tell whether the slot may enter Backfill: its machine is configured for it, and goes on."""

    @property
    def has_backfill(self) -> bool:
        """Tell whether the machine is configured for backfill."""

    @property
    def backfill_stands(self) -> bool:
        """Tell whether the machine is configured for the backfill system whose client it has."""

    @property
    def client_runs(self) -> bool:
        """Tell whether the machine's backfill client runs and is not to end."""

    @property
    def client_may_start(self) -> bool:
        """Tell whether the machine's backfill client is gone, and may be started by now."""
