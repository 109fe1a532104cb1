"""Play a recording of a real pool and compare: ``python -m tests.conformance FOLDER``, from the repository's root. With
``--cycles``, the negotiator's cycles are decided again, and priorities and matches are compared with the recorded ones.
The exit code is 1 if something differs, 2 if the records cannot be compared."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from poolbook.domain.config import ConfigError
from poolbook.domain.state_machines import DIALECTS
from poolbook.replay.narration.formatting import counted

from .compare import compare_cycles
from .golden_traces import COMPARISON_RULES, DIALECT, compare
from .report import as_dict, lines
from .trace_cycles import record


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="what a pool's daemons wrote, with its configuration: scenario.conf")
    parser.add_argument("--cycles", action="store_true", help="decide the negotiator's cycles again")
    parser.add_argument("--dialect", choices=sorted(DIALECTS), default=DIALECT)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    arguments = parser.parse_args(argv)
    try:
        return (_cycles if arguments.cycles else _transitions)(arguments.folder, arguments.dialect, arguments.json)
    except (OSError, ConfigError) as error:
        print(f"{arguments.folder}: {error}", file=sys.stderr)
        return 2


def _transitions(folder: Path, dialect: str, as_json: bool) -> int:
    """Play the slots of a trace and print the transitions that differ."""
    comparison = compare(folder, dialect)
    if as_json:
        report = {
            "folder": comparison.folder, "slots": comparison.slots, "entries": comparison.entries,
            "same": comparison.same, "equal": comparison.equal,
            "differences": list(map(str, comparison.differences)), "rewrites": comparison.rewrites,
        }  # fmt: skip
        print(json.dumps(report, indent=2))
        return 0 if comparison.equal else 1
    verdict = "all equal" if comparison.equal else f"{counted(len(comparison.differences), 'slot')} differ"
    print(f"{folder}: {counted(comparison.slots, 'slot')}, {counted(comparison.entries, 'transition')}: {verdict}")
    for difference in comparison.differences:
        print(f"  {difference}")
    why = {rewrite.name: rewrite.why for rewrite in COMPARISON_RULES}
    for name, count in comparison.rewrites.items():
        print(f"  rewritten, x{count}: {name}: {why.get(name, '')}")
    return 0 if comparison.equal else 1


def _cycles(folder: Path, dialect: str, as_json: bool) -> int:
    """Decide the cycles of a real negotiator again and print the differences."""
    report = compare_cycles(record(folder, dialect))
    print(json.dumps(as_dict(report), indent=2) if as_json else "\n".join(lines(report)))
    return 0 if report.agrees else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
