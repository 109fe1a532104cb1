"""Measure the ClassAd engine, compared with HTCondor's library in the same process.

``make bench`` runs it. Each line has a measurement, the reference's time, Poolbook's time and the aim. The exit code is
1 if an aim is missed. Times are the best of several repetitions, because other processes disturb the rest.
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
import htcondor2  # noqa: E402  (switches classad2 to the daemons' mode)
from tests.bench.slot_texts import REQUIREMENTS, SLOT_AD, slot_texts  # noqa: E402

from poolbook.domain.classad import ClassAd, Context, parse  # noqa: E402
from poolbook.domain.classad import ad as ad_module  # noqa: E402
from poolbook.domain.classad.table import SlotTable  # noqa: E402

SLOTS = 10_000
MANY_SLOTS = 100_000
DATA = ROOT / "tests" / "data" / "classad"

POLICIES = (
    '(KeyboardIdle > 300) && ((LoadAvg - CondorLoadAvg) <= 0.5 || (State != "Unclaimed" && State != "Owner"))',
    'TARGET.RequestCpus <= Cpus && TARGET.RequestMemory <= Memory && Arch == "X86_64" && OpSys == "LINUX"',
    'ifThenElse(Cpus > 1, Memory / Cpus, 0) >= 100 && TARGET.Owner =?= "alice"',
)


class Report:
    """Prints the measurements and counts the missed aims."""

    def __init__(self) -> None:
        self.missed = 0

    def print_line(self, measurement: str, peer: str, ours: str, aim: str, met: bool) -> None:
        self.missed += not met
        print(f"{measurement:58} {peer:>14} {ours:>14}   {aim:22} {'met' if met else 'MISSED'}", flush=True)


def seconds(run: Callable[[], Any], number: int, repeat: int = 7) -> float:
    """Return the best time of one call."""
    gc.collect()
    return min(timeit.repeat(run, number=number, repeat=repeat)) / number


def job(cpus: int = 1, memory: int = 1024, disk: int = 100_000) -> ClassAd:
    """Return a job ad as condor_submit writes it."""
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


def measure_single_ads(report: Report) -> None:
    """Measure the evaluation of one ad against another, and parsing."""
    text = SLOT_AD.read_text()
    slot, job_ad = ClassAd.from_old(text), job()
    reference_slot = classad2.parseNext(text)
    reference_job = classad2.ClassAd(job_ad.to_new())
    for policy in POLICIES:
        expression, reference_expression = parse(policy), classad2.ExprTree(policy)
        mine = seconds(partial(expression.evaluate, slot, job_ad), 20_000)
        theirs = seconds(partial(reference_expression.eval, reference_slot, reference_job), 20_000)
        measurement = f"evaluate {policy[:44]}..."
        report.print_line(
            measurement, format_us(theirs), format_us(mine), f"half: {mine / theirs:.2f}", mine <= theirs / 2
        )

    short_text = '(TARGET.Memory >= RequestMemory) && (Arch == "X86")'
    mine, theirs = seconds(lambda: parse(short_text), 5_000), seconds(lambda: classad2.ExprTree(short_text), 5_000)
    report.print_line(
        f"parse {len(short_text)} characters",
        format_us(theirs),
        format_us(mine),
        f"5 times: {mine / theirs:.2f}",
        mine <= 5 * theirs,
    )

    # As in an update from a startd, some lines of each ad are new; the others are cached.
    ads = changing_ads(400)
    mine = seconds(lambda: ClassAd.from_old(next(ads)), 50, 5)
    theirs = seconds(lambda: classad2.parseOne(text), 200, 5)
    report.print_line(
        "parse a slot ad of 153 attributes (8 lines new)",
        format_us(theirs),
        format_us(mine),
        "no slower",
        mine <= theirs,
    )

    def cold() -> None:
        ad_module._RECENT_LINES.clear()
        ad_module._OLDER_LINES.clear()
        ClassAd.from_old(text)

    mine = seconds(cold, 100, 5)
    print(f"{'  the same, with an empty cache':58} {format_us(theirs):>14} {format_us(mine):>14}")


def changing_ads(count: int) -> Iterator[str]:
    """Yield updates of a slot's ad."""
    rng = random.Random(5)
    changing = {"LastHeardFrom", "MyCurrentTime", "LoadAvg", "CondorLoadAvg", "KeyboardIdle", "ConsoleIdle"}
    changing |= {"UpdateSequenceNumber", "TotalTimeUnclaimedIdle"}
    lines = SLOT_AD.read_text().split("\n")
    for _ in range(count):
        names = (line.split(" = ", 1)[0] for line in lines)
        update = (
            f"{n} = {rng.randrange(10**9)}" if n in changing else line for n, line in zip(names, lines, strict=True)
        )
        yield "\n".join(update)


def measure_table(report: Report) -> None:
    """Measure the matching of one job with 10,000 slots."""
    texts = list(slot_texts(SLOTS))
    build = seconds(lambda: SlotTable(ClassAd.from_old(text) for text in texts), 1, 3)
    report.print_line("SlotTable: build 10,000 ads from their texts", "-", f"{build:.2f} s", "1.2 s", build < 1.2)
    table = SlotTable(ClassAd.from_old(text) for text in texts)
    updates = [ClassAd.from_old(text) for text in slot_texts(100, seed=7)]
    other_updates = [ClassAd.from_old(text) for text in slot_texts(100, seed=8)]
    ad_batches = [updates, other_updates]

    def update() -> None:
        ad_batches.reverse()
        for slot_index, ad in enumerate(ad_batches[0]):
            table.update(slot_index, ad)

    duration = seconds(update, 1, 20)
    report.print_line("SlotTable: update 100 ads", "-", f"{duration * 1e3:.2f} ms", "5 ms", duration < 5e-3)

    plan = table.plan(job())
    matched = int(plan.matches().sum())
    print(f"{'  slots that match':58} {'':14} {matched:>14}")

    def match_with_plan() -> None:
        table.masks.clear()
        plan.matches()

    def plan_and_match() -> None:
        table.masks.clear()
        table.matches(job())

    negotiator = "4.8 us (n)"
    duration = seconds(match_with_plan, 50)
    per_slot = duration / SLOTS * 1e9
    report.print_line(
        "Requirements against 10,000 slots, existing plan",
        negotiator,
        f"{per_slot:.1f} ns/slot",
        "12 ns",
        per_slot < 12,
    )
    read_time = bandwidth_limit()
    measurement = "  reading the same columns once, from memory"
    print(f"{measurement:58} {'':14} {read_time:>11.1f} ns   {per_slot / read_time:.1f} times that")
    per_slot = seconds(plan_and_match, 20) / SLOTS * 1e9
    measurement = "  with parsing, folding and planning"
    report.print_line(measurement, negotiator, f"{per_slot:.1f} ns/slot", "30 ns", per_slot < 30)


def bandwidth_limit() -> float:
    """Return the nanoseconds per slot that reading the plan's columns from memory takes."""
    big = np.ones(16_000_000, np.int64)
    read = seconds(lambda: big.max(), 1, 5)
    # Nine comparisons of 64-bit columns, and two of string codes.
    return read / big.nbytes * 1e9 * (9 * 8 + 2 * 4)


def measure_many_autoclusters(report: Report) -> None:
    """Measure the matching of 100 autoclusters with 100,000 slots, and the table's memory."""
    before = resident()
    table = SlotTable(ClassAd.from_old(text) for text in slot_texts(MANY_SLOTS))
    ad_module._RECENT_LINES.clear()
    ad_module._OLDER_LINES.clear()
    gc.collect()
    slot_memory = (resident() - before) / MANY_SLOTS
    jobs = [
        job(cpus, memory, disk)
        for cpus in (1, 2, 4, 8, 16)
        for memory in (512, 1024, 2048, 4096, 8192)
        for disk in (1000, 10**6, 10**7, 10**8)
    ]

    def match_all() -> None:
        table.masks.clear()
        for job_ad in jobs:
            table.matches(job_ad)

    duration = seconds(match_all, 1, 5)
    report.print_line(
        "100 autoclusters against 100,000 slots", "48 s (n)", f"{duration * 1e3:.0f} ms", "120 ms", duration < 0.12
    )
    report.print_line(
        "memory of a slot in a table of 100,000", "17.7 kB (c)", f"{slot_memory:.0f} B", "2000 B", slot_memory < 2000
    )


def measure_scalar_share(report: Report) -> None:
    """Measure for how many slots the scalar compiler evaluates a recorded pool's Requirements and policies."""
    slots = read_ads("trace-slots.ads.gz")
    jobs = read_ads("trace-jobs.ads.gz")
    table = SlotTable(slots * 20, context=Context(now=1795214000))
    total = 0
    for job_ad in jobs:
        table.matches(job_ad)
        table.rank(job_ad)
        total += 2 * len(table)
    share = table.scalar_evaluations / total
    measurement = f"slots evaluated singly ({len(jobs)} recorded jobs, {len(slots)} slots)"
    report.print_line(measurement, "-", f"{share:.2%}", "1 %", share <= 0.01)


def read_ads(name: str) -> list[ClassAd]:
    with gzip.open(DATA / name, "rt", errors="surrogateescape") as file:
        return [ClassAd.from_old(text) for text in file.read().split("\n\n")]


def resident() -> int:
    """Return the memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def format_us(time: float) -> str:
    return f"{time * 1e6:.2f} us"


def describe_machine() -> str:
    model = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout
    names = [line.split(":", 1)[1].strip() for line in model.splitlines() if line.startswith("Model name")]
    python = sys.version.split()[0]
    return (
        f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} cores, Python {python}, numpy {np.__version__}"
    )


def main() -> int:
    report = Report()
    print(f"{describe_machine()}, htcondor {htcondor2.version().split()[1]}")
    print(f"{'':58} {'reference':>14} {'Poolbook':>14}   aim")
    for part in (measure_single_ads, measure_table, measure_many_autoclusters, measure_scalar_share):
        part(report)
    print("(n) condor_negotiator and (c) condor_collector of HTCondor 25.14, from an earlier run on a similar machine")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
