"""What a negotiation cycle costs: the workload of a real pool's measurement, and larger ones.

    python tests/bench/bench_negotiation.py [CASE ...] [--curve FILE] [--peer DIR --peer-script SCRIPT]

The slots are a real slot's ad, as a real pool has it, with other names, addresses, and sizes: half of them have
8192 MB, half 2048 MB. The clock runs from the state that the last cycle left, with 1 % of the slots' ads changed,
to the events of the cycle as the log would write them. Each measurement is a process of its own, so that its memory
is its own.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log10
from pathlib import Path
from typing import Any, NamedTuple

from poolbook.adapters.stores.codec import CODEC
from poolbook.domain.decide import Tables, decide
from poolbook.domain.events import (
    ClusterSubmitted,
    CycleHeld,
    Event,
    MachineJoined,
    PoolFounded,
    SlotAdChanged,
    SlotCreated,
    SlotTransitioned,
)
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.caches import Caches
from poolbook.domain.state.pool_settings import settings
from poolbook.domain.state.proc_ads import pack
from poolbook.domain.state.state import State

SECOND = 1_000_000
BEGAN = 1_795_000_000 * SECOND
WHY = (BEGAN, "configured", "bench")
SLOT = Path(__file__).parent.parent / "data" / "classad" / "slot.ad"
_NOT_STATIC = re.compile(
    "Child|NumDynamic|PartitionableSlot|PslotRollup|AddressV1|LastHeardFrom|Authenticat|Update|(Recent)?NewDSlot"
)
LAST_CLAUSE = (
    '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (versionGE(split(TARGET.CondorVersion)[1],"25.12.0") || '
    "(TARGET.Disk >= RequestDisk)) && (TARGET.Memory >= RequestMemory) && (TARGET.HasFileTransfer)"
)
NEVER = " && ((TARGET.Disk + TARGET.Memory) % 7 == 9)"


def slot_ads(count: int) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Names, machines and ads: 8 slots to a machine."""
    with SLOT.open() as lines:
        real = dict(line.rstrip("\n").split(" = ", 1) for line in lines if " = " in line)
    real = {name: text for name, text in real.items() if not _NOT_STATIC.match(name)}
    intern: dict[str, str] = {}
    for number in range(count):
        machine, slot = divmod(number, 8)
        host, memory = f"node{machine:06d}.example.org", (8192, 2048)[number % 2]
        address = f'"<127.{1 + machine // 65536}.{machine // 256 % 256}.{machine % 256}:1?alias={host}>"'
        ad = real | {
            "Name": f'"slot{slot + 1}@{host}"', "Machine": f'"{host}"', "UtsnameNodename": f'"{host}"',
            "MyAddress": address, "StartdIpAddr": address, "SlotID": str(slot + 1), "SlotTypeID": "1",
            "SlotType": '"Static"', "Memory": str(memory), "TotalSlotMemory": str(memory), "Cpus": "1",
            "TotalSlotCpus": "1", "TotalSlots": "8", "Disk": str(10_000_000 + number), "Start": "true",
        }  # fmt: skip
        yield f"slot{slot + 1}@{host}", host, {intern.setdefault(k, k): intern.setdefault(v, v) for k, v in ad.items()}


def founded() -> State:
    state = State()
    evolve(state, PoolFounded(*WHY, "bench", "htcondor-25", "example.org", "0", settings(SETTINGS)))
    return state


def with_slots(state: State, count: int) -> None:
    for name, host, ad in slot_ads(count):
        if host not in state.machines:
            evolve(state, MachineJoined(*WHY, host, {}, {}))
        evolve(state, SlotCreated(*WHY, name, host, "static", "", ad))
        evolve(state, SlotTransitioned(*WHY, name, "1", "Owner/Idle", "Unclaimed/Idle"))


def with_jobs(
    state: State,
    jobs: int,
    kinds: int,
    requirements: str = LAST_CLAUSE,
    *,
    submitters: int = 1,
    rank: str = "0.0",
    memory: int = 4000,
    by: str = "RequestMemory",
) -> None:
    """One cluster of each submitter, its jobs in so many kinds, as the peer's: they differ in what they request."""
    first = state.next_cluster
    for who in range(submitters):
        mine = jobs // submitters
        wanted = [str((memory if by == "RequestMemory" else 1024) + number * kinds // mine) for number in range(mine)]
        ad = {"Requirements": requirements, "RequestCpus": "1", "RequestDisk": "1024", "RequestMemory": str(memory)}
        ad |= {"Rank": rank, "JobUniverse": "5", "JobPrio": "0"}
        ad |= {"Owner": f'"user{who}"', "User": f'"user{who}@example.org"'}
        del ad[by]
        submitter = f"user{who}@example.org"
        evolve(state, ClusterSubmitted(*WHY, first + who, submitter, ad, mine, pack({by: wanted}), "Idle"))


SETTINGS = {"SCHEDD_ENABLE_PER_USER_MATCH_LIMITS": "false"}  # as the peer's
TABLES = Tables("htcondor-25")


def cycle(state: State, caches: Caches, number: int) -> tuple[float, list[Event]]:
    """Hold a cycle, to its events as the log would keep them."""
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    events = decide(state, s.Negotiate(f"cycle-{number}"), BEGAN + number * 60 * SECOND, TABLES, caches=caches)
    CODEC.encode(events)
    seconds = time.perf_counter() - start
    gc.enable()
    return seconds, events


def change(state: State, number: int) -> None:
    """One percent of the slots' ads: some disk space less, another load."""
    names = list(state.slots)
    for name in names[number % 100 :: 100]:
        disk = int(state.slots[name].ad["Disk"]) - 1
        why = (BEGAN + number * 60 * SECOND - 1, "configured", f"change-{number}")
        evolve(state, SlotAdChanged(*why, name, {"Disk": str(disk), "LoadAvg": f"{number / 100:.2f}"}))


def matched(events: Sequence[Event]) -> int:
    return sum(len(event.matches) for event in events if isinstance(event, CycleHeld))


def nothing_matches(slots: int, kinds: int) -> Figures:
    state, caches = founded(), Caches()
    with_slots(state, slots)
    with_jobs(state, kinds, kinds, LAST_CLAUSE + NEVER)
    first, events = cycle(state, caches, 1)
    found = []
    for number in range(2, 7):
        change(state, number)
        found.append(cycle(state, caches, number)[0])
    again = min(cycle(state, caches, number)[0] for number in range(7, 10))
    assert not matched(events)
    return Figures(first, sorted(found)[2], again, 0, peak())


def some_match(slots: int, jobs: int, kinds: int, **what: Any) -> Figures:
    """The last cycle had one job, which reads what those that come then read."""
    state, caches = founded(), Caches()
    with_slots(state, slots)
    with_jobs(state, 1, 1, LAST_CLAUSE + NEVER)
    first = cycle(state, caches, 1)[0]
    change(state, 2)
    with_jobs(state, jobs, kinds, **what)
    seconds, events = cycle(state, caches, 2)
    cycle(state, caches, 3)
    again = min(cycle(state, caches, number)[0] for number in range(4, 7))
    return Figures(first, seconds, again, matched(events), peak())


class Figures(NamedTuple):
    """Seconds of the first cycle, which builds the table; of the one that is measured; of one in which nothing has
    changed; matches; and the process's peak of memory in MB."""

    first: float
    cycle: float
    unchanged: float
    matches: int
    peak: float


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


SIMILAR = "TARGET.Disk + (TARGET.Disk * RequestMemory) % 1009"
DIFFERENT = "(TARGET.Disk * (RequestMemory - 3990)) % 100003"


class Case(NamedTuple):
    words: str
    run: Callable[[], Figures]
    aim: float
    """Seconds."""
    memory: float = 0.0
    """MB; 0: no aim."""


CASES: dict[str, Case] = {
    "none": Case("10,000 slots, 100 kinds, no match", lambda: nothing_matches(10_000, 100), 0.04),
    "equal": Case("10,000 slots, 5,000 matches of 10 kinds, ranks equal", lambda: some_match(10_000, 5_000, 10), 0.12),
    "different": Case("  ranks different", lambda: some_match(10_000, 5_000, 10, rank=DIFFERENT), 0.15),
    "half": Case(
        "100,000 slots, 1,000 kinds, 100,000 jobs, half match", lambda: some_match(100_000, 100_000, 1000), 5, 700
    ),
    "similar": Case("  rank orders similar", lambda: some_match(100_000, 100_000, 1000, rank=SIMILAR), 6, 700),
    "unlike": Case("  rank orders different", lambda: some_match(100_000, 100_000, 1000, rank=DIFFERENT), 6, 700),
    "all": Case("  all slots go", lambda: some_match(100_000, 100_000, 1000, memory=1000), 12, 700),
}

SERIES: dict[str, tuple[str, Callable[[int], Figures]]] = {
    "slots": (
        "100 kinds, 10 submitters, a job for every other slot",
        lambda n: some_match(n, max(10, n // 2), min(100, max(1, n // 20)), submitters=min(10, n), by="RequestDisk"),
    ),
    "autoclusters": ("10,000 slots, one submitter", lambda n: some_match(10_000, max(5_000, n), n, by="RequestDisk")),
    "submitters": (
        "10,000 slots, 100 kinds",
        lambda n: some_match(
            10_000, max(5_000, n), min(100, max(1, max(5_000, n) // n)), submitters=n, by="RequestDisk"
        ),
    ),
}
COUNTS = (10, 100, 1_000, 10_000, 100_000)


def measured(arguments: Sequence[str]) -> Figures:
    """A measurement in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return Figures(*json.loads(done.stdout))


def peers(folder: str, script: str, verb: str, *options: str) -> dict[str, float]:
    done = subprocess.run([script, folder, verb, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def report(names: Sequence[str], peer: str, script: str) -> bool:
    missed = False
    print(f"{'':56}{'a cycle':>12}{'aim':>8}{'':>9}{'memory':>10}{'the first':>13}{'unchanged':>13}{'real pool':>22}")
    for name in names:
        case = CASES[name]
        beside = ""
        if peer and name == "none":
            found = peers(peer, script, "negotiate", "--slots", "10000", "--autoclusters", "100")
            beside = f"{found['negotiate_seconds']:.2f} s"
        elif peer and name == "equal":
            found = peers(peer, script, "match", "--slots", "10000", "--jobs", "5000", "--autoclusters", "10")
            beside = f"{found['negotiate_cpu_seconds']:.2f} s CPU, {found['negotiate_seconds']:.2f} s"
        got = measured(["--one", name])
        met = got.cycle < case.aim and (not case.memory or got.peak < case.memory) and got.unchanged < got.first / 50
        missed = missed or not met
        print(
            f"{case.words:56}{got.cycle:10.3f} s{case.aim:8.2f}{'   met' if met else '   MISSED':>9}{got.peak:7.0f} MB"
            f"{got.first:11.2f} s{got.unchanged:11.4f} s{beside:>22}",
            flush=True,
        )
    return missed


def curve(file: Path) -> None:
    """Measure and draw the cost against the numbers of slots, autoclusters and submitters."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for name, (words, _) in SERIES.items():
        print(f"{name}: {words}")
        lines[name] = []
        for count in COUNTS:
            got = measured(["--point", name, str(count)])
            lines[name].append((count, got.cycle))
            print(
                f"  {count:>7,} {got.cycle:10.4f} s  {got.matches:>6} matches, unchanged {got.unchanged:.4f} s",
                flush=True,
            )
    file.write_text(drawn(lines))


def drawn(lines: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    """The curves as a picture, both axes logarithmic."""
    left, top, width, height = 70, 20, 480, 320
    low, high = -3, 3

    def at(count: float, seconds: float) -> tuple[float, float]:
        x = left + width * (log10(count) - 1) / 4
        return x, top + height * (high - log10(seconds)) / (high - low)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 130}" height="{top + height + 50}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for power in range(low, high + 1):
        y = at(10, 10**power)[1]
        out.append(f'<line x1="{left}" x2="{left + width}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 8}" y="{y + 4:.0f}" text-anchor="end">{10.0**power:g} s</text>')
    for count in COUNTS:
        x = at(count, 1)[0]
        out.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{top}" y2="{top + height}" stroke="#ddd"/>')
        out.append(f'<text x="{x:.0f}" y="{top + height + 18}" text-anchor="middle">{count:,}</text>')
    for (name, points), colour in zip(lines.items(), ("#1f77b4", "#d62728", "#2ca02c"), strict=True):
        places = [at(*point) for point in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x, y = places[-1]
        out.append(f'<text x="{x + 8:.0f}" y="{y + 4:.0f}" fill="{colour}">{name}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; all, unless named")
    parser.add_argument("--curve", type=Path, help="measure the curves instead, and draw them into this file")
    parser.add_argument("--peer", default="", help="the folder of a built real pool")
    parser.add_argument("--peer-script", default="", help="the script that measures it")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(CASES[chosen.one].run()))
    elif chosen.point:
        print(json.dumps(SERIES[chosen.point[0]][1](int(chosen.point[1]))))
    elif chosen.curve:
        curve(chosen.curve)
    elif report(chosen.cases or list(CASES), chosen.peer, chosen.peer_script):
        sys.exit(1)


if __name__ == "__main__":
    main()
