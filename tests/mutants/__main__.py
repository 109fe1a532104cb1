"""Plant faults in the package, one at a time, and list the faults that no test detects: ``make mutants``.

First the tests run once under coverage, folder by folder, to find the tests that reach each line; build/mutants stores
these measurements. Then, for each fault, the tests that reach it run until one fails. A fault survives if all of them
pass; `survivors.txt` lists known survivors, with the reason. The seed selects the faults. Results are stored too, so an
interrupted run continues where it stopped.

    python -m tests.mutants [-count 300] [-seed 1] [-of SUBJECT...] [-workers N] [-measure] [-retry | -restart] ...
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
from .faults import SUBJECTS, Fault, draw_faults
from .in_place import NOT_IN_PLACE
from .reach import FOLDERS, WORK, Coverage, is_measured, measure, read_coverage, unmeasured_tests

SURVIVORS = Path(__file__).with_name("survivors.txt")
REQUIRED_SHARE = 0.9


class Verdict(NamedTuple):
    subject: str
    name: str
    line: int
    detected: str  #: the test that detected it; empty if it survives


def known_survivors() -> dict[str, str]:
    """Return the reason for each known survivor, by its name."""
    reasons, reason = {}, ""
    for line in SURVIVORS.read_text().splitlines() if SURVIVORS.exists() else ():
        if line.startswith("# "):
            continue
        if line and not line.startswith(" "):
            reason = line
        elif line:
            reasons[line.strip()] = reason
    return reasons


def select_tests(fault: Fault, coverage: Coverage, max_seconds: float) -> tuple[list[str], float]:
    """Return the likeliest tests that reach the fault and take at most `max_seconds` together, and their time."""
    tests, seconds = [], 0.0
    for test in coverage.tests_of(fault):
        if seconds + coverage.seconds[test] <= max_seconds:
            seconds += coverage.seconds[test]
            tests.append(test)
    return tests, seconds


Pending = Mapping[str, tuple[str, Fault]]
"""Faults by name, with their subjects."""


def run_in_place(pending: Pending, coverage: Coverage, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Run the tests that reach the faults in one server process; yield each fault's name and result."""
    tree = runs.tree("in-place", WORK)
    lines = []
    for name, (_, fault) in pending.items():
        tests, seconds = select_tests(fault, coverage, options.seconds)
        lines.append(json.dumps({"name": name, "fault": fault, "tests": tests, "seconds": seconds}))
    (tree / "faults").write_text("\n".join(lines))
    folders = [f"tests/{folder}" for folder in FOLDERS if is_measured(folder)]
    command = [sys.executable, "-m", "tests.mutants.in_place", "faults", str(options.workers), *folders]
    environment = {**os.environ, "PYTHONPATH": f"{tree}/.path:{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        for line in server.stdout:
            name, tab, result = line.rstrip("\n").partition("\t")
            if tab:
                yield name, result


@cache
def _worker_tree() -> Path:
    runs.become_subreaper()
    return runs.tree(str(os.getpid()), WORK)


def run_in_processes(fault: Fault, tests: list[str], seconds: float) -> str:
    """Run tests in a separate process, in a tree with the fault, and then the tests that coverage cannot measure."""
    result = runs.find_failure(fault, _worker_tree(), tests, seconds) if tests else ""
    unmeasured = list(unmeasured_tests(fault))
    return result or (runs.find_failure(fault, _worker_tree(), unmeasured, 100) if unmeasured else "")


def judge(pending: Pending, coverage: Coverage, options: argparse.Namespace) -> Iterator[Verdict]:
    with ProcessPoolExecutor(options.workers) as pool:
        names: dict[Future[str], str] = {}
        for name, result in run_in_place(pending, coverage, options):
            subject, fault = pending[name]
            if result == NOT_IN_PLACE:
                tests, seconds = select_tests(fault, coverage, options.seconds)
                names[pool.submit(run_in_processes, fault, tests, seconds)] = name
            elif not result and unmeasured_tests(fault):
                names[pool.submit(run_in_processes, fault, [], 0)] = name
            else:
                yield Verdict(subject, name, fault.line, result)
        for future in as_completed(names):
            subject, fault = pending[names[future]]
            yield Verdict(subject, fault.name, fault.line, future.result())


def _read_verdicts(path: Path) -> dict[str, Verdict]:
    verdicts = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        subject, name, number, detected = line.split("\t")
        verdicts[name] = Verdict(subject, name, int(number), detected)
    return verdicts


def report(verdicts: Iterable[Verdict], known: Mapping[str, str]) -> bool:
    """Print the detected faults per subject and all survivors; return True if enough faults were detected."""
    planted, detected = Counter[str](), Counter[str]()
    for verdict in verdicts:
        planted[verdict.subject] += 1
        detected[verdict.subject] += bool(verdict.detected)
        if not verdict.detected:
            print(f"SURVIVES {verdict.name} (line {verdict.line}): {known.get(verdict.name, 'reason unknown')}")
    for subject in planted:
        print(f"{subject:<16} {detected[subject]:>4} of {planted[subject]} detected")
    share = detected.total() / max(1, planted.total())
    print(f"{detected.total()} of {planted.total()} faults detected, {share:.1%}")
    return share >= REQUIRED_SHARE


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__, prefix_chars="-")
    parser.add_argument("-count", type=int, default=300, metavar="N", help="number of faults (default 300)")
    parser.add_argument("-seed", type=int, default=1, metavar="N", help="seed that selects the faults (default 1)")
    parser.add_argument(
        "-of", nargs="*", default=list(SUBJECTS), metavar="SUBJECT", help=f"any of {', '.join(SUBJECTS)} (default: all)"
    )
    parser.add_argument(
        "-seconds", type=float, default=150, metavar="N", help="time limit for the tests of a fault (default 150)"
    )
    parser.add_argument(
        "-workers", type=int, default=os.cpu_count() or 1, metavar="N", help="parallel runs (default: one per core)"
    )
    parser.add_argument("-measure", action="store_true", help="measure again which tests reach each line")
    parser.add_argument("-retry", action="store_true", help="run the tests of survivors again")
    parser.add_argument("-restart", action="store_true", help="discard stored results")
    options = parser.parse_args(arguments)
    WORK.mkdir(parents=True, exist_ok=True)
    for folder in FOLDERS:
        if options.measure or not is_measured(folder):
            print(f"running the tests of {folder} under coverage ...", flush=True)
            measure(folder)
    coverage, known = read_coverage(), known_survivors()
    faults = draw_faults(options.of, options.count, options.seed)
    record_path = WORK / f"verdicts-{options.seed}"
    verdicts = {} if options.restart else _read_verdicts(record_path)
    if options.retry:
        verdicts = {name: verdict for name, verdict in verdicts.items() if verdict.detected}
    pending = {fault.name: (subject, fault) for subject, fault in faults if fault.name not in verdicts}
    began = time.monotonic()
    with record_path.open("w") as record:
        for verdict in verdicts.values():
            print(*verdict, sep="\t", file=record, flush=True)
        for number, verdict in enumerate(judge(pending, coverage, options), start=1):
            verdicts[verdict.name] = verdict
            print(*verdict, sep="\t", file=record, flush=True)
            elapsed = time.monotonic() - began
            result = verdict.detected or "SURVIVES"
            print(f"{number} of {len(pending)}, {elapsed:.0f} s: {verdict.name}: {result}", flush=True)
    return not report([verdicts[fault.name] for _, fault in faults if fault.name in verdicts], known)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
