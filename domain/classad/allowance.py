"""Limit the total steps of one decision's evaluations for each user whose jobs are evaluated.

Each evaluation has a budget (``environment.MAX_STEPS``). Because a user can submit a hundred jobs that each use a full
budget, budgets alone would let that user block the pool a hundred times as long. So the evaluations of a user's jobs
also share an allowance.
"""

from __future__ import annotations

from .ad import ClassAd
from .environment import MAX_STEPS, Environment
from .tree import Literal

MINIMUM_STEPS = 2000
"""The budget of an evaluation after the user's allowance is used up; it suffices for typical expressions."""
PREDICTION_STEPS = MAX_STEPS // 10
"""The allowance for predicting when expressions must be evaluated again; longer predictions are given up."""


class Allowance:
    """The steps left to each user. The Owner in the evaluated ads pays for the steps, unless ``user`` is set."""

    def __init__(self, user: str = "", limit: int = MAX_STEPS) -> None:
        self._limit = limit
        self._steps_left: dict[str, int] = {}
        self._payer = user
        self._instant: int | None = None

    def set_payer(self, instant: int, user: str) -> Allowance:
        """Set the user who pays. A new instant restores every user's allowance."""
        if instant != self._instant:
            self._steps_left.clear()
        self._instant, self._payer = instant, user
        return self

    def grant_budget(self, env: Environment, my: ClassAd | None, target: ClassAd | None) -> None:
        """Set the budget of an evaluation by the remaining allowance of the user who pays."""
        env.payer = self._payer or _owner(my) or _owner(target)
        env.steps = env.charged_from = max(MINIMUM_STEPS, self._steps_left.get(env.payer, self._limit))

    def charge(self, env: Environment) -> None:
        """Deduct the steps that an evaluation used since its last charge, or since it received its budget."""
        if env.payer:
            self._steps_left[env.payer] = self._steps_left.get(env.payer, self._limit) - (env.charged_from - env.steps)
        env.charged_from = env.steps


def _owner(ad: ClassAd | None) -> str:
    cell = None if ad is None else ad._find("owner")
    value = cell[1].value if cell is not None and isinstance(cell[1], Literal) else None
    return value if isinstance(value, str) else ""
