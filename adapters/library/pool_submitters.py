"""The part of `Pool` that is about submitters: what they are granted, and what they have used."""

from __future__ import annotations

from ...domain.negotiator.accounting import Standing, group_names, standings, terms
from ...domain.ports import stimuli as s
from .pool_machines import Machines
from .python_values import number_of, seconds_of


class Submitters(Machines):
    """What `Pool` does with submitters. Each is named in full, as user@domain; who asks is `user`, one of the pool's
    owners. What is lent for a `duration` (seconds) is then again what it was."""

    def submitters(self) -> list[Standing]:
        """How those stand who have jobs or had slots, by name: priorities, usage, and what was set of them."""
        state = self.state
        groups = group_names(state.settings)
        now = self._engine.world.now()
        return standings(
            state.submitters.values(), terms(state.settings), groups, state.priorities_updated_at, now, now
        )

    def _set(self, submitter: str, name: str, value: float, duration: int, user: str) -> None:
        lent = round(seconds_of(duration, "duration"))
        self._ask(s.SetSubmitter(self._engine.id("userprio"), user, submitter, name, number_of(value, name), lent))

    def set_priority(self, submitter: str, value: float, *, user: str = "root") -> None:
        """Set a real priority, at least 0.5: lower is better."""
        self._set(submitter, "priority", value, 0, user)

    def set_priority_factor(self, submitter: str, value: float, *, duration: int = 0, user: str = "root") -> None:
        """Set a priority factor, at least 1: who has half of another's gets twice as much."""
        self._set(submitter, "factor", value, duration, user)

    def set_floor(self, submitter: str, cores: float, *, duration: int = 0, user: str = "root") -> None:
        """Set how many cores a submitter is to have before others get theirs; 0: none."""
        self._set(submitter, "floor", cores, duration, user)

    def set_ceiling(self, submitter: str, cores: float, *, duration: int = 0, user: str = "root") -> None:
        """Set how many cores a submitter may have at most; -1: no limit."""
        self._set(submitter, "ceiling", cores, duration, user)

    def end_lease(self, submitter: str, name: str, *, user: str = "root") -> None:
        """Call off what was lent: `name` is factor, floor or ceiling."""
        self._ask(s.SetSubmitter(self._engine.id("userprio"), user, submitter, name, cancel=True))

    def set_usage(self, submitter: str, seconds: float, *, user: str = "root") -> None:
        """Set the weighted usage that a submitter has accumulated."""
        self._set(submitter, "usage", seconds, 0, user)

    def reset_usage(self, *submitters: str, user: str = "root") -> None:
        """Let the usage of submitters count from now on; of all, if none is named."""
        self._ask(s.ResetUsage(self._engine.id("userprio"), user, submitters))

    def delete_submitter(self, submitter: str, *, user: str = "root") -> None:
        """Forget a submitter; if it comes again, it comes as new."""
        self._ask(s.DeleteSubmitter(self._engine.id("userprio"), user, submitter))
