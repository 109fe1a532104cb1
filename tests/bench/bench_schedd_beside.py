"""Measures what the schedd makes of very many jobs, by the clock of who calls, in a pool of ours and in a real one.

``python tests/bench/bench_schedd_beside.py [--jobs N] [--peer DIR --peer-script SCRIPT]``; DIR and SCRIPT: a real pool,
as ``make realpool`` has it. Both pools get the same configuration (three transforms, three requirements, a user map,
three periodic policies of which none holds) and the same commands, one after the other: a submission of N held jobs
with arguments and outputs of their own, an edit of all of them by a constraint, a factory of ten times as many, the
removal of all. Of a pass of the periodic policies a real schedd tells in its log how long it took.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent.parent / ".path"), str(Path(__file__).parent.parent.parent)]

from tests.bench.bench_schedd import POLICY  # noqa: E402
from tests.beside.pools import Own, Pool, Real  # noqa: E402

CONF = (
    POLICY
    + """
NUM_CPUS = 1
MAX_JOBS_PER_SUBMISSION = 100000000
MAX_JOBS_PER_OWNER = 100000000
PERIODIC_EXPR_INTERVAL = 2
SCHEDD_DEBUG = D_FULLDEBUG
MAX_SCHEDD_LOG = 1 Gb
EVENT_LOG =
"""
)
HELD = """\
executable = /bin/sleep
arguments = $(Process)
output = out.$(Process)
hold = true
periodic_hold = NumJobStarts > 5
periodic_release = NumHolds > 5
periodic_remove = time() - QDate > 86400
queue {}
"""
FACTORY = "executable = /bin/sleep\narguments = $(Process)\nmax_idle = 100\nrequirements = false\nqueue {}\n"
_PASS = re.compile(r"Evaluated periodic expressions in ([\d.]+)s")


def run(pool: Pool, jobs: int) -> dict[str, float]:
    """What each command takes, in seconds."""
    found = {}
    pool.command("version")
    for name, text in (("held.sub", HELD.format(jobs)), ("factory.sub", FACTORY.format(10 * jobs))):
        path = pool.home / name
        path.write_text(text)
        os.chown(path, pool.uid, pool.uid)
    for what, words, expected in (
        (f"submit {jobs:,}", ("submit", "held.sub"), f"{jobs} job(s) submitted"),
        (f"qedit {jobs:,}", ("qedit", "-constraint", "RequestMemory < 1024", "RequestMemory", "600"), "Set attribute"),
        (f"submit a factory of {10 * jobs:,}", ("submit", "factory.sub"), f"{10 * jobs} job(s) submitted"),
        ("remove all", ("rm", "-all"), "marked for removal"),
    ):
        began = time.perf_counter()
        said = pool.command(*words)
        found[what] = time.perf_counter() - began
        assert expected in said, said
        if what.startswith("qedit"):
            time.sleep(8)  # passes of the periodic policies
    return found


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--jobs", type=int, default=100_000)
    options.add_argument("--peer", type=Path)
    options.add_argument("--peer-script")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, Own(Path(folder)).served(CONF) as own:
        ours = run(own, given.jobs)
    theirs: dict[str, float] = {}
    if given.peer:
        with tempfile.TemporaryDirectory() as folder:
            real = Real(given.peer.resolve(), given.peer_script)
            with real.served(Path(folder) / "scenario.conf", CONF) as pool:
                theirs = run(pool, given.jobs)
                log = given.peer / "root/var/log/condor/SchedLog"
                passes = [float(one) for one in _PASS.findall(log.read_text(errors="replace"))]
    for name, seconds in ours.items():
        beside = f", the real pool {theirs[name]:.2f} s" if theirs else ""
        print(f"{name}: {seconds:.2f} s{beside}")
    if theirs and passes:
        print(f"the real schedd's longest pass of periodic expressions: {max(passes):.2f} s (of {len(passes)})")


if __name__ == "__main__":
    main()
