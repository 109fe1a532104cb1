"""Run the benchmarks and write their measurements to a JSON file: `python -m tests.bench.run [-only NAME ...]`.

Each script's output is also printed. The file has the commit, the machine, and for each script its arguments, the load
before it, its exit code, its measurements (`compare.py` describes their names) and its output. `compare.py BEFORE
AFTER` compares such files. The exit code is 1 if a script misses an aim.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from .compare import measurements

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPTS = (
    "bench_classad.py", "bench_policy.py", "bench_point.py 1", "bench_log.py", "bench_execution.py", "bench_views.py",
    "bench_userlog.py", "bench_import.py", "bench_negotiation.py", "bench_partitionable.py", "bench_shapes.py",
    "bench_start.py", "bench_bulk.py", "bench_backfill.py", "bench_pool.py",
)  # fmt: skip
WITH_HTCONDOR = ("bench_negotiation.py", "bench_pool.py")
"""The scripts that can also measure an HTCondor pool."""


def machine() -> dict[str, Any]:
    """Return what the numbers depend on, apart from the code."""
    model = [line.partition(": ")[2] for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "processor": model[0] if model else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def run(command: str, peer: list[str]) -> dict[str, Any]:
    """Run a script, print its output, and return the record of its run."""
    script, *arguments = command.split()
    arguments += peer if script in WITH_HTCONDOR else []
    print(f"\n{' '.join([script, *arguments])}", flush=True)
    load = os.getloadavg()[0]
    lines = []
    with subprocess.Popen(
        [sys.executable, ROOT / "tests/bench" / script, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    output = "".join(lines)
    return {
        "script": script, "arguments": arguments, "load": load, "exit_code": process.returncode,
        "measurements": measurements(output), "output": output,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the benchmarks and write their measurements to a JSON file.")
    parser.add_argument("-only", nargs="+", metavar="NAME", help="scripts in tests/bench (default: all in the list)")
    parser.add_argument("-json", type=Path, metavar="FILE", help="the file (default: in build/bench/)")
    parser.add_argument("--peer", metavar="DIR", help="also measure the HTCondor pool in DIR")
    parser.add_argument("--peer-script", metavar="SCRIPT", help="the script that runs the pool in DIR")
    options = parser.parse_args()
    peer = ["--peer", options.peer, "--peer-script", options.peer_script] if options.peer else []
    git = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    commit = git.stdout.strip() or "unknown"
    record: dict[str, Any] = {"commit": commit, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "machine": machine()}
    record["runs"] = [run(command, peer) for command in options.only or SCRIPTS]
    path = options.json or ROOT / "build/bench" / f"{time.strftime('%Y%m%d-%H%M%S')}-{commit}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"\nThe measurements are in {path}.")
    return int(any(result["exit_code"] for result in record["runs"]))


if __name__ == "__main__":
    sys.exit(main())
