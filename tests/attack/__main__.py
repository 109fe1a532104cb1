"""Try to break Poolbook: ``python -m tests.attack [-seconds 300] [-only NAME] [-seed N]`` in the repository's root, or
``make attack``.

The attacks share the time. Each is tried at least once, which takes one or two minutes; ``-seconds 0`` does only that.
The exit code is 1 if an attack succeeded. The table lists attacks that this machine does not allow as "not tried".
"""

from __future__ import annotations

import argparse
import random
import sys
import textwrap
from collections.abc import Sequence

from .attacks import ATTACKS, Attack, Score, run_attacks
from .table import ALL


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("-seconds", type=float, default=300.0, metavar="N", help="total time (default 300)")
    parser.add_argument("-only", action="append", choices=ALL, metavar="NAME", help="try this attack; may be repeated")
    parser.add_argument("-seed", type=int, metavar="N", help="seed of each attack's first trial (default: random)")
    parser.add_argument("-list", action="store_true", help="describe the attacks and exit")
    options = parser.parse_args(arguments)
    attacks = [ATTACKS[name] for name in options.only or ALL]
    if options.list:
        print(*map(_describe, attacks), sep="\n\n")
        return 0
    number = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    print(f"{len(attacks)} attacks, {options.seconds:.0f} s, seed {number}", flush=True)
    scores = run_attacks(attacks, number, options.seconds, _print_progress)
    print("", *_table(scores), sep="\n")
    failures = [failure for score in scores for failure in score.failures]
    for failure in failures:
        print(f"\n{failure.attack.name}, seed {failure.seed}: {failure.report.rstrip()}\nRepeat: {failure.command}")
    return 1 if failures else 0


def _describe(attack: Attack) -> str:
    lines = [attack.promise, f"Fails: {attack.fails}", *([f"Needs: {attack.needs}"] if attack.needs else [])]
    return "\n".join([attack.name, *(textwrap.indent(textwrap.fill(line, 100), "    ") for line in lines)])


def _print_progress(score: Score) -> None:
    failed = f", {len(score.failures)} FAILED" if score.failures else ""
    print(f"{score.attack.name}: {score.tries} tries, {score.seconds:.0f} s{failed}", flush=True)


def _table(scores: Sequence[Score]) -> list[str]:
    rows = [("attack", "tries", "failures")]
    for score in scores:
        if score.attack.possible:
            rows.append((score.attack.name, f"{score.tries:,}", str(len(score.failures))))
        else:
            rows.append((score.attack.name, f"not tried: needs {score.attack.needs}", ""))
    width = max(len(row[0]) for row in rows)
    return [f"{name:{width}}  {tries:>10}  {failures:>8}".rstrip() for name, tries, failures in rows]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
