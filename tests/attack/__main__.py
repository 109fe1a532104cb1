"""Attack Poolbook as long as you like: ``python -m tests.attack [-seconds 300] [-only NAME] [-seed N]``, from the
repository's root, or ``make attack``.

The time is divided among the attacks; each is tried once at least, which takes a minute or two: ``-seconds 0`` does
just that. The exit code is 1 where something failed, 0 where nothing did. What was not tried has not passed: the table
tells of it.
"""

from __future__ import annotations

import argparse
import random
import sys
import textwrap
from collections.abc import Sequence

from .attacks import ATTACKS, Attack, Score, divided
from .table import ALL


def main(words: Sequence[str]) -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    asked.add_argument("-seconds", type=float, default=300.0, help="how long (300)")
    asked.add_argument("-only", action="append", choices=ALL, metavar="NAME", help="this attack; may be repeated")
    asked.add_argument("-seed", type=int, default=None, help="of the first trial of each attack; a random one if none")
    asked.add_argument("-list", action="store_true", help="print what each attack is, and try none")
    given = asked.parse_args(words)
    chosen = [ATTACKS[name] for name in given.only or ALL]
    if given.list:
        print(*map(_described, chosen), sep="\n\n")
        return 0
    number = random.SystemRandom().randrange(10**9) if given.seed is None else given.seed
    print(f"{len(chosen)} attacks, {given.seconds:.0f} s, seed {number}", flush=True)
    scores = divided(chosen, number, given.seconds, _progress)
    print("", *_table(scores), sep="\n")
    failures = [failure for score in scores for failure in score.failures]
    for failure in failures:
        print(f"\n{failure.attack.name}, seed {failure.seed}: {failure.told.rstrip()}\nAgain: {failure.repeat}")
    return 1 if failures else 0


def _described(attack: Attack) -> str:
    lines = [attack.promise, f"Fails: {attack.fails}", *([f"Needs: {attack.needs}"] if attack.needs else [])]
    return "\n".join([attack.name, *(textwrap.indent(textwrap.fill(line, 100), "    ") for line in lines)])


def _progress(score: Score) -> None:
    failed = f", {len(score.failures)} FAILED" if score.failures else ""
    print(f"{score.attack.name}: {score.tries} tries, {score.seconds:.0f} s{failed}", flush=True)


def _table(scores: Sequence[Score]) -> list[str]:
    rows = [("attack", "tries", "failures")]
    for score in scores:
        if score.attack.possible:
            rows.append((score.attack.name, f"{score.tries:,}", str(len(score.failures))))
        else:
            rows.append((score.attack.name, f"not tried: needs {score.attack.needs}", ""))
    wide = max(len(row[0]) for row in rows)
    return [f"{name:{wide}}  {tries:>10}  {failures:>8}".rstrip() for name, tries, failures in rows]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
