"""The life of a job: claimed, started, watched, ended with all its descendants, recorded, released.

A job's end has a fixed order: its own process is reaped; its descendants are killed until a look at all processes finds
none; its record is on disk; the end is reported.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator

from . import inherit, launch, processes
from .families import Families
from .launch import Order, StartError
from .processes import Process
from .records import Claim, Claims, Journal, Record
from .scratch import Scratch, size_kb

SAMPLE_US = 1_000_000  #: limits are checked and usage is reported this often
_MEASURE_REST = 20  #: a directory tree is measured again after this many times what measuring it took
_MEASURE_STEPS = 16  #: steps that measuring a directory may take at a job's end before other jobs have their turn
_FIRST_RETRY_US = 2_000  #: the pause before processes that refuse to die are looked for again; it doubles
_LAST_RETRY_US = 1_000_000


def clock() -> int:
    """Return microseconds since the epoch, for reports."""
    return time.time_ns() // 1000


def ticker() -> int:
    """Return microseconds of the monotonic clock, for due times."""
    return time.monotonic_ns() // 1000


class Job:
    """One running job."""

    def __init__(self, order: Order, process: Process, number: int, at: int, directory: str, output_kb: int) -> None:
        self.key: str = order["key"]
        self.limits: dict[str, int | None] = order["limits"]
        self.kill_signals: dict[str, int] = order["kill_signals"]
        self.attended: bool = order.get("attended", False)  # an older pool does not say
        self.pid = process.pid
        self.started = process.started
        self.number = number
        self.at = at
        self.began = ticker()
        self.directory = directory
        self.outputs = launch.outputs(order)
        self.output_kb = output_kb
        self.suspended = False
        self.told_to_end = False
        self.violated = ""
        self.user_us = 0
        self.system_us = 0
        self.peak_kb = 0
        self.largest_rss_kb = 0  # of a process that was reaped
        self.disk_kb = 0
        self.measuring = False
        self.measure_at = 0
        self.status = 0
        self.ended = 0
        self.retry_at = 0
        self.retry_us = _FIRST_RETRY_US
        self.final: Generator[None, None, None] | None = None

    def spent(self, usage: resource.struct_rusage) -> None:
        """Add the usage of a reaped process of the job, its own reaped children included."""
        self.user_us += round(usage.ru_utime * 1e6)
        self.system_us += round(usage.ru_stime * 1e6)
        self.largest_rss_kb = max(self.largest_rss_kb, usage.ru_maxrss)

    def measure(self) -> Generator[None, None, None]:
        """Bring ``disk_kb`` up to date, in steps."""
        self.measuring = True
        began = ticker()
        inside = yield from size_kb(self.directory)
        self.disk_kb = inside + max(0, _files_kb(self.outputs) - self.output_kb)
        self.measure_at = ticker() + (ticker() - began) * _MEASURE_REST
        self.measuring = False

    def record(self, floor_kb: int) -> Record:
        """Return the record of its end. ``floor_kb``: a spawned process counts its parent's memory as its own until its
        exec."""
        code = os.WEXITSTATUS(self.status) if os.WIFEXITED(self.status) else None
        peak = max(self.peak_kb, self.largest_rss_kb)
        return {
            "say": "exited",
            "key": self.key,
            "code": code,
            "signal": None if code is not None else os.WTERMSIG(self.status),
            "user_us": self.user_us,
            "system_us": self.system_us,
            "peak_kb": self.peak_kb if self.peak_kb and peak <= floor_kb else peak,
            "disk_kb": self.disk_kb,
            "core": os.WCOREDUMP(self.status),
            "at": self.ended,
            "violated": self.violated,
        }


class Jobs:
    """All jobs of one folder."""

    def __init__(self, folder: str) -> None:
        """Make the directories that are missing, and read what a predecessor left. Raise `OSError` if that cannot be
        done; the process that has the jobs calls ``inherit`` next."""
        self.execute = f"{folder}/execute"
        self._scratch = Scratch(self.execute, f"{folder}/elsewhere")
        self._boot = processes.boot()
        self._claims = Claims(f"{folder}/claims", f"{folder}/spare")
        self._journal = Journal(f"{folder}/exits", self._claims.all())
        self.running: dict[str, Job] = {}
        self._by_pid: dict[int, Job] = {}
        self._ending: dict[str, Job] = {}
        self._unwritten: dict[str, Record] = {}
        self._unnoted: list[tuple[int, Claim]] = []
        self._unreleased: list[str] = []
        self._chores: deque[Generator[None, None, None]] = deque()

    # Before the first request: a predecessor's jobs.

    def inherit(self) -> None:
        """Be the parent of all jobs from here on: end those of a killed supervisor, remove unclaimed directories."""
        self._families = Families(os.getpid())
        claimed = self._claims.all()
        unended = sorted(claimed - self._journal.records.keys())
        open_claims = {key: claim for key in unended if (claim := self._claims.read(key))}
        for key, why in inherit.clear(open_claims, self.execute, self._boot).items():
            self._unwritten[key] = {"say": "lost", "key": key, "why": why, "at": clock()}
        self._chores.append(self._scratch.clear(claimed))

    # Requests.

    def known(self, key: str) -> Record | None:
        """Return the state of an activation: running, or its record; None if it was never claimed."""
        if job := self.running.get(key):
            return {"say": "running", "key": key, "pid": job.pid, "at": job.at}
        return self._unwritten.get(key) or self._journal.records.get(key)

    def start(self, order: Order) -> Record | None:
        """Start a job, and return its report. Start nothing if the activation was claimed before."""
        key: str = order["key"]
        if known := self.known(key):
            return {**known, "say": "started"} if known["say"] == "running" else known
        try:
            claim = self._claims.take(key)
        except FileExistsError:
            return None
        except OSError as error:
            return _failed(key, launch.failure("claim", error, key))
        try:
            job = self._launch(order)
        except StartError as error:
            os.close(claim)
            return self._not_begun(key, error)
        self._note(claim, Claim(job.pid, job.started, job.number, self._boot, job.at))
        self.running[key] = self._by_pid[job.pid] = job
        self._families.begin(key, job.pid, job.started, job.number)
        return {"say": "started", "key": key, "pid": job.pid, "at": job.at}

    def signal(self, key: str, how: str) -> None:
        """Signal a job; ignore one that runs no more."""
        job = self.running.get(key)
        if job is None:
            return
        if how in job.kill_signals:
            self._terminate(job, job.kill_signals[how])
        else:
            _REACTIONS[how](self, job)

    def release(self, keys: Iterable[str]) -> None:
        """Release everything held of these ends, which are durable elsewhere: then they need no record here, either.
        Keep running jobs."""
        over = [key for key in keys if key not in self.running]
        for key in over:
            self._unwritten.pop(key, None)
            self._release(key)
            self._chores.append(self._scratch.discard(key))
        self._journal.forget(over)

    def _not_begun(self, key: str, error: StartError) -> Record | None:
        """Leave nothing of a start that failed: no process ran, so there is no record to keep, and a disk that is full
        need not take one before the failure is told. A pool that has not heard of it starts the same activation again,
        so the directory goes at once; it holds no more than the two ads."""
        for _ in self._scratch.discard(key):
            pass
        try:
            self._claims.release(key)
        except OSError:  # a claim stays: then there must be a record, and it is told when that is written
            self._unwritten[key] = _failed(key, error)
            return None
        return _failed(key, error)

    def _note(self, descriptor: int, claim: Claim) -> None:
        try:
            self._claims.note(descriptor, claim)
        except OSError:  # until it is written, a successor goes by the process's mark alone
            self._unnoted.append((descriptor, claim))

    def _release(self, key: str) -> None:
        try:
            self._claims.release(key)
        except OSError:
            self._unreleased.append(key)

    # Each turn of the loop.

    def reap(self) -> None:
        """Reap every ended child: jobs, and orphans of jobs."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            pid = ended.si_pid
            job = self._by_pid.pop(pid, None)
            if job is None:
                owner = self._families.owner(pid)
                _, _, usage = os.wait4(pid, 0)
                if owner in self.running:
                    self.running[owner].spent(usage)
                continue
            _, job.status, usage = os.wait4(pid, 0)
            job.ended = max(clock(), job.at)  # somebody may have set the clock back
            job.spent(usage)
            self._ending[job.key] = job

    def settle(self, now: int) -> None:
        """Finish the ends: kill a job's descendants, measure, write the record."""
        due = [job for job in self._ending.values() if job.retry_at <= now]
        if not due:
            return
        self._families.look()
        dead = []
        for job in due:
            if self._families.signal(job.key, signal.SIGKILL):
                job.retry_at, job.retry_us = now + job.retry_us, min(job.retry_us * 2, _LAST_RETRY_US)
            else:
                dead.append(job)
        self.reap()  # what died of it belongs to the job's CPU time
        floor_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for job in dead:
            job.final = job.final or job.measure()
            if _advance(job.final, _MEASURE_STEPS):
                continue
            del self._ending[job.key]
            self._families.end(job.key)
            self._unwritten[job.key] = job.record(floor_kb)

    def flush(self) -> list[Record]:
        """Make the known ends durable, and return them for reporting. Raise `OSError` if none of them is durable. Offer
        to the disk again whatever else it has refused."""
        unnoted, self._unnoted = self._unnoted, []
        for descriptor, claim in unnoted:
            self._note(descriptor, claim)
        unreleased, self._unreleased = self._unreleased, []
        for key in unreleased:
            self._release(key)
        if not self._unwritten:
            return []
        records = list(self._unwritten.values())
        self._journal.append(records)
        self._unwritten.clear()
        for record in records:
            self.running.pop(record["key"], None)
        return records

    def sample(self, now: int) -> Iterator[Record]:
        """Kill jobs beyond their limits; yield the usage of each running job."""
        self._families.look(closely=True)
        for job in self.running.values():
            if job.ended:
                continue
            family = self._families.living(job.key)
            rss = sum(process.rss_kb for process in family)
            job.peak_kb = max(job.peak_kb, rss)
            if not job.measuring and now >= job.measure_at:
                self._chores.append(job.measure())
            ran = now - job.began
            uses = {"memory_mb": rss / 1024, "disk_kb": job.disk_kb, "duration_us": ran, "wall_us": ran}
            self._enforce(job, uses)
            yield {
                "say": "usage",
                "key": job.key,
                "user_us": job.user_us + sum(process.user_us for process in family),
                "system_us": job.system_us + sum(process.system_us for process in family),
                "rss_kb": rss,
                "image_kb": sum(process.image_kb for process in family),
                "disk_kb": job.disk_kb,
                "at": clock(),
            }

    def abandon(self) -> None:
        """Kill what is not to run while no pool attends to it."""
        for job in self.running.values():
            if job.attended and not job.ended and not job.violated:
                job.violated = "unattended"
                self._kill(job)

    def chores(self, budget_us: int) -> bool:
        """Measure and remove directories for about so long; return whether anything is left to do."""
        until = ticker() + budget_us
        while self._chores and ticker() < until:
            chore = self._chores.popleft()
            if _advance(chore, _MEASURE_STEPS):
                self._chores.append(chore)
        return bool(self._chores)

    def refused(self) -> bool:
        """Tell whether the disk has refused something that is to be offered again."""
        return bool(self._unwritten or self._unnoted or self._unreleased)

    def next_retry(self) -> int | None:
        """Return when ``settle`` has to run again if nothing ends before."""
        return min((job.retry_at for job in self._ending.values()), default=None)

    def _launch(self, order: Order) -> Job:
        try:
            directory = self._scratch.make(order["key"], order["job_ad"], order["machine_ad"], order["execute"])
        except OSError as error:
            raise launch.failure("scratch", error, str(error.filename2 or error.filename)) from None
        except ValueError as error:
            raise StartError("scratch", 0, f"scratch: an ad cannot be written: {error}") from None
        streams = launch.open_streams(order, directory)
        try:
            at = clock()
            output_kb = _files_kb(launch.outputs(order))  # before the job can write: what was there is not its own
            number = self._families.number()
            processes.bequeath(number)
            pid = launch.spawn(order, launch.environment(order, self.execute, directory), directory, streams)
        finally:
            launch.close(streams)
        process = processes.read(pid)
        assert process is not None, "a child that is not reaped is always there"
        return Job(order, process, number, at, directory, output_kb)

    def _enforce(self, job: Job, uses: dict[str, float]) -> None:
        for limit, used in uses.items():
            allowed = job.limits.get(limit)  # an older pool knows fewer of them
            if allowed is not None and used > allowed and not job.violated:
                job.violated = limit.partition("_")[0]
                self._kill(job)

    def _terminate(self, job: Job, number: int) -> None:
        """Send the soft kill to the job's own process alone, as the starter does; continue a suspended job. It is sent
        once: a pool that restarts asks for it again, and many programs take a second one as a call to hurry."""
        if job.suspended:
            self._continue(job)
        if job.told_to_end:
            return
        job.told_to_end = True
        processes.send(job.pid, job.started, number)

    def _kill(self, job: Job) -> None:
        """Kill the job's own process first: otherwise it would see its children die and might exit by itself."""
        processes.send(job.pid, job.started, signal.SIGKILL)
        self._families.look()
        self._families.signal(job.key, signal.SIGKILL)

    def _suspend(self, job: Job) -> None:
        """Stop all processes, until a look finds none that was forked meanwhile."""
        job.suspended = True
        stopped: set[int] = set()
        while True:
            self._families.look()
            fresh = [process for process in self._families.living(job.key) if process.pid not in stopped]
            if not fresh:
                return
            for process in fresh:
                processes.send(process.pid, process.started, signal.SIGSTOP)
                stopped.add(process.pid)

    def _continue(self, job: Job) -> None:
        job.suspended = False
        self._families.look()
        self._families.signal(job.key, signal.SIGCONT)


_REACTIONS: dict[str, Callable[[Jobs, Job], None]] = {
    "hard": Jobs._kill,
    "suspend": Jobs._suspend,
    "continue": Jobs._continue,
}


def _failed(key: str, error: StartError) -> Record:
    told = {"part": error.part, "errno": error.number, "reason": error.reason}
    return {"say": "failed", "key": key, **told, "at": clock(), **({"machine": True} if error.machine else {})}


def _files_kb(paths: Iterable[str]) -> int:
    """Return the disk space of files in KiB, 0 for missing ones."""
    blocks = 0
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            blocks += os.stat(path).st_blocks
    return blocks // 2


def _advance(steps: Generator[None, None, None], most: int) -> bool:
    """Take up to so many steps; return whether there are more."""
    return all(next(steps, steps) is not steps for _ in range(most))
