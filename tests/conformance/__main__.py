"""Play a recording of a real pool and compare: ``python -m tests.conformance FOLDER``, from the repository's root.

With ``--cycles``, the negotiator's cycles are decided again, and priorities and matches are compared with those that
were recorded. The exit code is 1 where something differs, 2 where the records cannot be compared.
"""

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
    found = compare(folder, dialect)
    if as_json:
        told = {
            "folder": found.folder, "slots": found.slots, "entries": found.entries, "same": found.same,
            "equal": found.equal, "differences": list(map(str, found.differences)), "rewrites": found.rewrites,
        }  # fmt: skip
        print(json.dumps(told, indent=2))
        return 0 if found.equal else 1
    verdict = "all equal" if found.equal else f"{counted(len(found.differences), 'slot')} differ"
    print(f"{folder}: {counted(found.slots, 'slot')}, {counted(found.entries, 'transition')}: {verdict}")
    for difference in found.differences:
        print(f"  {difference}")
    why = {rewrite.name: rewrite.why for rewrite in COMPARISON_RULES}
    for name, count in found.rewrites.items():
        print(f"  rewritten, x{count}: {name}: {why.get(name, '')}")
    return 0 if found.equal else 1


def _cycles(folder: Path, dialect: str, as_json: bool) -> int:
    """Decide the cycles of a real negotiator again and print the differences."""
    found = compare_cycles(record(folder, dialect))
    print(json.dumps(as_dict(found), indent=2) if as_json else "\n".join(lines(found)))
    return 0 if found.agrees else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
