"""Measure how long `eval "$(poolbook shell)"` takes to start a pool that answers, in a directory without a log.

``python tests/bench/bench_shell.py`` prints the minimum and the median time of `poolbook shell`, and of `poolbook
shell` with a first condor_q. The aim is half a second, but the exit code is always 0. Modules are compiled before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = Path(sys.executable).with_name("poolbook")
RUNS = 15


def environment(home: Path) -> dict[str, str]:
    excluded = ("PYTHONDONTWRITEBYTECODE", "POOLBOOK_LOG")
    inherited = {name: value for name, value in os.environ.items() if name not in excluded}
    return inherited | {"PYTHONPATH": str(ROOT / ".path"), "PYTHONPYCACHEPREFIX": str(home / "compiled")}


def seconds(script: str, folder: Path, home: Path) -> float:
    """Return the seconds that a shell takes for a script, and stop the pool that the script started."""
    began = time.perf_counter()
    process = subprocess.run(["bash", "-c", script], cwd=folder, env=environment(home), capture_output=True, text=True)
    duration = time.perf_counter() - began
    subprocess.run([COMMAND, "shell", "-stop"], cwd=folder, env=environment(home), check=True)
    if process.returncode:
        raise SystemExit(process.stderr)
    return duration


SCRIPTS = {
    "poolbook shell": f"{COMMAND} shell > /dev/null",
    "and the first condor_q": f'eval "$({COMMAND} shell)"; condor_q > /dev/null',
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder_name:
        home = Path(folder_name)
        for name, script in SCRIPTS.items():
            durations = []
            for number in range(RUNS + 1):
                folder = home / f"{name.replace(' ', '-')}-{number}"
                folder.mkdir()
                durations.append(seconds(script, folder, home))
            print(f"{name:24} minimum {min(durations[1:]):.3f} s   median {median(durations[1:]):.3f} s", flush=True)


if __name__ == "__main__":
    main()
