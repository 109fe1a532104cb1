"""Measure negotiation cycles: a workload that an HTCondor pool was measured with, and larger ones.

    python tests/bench/bench_negotiation.py [CASE ...] [--peer DIR --peer-script SCRIPT]

The slots have the ad of a recorded slot with other names, addresses and sizes: half of them have 8192 MB, half 2048 MB.
Before each cycle 1 % of the slots' ads change. The time includes encoding the cycle's events for the log. Each
measurement runs in a separate process, which shows its memory.
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
from collections.abc import Callable, Iterator, Sequence
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
from poolbook.domain.state.pool_settings import complete_settings
from poolbook.domain.state.proc_ads import pack
from poolbook.domain.state.state import State

SECOND = 1_000_000
BEGAN = 1_795_000_000 * SECOND
HEADER = (BEGAN, "configured", "bench")
SLOT = Path(__file__).parent.parent / "data" / "classad" / "slot.ad"
_NOT_STATIC = re.compile(
    "Child|NumDynamic|PartitionableSlot|PslotRollup|AddressV1|LastHeardFrom|Authenticat|Update|(Recent)?NewDSlot"
)
REQUIREMENTS = (
    '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (versionGE(split(TARGET.CondorVersion)[1],"25.12.0") || '
    "(TARGET.Disk >= RequestDisk)) && (TARGET.Memory >= RequestMemory) && (TARGET.HasFileTransfer)"
)
NEVER_TRUE_CLAUSE = " && ((TARGET.Disk + TARGET.Memory) % 7 == 9)"


def slot_ads(count: int) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the names, machines and ads of slots, 8 for each machine."""
    with SLOT.open() as lines:
        attributes = dict(line.rstrip("\n").split(" = ", 1) for line in lines if " = " in line)
    attributes = {name: text for name, text in attributes.items() if not _NOT_STATIC.match(name)}
    intern: dict[str, str] = {}
    for number in range(count):
        machine, slot = divmod(number, 8)
        host, memory = f"node{machine:06d}.example.org", (8192, 2048)[number % 2]
        address = f'"<127.{1 + machine // 65536}.{machine // 256 % 256}.{machine % 256}:1?alias={host}>"'
        ad = attributes | {
            "Name": f'"slot{slot + 1}@{host}"', "Machine": f'"{host}"', "UtsnameNodename": f'"{host}"',
            "MyAddress": address, "StartdIpAddr": address, "SlotID": str(slot + 1), "SlotTypeID": "1",
            "SlotType": '"Static"', "Memory": str(memory), "TotalSlotMemory": str(memory), "Cpus": "1",
            "TotalSlotCpus": "1", "TotalSlots": "8", "Disk": str(10_000_000 + number), "Start": "true",
        }  # fmt: skip
        yield f"slot{slot + 1}@{host}", host, {intern.setdefault(k, k): intern.setdefault(v, v) for k, v in ad.items()}


def empty_pool(dialect: str = "htcondor-25") -> State:
    state = State()
    evolve(state, PoolFounded(*HEADER, "bench", dialect, "example.org", "0", complete_settings(SETTINGS)))
    return state


def add_slots(state: State, count: int) -> None:
    for name, host, ad in slot_ads(count):
        if host not in state.machines:
            evolve(state, MachineJoined(*HEADER, host, {}, {}))
        evolve(state, SlotCreated(*HEADER, name, host, "static", "", ad))
        evolve(state, SlotTransitioned(*HEADER, name, "1", "Owner/Idle", "Unclaimed/Idle"))


def add_jobs(
    state: State,
    jobs: int,
    kinds: int,
    requirements: str = REQUIREMENTS,
    *,
    submitters: int = 1,
    rank: str = "0.0",
    memory: int = 4000,
    attribute: str = "RequestMemory",
) -> None:
    """Submit one cluster for each submitter. Its jobs are of several kinds, which differ in a resource request."""
    first = state.next_cluster
    for user_number in range(submitters):
        job_count = jobs // submitters
        requests = [
            str((memory if attribute == "RequestMemory" else 1024) + number * kinds // job_count)
            for number in range(job_count)
        ]
        ad = {"Requirements": requirements, "RequestCpus": "1", "RequestDisk": "1024", "RequestMemory": str(memory)}
        ad |= {"Rank": rank, "JobUniverse": "5", "JobPrio": "0"}
        ad |= {"Owner": f'"user{user_number}"', "User": f'"user{user_number}@example.org"'}
        del ad[attribute]
        submitter = f"user{user_number}@example.org"
        columns = pack({attribute: requests})
        evolve(state, ClusterSubmitted(*HEADER, first + user_number, submitter, ad, job_count, columns, "Idle"))


SETTINGS = {"SCHEDD_ENABLE_PER_USER_MATCH_LIMITS": "false"}  # as in the HTCondor pool
TABLES = {dialect: Tables(dialect) for dialect in ("manual", "htcondor-25")}


def cycle(state: State, caches: Caches, number: int) -> tuple[float, list[Event]]:
    """Run a cycle; return its time, including the encoding of its events, and the events."""
    tables = TABLES[state.dialect.name]
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    events = decide(state, s.Negotiate(f"cycle-{number}"), BEGAN + number * 60 * SECOND, tables, caches=caches)
    CODEC.encode(events)
    seconds = time.perf_counter() - start
    gc.enable()
    return seconds, events


def change_ads(state: State, number: int) -> None:
    """Change one percent of the slots' ads: less disk space, another load."""
    names = list(state.slots)
    for name in names[number % 100 :: 100]:
        disk = int(state.slots[name].ad["Disk"]) - 1
        header = (BEGAN + number * 60 * SECOND - 1, "configured", f"change-{number}")
        evolve(state, SlotAdChanged(*header, name, {"Disk": str(disk), "LoadAvg": f"{number / 100:.2f}"}))


def count_matches(events: Sequence[Event]) -> int:
    return sum(len(event.matches) for event in events if isinstance(event, CycleHeld))


def nothing_matches(slots: int, kinds: int, dialect: str = "htcondor-25") -> Measurements:
    state, caches = empty_pool(dialect), Caches()
    add_slots(state, slots)
    add_jobs(state, kinds, kinds, REQUIREMENTS + NEVER_TRUE_CLAUSE)
    first, events = cycle(state, caches, 1)
    cycle_times = []
    for number in range(2, 7):
        change_ads(state, number)
        cycle_times.append(cycle(state, caches, number)[0])
    unchanged = min(cycle(state, caches, number)[0] for number in range(7, 10))
    assert not count_matches(events)
    return Measurements(first, sorted(cycle_times)[2], unchanged, 0, peak())


def some_match(slots: int, jobs: int, kinds: int, dialect: str = "htcondor-25", **job_options: Any) -> Measurements:
    """Measure a cycle after one with a single job whose Requirements read the same attributes."""
    state, caches = empty_pool(dialect), Caches()
    add_slots(state, slots)
    add_jobs(state, 1, 1, REQUIREMENTS + NEVER_TRUE_CLAUSE)
    first = cycle(state, caches, 1)[0]
    change_ads(state, 2)
    add_jobs(state, jobs, kinds, **job_options)
    seconds, events = cycle(state, caches, 2)
    cycle(state, caches, 3)
    unchanged = min(cycle(state, caches, number)[0] for number in range(4, 7))
    return Measurements(first, seconds, unchanged, count_matches(events), peak())


class Measurements(NamedTuple):
    """The measurements of one case."""

    first: float  #: seconds of the first cycle, which builds the table
    cycle: float  #: seconds of the measured cycle
    unchanged: float  #: seconds of a cycle in which nothing has changed
    matches: int
    peak: float  #: the process's peak memory in MB


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


SIMILAR = "TARGET.Disk + (TARGET.Disk * RequestMemory) % 1009"
DIFFERENT = "(TARGET.Disk * (RequestMemory - 3990)) % 100003"


class Case(NamedTuple):
    description: str
    run: Callable[[], Measurements]
    aim: float  #: seconds
    memory: float = 0.0  #: MB; 0: no aim


CASES: dict[str, Case] = {
    "none": Case("10,000 slots, 100 kinds, no match", lambda: nothing_matches(10_000, 100), 0.015),
    "none-manual": Case("  the manual's dialect", lambda: nothing_matches(10_000, 100, "manual"), 0.015),
    "equal": Case("10,000 slots, 5,000 matches of 10 kinds, ranks equal", lambda: some_match(10_000, 5_000, 10), 0.05),
    "equal-manual": Case("  the manual's dialect", lambda: some_match(10_000, 5_000, 10, "manual"), 0.05),
    "different": Case("  ranks different", lambda: some_match(10_000, 5_000, 10, rank=DIFFERENT), 0.15),
    "half": Case(
        "100,000 slots, 1,000 kinds, 100,000 jobs, half match", lambda: some_match(100_000, 100_000, 1000), 5, 700
    ),
    "similar": Case("  rank orders similar", lambda: some_match(100_000, 100_000, 1000, rank=SIMILAR), 6, 700),
    "unlike": Case("  rank orders different", lambda: some_match(100_000, 100_000, 1000, rank=DIFFERENT), 6, 700),
    "all": Case("  all slots match", lambda: some_match(100_000, 100_000, 1000, memory=1000), 12, 700),
    "large": Case(
        "1,000,000 slots, 10,000 kinds, 10,000,000 jobs", lambda: some_match(1_000_000, 10_000_000, 10_000), 15, 8000
    ),
}
_ON_REQUEST = "large"  #: takes minutes, so it runs only if it is named


def run_separately(arguments: Sequence[str]) -> Measurements:
    """Run a measurement in a separate process."""
    process = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(process.stderr)
    return Measurements(*json.loads(process.stdout))


def measure_htcondor(folder: str, script: str, verb: str, *options: str) -> dict[str, float]:
    process = subprocess.run([script, folder, verb, *options], capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(process.stderr)
    numbers: dict[str, float] = json.loads(process.stdout)
    return numbers


def report_cases(names: Sequence[str], peer: str, script: str) -> bool:
    missed = False
    print(f"{'':56}{'a cycle':>12}{'aim':>8}{'':>9}{'memory':>10}{'the first':>13}{'unchanged':>13}{'HTCondor':>22}")
    for name in names:
        case = CASES[name]
        htcondor = ""
        if peer and name == "none":
            numbers = measure_htcondor(peer, script, "negotiate", "--slots", "10000", "--autoclusters", "100")
            htcondor = f"{numbers['negotiate_seconds']:.2f} s"
        elif peer and name == "equal":
            numbers = measure_htcondor(
                peer, script, "match", "--slots", "10000", "--jobs", "5000", "--autoclusters", "10"
            )
            htcondor = f"{numbers['negotiate_cpu_seconds']:.2f} s CPU, {numbers['negotiate_seconds']:.2f} s"
        figures = run_separately(["--one", name])
        met = (
            figures.cycle < case.aim
            and (not case.memory or figures.peak < case.memory)
            and figures.unchanged < figures.first / 50
        )
        missed = missed or not met
        print(
            f"{case.description:56}{figures.cycle:10.3f} s{case.aim:8.2f}{'   met' if met else '   MISSED':>9}"
            f"{figures.peak:7.0f} MB{figures.first:11.2f} s{figures.unchanged:11.4f} s{htcondor:>22}",
            flush=True,
        )
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"any of {', '.join(CASES)} (default: all but {_ON_REQUEST})")
    parser.add_argument("--peer", default="", help="the directory of an HTCondor pool built by the script")
    parser.add_argument("--peer-script", default="", help="the script that measures the HTCondor pool")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(CASES[options.one].run()))
    elif report_cases(
        options.cases or [name for name in CASES if name != _ON_REQUEST], options.peer, options.peer_script
    ):
        sys.exit(1)


if __name__ == "__main__":
    main()
