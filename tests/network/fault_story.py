"""A story of a pool of seven machines whose jobs with files run while machines, processes, clocks and the network fail
as a seed says. At the end everything is repaired, and nothing may be lost."""

from __future__ import annotations

import heapq
import json
import re
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from hashlib import sha256
from itertools import combinations, count
from random import Random
from typing import Final

from .beats import BEATS, assert_no_two_runs_at_once, prepare, runs_of
from .machines import Machine, Network
from .recorded import job_events
from .roles import LOG, POOLBOOK, RolePool, wait_until

ACCESS_POINTS: Final = ("ap1", "ap2")
EXECUTION_POINTS: Final = ("ep1", "ep2", "ep3", "ep4")
LEASE_S: Final = 20  #: the shortest that a submission accepts
CLOCK_S: Final = 1800  #: by how much a clock may be wrong; certificates are valid an hour before they are issued
_USER: Final = "alice"
_PATIENCE_S: Final = 600.0
_MOST_UNFINISHED: Final = 15  #: jobs of an access point
_INTERVALS: Final = {
    "NEGOTIATOR_INTERVAL": 5, "NEGOTIATOR_CYCLE_DELAY": 1, "SCHEDD_INTERVAL": 5, "UPDATE_INTERVAL": 5,
    "ALIVE_INTERVAL": 5,
}  # fmt: skip
_PROGRAM: Final = f"""\
#!/bin/sh
{BEATS}cat "in.$1" > "out.$1" || exit 3
mkdir "more.$1" && cp "in.$1" "more.$1/copy" || exit 3
beat
echo "$1 ended"
"""
_SUBMIT: Final = """\
executable = work.sh
arguments = $(tag) $(beats)
should_transfer_files = YES
transfer_input_files = in.$(tag)
transfer_output_files = out.$(tag), more.$(tag)
output = stdout.$(tag)
log = job.log
job_lease_duration = {lease}
queue tag, beats from (
{items}
)
"""


class FaultStory:
    """A story of `seconds` seconds. Each line of ``lines`` says what happened, and when."""

    def __init__(self, network: Network, seed: int, seconds: float) -> None:
        self.network, self.seconds = network, seconds
        self.random = Random(seed)
        self.pool = RolePool(network, _INTERVALS)
        self.lines = [f"seed {seed}"]
        self._begin = time.monotonic()
        self._later: list[tuple[float, int, str, Callable[[], None]]] = []
        self._serial = count()
        self.submitted: dict[str, set[str]] = {name: set() for name in ACCESS_POINTS}  #: the tags of acknowledged jobs
        self.faults: Counter[str] = Counter()

    def run(self) -> None:
        try:
            self._set_up()
            self._fail_for(self.seconds)
            self._repair()
            self.check()
        except BaseException as error:
            error.add_note("\n".join([*self.lines, self.pool.texts()]))
            raise

    def _note(self, text: str) -> None:
        self.lines.append(f"{time.monotonic() - self._begin:8.2f}  {text}")
        print(self.lines[-1], flush=True)

    def _machine(self, name: str) -> Machine:
        return self.network.machines[name]

    def _is_serving(self, name: str) -> bool:
        return self._machine(name).running() and self.pool.daemons[name].running()

    def _set_up(self) -> None:
        for name in ("cm1", *ACCESS_POINTS, *EXECUTION_POINTS):
            machine = self.pool.add_machine(name, movable_clock=True)
            prepare(machine)
            self.pool.start(machine)
        for name in ACCESS_POINTS:
            program = self._machine(name).home(_USER) / "work.sh"
            program.write_text(_PROGRAM)
            program.chmod(0o755)
            self.pool.wait_until_serving(self._machine(name))
        wait_until(lambda: len(self.pool.slots()) == 2 * len(EXECUTION_POINTS), self.pool.texts)

    # Faults

    def _fail_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._submit(self.random.choice(ACCESS_POINTS))
            for _ in range(self.random.randint(0, 2)):
                self._fail()
            pause = time.monotonic() + self.random.choice((0.3, 1, 3, 6, 12))
            while self._later and self._later[0][0] <= pause:
                at, _, text, action = heapq.heappop(self._later)
                time.sleep(max(0.0, at - time.monotonic()))
                self._note(text)
                action()
            time.sleep(max(0.0, pause - time.monotonic()))

    def _do_later(self, text: str, action: Callable[[], None], *seconds: float) -> None:
        at = time.monotonic() + self.random.choice(seconds)
        heapq.heappush(self._later, (at, next(self._serial), text, action))

    def _submit(self, name: str) -> None:
        """Submit some jobs, unless many wait already."""
        job_log = self._machine(name).home(_USER) / "job.log"
        ended_count = len(re.findall(rb"(?m)^005 ", job_log.read_bytes())) if job_log.exists() else 0
        if not self._is_serving(name) or len(self.submitted[name]) - ended_count > _MOST_UNFINISHED:
            return
        tags = {f"{next(self._serial)}": self.random.choice((1, 4, 10, 20)) for _ in range(self.random.randint(1, 4))}
        folder = self._machine(name).home(_USER)
        for tag in tags:
            (folder / f"in.{tag}").write_bytes(self.random.randbytes(self.random.choice((0, 100, 100_000, 3_000_000))))
        items = "\n".join(f"{tag} {beats}" for tag, beats in tags.items())
        (folder / "job.sub").write_text(_SUBMIT.format(lease=LEASE_S, items=items))
        self._note(f"{name}: submit {' '.join(tags)}")
        result = self._machine(name).run([POOLBOOK, "submit", "job.sub", "-log", LOG], check=False, user=_USER)
        if result.returncode == 0:
            self.submitted[name] |= tags.keys()

    def _fail(self) -> None:
        fault = self.random.choice(
            ("kill", "kill", "kill all", "power", "cut", "cut one way", "cut from manager", "unplug", "slow", "restart",
             "clock", "heal", "heal", "heal", "broker")
        )  # fmt: skip
        name = self.random.choice([*self.network.machines])
        machine = self._machine(name)
        self.faults[fault] += 1
        if fault in ("kill", "restart") and self._is_serving(name):
            self._note(f"{fault} {name}")
            self.pool.stop(machine, signal.SIGKILL if fault == "kill" else signal.SIGTERM)
            self._start_later(name, 0, 0.5, 5, 40)
        elif fault == "kill all" and machine.running():
            self._note(f"kill all processes of {name}")
            machine.kill9()
            self._start_later(name, 0.5, 5, 40)
        elif fault == "power" and machine.running():
            self._note(f"{name} loses power")
            machine.power_off()
            self._start_later(name, 0.5, 10, 40)
        elif fault in ("cut", "cut one way"):
            pairs = [pair for pair in combinations(self.network.machines, 2) if self.random.random() < 0.3]
            cut = self.network.cut if fault == "cut" else self.network.cut_one_way
            self._note(f"{fault}: {', '.join(' '.join(pair) for pair in pairs)}")
            for pair in pairs:
                cut(*map(self._machine, pair))
        elif fault == "cut from manager" and name != "cm1":
            self._note(f"{name} cut off from the manager")
            self.network.cut(machine, self._machine("cm1"))
        elif fault == "unplug" and machine.running():
            self._note(f"{name} cut off")
            self.network.cut_off(machine)
        elif fault == "slow":
            delay, loss = self.random.choice((0.01, 0.2, 1)), self.random.choice((0, 0.02, 0.2))
            self._note(f"the link of {name} is slow: delay {delay}, loss {loss}")
            self.network.slow(machine, bytes_per_second=1_000_000, delay=delay, jitter=delay / 2, loss=loss)
        elif fault == "clock":
            offset = self.random.choice((0, self.random.randint(-CLOCK_S, CLOCK_S)))
            self._note(f"the clock of {name} is wrong by {offset} s")
            machine.set_clock(offset)
        elif fault == "broker" and self._machine("cm1").running():
            self._note("kill the broker")
            self._machine("cm1").kill("nats-server")
        elif fault == "heal":
            self._note("the network heals")
            self.network.heal()

    def _start_later(self, name: str, *seconds: float) -> None:
        def start() -> None:
            if not self._is_serving(name):
                self.pool.start(self._machine(name))

        self._do_later(f"start {name}", start, *seconds)

    # The end

    def _repair(self) -> None:
        self._note("everything is repaired")
        self.network.heal()
        for name, machine in self.network.machines.items():
            if not self._is_serving(name):
                self.pool.start(machine)
        wait_until(lambda: all(map(self._is_empty, ACCESS_POINTS)), self._queues, _PATIENCE_S)
        for name in ACCESS_POINTS:
            assert not self.pool.statuses(self._machine(name)), self._queues()
        wait_until(self._is_unclaimed, self._states, _PATIENCE_S)
        self._note("all jobs have ended")

    def _is_empty(self, name: str) -> bool:
        """Return True if no jobs are left, or only held ones, which would remain."""
        machine = self._machine(name)
        query = ("q", "-allusers", "-autoformat", "JobStatus")
        result = machine.run([POOLBOOK, *query, "-log", LOG], check=False)
        return result.returncode == 0 and set(result.stdout.split()) <= {"5"}

    def _queues(self) -> str:
        return "\n".join(self.pool.run(self._machine(name), "q", "-allusers", "-nobatch") for name in ACCESS_POINTS)

    def _states(self) -> str:
        return self.pool.run(self._machine("cm1"), "status", check=False)

    def _is_unclaimed(self) -> bool:
        states = self.pool.run(self._machine("cm1"), "status", "-autoformat", "State", check=False).split()
        return len(states) == 2 * len(EXECUTION_POINTS) and not {"Claimed", "Preempting"} & {*states}

    def check(self) -> None:
        """Stop all roles, and check that nothing was lost."""
        self.pool.stop_and_check_logs()
        for name in ACCESS_POINTS:
            self._check_jobs(name)
        self._check_runs()

    def _check_jobs(self, name: str) -> None:
        """Check that each job ended once, successfully, and that all of its files are complete."""
        folder = self._machine(name).home(_USER)
        numbers = defaultdict[str, list[int]](list)
        for event in job_events((folder / "job.log").read_bytes()):
            numbers[event.job].append(event.number)
        assert {each[0] for each in numbers.values()} == {0}
        endings = {job: each for job, each in numbers.items() if each.count(5) != 1 or each[-1] != 5}
        assert endings == {}, f"{name}: jobs that did not end once: {endings}"
        tags = {path.name.partition(".")[2] for path in folder.glob("out.*")}
        assert len(tags) == len(numbers), f"{name}: {len(numbers)} jobs ended, but {len(tags)} have outputs"
        assert self.submitted[name] <= tags, f"{name}: jobs were lost: {self.submitted[name] - tags}"
        for tag in tags:
            digests = {sha256((folder / path).read_bytes()).hexdigest() for path in
                       (f"in.{tag}", f"out.{tag}", f"more.{tag}/copy")}  # fmt: skip
            assert len(digests) == 1, f"{name}: the outputs of {tag} differ from its input"
            assert (folder / f"stdout.{tag}").read_text() == f"{tag} ended\n"
        rest = [path.name for path in folder.iterdir() if path.name.startswith(".")]
        assert rest == [], f"{name}: {rest} were left"

    def _check_runs(self) -> None:
        """Check that no job ran twice at the same time."""
        runs = runs_of(map(self._machine, EXECUTION_POINTS))
        assert_no_two_runs_at_once(runs)
        self._note(f"{len(runs)} jobs ran {sum(map(len, runs.values()))} times; faults: {json.dumps(self.faults)}")
