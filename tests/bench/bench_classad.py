"""The ClassAd engine's figures, beside the reference library's in the same process.

Run with ``make bench``. Prints one line a figure: what was measured, the reference's time, Poolbook's, the aim. Ends
with 1 where an aim is missed. Times are the best of several repetitions: on a noisy machine that is what code can do.
"""

from __future__ import annotations

import gc
import gzip
import os
import random
import subprocess
import sys
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path"), str(ROOT)]

import classad2  # noqa: E402
import htcondor2  # noqa: E402  (it puts classad2 into the daemons' mode)
from tests.bench.pool import REQUIREMENTS, SLOT_AD, slot_texts  # noqa: E402

from poolbook.domain.classad import ClassAd, Context, parse  # noqa: E402
from poolbook.domain.classad import ad as ad_module  # noqa: E402
from poolbook.domain.classad.table import SlotTable  # noqa: E402

SLOTS = 10_000
MANY = 100_000
DATA = ROOT / "tests" / "data" / "classad"

POLICIES = (
    '(KeyboardIdle > 300) && ((LoadAvg - CondorLoadAvg) <= 0.5 || (State != "Unclaimed" && State != "Owner"))',
    'TARGET.RequestCpus <= Cpus && TARGET.RequestMemory <= Memory && Arch == "X86_64" && OpSys == "LINUX"',
    'ifThenElse(Cpus > 1, Memory / Cpus, 0) >= 100 && TARGET.Owner =?= "alice"',
)


class Report:
    """The lines printed, and whether all aims were met."""

    def __init__(self) -> None:
        self.missed = 0

    def line(self, what: str, peer: str, ours: str, aim: str, met: bool) -> None:
        self.missed += not met
        print(f"{what:58} {peer:>14} {ours:>14}   {aim:22} {'met' if met else 'MISSED'}", flush=True)


def seconds(run: Callable[[], Any], number: int, repeat: int = 7) -> float:
    """The best time of one call."""
    gc.collect()
    return min(timeit.repeat(run, number=number, repeat=repeat)) / number


def job(cpus: int = 1, memory: int = 1024, disk: int = 100_000) -> ClassAd:
    """A job as condor_submit describes it."""
    return ClassAd(
        {
            "Requirements": parse(REQUIREMENTS),
            "Rank": parse("0.0"),
            "RequestCpus": cpus,
            "RequestMemory": memory,
            "RequestDisk": disk,
            "FileSystemDomain": "submit.example.org",
            "Owner": "alice",
        }
    )


def scalar(report: Report) -> None:
    """One ad against one other, and parsing."""
    text = SLOT_AD.read_text()
    slot, asking = ClassAd.from_old(text), job()
    peer_slot = classad2.parseNext(text)
    peer_job = classad2.ClassAd(asking.to_new())
    for policy in POLICIES:
        ours, peer = parse(policy), classad2.ExprTree(policy)
        mine = seconds(partial(ours.evaluate, slot, asking), 20_000)
        theirs = seconds(partial(peer.eval, peer_slot, peer_job), 20_000)
        what = f"evaluate {policy[:44]}..."
        report.line(what, us(theirs), us(mine), f"half: {mine / theirs:.2f}", mine <= theirs / 2)

    short = '(TARGET.Memory >= RequestMemory) && (Arch == "X86")'
    mine, theirs = seconds(lambda: parse(short), 5_000), seconds(lambda: classad2.ExprTree(short), 5_000)
    report.line(
        f"parse {len(short)} characters", us(theirs), us(mine), f"5 times: {mine / theirs:.2f}", mine <= 5 * theirs
    )

    # Every ad has lines that were never seen before, as an update from a startd has; the others are known.
    fresh = fresh_ads(400)
    mine = seconds(lambda: ClassAd.from_old(next(fresh)), 50, 5)
    theirs = seconds(lambda: classad2.parseOne(text), 200, 5)
    report.line("parse a slot ad of 153 attributes (8 lines new)", us(theirs), us(mine), "no slower", mine <= theirs)

    def cold() -> None:
        ad_module._RECENT_LINES.clear()
        ad_module._OLDER_LINES.clear()
        ClassAd.from_old(text)

    mine = seconds(cold, 100, 5)
    print(f"{'  the same, no line known before':58} {us(theirs):>14} {us(mine):>14}")


def fresh_ads(count: int) -> Iterator[str]:
    """A slot's ad, again and again, with the numbers that change from one update to the next."""
    dice = random.Random(5)
    changing = {"LastHeardFrom", "MyCurrentTime", "LoadAvg", "CondorLoadAvg", "KeyboardIdle", "ConsoleIdle"}
    changing |= {"UpdateSequenceNumber", "TotalTimeUnclaimedIdle"}
    lines = SLOT_AD.read_text().split("\n")
    for _ in range(count):
        names = (line.split(" = ", 1)[0] for line in lines)
        changed = (
            f"{n} = {dice.randrange(10**9)}" if n in changing else line for n, line in zip(names, lines, strict=True)
        )
        yield "\n".join(changed)


def columnar(report: Report) -> None:
    """One job against ten thousand slots."""
    texts = list(slot_texts(SLOTS))
    build = seconds(lambda: SlotTable(ClassAd.from_old(text) for text in texts), 1, 3)
    report.line("SlotTable: build 10,000 ads from their texts", "-", f"{build:.2f} s", "1.2 s", build < 1.2)
    table = SlotTable(ClassAd.from_old(text) for text in texts)
    updates = [ClassAd.from_old(text) for text in slot_texts(100, seed=7)]
    others = [ClassAd.from_old(text) for text in slot_texts(100, seed=8)]
    both = [updates, others]

    def update() -> None:
        both.reverse()
        for place, ad in enumerate(both[0]):
            table.update(place, ad)

    spent = seconds(update, 1, 20)
    report.line("SlotTable: update 100 ads", "-", f"{spent * 1e3:.2f} ms", "5 ms", spent < 5e-3)

    plan = table.plan(job())
    matched = int(plan.matches().sum())
    print(f"{'  slots that match':58} {'':14} {matched:>14}")

    def ready() -> None:
        table.masks.clear()
        plan.matches()

    def whole() -> None:
        table.masks.clear()
        table.matches(job())

    negotiator = "4.8 us (n)"
    spent = seconds(ready, 50)
    per_slot = spent / SLOTS * 1e9
    report.line(
        "Requirements against 10,000 slots, plan ready", negotiator, f"{per_slot:.1f} ns/slot", "12 ns", per_slot < 12
    )
    limit = bandwidth_limit()
    what = "  reading the same columns once, from memory"
    print(f"{what:58} {'':14} {limit:>11.1f} ns   {per_slot / limit:.1f} times that")
    per_slot = seconds(whole, 20) / SLOTS * 1e9
    what = "the same with parsing, folding and planning"
    report.line(what, negotiator, f"{per_slot:.1f} ns/slot", "30 ns", per_slot < 30)


def bandwidth_limit() -> float:
    """How long it takes to read what the plan reads, in ns a slot, at the speed of memory."""
    big = np.ones(16_000_000, np.int64)
    read = seconds(lambda: big.max(), 1, 5)
    # Nine comparisons of 64-bit columns, and two of string codes.
    return read / big.nbytes * 1e9 * (9 * 8 + 2 * 4)


def many_autoclusters(report: Report) -> None:
    """A hundred kinds of jobs against a hundred thousand slots; and the memory of these."""
    before = resident()
    table = SlotTable(ClassAd.from_old(text) for text in slot_texts(MANY))
    ad_module._RECENT_LINES.clear()
    ad_module._OLDER_LINES.clear()
    gc.collect()
    each = (resident() - before) / MANY
    jobs = [
        job(cpus, memory, disk)
        for cpus in (1, 2, 4, 8, 16)
        for memory in (512, 1024, 2048, 4096, 8192)
        for disk in (1000, 10**6, 10**7, 10**8)
    ]

    def run() -> None:
        table.masks.clear()
        for asking in jobs:
            table.matches(asking)

    spent = seconds(run, 1, 5)
    report.line("100 autoclusters against 100,000 slots", "48 s (n)", f"{spent * 1e3:.0f} ms", "120 ms", spent < 0.12)
    report.line("memory of a slot in a table of 100,000", "17.7 kB (c)", f"{each:.0f} B", "2000 B", each < 2000)


def fallback(report: Report) -> None:
    """How many slots a real pool's own Requirements and policies leave to the scalar compiler."""
    slots = read_ads("trace-slots.ads.gz")
    jobs = read_ads("trace-jobs.ads.gz")
    table = SlotTable(slots * 20, context=Context(now=1795214000))
    total = 0
    for asking in jobs:
        table.matches(asking)
        table.rank(asking)
        total += 2 * len(table)
    share = table.scalar_evaluations / total
    what = f"slots evaluated one by one ({len(jobs)} real jobs, {len(slots)} real slots)"
    report.line(what, "-", f"{share:.2%}", "1 %", share <= 0.01)


def read_ads(name: str) -> list[ClassAd]:
    with gzip.open(DATA / name, "rt", errors="surrogateescape") as file:
        return [ClassAd.from_old(text) for text in file.read().split("\n\n")]


def resident() -> int:
    """The memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def us(time: float) -> str:
    return f"{time * 1e6:.2f} us"


def machine() -> str:
    model = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout
    names = [line.split(":", 1)[1].strip() for line in model.splitlines() if line.startswith("Model name")]
    python = sys.version.split()[0]
    return (
        f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} cores, Python {python}, numpy {np.__version__}"
    )


def main() -> int:
    report = Report()
    print(f"{machine()}, htcondor {htcondor2.version().split()[1]}")
    print(f"{'':58} {'reference':>14} {'Poolbook':>14}   aim")
    for part in (scalar, columnar, many_autoclusters, fallback):
        part(report)
    print("(n) condor_negotiator and (c) condor_collector of HTCondor 25.14, from an earlier run on such a machine")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
