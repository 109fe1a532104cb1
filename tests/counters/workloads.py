"""Ten workloads of some jobs in a pool in virtual time; its log is an SQLite file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from poolbook import Pool

JOB: Final = {"executable": "/bin/sleep", "request_cpus": 1, "request_memory": 10, "request_disk": 1}


class Workload(NamedTuple):
    """The number of jobs, a function that runs them in a new pool, and the pool's configuration."""

    jobs: int
    work: Callable[[Pool], None]
    dialect: str = "manual"
    config: str = ""


def _add_machines(pool: Pool, machines: int = 4, cores: int = 4, static: int = 4) -> None:
    for number in range(machines):
        pool.add_machine(f"m{number}", cpus=cores, memory=cores * 100, static=static)


def _run_identical_jobs(pool: Pool) -> None:
    _add_machines(pool)
    pool.submit(JOB, count=80)
    pool.run()


def _run_different_jobs(pool: Pool) -> None:
    _add_machines(pool)
    for number in range(40):
        pool.submit({**JOB, "request_memory": 10 + number % 20, "arguments": f"{number}"})
    pool.run()


def _run_jobs_of_many_users(pool: Pool) -> None:
    _add_machines(pool)
    for number in range(20):
        pool.submit(JOB, count=4, user=f"user{number}")
    pool.run()


def _run_in_dynamic_slots(pool: Pool) -> None:
    _add_machines(pool, machines=2, cores=16, static=0)
    for cores in (1, 2, 4):
        pool.submit({**JOB, "request_cpus": cores}, count=10)
    pool.run()


def _run_with_limits(pool: Pool) -> None:
    _add_machines(pool, static=0)
    for number in range(2):
        pool.submit({**JOB, "concurrency_limits": "license"}, count=10, user=f"user{number}")
        pool.submit(JOB, count=10, user=f"user{number}")
    pool.run()


def _run_on_desktops(pool: Pool) -> None:
    _add_machines(pool, static=0)
    pool.submit(JOB, count=30)
    for minute in range(20):
        pool.read(f"m{minute % 4}", KeyboardIdle=0 if minute % 3 else 2_000)
        pool.advance(60)
    for number in range(4):
        pool.read(f"m{number}", KeyboardIdle=100_000)
    pool.run()


def _run_with_policies(pool: Pool) -> None:
    _add_machines(pool)
    policy = {
        "periodic_hold": "JobStatus == 2 && NumJobStarts < 2 && time() - EnteredCurrentStatus > 20",
        "periodic_release": "NumHolds < 3",
        "on_exit_remove": "NumJobStarts > 1",
    }
    pool.submit({**JOB, **policy}, count=20)
    pool.advance(7_200)
    pool.remove(constraint="true")
    pool.run()


def _run_commands(pool: Pool) -> None:
    _add_machines(pool)
    cluster = str(pool.submit({**JOB, "hold": "true"}, count=80))
    pool.edit(cluster, JobPrio=5)
    pool.release(cluster)
    pool.hold(cluster, reason="for now")
    pool.remove(constraint="ProcId < 40")
    pool.remove(cluster)
    pool.run()


def _run_on_draining_machines(pool: Pool) -> None:
    _add_machines(pool)
    pool.submit(JOB, count=30)
    pool.advance(70)
    for number in range(4):
        pool.drain(f"m{number}", schedule="Fast")
        pool.advance(30)
        pool.cancel_drain(f"m{number}")
    pool.run()


DESKTOP: Final = """
NUM_SLOTS = 4
START = KeyboardIdle > 900
SUSPEND = KeyboardIdle < 60
CONTINUE = KeyboardIdle > 300
PREEMPT = Activity == "Suspended" && time() - EnteredCurrentActivity > 600
KILL = false
WANT_SUSPEND = true
WANT_VACATE = true
"""

WORKLOADS: Final = {
    "80 jobs of one kind": Workload(80, _run_identical_jobs),
    "80 jobs of one kind, as HTCondor 25": Workload(80, _run_identical_jobs, "htcondor-25"),
    "40 clusters of twenty kinds": Workload(40, _run_different_jobs),
    "20 users with four jobs each": Workload(80, _run_jobs_of_many_users),
    "30 jobs in dynamic slots": Workload(30, _run_in_dynamic_slots, "htcondor-25"),
    "40 jobs, half of them limited": Workload(40, _run_with_limits, config="NUM_SLOTS = 4\nLICENSE_LIMIT = 5"),
    "30 jobs on desktops": Workload(30, _run_on_desktops, config=DESKTOP),
    "20 jobs that policy holds and releases": Workload(20, _run_with_policies),
    "commands over 80 jobs": Workload(80, _run_commands),
    "30 jobs on machines that drain": Workload(30, _run_on_draining_machines),
}
