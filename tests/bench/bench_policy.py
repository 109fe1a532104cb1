"""Measure the evaluation of one slot's policy: its current ad, an expression's value, and when the value may change.

Run ``python tests/bench/bench_policy.py``. The policy is HTCondor's Desktop template as HTCondor's startd expands it.
The slot's ad has 200 constant and 30 changing attributes. Times are the best of several repetitions, because other
processes disturb the rest. The exit code is 1 if an aim is missed.
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
CURRENT_VALUES: dict[str, Any] = {
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
# The most expensive case: the keyboard's idle time, the CPU's busy time and the job's run time all near their limits.
IDLE_CLOCKS = {"keyboardidle": Moving(NOW - 850), "consoleidle": Moving(NOW - 850)}
ABOUT_TO_CHANGE = {"CpuBusyValue": 1, "JobStart": NOW - 20, "Activity": "Suspended"}

# Microseconds.
AIM_AD = 15.0
AIM_VALUE = 5.0
AIM_CHANGE = 30.0


def microseconds(run: Callable[[], Any], number: int = 50, repeat: int = 1000) -> float:
    """Return the best time of one call. Runs are short, because a busy machine interrupts long ones."""
    return min(timeit.repeat(run, number=number, repeat=repeat)) / number * 1e6


def main() -> int:
    """Print the measurements; return 1 if an aim is missed."""
    missed = 0

    def print_line(measurement: str, time: float, aim: float) -> None:
        nonlocal missed
        missed += time >= aim
        print(
            f"{measurement:58} {time:8.2f} us   aim < {aim:4.0f} us   {'met' if time < aim else 'MISSED'}", flush=True
        )

    expressions = {name: parse(text) for name, text in POLICY.items()}
    constant_ad = ClassAd(
        {**{f"Attribute{number}": number for number in range(200)}, **expressions, "WANT_SUSPEND": False}
    )
    job = ClassAd({"Owner": "alice", "ImageSize": 100, "JobUniverse": 5})
    context = Context(now=NOW)
    slot = ClassAd(CURRENT_VALUES, chained=constant_ad)
    changing_ad = ClassAd({**CURRENT_VALUES, **ABOUT_TO_CHANGE}, chained=constant_ad)
    print_line(
        f"an ad of {len(CURRENT_VALUES)} values over one of {len(constant_ad)}",
        microseconds(partial(ClassAd, CURRENT_VALUES, constant_ad)),
        AIM_AD,
    )
    for name, expression in expressions.items():
        print_line(f"{name}: value", microseconds(partial(expression.evaluate, slot, job, context)), AIM_VALUE)
    for name, expression in expressions.items():
        duration = microseconds(partial(next_change, expression, changing_ad, job, context, IDLE_CLOCKS))
        print_line(f"{name}: next time it may change", duration, AIM_CHANGE)
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
