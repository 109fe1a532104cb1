"""How long it takes until a pool answers that `eval "$(poolbook shell)"` starts, in a folder without a log.

Run with ``python tests/bench/bench_shell.py``; prints the least and the median of the runs: the seconds of `poolbook
shell`, and of all up to the first condor_q's end. It is a measurement: it ends with 0 whatever came out. Every module
is compiled before. The aim is half a second.
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
    left_out = ("PYTHONDONTWRITEBYTECODE", "POOLBOOK_LOG")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return kept | {"PYTHONPATH": str(ROOT / ".path"), "PYTHONPYCACHEPREFIX": str(home / "compiled")}


def seconds(script: str, folder: Path, home: Path) -> float:
    """The seconds that a shell takes for a script; the pool that it starts is ended then."""
    begun = time.perf_counter()
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment(home), capture_output=True, text=True)
    took = time.perf_counter() - begun
    subprocess.run([COMMAND, "shell", "-stop"], cwd=folder, env=environment(home), check=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return took


SCRIPTS = {
    "poolbook shell": f"{COMMAND} shell > /dev/null",
    "and the first condor_q": f'eval "$({COMMAND} shell)"; condor_q > /dev/null',
}


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        for name, script in SCRIPTS.items():
            took = []
            for number in range(RUNS + 1):
                folder = home / f"{name.replace(' ', '-')}-{number}"
                folder.mkdir()
                took.append(seconds(script, folder, home))
            print(f"{name:24} least {min(took[1:]):.3f} s   median {median(took[1:]):.3f} s", flush=True)


if __name__ == "__main__":
    main()
