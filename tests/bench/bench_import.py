"""Measure the import of an HTCondor pool's records: `python tests/bench/bench_import.py`.

The run includes HTCondor's reader of job event logs, for comparison.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path"), str(ROOT)]

from tests.bench.import_history import history  # noqa: E402
from tests.bench.import_startlog import start_log  # noqa: E402
from tests.bench.import_userlog import user_log  # noqa: E402


def main() -> int:
    met: list[bool] = []
    for measure in (user_log, start_log, history):
        with tempfile.TemporaryDirectory() as name:
            met += measure(Path(name))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
