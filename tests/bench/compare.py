"""Compare two trees by benchmarks that are run on both in turn: `compare.py BEFORE AFTER [-only NAME ...] [-pairs 5]`.

A tree is a checkout with its own .venv. Each pair of runs executes a script of `tests/bench` in both trees, in changing
order, and reads the numbers with a unit from each line that it prints; a measurement is named by its line without
numbers. The ratio after / before within each pair counts, because the load of the machine changes between pairs: a
measurement is slower (or faster) if its median ratio is beyond `-tolerance` and four of five pairs agree.

`-json FILE` also writes what was read: a list of runs, each with its tree, script and measurements. The exit code is 1
if anything got slower.
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
USUAL = (
    "bench_classad.py", "bench_policy.py", "bench_log.py", "bench_views.py", "bench_userlog.py", "bench_import.py",
    "bench_negotiation.py", "bench_shapes.py", "bench_execution.py", "bench_pool.py",
)  # fmt: skip
"""The scripts that are run unless others are named: each takes a minute or less."""
_AGREEING = 0.8  #: the part of the pairs that has to agree


class Comparison(NamedTuple):
    """A measurement on both trees: ratios after / before of the pairs, of which more than 1 is always worse."""

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
    """Return the numbers with a unit of a benchmark's output, by their place in it and by their line, which counts
    without its numbers and verdicts."""
    found: dict[str, tuple[float, str]] = {}
    lines: Counter[str] = Counter()
    for line in output.splitlines():
        text = VERDICT.sub("", line.partition("   aim")[0])
        name = " ".join(NUMBER.sub("#", text).split())
        lines[name] += 1
        for place, number in enumerate(NUMBER.finditer(text)):
            if number[2]:
                found[f"{name} [{lines[name]}.{place}]"] = (float(number[1].replace(",", "")), number[2])
    return found


def compared(script: str, pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Iterator[Comparison]:
    """Yield what all runs of a script measured on both trees."""
    for name, (_, unit) in pairs[0][0].items():
        both = [(before[name][0], after[name][0]) for before, after in pairs if name in before and name in after]
        both = [(before, after) for before, after in both if before and after]
        if len(both) == len(pairs):
            ratios = [before / after if unit.endswith(RATE) else after / before for before, after in both]
            yield Comparison(script, name, unit, median(b for b, _ in both), median(a for _, a in both), ratios)


def _run(tree: Path, script: str) -> dict[str, tuple[float, str]]:
    python = tree / ".venv/bin/python"
    done = subprocess.run([python, f"tests/bench/{script}"], cwd=tree, capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(f"{tree}/tests/bench/{script} printed nothing: {done.stderr[-2000:]}")
    return measurements(done.stdout)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Compare two trees by benchmarks that are run on both in turn.")
    parser.add_argument("before", type=Path, help="a checkout with its own .venv")
    parser.add_argument("after", type=Path, help="the other checkout")
    parser.add_argument("-only", nargs="+", default=USUAL, metavar="SCRIPT", help="scripts of tests/bench")
    parser.add_argument("-pairs", type=int, default=5, metavar="N", help="how often each script is run on both (5)")
    parser.add_argument("-tolerance", type=float, default=0.05, metavar="X", help="what counts as alike (0.05)")
    parser.add_argument("-json", type=Path, metavar="FILE", help="write all runs' measurements there")
    return parser


def main() -> int:
    options = _parser().parse_args()
    runs: list[dict[str, Any]] = []
    slower = 0
    for script in options.only:
        pairs = []
        for number in range(options.pairs):
            order = [options.before, options.after][:: -1 if number % 2 else 1]
            found = {tree: _run(tree.resolve(), script) for tree in order}
            runs += [{"tree": str(tree), "script": script, "measurements": found[tree]} for tree in order]
            pairs.append((found[options.before], found[options.after]))
            print(f"{script}: pair {number + 1} of {options.pairs}", file=sys.stderr, flush=True)
        for one in compared(script, pairs):
            verdict = one.verdict(options.tolerance)
            slower += verdict == "slower"
            spread = f"{min(one.ratios):.2f} to {max(one.ratios):.2f}"
            print(
                f"{verdict:7} {one.ratio:5.2f} ({spread})  {one.before:,.4g} -> {one.after:,.4g} {one.unit:5} "
                f"{one.script.removesuffix('.py')}: {one.name}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(runs))
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
