"""One seed, one story: users' commands and faults, in an order and at steps that the seed draws. Then all faults end,
and the result is checked."""

from __future__ import annotations

import json
import pathlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from attrs import define, field

from poolbook.adapters.machine.execution.client import ReplacedError, SupervisorError
from poolbook.adapters.runtime.log_writer import StimulusResult
from poolbook.adapters.runtime.userlog.fold import UserLogs
from poolbook.adapters.testing.invariants import plain_state
from poolbook.domain.events import BackfillStarted, Event, JobActivated
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.log import LogError
from poolbook.replay.listing.members import members
from poolbook.replay.validation import validate

from ..domain.pools import JOB, MACHINE, selection
from ..job_commands import job_command
from .disk import File, Path
from .machine import POOL, SECOND, SUPERVISOR, Doom, Killed, Machine, Run
from .programs import FOLDER, HOME, Pool, claimed_keys, folders, on
from .storage import SqliteStore, Store

STEPS = 30  #: what a story can do before the faults end
_LOG = f"{HOME}/job.log"
_PLANS = ("2 0 0 0", "5 0 1 0", "5 3 - 0", "9 0 0 20", "1 1 0 0", "30 0 2 4", "0 0 0 0")
_HEALS_WITHIN = 4000  # seconds of virtual time in which every job ends after the faults have ended


@define
class Story:
    """A pool, its events and faults, and what was promised to users."""

    seed: int
    folder: pathlib.Path | None = None  #: a real directory for a log in SQLite; None: the log is in memory
    verbose: bool = False  #: whether the log's events are printed too
    machine: Machine = field(init=False)
    store: Store = field(init=False)
    chance: random.Random = field(init=False)
    pool: Pool | None = None
    answered: dict[str, StimulusResult] = field(factory=dict)  #: by the id of the request: what was acknowledged
    wrong: list[str] = field(factory=list)  #: errors found before the end
    power_cuts: int = 0
    failed_writes: int = 0
    _ids: int = 0
    _descriptors: Any = None  # the pool's, to be closed when it is killed

    @property
    def torn_appends(self) -> int:
        """Return how many appends were half-written at a power cut."""
        return self.store.torn

    def __attrs_post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.machine = Machine(self.seed, restless=self.chance.choice((0.0, 0.1, 0.5)))
        self.store = Store(self.machine) if self.folder is None else SqliteStore(self.machine, self.folder)
        self.machine.supervisor_says = self._judge_reports
        folders(self.machine)

    # The story

    @contextmanager
    def begun(self) -> Iterator[Story]:
        """Return a running pool without faults."""
        with on(self.machine) as descriptors:
            self._descriptors = descriptors
            self.revive()
            yield self

    def tell(self) -> None:
        """Run the story to its end, and check it. Raise `AssertionError` for any violation."""
        with self.begun():
            kinds = [kind for kind, weight in _KINDS.items() for _ in range(weight)]
            for _ in range(STEPS):
                self._do(self.chance.choice(kinds))
            self._heal()
            self.judge()

    def _do(self, kind: Callable[[Story], None]) -> None:
        """Take one step. If the pool is gone afterwards, for any reason, the next step restarts it."""
        try:
            if self.pool is None:
                self.revive()
            kind(self)
        except Killed:
            self._gone()
        except ReplacedError:
            raise
        except (SupervisorError, LogError) as error:
            self.machine.tell(f"the pool ends: {error}")
            self._gone()
            self.machine.sleep(3)

    def _gone(self) -> None:
        self.pool = None
        self.store.crash()
        self.machine.dead.add(POOL)
        self._descriptors.close_all()

    def revive(self) -> None:
        self.pool = Pool(self.machine, self.store)
        self.machine.tell("a pool begins")
        if self.verbose:
            self.pool.engine.subscribe(self._tell_events)
        self.pool.begin(_founding(self.seed))

    def _tell_events(self, first: int, events: Sequence[Event]) -> None:
        for position, event in enumerate(events, first):
            for member in members(position, event):
                if member.target or member.what == "exit":
                    way = f"{member.source} -> {member.target}"
                    self.machine.tell(f"{position:>6} {member.thing}: {way} ({member.cause_text})")

    def _working(self) -> Pool:
        assert self.pool is not None
        return self.pool

    def ask(self, make: Callable[[str], s.Stimulus]) -> None:
        self._ids += 1
        request = make(f"request-{self._ids}")
        try:
            answer = self._working().ask(request)
        except LogError as error:
            self.machine.tell(f"{type(request).__name__} fails: {error}")
            return
        self.answered[request.id] = answer
        self.machine.tell(f"{type(request).__name__}: {answer.refusal or answer.value}")

    def advance(self, seconds: float) -> None:
        pool = self._working()
        pool.work(self.machine.monotonic + round(seconds * SECOND))

    # What happens in it

    def submit(self) -> None:
        memory = self.chance.choice(("128", "700"))
        program = "/bin/job" if self.chance.random() < 0.9 else "/bin/none"
        self.submit_plan(self.chance.choice(_PLANS), self.chance.randint(1, 3), memory, program)

    def submit_plan(self, plan: str, count: int = 1, memory: str = "128", program: str = "/bin/job") -> None:
        ad = JOB | {
            "Cmd": f'"{program}"', "Args": f'"{plan}"', "Iwd": f'"{HOME}"', "Out": '"out"', "Err": '"err"',
            "UserLog": f'"{_LOG}"', "RequestMemory": memory,
        }  # fmt: skip
        self.ask(lambda name: s.Submit(name, "alice", 0, ad, count, ()))

    def act(self) -> None:
        action = self.chance.choice(("hold", "release", "remove", "vacate", "suspend", "continue"))
        selected = self.chance.choice(("1", "2", "3", "4.0", "5.1", "alice"))
        fast = self.chance.random() < 0.3
        self.ask(lambda name: job_command(name, "alice", action, selection(selected), fast=fast))

    def vacate_slot(self) -> None:
        slots = sorted(self._working().engine.state.slots)
        slot, fast = self.chance.choice(slots), self.chance.random() < 0.3
        self.ask(lambda name: s.VacateSlot(name, "root", slot, fast))

    def let_time_pass(self) -> None:
        self.advance(self.chance.choice((0.1, 0.5, 2, 2, 7, 20)))

    def doom_pool(self) -> None:
        self.machine.doom = Doom(self.chance.randint(0, 120), POOL)

    def doom_supervisor(self) -> None:
        self.machine.doom = Doom(self.chance.randint(0, 200), SUPERVISOR)

    def kill_pool(self) -> None:
        self.machine.tell("the pool is killed")
        self._gone()

    def kill_supervisor(self) -> None:
        self.machine.kill_supervisor()

    def doom_power(self) -> None:
        self.power_cuts += 1
        self.machine.doom = Doom(self.chance.randint(0, 200), POOL, power=True)

    def doom_append(self) -> None:
        self.power_cuts += 1
        self.store.doomed = True

    def fill_disk(self) -> None:
        self.failed_writes += 1
        self.machine.disk.full = not self.machine.disk.full
        self.machine.tell("the disk is full" if self.machine.disk.full else "there is room on the disk again")

    def tear_write(self) -> None:
        self.failed_writes += 1
        self.machine.disk.torn_write = self.chance.choice((5, 28))

    def lose_answer(self) -> None:
        self.store.unclear = 1

    def set_clock(self) -> None:
        self.machine.clock += self.chance.choice((-3600, -2, 30, 3600)) * SECOND

    # The end

    def _heal(self) -> None:
        """End all faults and let every job end."""
        machine = self.machine
        machine.disk.full, machine.disk.torn_write, machine.doom = False, 0, None
        self.store.unclear, self.store.doomed = 0, False
        machine.tell("from here on nothing goes wrong")
        until = machine.monotonic + _HEALS_WITHIN * SECOND
        while machine.monotonic < until:
            self._do(Story._go_on)
            if self.wrong or (self.pool is not None and not self.pool.engine.state.clusters):
                break
        assert not self.wrong, self.wrong[0]
        assert self.pool is not None
        counts = {cluster.id: cluster.status_counts for cluster in self.pool.engine.state.clusters.values()}
        assert not counts, f"jobs never end: {counts}"
        self.ask(lambda name: s.ShutDown(name, "root", "m", "Fast"))
        self.advance(60)
        assert not self.pool.engine.state.machines, "the machine does not leave"
        self.pool.close()
        # Files that a killed supervisor had not removed yet are removed when the next pool starts.
        self.revive()
        self.advance(10)
        self.pool.close()

    def _go_on(self) -> None:
        everything = selection()
        for action in ("release", "continue"):
            self.ask(lambda name, action=action: job_command(name, "root", action, everything))  # type: ignore[misc]
        hopeless = "NumHolds > 8 || NumJobStarts > 20"  # without a program, or too large for its slot
        self.ask(lambda name: job_command(name, "root", "remove", selection(constraint=hopeless)))
        self.advance(60)

    # The checks

    def judge(self) -> None:
        assert not self.wrong, self.wrong[0]
        log_text = self.machine.supervisor_log.data.decode()
        assert "a turn was cut short" not in log_text, log_text[log_text.index("a turn was cut short") :][:3000]
        events = list(self._working().log.read())
        state = self._working().engine.state
        assert plain_state(state) == plain_state(fold(iter(events))), "the live state is not the log folded"
        assert not (violations := list(validate(iter(events)))), f"no rule allows {violations[0]}"
        assert not (problems := self.store.problems()), f"the log is damaged: {problems}"
        self._judge_answers([event for _, event in events])
        self._judge_runs([(position, event) for position, event in events])
        self._judge_machine()
        self._judge_user_log(events)

    def _judge_reports(self, line_data: bytes) -> None:
        """Check that an end is reported when it is on the disk and no process of the job is alive, and a failed start
        when none has started. Violations are recorded, since an error here would be one of the running supervisor."""
        for line in line_data.splitlines():
            report = json.loads(line)
            key = report.get("key", "")
            if report["say"] == "failed" and any(
                run.key == key and run.boot == self.machine.boots for run in self.machine.runs
            ):
                self.wrong.append(f"{key} is said to have failed, and has run")
            if report["say"] not in ("exited", "lost"):
                continue
            journal = self.machine.disk.find(f"{FOLDER}/exits") if Path(f"{FOLDER}/exits").exists() else File()
            assert isinstance(journal, File)
            if key not in [json.loads(line)["key"] for line in journal.synced.splitlines()]:
                self.wrong.append(f"the end of {key} is reported before it is on the disk")
            live_processes = [
                process for process in self.machine.table.values() if process.is_of(key) and process.status is None
            ]
            if live_processes:
                self.wrong.append(f"the end of {key} is reported while {live_processes} is alive")

    def _judge_answers(self, events: list[Event]) -> None:
        """Check that everything acknowledged is in the log."""
        known_stimuli = {event.stimulus for event in events}
        lost_requests = [
            name for name, answer in self.answered.items() if not answer.refusal and name not in known_stimuli
        ]
        assert not lost_requests, f"acknowledged, and not in the log: {lost_requests}"

    def _judge_runs(self, events: list[tuple[int, Event]]) -> None:
        """Check that an activation runs once, a job never twice at the same time, and that its logged end is its
        process's end."""
        runs = self.machine.runs
        run_counts = Counter((run.key, run.boot) for run in runs)
        assert all(times == 1 for times in run_counts.values()), f"run more than once: {run_counts.most_common(3)}"
        jobs = activations(events)
        clients = {str(position) for position, event in events if isinstance(event, BackfillStarted)}
        self._judge_clients(clients)
        by_job: dict[tuple[int, int], list[Run]] = {}
        for run in runs:
            if run.key in clients:
                continue
            assert run.key in jobs, f"a process of an activation that is not in the log: {run}"
            by_job.setdefault(jobs[run.key], []).append(run)
        for job, of_job in by_job.items():
            of_job.sort(key=lambda run: run.began)
            for first, next_one in pairwise(of_job):
                assert first.ended is not None, f"job {job}: {first} never ends"
                assert first.ended <= next_one.began, f"job {job} runs twice at one time: {first}, {next_one}"

    def _judge_clients(self, clients: set[str]) -> None:
        """Check that one backfill client runs at a time, and on a machine of one core no job with it."""
        runs_alone = [run for run in self.machine.runs if run.key in clients or self.cores == 1]
        runs_alone.sort(key=lambda run: run.began)
        for previous, next_one in pairwise(runs_alone):
            if {previous.key, next_one.key} & clients:
                assert previous.ended is not None, f"{previous} never ends"
                assert previous.ended <= next_one.began, f"beside a backfill client: {previous}, {next_one}"

    @property
    def cores(self) -> int:
        """Return the machine's cores, which ``_founding`` draws first."""
        return random.Random(self.seed).randint(1, 4)

    def _judge_machine(self) -> None:
        """Check that nothing is left on the machine."""
        supervisor = self.machine.supervisor
        leftovers = [
            process for process in self.machine.table.values() if supervisor is None or process.pid != supervisor.pid
        ]
        assert not leftovers, f"leftover processes: {leftovers}"
        assert not claimed_keys(self.machine), "some activations are still claimed"

    def _judge_user_log(self, events: list[tuple[int, Event]]) -> None:
        """Check that each event is in the job's log once, unless the disk rejected or lost it."""
        if self.power_cuts or self.failed_writes:
            return
        logs = UserLogs()
        expected = "".join(text for position, event in events for _, text in logs.fold(position, event))
        log_text = Path(_LOG).read_text() if Path(_LOG).exists() else ""
        assert log_text == expected, "the job's log is not what the events say"


def activations(events: list[tuple[int, Event]]) -> dict[str, tuple[int, int]]:
    """Return the job of each activation."""
    counts: dict[str, tuple[int, int]] = {}
    for position, event in events:
        if isinstance(event, JobActivated):
            counts[str(position)] = (event.cluster, event.proc)
    return counts


def _founding(seed: int) -> list[s.Stimulus]:
    chance = random.Random(seed)
    cpus, static = chance.randint(1, 4), chance.random() < 0.5
    resources = {"Cpus": str(cpus), "Memory": str(cpus * 1024), "Disk": "1000000"}
    share = {"Cpus": "1", "Memory": "1024", "Disk": str(1000000 // cpus)}
    if static:
        plans = tuple(s.SlotPlan(f"slot{number}@m", "static", share) for number in range(1, cpus + 1))
    else:
        plans = (s.SlotPlan("slot1@m", "partitionable", resources),)
    dialect = chance.choice(("manual", "htcondor-25"))
    settings = {"MachineMaxVacateTime": "6", "CLAIM_WORKLIFE": chance.choice(("-1", "0", "60"))}
    policy, client = _backfill(seed)
    return [
        s.FoundPool("founding", "pool", dialect, "example.org", "0.1", settings),
        s.AddMachine("machine", "m", MACHINE | {"Machine": '"m"'} | policy, plans, client),
    ]


def _backfill(seed: int) -> tuple[dict[str, str], dict[str, str]]:
    """Return the policy and settings of a machine that every other story fills with backfill."""
    chance = random.Random(f"backfill {seed}")
    if chance.random() < 0.5:
        return {}, {}
    policy = {"START_BACKFILL": chance.choice(("true", "time() - EnteredCurrentState > 5"))}
    return policy, {
        "POLLING_INTERVAL": "5", "UPDATE_INTERVAL": "5", "ENABLE_BACKFILL": "true", "BACKFILL_SYSTEM": "EXEC",
        "EXEC_InitialDir": HOME, "EXEC_Executable": chance.choice(("/bin/job",) * 9 + ("/bin/none",)),
        "EXEC_Arguments": chance.choice(("100000 0 0 20", "100000 0 - 0", "3 1 0 0")),
    }  # fmt: skip


_KINDS: dict[Callable[[Story], None], int] = {
    Story.submit: 6,
    Story.act: 4,
    Story.vacate_slot: 1,
    Story.let_time_pass: 8,
    Story.doom_pool: 3,
    Story.doom_supervisor: 2,
    Story.kill_supervisor: 1,
    Story.doom_power: 1,
    Story.doom_append: 1,
    Story.fill_disk: 1,
    Story.tear_write: 1,
    Story.lose_answer: 1,
    Story.set_clock: 1,
}
"""What a story may tell next, and how often it does."""
