"""Say which measurements got slower: `compare.py BEFORE AFTER [-only NAME ...] [-pairs 5]`.

BEFORE and AFTER are checkouts, in which the benchmarks run now, or records that `make bench` wrote: a JSON file, or a
directory of them.

Each checkout needs its own .venv. A pair of runs executes a script of `tests/bench` in both, in alternating order, and
reads the numbers with a unit from each line that the script prints. The line without its numbers names a measurement.
Because the load of the machine changes between pairs, only the ratio after / before within a pair counts: a measurement
is slower (or faster) if its median ratio is beyond `-tolerance` and four of five pairs agree. Of two directories, the
first file of one is paired with the first file of the other, in the order of their names. A single pair of files cannot
show whether a difference is noise, so its tolerance is at least 0.3.

`-json FILE` also writes all runs, each with its checkout, script and measurements. The exit code is 1 if any
measurement got slower.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

NUMBER = re.compile(
    r"(?<![\w.])([0-9][0-9,]*(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)(?: ?([A-Za-zµ]*/s|us|ms|ns|s|MB|MiB|bytes))?(?![\w.])"
)
VERDICT = re.compile(r"\b(met|MISSED)\b")
RATE = "/s"
DEFAULT_SCRIPTS = (
    "bench_classad.py", "bench_policy.py", "bench_log.py", "bench_views.py", "bench_userlog.py", "bench_import.py",
    "bench_negotiation.py", "bench_shapes.py", "bench_execution.py", "bench_pool.py",
)  # fmt: skip
"""The scripts to run by default: each takes a minute or less."""
_AGREEING = 0.8  #: the share of the pairs that must agree
_SINGLE_PAIR_TOLERANCE = 0.3  #: single runs of one tree differ by up to this share on a machine with other processes
Measurements = Mapping[str, Sequence[Any]]  #: a value and its unit, by name
Pairs = Sequence[tuple[Measurements, Measurements]]


class Comparison(NamedTuple):
    """A measurement in both checkouts. A pair's ratio is more than 1 if the measurement got worse."""

    script: str
    name: str
    unit: str
    before: float
    after: float
    ratios: Sequence[float]

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    def verdict(self, tolerance: float) -> str:
        worse = sum(ratio > 1 for ratio in self.ratios)
        if self.ratio > 1 + tolerance and worse >= _AGREEING * len(self.ratios):
            return "slower"
        if self.ratio < 1 / (1 + tolerance) and len(self.ratios) - worse >= _AGREEING * len(self.ratios):
            return "faster"
        return "alike"


def measurements(output: str) -> dict[str, tuple[float, str]]:
    """Return the numbers that have a unit in a benchmark's output.

    The key is their line, without numbers and verdicts, and their position in it.
    """
    numbers: dict[str, tuple[float, str]] = {}
    occurrences: Counter[str] = Counter()
    for line in output.splitlines():
        measured_part = VERDICT.sub("", line.partition("   aim")[0])
        name = " ".join(NUMBER.sub("#", measured_part).split())
        occurrences[name] += 1
        for position, number in enumerate(NUMBER.finditer(measured_part)):
            if number[2]:
                numbers[f"{name} [{occurrences[name]}.{position}]"] = (float(number[1].replace(",", "")), number[2])
    return numbers


def comparisons(script: str, pairs: Pairs) -> Iterator[Comparison]:
    """Yield the measurements that all runs of a script made in both checkouts."""
    for name, (_, unit) in pairs[0][0].items():
        both = [(before[name][0], after[name][0]) for before, after in pairs if name in before and name in after]
        both = [(before, after) for before, after in both if before and after]
        if len(both) == len(pairs):
            ratios = [before / after if unit.endswith(RATE) else after / before for before, after in both]
            yield Comparison(script, name, unit, median(b for b, _ in both), median(a for _, a in both), ratios)


def _run_script(tree: Path, script: str) -> dict[str, tuple[float, str]]:
    python = tree / ".venv/bin/python"
    process = subprocess.run([python, f"tests/bench/{script}"], cwd=tree, capture_output=True, text=True)
    if not process.stdout:
        raise SystemExit(f"{tree}/tests/bench/{script} printed nothing: {process.stderr[-2000:]}")
    return measurements(process.stdout)


def recorded_pairs(before: Path, after: Path) -> Iterator[tuple[str, Pairs]]:
    """Yield each script that all records of both sides contain, with its pairs of measurements."""
    pairs = list(zip(_records(before), _records(after), strict=False))
    for script in pairs[0][0]:
        if all(script in record for pair in pairs for record in pair):
            yield script, [(old[script], new[script]) for old, new in pairs]


def _records(path: Path) -> list[dict[str, Measurements]]:
    """Return the measurements of each record, by script and arguments."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise SystemExit(f"{path} is neither a checkout nor a directory with records: name one that `make bench` wrote")
    records = [json.loads(file.read_text())["runs"] for file in files]
    return [{" ".join([run["script"], *run["arguments"]]): run["measurements"] for run in runs} for runs in records]


def measured_pairs(options: argparse.Namespace, runs: list[dict[str, Any]]) -> Iterator[tuple[str, Pairs]]:
    """Run each script in both checkouts; yield its pairs of measurements, and add each run to the runs."""
    for script in options.only:
        pairs = []
        for number in range(options.pairs):
            order = [options.before, options.after][:: -1 if number % 2 else 1]
            outputs = {tree: _run_script(tree.resolve(), script) for tree in order}
            runs += [{"tree": str(tree), "script": script, "measurements": outputs[tree]} for tree in order]
            pairs.append((outputs[options.before], outputs[options.after]))
            print(f"{script}: pair {number + 1} of {options.pairs}", file=sys.stderr, flush=True)
        yield script, pairs


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Say which measurements got slower.")
    parser.add_argument("before", type=Path, help="a checkout with its own .venv, or records of `make bench`")
    parser.add_argument("after", type=Path, help="the other checkout, or the other records")
    parser.add_argument(
        "-only",
        nargs="+",
        default=DEFAULT_SCRIPTS,
        metavar="SCRIPT",
        help="scripts in tests/bench (default: the quick ones)",
    )
    parser.add_argument("-pairs", type=int, default=5, metavar="N", help="run each script N times in both (default 5)")
    parser.add_argument(
        "-tolerance", type=float, default=0.05, metavar="X", help="ignore changes below this share (default 0.05)"
    )
    parser.add_argument("-json", type=Path, metavar="FILE", help="write the measurements of all runs to FILE")
    return parser


def main() -> int:
    options = _parser().parse_args()
    runs: list[dict[str, Any]] = []
    slower = 0
    checkouts = (options.before / ".venv").is_dir()
    for script, pairs in measured_pairs(options, runs) if checkouts else recorded_pairs(options.before, options.after):
        tolerance = options.tolerance if len(pairs) > 1 else max(options.tolerance, _SINGLE_PAIR_TOLERANCE)
        for comparison in comparisons(script, pairs):
            verdict = comparison.verdict(tolerance)
            slower += verdict == "slower"
            spread = f"{min(comparison.ratios):.2f} to {max(comparison.ratios):.2f}"
            values = f"{comparison.before:,.4g} -> {comparison.after:,.4g} {comparison.unit:5}"
            measurement = f"{comparison.script.replace('.py', '')}: {comparison.name}"
            print(f"{verdict:7} {comparison.ratio:5.2f} ({spread})  {values} {measurement}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(runs))
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
