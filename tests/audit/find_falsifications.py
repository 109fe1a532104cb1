"""Falsify folders of recorded pools, one change at a time, and print which falsifications an audit finds.

    PYTHONPATH=.path python -m tests.audit.find_falsifications -most 3 -seed 7 FOLDER ...

It prints first which accusations a folder gets as it is. Of each kind at most so many places are tried in each folder.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from poolbook.replay.forensics.audit.examine import examine

from ..importing.folders import imported
from .falsifications import Falsification, Files, falsified, read


class Found(NamedTuple):
    """One finding: the rule that was broken, or the fact that is contradicted, and the words."""

    rule: str
    thing: str
    words: str


def findings(files: Mapping[str, str]) -> set[Found]:
    """Return what an audit finds in a folder of these files."""
    with TemporaryDirectory() as folder:
        pool = Path(folder) / "pool"
        for name, text in files.items():
            (pool / name).parent.mkdir(parents=True, exist_ok=True)
            (pool / name).write_bytes(text.encode("latin-1"))
        audit = examine(imported(pool)[0])
    broken = {Found(one.rule, one.thing, one.words) for one in audit.violations}
    return broken | {Found(one.fact, one.thing, one.words) for one in audit.contradictions}


def searched(
    files: Files, lies: Iterable[Falsification], known: set[Found]
) -> Iterator[tuple[Falsification, Found | None]]:
    """Yield each falsification, and the first finding on it, besides what is known of the files as they are."""
    for lie in lies:
        yield lie, min(findings({**files, lie.file: lie.text(files)}) - known, default=None)


def table(told: Mapping[str, int], found: Mapping[str, int]) -> str:
    """Return how many falsifications of each kind were found, and of all."""
    rows = [f"{found.get(kind, 0):3} of {number:3}  {kind}" for kind, number in told.items()]
    total, hits = sum(told.values()), sum(found.values())
    return "\n".join([*rows, f"{hits:3} of {total:3}  {100 * hits / max(total, 1):.1f} %"])


def _main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    words.add_argument("-most", type=int, default=3, help="places of each kind")
    words.add_argument("-seed", type=int, help="choose the places at random")
    words.add_argument("-kind", default="", help="only kinds with these words")
    asked = words.parse_args()
    told, found = Counter[str](), Counter[str]()
    for folder in asked.folders:
        files = read(folder)
        known = findings(files)
        print(f"{folder}: {len(known)} accusations as it is", *sorted(known), sep="\n    ")
        for lie, seen in searched(files, falsified(files, asked.most, asked.seed, asked.kind), known):
            told[lie.kind] += 1
            found[lie.kind] += seen is not None
            what = f"{seen.rule}: {seen.thing}: {seen.words}" if seen else "-"
            print(f"{'found ' if seen else 'MISSED'} {lie.kind} [{lie.file}:{lie.line(files)}] {what}", flush=True)
    print(table(told, found))


if __name__ == "__main__":
    _main()
