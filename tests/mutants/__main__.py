"""Plant faults in the package, one at a time, and see which of them the tests notice: ``make mutants``.

First the tests run once under coverage, folder by folder, so that it is known which of them reach a line; what was
measured is kept in build/mutants. Then, for each fault, those that reach it run until one fails. A fault that all of
them pass survives; `survivors.txt` has those that are known, with the reason. Faults are drawn from a seed: other seeds
plant others. What became of a fault is kept, too: a run that was ended goes on where it was.

    python -m tests.mutants [-count 300] [-seed 1] [-of SUBJECT...] [-workers N] [-measure] [-again | -anew] ...
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import NamedTuple

from . import runs
from .faults import SUBJECTS, Fault, drawn
from .in_place import CANNOT
from .reach import FOLDERS, WORK, Reached, beside, is_measured, measure, reached

SURVIVORS = Path(__file__).with_name("survivors.txt")
ENOUGH = 0.9


class Verdict(NamedTuple):
    subject: str
    name: str
    line: int
    noticed: str  #: by which test; empty if it survives


def known_survivors() -> dict[str, str]:
    """Faults that survive by their names, with the reason."""
    found, reason = {}, ""
    for line in SURVIVORS.read_text().splitlines() if SURVIVORS.exists() else ():
        if line.startswith("# "):
            continue
        if line and not line.startswith(" "):
            reason = line
        elif line:
            found[line.strip()] = reason
    return found


def chosen(fault: Fault, known: Reached, longest: float) -> tuple[list[str], float]:
    """Return the tests that reach the fault, the likeliest first, such as take `longest` seconds in all, and how long
    they take."""
    tests, seconds = [], 0.0
    for test in known.of(fault):
        if seconds + known.seconds[test] <= longest:
            seconds += known.seconds[test]
            tests.append(test)
    return tests, seconds


Waiting = Mapping[str, tuple[str, Fault]]
"""Faults by name, with their subjects."""


def in_place(waiting: Waiting, reach: Reached, given: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Have the tests that reach the faults run on them, and yield each fault's name and what was found."""
    tree = runs.tree("in-place", WORK)
    lines = []
    for name, (_, fault) in waiting.items():
        tests, seconds = chosen(fault, reach, given.longest)
        lines.append(json.dumps({"name": name, "fault": fault, "tests": tests, "seconds": seconds}))
    (tree / "faults").write_text("\n".join(lines))
    folders = [f"tests/{folder}" for folder in FOLDERS if is_measured(folder)]
    words = [sys.executable, "-m", "tests.mutants.in_place", "faults", str(given.workers), *folders]
    environment = {**os.environ, "PYTHONPATH": f"{tree}/.path:{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(words, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        for line in server.stdout:
            name, tab, found = line.rstrip("\n").partition("\t")
            if tab:
                yield name, found


@cache
def _own_tree() -> Path:
    runs.adopt()
    return runs.tree(str(os.getpid()), WORK)


def in_processes(fault: Fault, tests: list[str], seconds: float) -> str:
    """Run tests in a process of their own, from a tree with the fault; and then those that may reach it in yet other
    processes, or when they load the file."""
    found = runs.noticed(fault, _own_tree(), tests, seconds) if tests else ""
    more = list(beside(fault))
    return found or (runs.noticed(fault, _own_tree(), more, 100) if more else "")


def judged(waiting: Waiting, reach: Reached, given: argparse.Namespace) -> Iterator[Verdict]:
    with ProcessPoolExecutor(given.workers) as pool:
        left: dict[Future[str], str] = {}
        for name, found in in_place(waiting, reach, given):
            subject, fault = waiting[name]
            if found == CANNOT:
                left[pool.submit(in_processes, fault, *chosen(fault, reach, given.longest))] = name
            elif not found and beside(fault):
                left[pool.submit(in_processes, fault, [], 0)] = name
            else:
                yield Verdict(subject, name, fault.line, found)
        for done in as_completed(left):
            subject, fault = waiting[left[done]]
            yield Verdict(subject, fault.name, fault.line, done.result())


def _read(kept: Path) -> dict[str, Verdict]:
    found = {}
    for line in kept.read_text().splitlines() if kept.exists() else ():
        subject, name, number, noticed = line.split("\t")
        found[name] = Verdict(subject, name, int(number), noticed)
    return found


def report(verdicts: Iterable[Verdict], known: Mapping[str, str]) -> bool:
    """Print how many faults of each subject were noticed, and which were not; return whether these are few enough."""
    planted, noticed = Counter[str](), Counter[str]()
    for one in verdicts:
        planted[one.subject] += 1
        noticed[one.subject] += bool(one.noticed)
        if not one.noticed:
            print(f"SURVIVES {one.name} (line {one.line}): {known.get(one.name, 'not known')}")
    for subject in planted:
        print(f"{subject:<16} {noticed[subject]:>4} of {planted[subject]} noticed")
    share = noticed.total() / max(1, planted.total())
    print(f"{noticed.total()} of {planted.total()} faults noticed, {share:.1%}")
    return share >= ENOUGH


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__, prefix_chars="-")
    parser.add_argument("-count", type=int, default=300, help="how many faults (300)")
    parser.add_argument("-seed", type=int, default=1, help="which (1)")
    parser.add_argument("-of", nargs="*", default=list(SUBJECTS), help=f"of which subjects: {', '.join(SUBJECTS)}")
    parser.add_argument("-longest", type=float, default=150, help="how many seconds tests of a fault may take (150)")
    parser.add_argument("-workers", type=int, default=os.cpu_count() or 1, help="how many run at one time")
    parser.add_argument("-measure", action="store_true", help="measure again what tests reach")
    parser.add_argument("-again", action="store_true", help="judge again what has survived")
    parser.add_argument("-anew", action="store_true", help="judge again what was judged before")
    given = parser.parse_args(words)
    WORK.mkdir(parents=True, exist_ok=True)
    for folder in FOLDERS:
        if given.measure or not is_measured(folder):
            print(f"running the tests of {folder} under coverage ...", flush=True)
            measure(folder)
    reach, known = reached(), known_survivors()
    faults = drawn(given.of, given.count, given.seed)
    kept = WORK / f"verdicts-{given.seed}"
    verdicts = {} if given.anew else _read(kept)
    if given.again:
        verdicts = {name: verdict for name, verdict in verdicts.items() if verdict.noticed}
    waiting = {fault.name: (subject, fault) for subject, fault in faults if fault.name not in verdicts}
    begun = time.monotonic()
    with kept.open("w") as record:
        for verdict in verdicts.values():
            print(*verdict, sep="\t", file=record, flush=True)
        for number, verdict in enumerate(judged(waiting, reach, given), start=1):
            verdicts[verdict.name] = verdict
            print(*verdict, sep="\t", file=record, flush=True)
            since = time.monotonic() - begun
            became = verdict.noticed or "SURVIVES"
            print(f"{number} of {len(waiting)}, {since:.0f} s: {verdict.name}: {became}", flush=True)
    return not report([verdicts[fault.name] for _, fault in faults if fault.name in verdicts], known)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
