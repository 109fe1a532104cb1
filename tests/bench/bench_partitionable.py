"""Measure matches on partitionable slots, in CPU time: `python tests/bench/bench_partitionable.py [MACHINES] [JOBS]`.

Each machine has one partitionable slot of eight cores; each job requests one core. The pool runs in virtual time, with
its log in memory. The time of each kind of decision is that of `decide`, without appending its events. The memory is
that of the process; `python tests/bench/bench_partitionable.py 5000 40000` fills a large pool with running jobs.
"""

from __future__ import annotations

import os
import resource
import sys
from collections import defaultdict
from pathlib import Path
from time import process_time
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / ".path")]

from poolbook import Behaviour, Pool  # noqa: E402
from poolbook.adapters.runtime import log_writer  # noqa: E402
from poolbook.domain.decide import decide  # noqa: E402

JOB = {"executable": "/bin/work", "request_memory": "1 GB", "request_cpus": "1"}
seconds: dict[str, float] = defaultdict(float)


def timed_decide(state: Any, stimulus: Any, *arguments: Any, **keywords: Any) -> Any:
    """Decide, and add the CPU time to that of the stimulus's kind."""
    began = process_time()
    try:
        return decide(state, stimulus, *arguments, **keywords)
    finally:
        seconds[type(stimulus).__name__] += process_time() - began


def measure(dialect: str, machines: int, jobs: int) -> None:
    """Run the jobs under a dialect, and print the times."""
    with Pool.open("memory:", user="alice", dialect=dialect, behave=lambda launch: Behaviour(seconds=1e6)) as pool:
        for number in range(machines):
            pool.add_machine(f"node{number}", cpus=8, memory="16 GB")
        pool.submit(JOB)  # so that caches are filled
        pool.advance(400)
        pool.remove("1")
        pool.advance(400)
        seconds.clear()
        began = process_time()
        pool.submit(JOB, count=jobs)
        submitted = process_time() - began
        pool.advance(61)
        total = process_time() - began
        running = sum(job["JobStatus"] == 2 for job in pool.jobs())
    assert running == min(jobs, 8 * machines), running
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
    print(f"{dialect:12} submit {submitted:.3f} s   61 s {total:.3f} s   peak memory {memory} MB   ", end="")
    print("   ".join(f"{name} {seconds[name]:.3f} s" for name in ("Negotiate", "ClaimMatches", "ActivationStarted")))


if __name__ == "__main__":
    vars(log_writer)["decide"] = timed_decide
    machines, jobs = (*map(int, sys.argv[1:]), 500, 1000)[:2]
    for dialect in ("manual", "htcondor-25"):
        if not (child := os.fork()):  # in separate processes, so that each has its own peak memory
            measure(dialect, machines, jobs)
            break
        os.waitpid(child, 0)
