"""Sample a pool for its history: from its ads now, or from its log at any time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ...domain.classad import ClassAd, Context
from ...domain.startd.public_ad import PublishedSlots
from ...domain.state.caches import Caches
from ...domain.state.state import State
from ...projections.pool_history import SlotSample, SubmitterSample


def slot_sample(ad: ClassAd, context: Context) -> SlotSample:
    """Return the sample of a slot's ad."""
    platform = "/".join(ad.text(name) or "Unknown" for name in ("Arch", "OpSys"))
    load, idle = (ad.eval(name, context=context) for name in ("LoadAvg", "KeyboardIdle"))
    return SlotSample(
        ad.text("Name"), platform, ad.text("State"), idle if type(idle) is int else 0,
        float(load) if isinstance(load, int | float) else 0.0,
    )  # fmt: skip


def submitter_sample(ad: ClassAd) -> SubmitterSample:
    """Return the sample of a submitter's ad."""
    running, idle = (ad.eval(name) for name in ("RunningJobs", "IdleJobs"))
    counts = (count if type(count) is int else 0 for count in (running, idle))
    return SubmitterSample(ad.text("Name"), ad.text("ScheddName") or ad.text("Machine"), *counts)


def slots_at(state: State, now: int, names: Iterable[str] | None = None) -> Iterator[SlotSample]:
    """Yield the samples of a pool's slots, or of those with some names, at an instant in seconds."""
    context = Context(now=now, user_maps=state.user_maps)
    published = PublishedSlots(state, Caches(), now * 1_000_000, context)
    for name in state.slots if names is None else names:
        if name in state.slots:
            yield slot_sample(published.ad(state.slots[name]), context)


def states_at(state: State) -> Iterator[SlotSample]:
    """Yield samples of a pool's slots without their load and idle time, which is much faster."""
    for slot in state.slots.values():
        machine = state.machines[slot.machine].ad
        platform = "/".join(machine.get(name, "Unknown").strip('"') for name in ("Arch", "OpSys"))
        yield SlotSample(slot.name, platform, slot.state_activity.partition("/")[0], 0, 0.0)


def submitters_at(state: State) -> Iterator[SubmitterSample]:
    """Yield the samples of the submitters with jobs in the queue."""
    running: Counter[str] = Counter()
    idle: Counter[str] = Counter()
    for cluster in state.clusters.values():
        idle[cluster.submitter] += cluster.status_counts[1]
        running[cluster.submitter] += sum(cluster.status_counts[status] for status in (2, 6, 7))
    for name in sorted(running.keys() | idle.keys()):
        yield SubmitterSample(name, state.name, running[name], idle[name])
