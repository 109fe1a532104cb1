"""What an execution point costs: one round of 1,000 slots, and a week in the life of 1,000 desktops.

Run with ``python tests/bench/bench_point.py [days]``. The policy is HTCondor's Desktop template as its default
configuration has it. A round in which nothing changes appends nothing. Ends with 1 where an aim is missed.
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
from poolbook.domain.startd.provisioning import Equipment, ExecuteVolume, offer  # noqa: E402
from poolbook.replay.virtual_world import Behaviour, VirtualWorld  # noqa: E402

AIM_ROUND, AIM_WEEK = 0.050, 60.0
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


def work(launch: Launch) -> Behaviour:
    """Jobs of one to five hours, which end as soon as they are told to."""
    return Behaviour(3600.0 * (1 + (launch.cluster * 7 + launch.proc * 13) % 5), grace=1.0, load=1.0)


def pool(machines: int, slots: int) -> tuple[Engine, VirtualWorld]:
    """Machines under the Desktop policy, each with so many slots of one core."""
    world = VirtualWorld(work)
    engine = Engine(open_log("memory:", create=True), world)
    engine.handle([s.FoundPool("found", "bench", "htcondor-25", "example.org", "0", {"NEGOTIATOR_INTERVAL": "60"})])
    detected = {"DETECTED_CPUS": str(slots), "DETECTED_CORES": str(slots), "DETECTED_MEMORY": str(2048 * slots)}
    configuration = read([("desktop.conf", DESKTOP.format(slots=slots))], environment={}, detected=detected)
    volume = ExecuteVolume("disk", 10**7 * slots, 10**7 * slots)
    equipment = Equipment(slots, 2048 * slots, 2048 * 1024 * slots, {"": volume}, {"Arch": '"X86_64"'})
    for number in range(machines):
        engine.handle([offer(f"machine-{number}", f"ws{number}", configuration, equipment)])
    return engine, world


def poll(machines: int, slots: int, busy: bool) -> float:
    """Seconds for a round of all slots in which nothing changes: the best of several."""
    engine, world = pool(machines, slots)
    names = tuple(f"ws{number}" for number in range(machines))
    run_to(engine, world, world.now() + 3600 * SECOND)
    if busy:
        engine.handle([s.Submit("submit", "alice", 0, JOB, machines * slots, ())])
        run_to(engine, world, world.now() + 400 * SECOND)
    engine.matching = False  # a cycle would bring the priorities up to date
    before, best = engine.log.head.position, float("inf")
    for number in range(7):
        world.clock += 5 * SECOND
        began = time.perf_counter()
        engine.handle([s.EvaluatePolicies(f"round-{number}", names)])
        best = min(best, time.perf_counter() - began)
    assert engine.log.head.position == before, "a round that changes nothing appends nothing"
    return best


def run_to(engine: Engine, world: VirtualWorld, until: int) -> None:
    """Let time pass, and everything happen that happens in it."""
    while engine.step(until) or world.now() < until:
        pass


def week(days: float, jobs: bool) -> tuple[float, int]:
    """Seconds for a week of 1,000 desktops: each owner comes three times a day, stays for up to half an hour with a
    key pressed every five minutes. With ``jobs`` there are always some. Also how many events that made."""
    engine, world = pool(SLOTS, 1)
    dice = random.Random(1)
    start = world.now()
    end = start + round(days * DAY)
    visits = sorted(
        (start + day * DAY + dice.randrange(8 * 3600, 18 * 3600) * SECOND, machine, dice.randrange(1, 7))
        for day in range(int(days + 1))
        for machine in range(SLOTS)
        for _ in range(3)
    )
    keys = sorted((at + number * 300 * SECOND, machine) for at, machine, count in visits for number in range(count))
    began = time.perf_counter()
    due = start
    for at, machine in [*keys, (end, 0)]:
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
    spent = time.perf_counter() - began
    return spent, engine.log.head.position


def main(days: float) -> int:
    """Measure and print."""
    missed = 0

    def line(what: str, time: float, aim: float) -> None:
        nonlocal missed
        missed += time >= aim
        print(f"{what:58} {time:8.3f} s   aim < {aim:6.3f} s   {'met' if time < aim else 'MISSED'}", flush=True)

    for machines, slots in ((1, SLOTS), (SLOTS, 1)):
        for busy in (False, True):
            what = f"a round of {machines} x {slots} slots, {'busy' if busy else 'idle'}"
            line(what, poll(machines, slots, busy), AIM_ROUND)
    spent, events = week(7, jobs=False)
    line(f"7 days of {SLOTS} desktops without jobs ({events} events)", spent, AIM_WEEK)
    spent, events = week(days, jobs=True)
    line(f"{days:g} days of {SLOTS} desktops with jobs ({events} events)", spent, AIM_WEEK * days / 7)
    return missed > 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 7.0))
