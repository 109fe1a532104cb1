"""The test kit: check a configuration before you deploy it. docs/testing.md describes it.

`play` plays a scenario and returns a `Report`; pytest runs each `*.play` file as a test. The strategies (`ads`,
`expressions`, `submit_descriptions`, `configurations`, `pools`, `owner_days`, `scenarios`) generate input for
hypothesis, and `PoolMachine` is a stateful test of a pool.

>>> from poolbook.testing import play
>>> report = play("at 0:20 submit alice run=10:00\\nat 1:00 expect 1.0 Running")
"""

try:
    import hypothesis  # noqa: F401
except ModuleNotFoundError:
    raise ImportError("poolbook.testing needs hypothesis: install poolbook[testing]") from None

from .adapters.testing.pool_machine import PoolMachine
from .adapters.testing.report import (
    ExpectationError,
    Failure,
    JobResult,
    Report,
    SlotResult,
    UserResult,
    play,
)
from .adapters.testing.strategies import (
    BLOCKS,
    MachinePlan,
    OwnerDay,
    PoolPlan,
    ads,
    behaviours,
    configurations,
    expressions,
    owner_days,
    pools,
    scenarios,
    submit_descriptions,
)
from .replay.scenario import PlayError

__all__ = [
    "BLOCKS",
    "ExpectationError",
    "Failure",
    "JobResult",
    "MachinePlan",
    "OwnerDay",
    "PlayError",
    "PoolMachine",
    "PoolPlan",
    "Report",
    "SlotResult",
    "UserResult",
    "ads",
    "behaviours",
    "configurations",
    "expressions",
    "owner_days",
    "play",
    "pools",
    "scenarios",
    "submit_descriptions",
]
