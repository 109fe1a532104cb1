"""Measure group quotas: 1,000 groups in a tree with five levels, 10,000 submitters with a job each, 5,000 slots.

    python tests/bench/bench_group_quotas.py [GROUPS] [SUBMITTERS] [SLOTS]

``quotas``: usage, demand and quotas of the groups, and one allocation round, from the state and its caches.
``slices``: the shares and slices of each group's submitters. ``cycle``: whole cycles with and without groups, in which
jobs get slots until no slot is free. Each number is the CPU time of the fastest of three runs with separate states.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

from poolbook.domain.classad import Context
from poolbook.domain.events import ClusterSubmitted, MachineJoined, PoolFounded, SlotCreated, SlotTransitioned
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.negotiator import spins
from poolbook.domain.negotiator.cycle import hold_cycle
from poolbook.domain.negotiator.group_cycle import GroupCycle, PieBudget
from poolbook.domain.negotiator.groups.rounds import GroupRounds
from poolbook.domain.negotiator.slot_table import RowNumbers
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.caches import Caches
from poolbook.domain.state.pool_settings import complete_settings
from poolbook.domain.state.proc_ads import pack
from poolbook.domain.state.state import State

SECOND = 1_000_000
BEGAN = 1_795_000_000 * SECOND
DEPTH, REPEATS = 5, 3
JOB = {
    "Requirements": "TARGET.Memory >= RequestMemory", "Rank": "0.0", "RequestCpus": "1", "RequestMemory": "128",
    "RequestDisk": "1024", "JobUniverse": "5",
}  # fmt: skip
SLOT = {"Requirements": "Start", "Start": "true", "Rank": "0.0", "Cpus": "1", "Memory": "1024", "Disk": "100000"}


def group_names(count: int) -> list[str]:
    """Return the names of groups in a balanced tree of ``DEPTH`` levels."""
    names = [f"g{number}" for number in range(4)]
    parents = list(names)
    while len(names) < count:
        parent = parents.pop(0)
        children = [f"{parent}.s{number}" for number in range(4)][: count - len(names)]
        names += children
        parents += [name for name in children if name.count(".") < DEPTH - 1]
    return names


def pool_state(groups: list[str], submitters: int, slots: int) -> State:
    config = {"NEGOTIATOR_CONSIDER_PREEMPTION": "false", "GROUP_NAMES": " ".join(groups)}
    for number, name in enumerate(groups):
        level = name.count(".")
        if level == DEPTH - 1 and number % 2:
            config[f"GROUP_QUOTA_{name}"] = "2"
        else:
            config[f"GROUP_QUOTA_DYNAMIC_{name}"] = "0.2" if level else "0.25"
        config[f"GROUP_ACCEPT_SURPLUS_{name}"] = "true" if number % 2 else "false"
    state = State()
    evolve(state, PoolFounded(BEGAN, "founded", "x", "pool", "manual", "here", "1", complete_settings(config)))
    evolve(state, MachineJoined(BEGAN, "configured", "x", "h", {}, {}))
    for number in range(1, slots + 1):
        name = f"slot{number}@h"
        ad = SLOT | {"Name": f'"{name}"', "Machine": '"h"', "SlotID": str(number)}
        evolve(state, SlotCreated(BEGAN, "configured", "x", name, "h", "static", "", ad))
        evolve(state, SlotTransitioned(BEGAN, "told", "x", name, "1", "Owner/Idle", "Unclaimed/Idle"))
    for number in range(submitters):
        group = groups[number % len(groups)] + "." if groups else ""
        user = f"{group}user{number}@here"
        event = ClusterSubmitted(BEGAN, "submitted", "x", number + 1, user, JOB, 1, pack({}), "Idle", factor=1000.0)
        evolve(state, event)
    return state


def time_cycle(state: State, caches: Caches) -> float:
    began = time.process_time()
    hold_cycle(state, caches, PublishedSlots, lambda cause: (BEGAN, cause, "x"), Context(now=BEGAN // SECOND, seed=1))
    return time.process_time() - began


def time_parts(state: State, caches: Caches) -> tuple[float, float, int]:
    """Return the CPU seconds of quotas and of slices in a cycle, and the number of pies."""
    seconds, pies = [0.0, 0.0], list[float]()

    def timed(number: int, function: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object) -> object:
            began = time.process_time()
            try:
                return function(*arguments)
            finally:
                seconds[number] += time.process_time() - began

        return run

    def divide_pie(cycle: spins.NegotiationCycle, everyone: RowNumbers, budget: PieBudget) -> RowNumbers:
        cycle._update_usage()
        shares = cycle._shares(everyone)
        slices = cycle._slices(everyone, shares, min(cycle.total_cores, budget.limit))
        cycle._order(everyone, slices)
        pies.append(budget.limit)
        return everyone

    originals = (
        GroupCycle.assign_group_quotas,
        GroupCycle._request,
        GroupRounds._allocate,
        GroupRounds.in_order,
        spins.NegotiationCycle._divide_pie,
    )
    GroupCycle.assign_group_quotas, GroupCycle._request = timed(0, originals[0]), timed(0, originals[1])  # type: ignore[method-assign, assignment]
    GroupRounds._allocate, GroupRounds.in_order = timed(0, originals[2]), timed(0, originals[3])  # type: ignore[method-assign, assignment]
    spins.NegotiationCycle._divide_pie = timed(1, divide_pie)  # type: ignore[method-assign, assignment]
    try:
        time_cycle(state, caches)
    finally:
        GroupCycle.assign_group_quotas, GroupCycle._request, GroupRounds._allocate, GroupRounds.in_order = originals[:4]  # type: ignore[method-assign]
        spins.NegotiationCycle._divide_pie = originals[4]  # type: ignore[method-assign]
    return seconds[0], seconds[1], len(pies)


def main() -> None:
    groups, submitters, slots = (int(text) for text in [*sys.argv[1:], *("1000", "10000", "5000")[len(sys.argv) - 1 :]])
    tree = group_names(groups)
    quotas, slices, pies = list[float](), list[float](), 0
    with_groups, without = list[float](), list[float]()
    for _ in range(REPEATS):
        for names, cycle_times in ((tree, with_groups), ([], without)):
            state, caches = pool_state(names, submitters, slots), Caches()
            time_cycle(state, caches)  # creates the columns, which exist in every cycle but the first
            gc.collect()
            if cycle_times is with_groups:
                quota_seconds, slice_seconds, pies = time_parts(state, caches)
                quotas.append(quota_seconds)
                slices.append(slice_seconds)
            cycle_times.append(time_cycle(state, caches))
    levels = max(name.count(".") for name in tree) + 1
    print(f"{len(tree)} groups in {levels} levels, {submitters} submitters, {slots} slots")
    print(f"quotas {min(quotas) * 1000:.1f} ms, slices {min(slices) * 1000:.1f} ms ({pies} pies)")
    print(f"cycle {min(with_groups) * 1000:.0f} ms, without groups {min(without) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
