"""Measure an execution point: a policy evaluation of 1,000 slots, and a week of 1,000 desktops.

Run ``python tests/bench/bench_point.py [DAYS]``. The policy is HTCondor's Desktop template with its default values. An
evaluation that changes nothing appends nothing. The exit code is 1 if an aim is missed.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from poolbook.domain.units import SECOND

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / ".path")]

from poolbook.adapters.runtime.engine import Engine  # noqa: E402
from poolbook.adapters.stores.opening import open_log  # noqa: E402
from poolbook.domain.config import read  # noqa: E402
from poolbook.domain.ports import stimuli as s  # noqa: E402
from poolbook.domain.ports.sensor_readings import Readings  # noqa: E402
from poolbook.domain.ports.world import Launch  # noqa: E402
from poolbook.domain.startd.provisioning import Equipment, ExecuteVolume, machine_offer  # noqa: E402
from poolbook.replay.virtual_world import Behaviour, VirtualWorld  # noqa: E402

AIM_EVALUATION, AIM_WEEK = 0.050, 60.0
SLOTS = 1000
DAY = 86400 * SECOND
DESKTOP = "use POLICY : Desktop\nuse FEATURE : StaticSlots\nRUNBENCHMARKS = False\nNUM_SLOTS = {slots}\n"
JOB = {
    "Cmd": '"/bin/work"',
    "Requirements": 'TARGET.Arch == "X86_64" && TARGET.Memory >= RequestMemory',
    "Rank": "0.0",
    "RequestCpus": "1",
    "RequestMemory": "128",
    "RequestDisk": "1024",
    "JobUniverse": "5",
    "ImageSize": "100000",
}


def job_behaviour(launch: Launch) -> Behaviour:
    """Return the behaviour of a job that runs one to five hours and ends one second after a signal."""
    return Behaviour(3600.0 * (1 + (launch.cluster * 7 + launch.proc * 13) % 5), grace=1.0, load=1.0)


def desktop_pool(machines: int, slots: int) -> tuple[Engine, VirtualWorld]:
    """Return a pool of machines with the Desktop policy and ``slots`` single-core slots each."""
    world = VirtualWorld(job_behaviour)
    engine = Engine(open_log("memory:", create=True), world)
    engine.handle([s.FoundPool("found", "bench", "htcondor-25", "example.org", "0", {"NEGOTIATOR_INTERVAL": "60"})])
    detected = {"DETECTED_CPUS": str(slots), "DETECTED_CORES": str(slots), "DETECTED_MEMORY": str(2048 * slots)}
    configuration = read([("desktop.conf", DESKTOP.format(slots=slots))], environment={}, detected=detected)
    volume = ExecuteVolume("disk", 10**7 * slots, 10**7 * slots)
    equipment = Equipment(slots, 2048 * slots, 2048 * 1024 * slots, {"": volume}, {"Arch": '"X86_64"'})
    for number in range(machines):
        engine.handle([machine_offer(f"machine-{number}", f"ws{number}", configuration, equipment)])
    return engine, world


def evaluation_time(machines: int, slots: int, busy: bool) -> float:
    """Return the best time, in seconds, of a policy evaluation of all slots in which nothing changes."""
    engine, world = desktop_pool(machines, slots)
    names = tuple(f"ws{number}" for number in range(machines))
    run_to(engine, world, world.now() + 3600 * SECOND)
    if busy:
        engine.handle([s.Submit("submit", "alice", 0, JOB, machines * slots, ())])
        run_to(engine, world, world.now() + 400 * SECOND)
    engine.matching = False  # a cycle would update the priorities
    before, best = engine.log.head.position, float("inf")
    for number in range(7):
        world.clock += 5 * SECOND
        began = time.perf_counter()
        engine.handle([s.EvaluatePolicies(f"round-{number}", names)])
        best = min(best, time.perf_counter() - began)
    assert engine.log.head.position == before, "an evaluation that changes nothing must append nothing"
    return best


def run_to(engine: Engine, world: VirtualWorld, until: int) -> None:
    """Let time pass, and process everything that happens meanwhile."""
    while engine.step(until) or world.now() < until:
        pass


def time_week(days: float, jobs: bool) -> tuple[float, int]:
    """Return the seconds for a week of 1,000 desktops, and the number of events.

    Each owner comes three times a day, stays for up to half an hour and presses a key every five minutes. With ``jobs``
    the queue is never empty.
    """
    engine, world = desktop_pool(SLOTS, 1)
    rng = random.Random(1)
    start = world.now()
    end = start + round(days * DAY)
    visits = sorted(
        (
            start + day * DAY + rng.randrange(8 * 3600, 18 * 3600) * SECOND,
            machine,
            rng.randrange(1, 7),
        )
        for day in range(int(days + 1))
        for machine in range(SLOTS)
        for _ in range(3)
    )
    key_presses = sorted(
        (at + number * 300 * SECOND, machine) for at, machine, count in visits for number in range(count)
    )
    began = time.perf_counter()
    due = start
    for at, machine in [*key_presses, (end, 0)]:
        while due <= min(at, end):
            run_to(engine, world, due)
            if jobs:
                engine.handle([s.Submit(f"submit-{due}", "alice", 0, JOB, 1500, ())])
            due += DAY // 4
        if at >= end:
            break
        run_to(engine, world, at - 1)
        world.set_readings(f"ws{machine}", Readings(last_input=at, last_console=at))
    run_to(engine, world, end)
    duration = time.perf_counter() - began
    return duration, engine.log.head.position


def main(days: float) -> int:
    """Print the measurements; return 1 if an aim is missed."""
    missed = 0

    def print_line(measurement: str, time: float, aim: float) -> None:
        nonlocal missed
        missed += time >= aim
        print(f"{measurement:58} {time:8.3f} s   aim < {aim:6.3f} s   {'met' if time < aim else 'MISSED'}", flush=True)

    for machines, slots in ((1, SLOTS), (SLOTS, 1)):
        for busy in (False, True):
            measurement = f"a policy evaluation of {machines} x {slots} slots, {'busy' if busy else 'idle'}"
            print_line(measurement, evaluation_time(machines, slots, busy), AIM_EVALUATION)
    duration, events = time_week(7, jobs=False)
    print_line(f"7 days of {SLOTS} desktops without jobs ({events} events)", duration, AIM_WEEK)
    duration, events = time_week(days, jobs=True)
    print_line(f"{days:g} days of {SLOTS} desktops with jobs ({events} events)", duration, AIM_WEEK * days / 7)
    return missed > 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 7.0))
