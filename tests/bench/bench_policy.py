"""What a poll of one slot's policy costs: the ad of now, an expression's value, and when that may change.

Run with ``python tests/bench/bench_policy.py``. The policy is HTCondor's Desktop template as a real startd expands it;
the slot's ad has 200 attributes that stay and 30 that are of now. Times are the best of several repetitions: on a noisy
machine that is what code can do. Ends with 1 where an aim is missed.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path")]

from poolbook.domain.classad import ClassAd, Context, Moving, next_change, parse  # noqa: E402

NOW = 1_790_000_000
POLICY = {
    "START": (
        "((KeyboardIdle > 15 * 60)"
        ' && ( ((LoadAvg - CondorLoadAvg) <= 0.3) || (State != "Unclaimed" && State != "Owner")) )'
    ),
    "SUSPEND": (
        "((KeyboardIdle < 60) || ( (IfThenElse(CpuBusyValue is 1, time() - CpuBusyTime, 0) > 120)"
        " && ifThenElse(JobStart =!= UNDEFINED, (time() - JobStart), 0) > 90))"
    ),
    "PREEMPT": (
        '(((Activity == "Suspended") && ((time() - EnteredCurrentActivity) > 10 * 60))'
        " || (SUSPEND && (WANT_SUSPEND == False)))"
    ),
    "IS_OWNER": "(START =?= False)",
}
OF_NOW: dict[str, Any] = {
    "State": "Claimed",
    "Activity": "Busy",
    "EnteredCurrentState": NOW - 700,
    "EnteredCurrentActivity": NOW - 600,
    "KeyboardIdle": 1200,
    "ConsoleIdle": 1200,
    "LoadAvg": 1.05,
    "CondorLoadAvg": 0.95,
    "CpuBusyValue": 0,
    "CpuBusyTime": NOW - 30,
    "JobStart": NOW - 600,
    "CpuBusy": False,
    **{f"Reading{number}": number * 1.5 for number in range(18)},
}
# Where most is to be found out: the keyboard will soon have been idle for long enough, the CPU busy, the job running.
MOVING = {"keyboardidle": Moving(NOW - 850), "consoleidle": Moving(NOW - 850)}
ABOUT_TO_CHANGE = {"CpuBusyValue": 1, "JobStart": NOW - 20, "Activity": "Suspended"}

# Microseconds.
AIM_AD = 15.0
AIM_VALUE = 5.0
AIM_CHANGE = 30.0


def microseconds(run: Callable[[], Any], number: int = 50, repeat: int = 1000) -> float:
    """The best time of one call; of many short runs, for on a busy machine long ones are interrupted."""
    return min(timeit.repeat(run, number=number, repeat=repeat)) / number * 1e6


def main() -> int:
    """Measure and print."""
    missed = 0

    def line(what: str, time: float, aim: float) -> None:
        nonlocal missed
        missed += time >= aim
        print(f"{what:58} {time:8.2f} us   aim < {aim:4.0f} us   {'met' if time < aim else 'MISSED'}", flush=True)

    expressions = {name: parse(text) for name, text in POLICY.items()}
    still = ClassAd({**{f"Attribute{number}": number for number in range(200)}, **expressions, "WANT_SUSPEND": False})
    job = ClassAd({"Owner": "alice", "ImageSize": 100, "JobUniverse": 5})
    context = Context(now=NOW)
    slot = ClassAd(OF_NOW, chained=still)
    changing = ClassAd({**OF_NOW, **ABOUT_TO_CHANGE}, chained=still)
    line(
        f"an ad of {len(OF_NOW)} values over one of {len(still)}", microseconds(partial(ClassAd, OF_NOW, still)), AIM_AD
    )
    for name, expression in expressions.items():
        line(f"{name}: its value", microseconds(partial(expression.evaluate, slot, job, context)), AIM_VALUE)
    for name, expression in expressions.items():
        spent = microseconds(partial(next_change, expression, changing, job, context, MOVING))
        line(f"{name}: when it may change", spent, AIM_CHANGE)
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
