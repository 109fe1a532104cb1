"""The facts of condor_defrag's log (DefragLog), from the pool's settings and its defragmentation polls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ....domain import events as e
from ....domain.defrag.choice import drain_rates
from ....domain.defrag.defrag_settings import DefragPolicy, policies_in_force, policy_in_force
from ....domain.fold.evolve import evolve
from ....domain.state.state import Manager
from ....domain.units import SECOND

_STOPPED: Final = {
    "rate": "number to drain in next {p.interval}s is calculated to be {wanted}.000.",
    "interval": "number to drain in next {p.interval}s is calculated to be 0.000.",
    "concurrent": "DEFRAG_MAX_CONCURRENT_DRAINING={p.most_draining} and there are {draining} draining machines.",
    "whole": "DEFRAG_MAX_WHOLE_MACHINES={p.most_whole} and there are {whole} whole machines.",
    "spent": "the machines for this hour and day are drained.",
}
_NO_LIMIT: Final = {"concurrent": "DEFRAG_MAX_CONCURRENT_DRAINING=0", "whole": "DEFRAG_MAX_WHOLE_MACHINES=0"}


class DefragLines:
    """Folds the events that concern defragmentation. Each method yields a name in the table of lines, with facts."""

    def __init__(self) -> None:
        self._manager = Manager()

    def configured(self, event: e.PoolFounded | e.PoolConfigured) -> Iterator[tuple[str, str, dict[str, str]]]:
        """Yield the changes of the policies, if the pool defragments, each after its daemon (empty: DEFRAG)."""
        before = policies_in_force(self._manager.settings)
        evolve(self._manager, event)
        for daemon, policy in policies_in_force(self._manager.settings).items():
            if policy != before.get(daemon):
                yield daemon, "reread" if daemon in before else "began", {}
                yield daemon, *self._policy_facts(policy)

    def _policy_facts(self, policy: DefragPolicy) -> tuple[str, dict[str, str]]:
        if policy.interval <= 0:
            return "off", {"interval": str(policy.interval)}
        rates = drain_rates(policy.per_hour, policy.interval)
        return "configured", {
            "interval": str(policy.interval), "rate": f"{policy.per_hour:f}",
            "poll": str(rates.poll), "hour": str(rates.hour), "day": str(rates.day),
        }  # fmt: skip

    def polled(self, event: e.DefragPolled) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the steps of a poll."""
        defrag, policy = self._manager.defrag.of(event.daemon), policy_in_force(self._manager.settings, event.daemon)
        last_arrival = defrag.arrivals.last
        evolve(self._manager, event)
        arrived = len(event.became_whole) + len(event.over_draining)
        passed = max(1, event.at // SECOND - last_arrival)
        arrivals = defrag.arrivals
        costs = {name: f"{event.costs.get(f'AvgDraining{name}', 0.0) * 100:.2f}" for name in ("Badput", "Unclaimed")}
        counts = {"draining": str(event.draining), "whole": str(event.whole), "wanted": str(event.wanted)}
        yield "polled", {
            **counts, **costs,
            "set_whole": _set(defrag.whole), "set_draining": _set(defrag.draining),
            "arrived": _set(event.became_whole), "departed": _set(event.over_draining),
            "rate": f"{arrived / passed * 3600:g}" if arrived and last_arrival else "",
            "machines": str(arrivals.machines), "mean": f"{arrivals.mean * 3600:g}" if arrivals.seconds else "",
            "deviation": f"{arrivals.deviation * 3600:g}",
        }  # fmt: skip
        for cancel in event.cancels:
            yield "cancel", {"slot": cancel.slot, "refused": cancel.refused}
        yield "canceled", {"canceled": str(sum(not cancel.refused for cancel in event.cancels))}
        if event.stopped:
            yield "stopped", {"reason": _reason(event, policy)}
            return
        yield "search", counts
        for drain in event.drains:
            yield "drain", {
                "schedule": policy.schedule.lower() if policy else "", "slot": drain.slot,
                "seconds": str(drain.seconds), "badput": str(drain.badput), "refused": drain.refused,
            }  # fmt: skip
        begun = sum(not drain.refused for drain in event.drains)
        full = "yes" if begun >= event.wanted else ""
        yield "ended", {**counts, "begun": str(begun), "full": full}


def _set(machines: set[str] | tuple[str, ...]) -> str:
    return "\n".join(f"\t {machine}" for machine in sorted(machines)) or "(no machines)"


def _reason(event: e.DefragPolled, policy: DefragPolicy | None) -> str:
    limit = {"concurrent": policy.most_draining, "whole": policy.most_whole}.get(event.stopped) if policy else None
    text = _NO_LIMIT[event.stopped] if limit == 0 else _STOPPED.get(event.stopped, event.stopped)
    return text.format(p=policy, wanted=event.wanted, draining=event.draining, whole=event.whole)
