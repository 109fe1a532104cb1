"""The part of `Pool` that is about submitters: their priorities, limits and usage."""

from __future__ import annotations

from ...domain.decide import Refusal
from ...domain.negotiator.accounting import Standing, accounts_of, group_names, standings, terms
from ...domain.ports import stimuli as s
from ...domain.state.negotiators import as_one, named, short
from .pool_machines import Machines
from .python_values import number_of, seconds_of


class Submitters(Machines):
    """The methods of `Pool` about submitters. Each is named in full, as user@domain; the caller is `user`, one of the
    pool's owners. A value with a `duration` (seconds) reverts after it. Of several negotiators, each of which has an
    accounting of its own, `negotiator` names one."""

    def submitters(self, *, negotiator: str = "") -> list[Standing]:
        """Return the standings of submitters who have jobs or had slots, by name: priorities, usage and settings."""
        state = self._engine.state
        try:
            whose = named(state.settings, negotiator)
        except LookupError as error:
            raise Refusal(str(error)) from None
        settings, now = as_one(state.settings, whose), self._engine.world.now()
        accounted = state.accounted.get(whose, 0) if short(whose) else state.priorities_updated_at
        books = accounts_of(state.submitters, short(whose)).values()
        return standings(books, terms(settings), group_names(settings), accounted, now, now)

    def _set(self, submitter: str, name: str, value: float, duration: int, user: str, negotiator: str) -> None:
        lent, id = round(seconds_of(duration, "duration")), self._engine.id("userprio")
        number = number_of(value, name)
        self._ask(s.SetSubmitter(id, user, submitter, name, number, lent, negotiator=negotiator))

    def set_priority(self, submitter: str, value: float, *, user: str = "root", negotiator: str = "") -> None:
        """Set a real priority, at least 0.5: lower is better."""
        self._set(submitter, "priority", value, 0, user, negotiator)

    def set_priority_factor(
        self, submitter: str, value: float, *, duration: int = 0, user: str = "root", negotiator: str = ""
    ) -> None:
        """Set a priority factor, at least 1: half the factor gets twice the share."""
        self._set(submitter, "factor", value, duration, user, negotiator)

    def set_floor(
        self, submitter: str, cores: float, *, duration: int = 0, user: str = "root", negotiator: str = ""
    ) -> None:
        """Set how many cores a submitter gets before others get theirs; 0: none."""
        self._set(submitter, "floor", cores, duration, user, negotiator)

    def set_ceiling(
        self, submitter: str, cores: float, *, duration: int = 0, user: str = "root", negotiator: str = ""
    ) -> None:
        """Set how many cores a submitter may have at most; -1: no limit."""
        self._set(submitter, "ceiling", cores, duration, user, negotiator)

    def end_lease(self, submitter: str, name: str, *, user: str = "root", negotiator: str = "") -> None:
        """End the duration of a value now: `name` is factor, floor or ceiling."""
        self._ask(
            s.SetSubmitter(self._engine.id("userprio"), user, submitter, name, cancel=True, negotiator=negotiator)
        )

    def set_usage(self, submitter: str, seconds: float, *, user: str = "root", negotiator: str = "") -> None:
        """Set the weighted usage that a submitter has accumulated."""
        self._set(submitter, "usage", seconds, 0, user, negotiator)

    def reset_usage(self, *submitters: str, user: str = "root", negotiator: str = "") -> None:
        """Reset the usage of submitters to 0; of all, if none is named."""
        self._ask(s.ResetUsage(self._engine.id("userprio"), user, submitters, negotiator))

    def delete_submitter(self, submitter: str, *, user: str = "root", negotiator: str = "") -> None:
        """Delete a submitter's record; if it returns, it is new."""
        self._ask(s.DeleteSubmitter(self._engine.id("userprio"), user, submitter, negotiator))
