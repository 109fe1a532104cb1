"""The negotiator's ad: the statistics of the last cycles, under HTCondor's names.

A cycle that decided nothing leaves no event, so the last cycles are those in the log. Durations are 0: a cycle takes no
time in the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from .daemon_ads import Pool, daemon_ad

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

SHOWN = 3
"""HTCondor's NEGOTIATION_CYCLE_STATS_LENGTH."""
_PREFIX = "LastNegotiationCycle"
_NO_TIME: dict[str, float] = {
    "CpuTime": 0.0,
    **{f"Phase{number}{what}": zero for number in range(1, 5) for what, zero in (("CpuTime", 0.0), ("Duration", 0))},
    "PrefetchCpuTime": 0.0,
    "PrefetchDuration": 0,
}
_NOBODY = ("ScheddsOutOfTime", "SubmittersFailed", "SubmittersOutOfTime")
_COUNTED = ("SubmittersShareLimit", "SubmittersMatchLimit")
"""Counted in the log; HTCondor's ad has the names of the first, and not the second."""


_NO_LIMITS: Mapping[str, float] = {}


class Cycle(Protocol):
    """The fields of ``projections.views.CycleRow`` that are needed here."""

    @property
    def statistics(self) -> dict[str, float]: ...


def negotiator_ad(
    pool: Pool, cycles: Sequence[Cycle], limits: Mapping[str, float] = _NO_LIMITS, name: str = ""
) -> ClassAd:
    """Return the ad of a pool's negotiator, or of one of several (``name``).

    :param cycles: the last cycles, the last one first; one more than is shown, for the end of the one before
    :param limits: what is held of each concurrency limit, which HTCondor's negotiator says where it is asked for
        priorities (Accountant::ReportLimits)
    """
    ad = daemon_ad("Negotiator", name or pool.name, pool.name, pool)
    ends = [int(cycle.statistics.get("End", 0)) for cycle in cycles]
    for back, cycle in enumerate(cycles[:SHOWN]):
        period = ends[back] - ends[back + 1] if back + 1 < len(ends) else 0
        for what, value in _of_cycle(cycle.statistics, period).items():
            ad[f"{_PREFIX}{what}{back}"] = value
    for name, units in limits.items():
        ad[f"ConcurrencyLimit_{name.replace('.', '_')}"] = units
    return ad


def _of_cycle(statistics: dict[str, float], period: int) -> dict[str, float | str]:
    found: dict[str, float | str] = {**_NO_TIME, **dict.fromkeys(_NOBODY, "")}
    for name, value in statistics.items():
        if name not in _COUNTED:
            found[name] = int(value) if value == int(value) else value
    matches, duration = statistics.get("Matches", 0), statistics.get("Duration", 0)
    found["MatchRate"] = matches / duration if duration > 0 else 0.0
    found["MatchRateSustained"] = matches / period if period > 0 else 0.0
    found["Period"] = period
    if statistics.get(_COUNTED[0], 0) == 0:
        found[_COUNTED[0]] = ""
    return found
