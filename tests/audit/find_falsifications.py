"""Falsify folders of recorded pools, one lie at a time, and say which lies an audit finds.

    PYTHONPATH=.path python -m tests.audit.find_falsifications -most 3 FOLDER ...

A folder that is accused as it is, is told of first. Of each kind of lie at most so many places are tried (3).
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
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
    """What an audit finds in a folder of these files."""
    with TemporaryDirectory() as folder:
        pool = Path(folder) / "pool"
        pool.mkdir()
        for name, text in files.items():
            (pool / name).write_bytes(text.encode("latin-1"))
        audit = examine(imported(pool)[0])
    broken = {Found(one.rule, one.thing, one.words) for one in audit.violations}
    return broken | {Found(one.fact, one.thing, one.words) for one in audit.contradictions}


def lies(files: Files, most: int, known: set[Found]) -> Iterator[tuple[Falsification, list[Found]]]:
    """Each falsification, and what is found of it, besides what is known of the files as they are."""
    for lie in falsified(files, most):
        yield lie, sorted(findings({**files, lie.file: lie.text}) - known)


def _main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    words.add_argument("-most", type=int, default=3, help="places of each kind")
    words.add_argument("-kind", default="", help="only kinds with these words")
    asked = words.parse_args()
    told, found = Counter[str](), Counter[str]()
    for folder in asked.folders:
        files = read(folder)
        known = findings(files)
        print(f"{folder}: {len(known)} accusations as it is", *sorted(known), sep="\n    ")
        for lie, seen in lies(files, asked.most, known):
            if asked.kind not in lie.kind:
                continue
            told[lie.kind] += 1
            found[lie.kind] += bool(seen)
            what = f"{seen[0].rule}: {seen[0].thing}: {seen[0].words}" if seen else "-"
            print(f"{'found ' if seen else 'MISSED'} {lie.kind} [{lie.file}:{lie.line}] {what}", flush=True)
    for kind, number in told.items():
        print(f"{found[kind]:3} of {number:3}  {kind}")
    print(f"{found.total():3} of {told.total():3}")


if __name__ == "__main__":
    _main()
