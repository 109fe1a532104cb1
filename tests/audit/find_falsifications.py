"""Falsify folders of recorded pools, one change at a time, and print which falsifications an audit detects.

PYTHONPATH=.path python -m tests.audit.find_falsifications -most 3 -seed 7 FOLDER ...

It first prints the findings on the unchanged folder. In each folder it tries at most so many places of each kind.
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


class Finding(NamedTuple):
    """One finding: the broken rule, or the contradicted fact, and the message."""

    rule: str
    thing: str
    words: str


def findings(files: Mapping[str, str]) -> set[Finding]:
    """Return the findings of an audit of a folder with these files."""
    with TemporaryDirectory() as folder:
        pool = Path(folder) / "pool"
        for name, text in files.items():
            (pool / name).parent.mkdir(parents=True, exist_ok=True)
            (pool / name).write_bytes(text.encode("latin-1"))
        audit = examine(imported(pool)[0])
    broken_rules = {Finding(violation.rule, violation.thing, violation.words) for violation in audit.violations}
    return broken_rules | {
        Finding(violation.fact, violation.thing, violation.words) for violation in audit.contradictions
    }


def first_findings(
    files: Files, lies: Iterable[Falsification], known_findings: set[Finding]
) -> Iterator[tuple[Falsification, Finding | None]]:
    """Yield each falsification, and the first finding on it that the unchanged files do not have."""
    for lie in lies:
        yield lie, min(findings({**files, lie.file: lie.text(files)}) - known_findings, default=None)


def table(tried: Mapping[str, int], detected: Mapping[str, int]) -> str:
    """Return how many falsifications of each kind were detected, and of all."""
    rows = [f"{detected.get(kind, 0):3} of {number:3}  {kind}" for kind, number in tried.items()]
    total, hits = sum(tried.values()), sum(detected.values())
    return "\n".join([*rows, f"{hits:3} of {total:3}  {100 * hits / max(total, 1):.1f} %"])


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("-most", type=int, default=3, help="places of each kind")
    parser.add_argument("-seed", type=int, help="choose the places at random")
    parser.add_argument("-kind", default="", help="only kinds with these words")
    asked = parser.parse_args()
    tried, detected = Counter[str](), Counter[str]()
    for folder in asked.folders:
        files = read(folder)
        known_findings = findings(files)
        print(f"{folder}: {len(known_findings)} accusations as it is", *sorted(known_findings), sep="\n    ")
        for lie, finding in first_findings(files, falsified(files, asked.most, asked.seed, asked.kind), known_findings):
            tried[lie.kind] += 1
            detected[lie.kind] += finding is not None
            description = f"{finding.rule}: {finding.thing}: {finding.words}" if finding else "-"
            print(
                f"{'found ' if finding else 'MISSED'} {lie.kind} [{lie.file}:{lie.line(files)}] {description}",
                flush=True,
            )
    print(table(tried, detected))


if __name__ == "__main__":
    _main()
