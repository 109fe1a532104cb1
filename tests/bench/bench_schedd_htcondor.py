"""Measure commands over many jobs, by the clock, in a Poolbook pool and in an HTCondor pool.

``python tests/bench/bench_schedd_htcondor.py [--jobs N] [--peer DIR --peer-script SCRIPT]``; DIR and SCRIPT: an
HTCondor pool as for ``make realpool``. Both pools get the same configuration (three transforms, three submit
requirements, a user map, three periodic policies that hold no job) and the same commands: submit N held jobs with
different arguments and outputs, edit all of them with a constraint, submit a factory of ten times as many, and remove
all. HTCondor's schedd logs the time of a periodic policy evaluation.
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
HELD_JOBS = """\
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
_EVALUATION = re.compile(r"Evaluated periodic expressions in ([\d.]+)s")


def run_commands(pool: Pool, jobs: int) -> dict[str, float]:
    """Return the seconds of each command."""
    times = {}
    pool.command("version")
    for name, submit_file in (("held.sub", HELD_JOBS.format(jobs)), ("factory.sub", FACTORY.format(10 * jobs))):
        path = pool.home / name
        path.write_text(submit_file)
        os.chown(path, pool.uid, pool.uid)
    for name, command, expected in (
        (f"submit {jobs:,}", ("submit", "held.sub"), f"{jobs} job(s) submitted"),
        (f"qedit {jobs:,}", ("qedit", "-constraint", "RequestMemory < 1024", "RequestMemory", "600"), "Set attribute"),
        (f"submit a factory of {10 * jobs:,}", ("submit", "factory.sub"), f"{10 * jobs} job(s) submitted"),
        ("remove all", ("rm", "-all"), "marked for removal"),
    ):
        began = time.perf_counter()
        output = pool.command(*command)
        times[name] = time.perf_counter() - began
        assert expected in output, output
        if name.startswith("qedit"):
            time.sleep(8)  # for evaluations of the periodic policies
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=100_000, metavar="N", help="number of jobs (default 100000)")
    parser.add_argument("--peer", type=Path, metavar="DIR", help="the directory of an HTCondor pool")
    parser.add_argument("--peer-script", metavar="SCRIPT", help="the script that runs the HTCondor pool")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Own(Path(folder)).served(CONF) as poolbook:
        ours = run_commands(poolbook, options.jobs)
    theirs: dict[str, float] = {}
    if options.peer:
        with tempfile.TemporaryDirectory() as folder:
            htcondor = Real(options.peer.resolve(), options.peer_script)
            with htcondor.served(Path(folder) / "scenario.conf", CONF) as pool:
                theirs = run_commands(pool, options.jobs)
                log = options.peer / "root/var/log/condor/SchedLog"
                evaluations = [float(seconds) for seconds in _EVALUATION.findall(log.read_text(errors="replace"))]
    for name, seconds in ours.items():
        comparison = f", HTCondor {theirs[name]:.2f} s" if theirs else ""
        print(f"{name}: {seconds:.2f} s{comparison}")
    if theirs and evaluations:
        longest, count = max(evaluations), len(evaluations)
        print(f"HTCondor's longest evaluation of periodic policies: {longest:.2f} s (of {count})")


if __name__ == "__main__":
    main()
