"""Measure 500 jobs of /bin/true on four execution points: a manager, an access point and four execution points are
separate processes on this machine, with a log each, connected by NATS and TLS.

    python -m tests.bench.bench_roles [-jobs 500] [-points 4] [-slots 4]

The rate is that from the start of `submit` to the end of the last job. The time from a claim to its start is that from
the access point's request for the claim to the start of the process at the execution point.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import ClaimMade, ClaimRequested, Event, JobActivated, JobExited, RunReported
from poolbook.domain.ports.run_reports import decode_report
from poolbook.domain.ports.stimuli import ActivationStarted

from ..https.roles import Roles, role_processes

JOB = "executable = /bin/true\nlog = it.log\ntransfer_executable = false\nshould_transfer_files = NO\n"
REQUEST = "request_memory = 64\nrequest_disk = 1 MB\n"


def events_of(path: Path) -> list[tuple[int, Event]]:
    log = open_log(str(path), create=False, read_only=True)
    try:
        return [*log.read()]
    finally:
        log.close()


def run(roles: Roles, jobs: int, points: int, slots: int, singles: int) -> float:
    """Run the jobs, and then single ones, one after the other. Return the seconds until all of the former ended."""
    roles.start_manager()
    token = roles.token()
    roles.start("a.db", "join", roles.url, token, "-role", "access-point", "-name", "ap")
    size = ("-cpus", str(slots), "-slots", str(slots), "-memory", str(256 * slots))
    for number in range(points):
        name = f"ep{number}"
        roles.start(f"{name}.db", "join", roles.url, token, "-role", "execution-point", *size, "-name", name)
    roles.wait_for(lambda: roles.call("status", "-af", "Name", "-log", "m.db").count("\n") == slots * points)
    began = time.perf_counter()
    submit_and_wait(roles, jobs, jobs)
    seconds = time.perf_counter() - began
    for number in range(singles):
        submit_and_wait(roles, 1, jobs + number + 1)
    return seconds


def submit_and_wait(roles: Roles, jobs: int, ended: int) -> None:
    """Submit jobs, and wait until the user log has the ends of ``ended`` jobs."""
    (roles.path / "true.sub").write_text(f"{JOB}{REQUEST}queue {jobs}\n")
    roles.call("submit", "true.sub", "-log", "a.db")
    user_log = roles.path / "it.log"
    while not user_log.exists() or user_log.read_bytes().count(b"(1) Normal termination (return value 0)") < ended:
        time.sleep(0.01)


def latencies(folder: Path, points: int) -> list[float]:
    """Return the seconds from each claim request to the first start on the claim."""
    requested = {event.claim: event.at for _, event in events_of(folder / "a.db") if isinstance(event, ClaimRequested)}
    started: dict[str, int] = {}
    for number in range(points):
        for _, event in events_of(folder / f"ep{number}.db"):
            if isinstance(event, RunReported) and isinstance(report := decode_report(event), ActivationStarted):
                started.setdefault(event.claim, report.at)
    return [(started[claim] - at) / 1e6 for claim, at in requested.items() if claim in started]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-jobs", type=int, default=500)
    parser.add_argument("-points", type=int, default=4)
    parser.add_argument("-slots", type=int, default=4, help="slots of each execution point (default 4)")
    parser.add_argument("-singles", type=int, default=30, help="single jobs after the others (default 30)")
    parser.add_argument("-keep", type=Path, help="run in this directory, and keep the logs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        with role_processes(folder) as roles:
            seconds = run(roles, options.jobs, options.points, options.slots, options.singles)
        times = latencies(folder, options.points)
        log = [event for _, event in events_of(folder / "a.db")]
    counts = [sum(isinstance(event, kind) for event in log) for kind in (ClaimMade, JobActivated, JobExited)]
    print(f"{options.jobs} jobs of /bin/true: {seconds:.2f} s, {options.jobs / seconds:.0f} jobs/s")
    print("claims {}, starts {}, ends {}".format(*counts))
    single = len(times) - options.singles
    for name, part in (("all at once", times[:single]), ("one by one", times[single:])):
        median, most = statistics.median(part), sorted(part)[len(part) * 9 // 10]
        print(f"from claim to start, {name}: median {median * 1000:.1f} ms, 9 of 10 within {most * 1000:.1f} ms")


if __name__ == "__main__":
    main()
