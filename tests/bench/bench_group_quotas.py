"""What group quotas cost: 1,000 groups in a tree five deep, 10,000 submitters with a job each, 5,000 slots.

    python tests/bench/bench_group_quotas.py [GROUPS] [SUBMITTERS] [SLOTS]

``quotas``: the groups' usage, demand, quotas and one round's allocation, from the state and what is kept of it.
``slices``: for each group the shares and slices of its submitters. ``cycle``: whole cycles, with the groups and without
any, in which every job gets a slot as long as there are any. The least of three, each on a state of its own, in
seconds of a processor.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

from poolbook.domain.classad import Context
from poolbook.domain.events import ClusterSubmitted, MachineJoined, PoolFounded, SlotCreated, SlotTransitioned
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.negotiator import spins as cycles
from poolbook.domain.negotiator.cycle import hold
from poolbook.domain.negotiator.group_cycle import Budget, GroupTurns
from poolbook.domain.negotiator.groups.rounds import Rounds
from poolbook.domain.negotiator.slot_table import Places
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.caches import Caches
from poolbook.domain.state.pool_settings import settings
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


def names(count: int) -> list[str]:
    """Groups in a tree that is as even as it can be, ``DEPTH`` levels deep."""
    found = [f"g{number}" for number in range(4)]
    parents = list(found)
    while len(found) < count:
        parent = parents.pop(0)
        below = [f"{parent}.s{number}" for number in range(4)][: count - len(found)]
        found += below
        parents += [name for name in below if name.count(".") < DEPTH - 1]
    return found


def state(groups: list[str], submitters: int, slots: int) -> State:
    told = {"NEGOTIATOR_CONSIDER_PREEMPTION": "false", "GROUP_NAMES": " ".join(groups)}
    for number, name in enumerate(groups):
        level = name.count(".")
        if level == DEPTH - 1 and number % 2:
            told[f"GROUP_QUOTA_{name}"] = "2"
        else:
            told[f"GROUP_QUOTA_DYNAMIC_{name}"] = "0.2" if level else "0.25"
        told[f"GROUP_ACCEPT_SURPLUS_{name}"] = "true" if number % 2 else "false"
    found = State()
    evolve(found, PoolFounded(BEGAN, "founded", "x", "pool", "manual", "here", "1", settings(told)))
    evolve(found, MachineJoined(BEGAN, "configured", "x", "h", {}, {}))
    for number in range(1, slots + 1):
        name = f"slot{number}@h"
        ad = SLOT | {"Name": f'"{name}"', "Machine": '"h"', "SlotID": str(number)}
        evolve(found, SlotCreated(BEGAN, "configured", "x", name, "h", "static", "", ad))
        evolve(found, SlotTransitioned(BEGAN, "told", "x", name, "1", "Owner/Idle", "Unclaimed/Idle"))
    for number in range(submitters):
        group = groups[number % len(groups)] + "." if groups else ""
        who = f"{group}user{number}@here"
        event = ClusterSubmitted(BEGAN, "submitted", "x", number + 1, who, JOB, 1, pack({}), "Idle", factor=1000.0)
        evolve(found, event)
    return found


def held(found: State, caches: Caches) -> float:
    began = time.process_time()
    hold(found, caches, PublishedSlots, lambda cause: (BEGAN, cause, "x"), Context(now=BEGAN // SECOND, seed=1))
    return time.process_time() - began


def parts(found: State, caches: Caches) -> tuple[float, float, int]:
    """What quotas, and slices, cost in a cycle, and how many pies were cut."""
    spent, pies = [0.0, 0.0], list[float]()

    def timed(number: int, call: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object) -> object:
            began = time.process_time()
            try:
                return call(*arguments)
            finally:
                spent[number] += time.process_time() - began

        return run

    def slices(turn: cycles.Turn, everyone: Places, budget: Budget) -> Places:
        turn._follow_gifts()
        shares = turn._shares(everyone)
        whole = turn._slices(everyone, shares, min(turn.total, budget.limit))
        turn._order(everyone, whole)
        pies.append(budget.limit)
        return everyone

    kept = (GroupTurns.begin, GroupTurns._request, Rounds._allocate, Rounds.in_order, cycles.Turn._share_out)
    GroupTurns.begin, GroupTurns._request = timed(0, kept[0]), timed(0, kept[1])  # type: ignore[method-assign, assignment]
    Rounds._allocate, Rounds.in_order = timed(0, kept[2]), timed(0, kept[3])  # type: ignore[method-assign, assignment]
    cycles.Turn._share_out = timed(1, slices)  # type: ignore[method-assign, assignment]
    try:
        held(found, caches)
    finally:
        GroupTurns.begin, GroupTurns._request, Rounds._allocate, Rounds.in_order = kept[:4]  # type: ignore[method-assign]
        cycles.Turn._share_out = kept[4]  # type: ignore[method-assign]
    return spent[0], spent[1], len(pies)


def main() -> None:
    groups, submitters, slots = (int(text) for text in [*sys.argv[1:], *("1000", "10000", "5000")[len(sys.argv) - 1 :]])
    tree, none = names(groups), list[str]()
    quotas, turns, pies = list[float](), list[float](), 0
    with_groups, without = list[float](), list[float]()
    for _ in range(REPEATS):
        for found, whole in ((state(tree, submitters, slots), with_groups), (state(none, submitters, slots), without)):
            caches = Caches()
            held(found, caches)  # so that the columns are there, as in every cycle but the first
            gc.collect()
            if whole is with_groups:
                first, second, pies = parts(found, caches)
                quotas.append(first)
                turns.append(second)
            whole.append(held(found, caches))
    print(
        f"{len(tree)} groups, {max(name.count('.') for name in tree) + 1} deep, {submitters} submitters, {slots} slots"
    )
    print(f"quotas {min(quotas) * 1000:.1f} ms, slices {min(turns) * 1000:.1f} ms ({pies} pies)")
    print(f"cycle {min(with_groups) * 1000:.0f} ms, without groups {min(without) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
