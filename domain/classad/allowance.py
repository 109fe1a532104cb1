"""What the evaluations of one decision may take altogether, for each user whose jobs they are for.

Each evaluation has a budget (``environment.MAX_STEPS``). Without an allowance, a user with a hundred jobs that use all
of it would keep the pool from all other work a hundred times as long.
"""

from __future__ import annotations

from .ad import ClassAd
from .environment import MAX_STEPS, Environment
from .tree import Literal

FEW_STEPS = 2000
"""The budget of an evaluation for a user who has used the allowance: enough for what is usually written."""
AHEAD = MAX_STEPS // 10
"""The allowance for finding out when expressions are to be evaluated again: what takes longer is not foreseen."""


class Allowance:
    """The steps that each user has left. The Owner of an evaluation's ads pays for it, unless a ``user`` is named."""

    def __init__(self, user: str = "", most: int = MAX_STEPS) -> None:
        self._most = most
        self._left: dict[str, int] = {}
        self._named = user
        self._instant: int | None = None

    def begin(self, instant: int, user: str) -> Allowance:
        """Let ``user`` pay from now on. What was paid before this instant is forgotten."""
        if instant != self._instant:
            self._left.clear()
        self._instant, self._named = instant, user
        return self

    def give(self, env: Environment, my: ClassAd | None, target: ClassAd | None) -> None:
        """Give an evaluation its budget."""
        env.payer = self._named or _owner(my) or _owner(target)
        env.steps = env.given = max(FEW_STEPS, self._left.get(env.payer, self._most))

    def settle(self, env: Environment) -> None:
        """Pay for what an evaluation has taken since it was given its budget, or has paid."""
        if env.payer:
            self._left[env.payer] = self._left.get(env.payer, self._most) - (env.given - env.steps)
        env.given = env.steps


def _owner(ad: ClassAd | None) -> str:
    cell = None if ad is None else ad._find("owner")
    value = cell[1].value if cell is not None and isinstance(cell[1], Literal) else None
    return value if isinstance(value, str) else ""
