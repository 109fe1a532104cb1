"""The life of a job: claimed, started, watched, ended with all its descendants, recorded, released.

A job's end has a fixed order: its own process is reaped; its descendants are killed until a look at all processes finds
none; its record is on disk; the end is reported. The files of a job that transfers them move before its own process
begins, and again when that and its descendants are dead: each time a process of ours stands for the job meanwhile.
"""

from __future__ import annotations

import os
import resource
import select
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator

from . import container_shim, launch, process_trees, processes, rights
from .launch import Order, StartError
from .mover import Hands, Movers, Task
from .process_trees import ProcessTrees
from .records import ActivationClaim, Claims, Journal, Record
from .rights import UserIds
from .sandbox import inside
from .scratch import Scratch
from .supervised_job import LAST_RETRY_US, SupervisedJob, began, clock, failed, moving, ticker

SAMPLE_US = 1_000_000  #: limits are checked and usage is reported this often
_MEASURE_STEPS = 16  #: steps that measuring a directory may take at a job's end before other jobs have their turn


class SupervisedJobs:
    """All jobs of one folder."""

    def __init__(self, folder: str) -> None:
        """Make the directories that are missing, and read what a predecessor left. Raise `OSError` if that cannot be
        done; the process that has the jobs calls ``inherit`` next."""
        self.execute = f"{folder}/execute"
        self._notes = f"{folder}/containers"
        self._scratch = Scratch(self.execute, f"{folder}/elsewhere")
        self._boot = processes.boot()
        self._claims = Claims(f"{folder}/claims", f"{folder}/spare")
        self._journal = Journal(f"{folder}/exits", self._claims.all())
        self.running: dict[str, SupervisedJob] = {}
        self._by_pid: dict[int, SupervisedJob] = {}
        self._ending: dict[str, SupervisedJob] = {}
        self._unwritten: dict[str, Record] = {}
        self._unnoted: list[tuple[int, ActivationClaim]] = []
        self._unreleased: list[str] = []
        self._news: list[Record] = []  # of jobs that went on
        self._chores: deque[Generator[None, None, None]] = deque()

    # Before the first request: a predecessor's jobs.

    def inherit(self, poll: select.epoll) -> None:
        """Be the parent of all jobs from here on: end those of a killed supervisor, remove unclaimed directories.
        ``poll``: where it is waited for what ``hear`` takes in."""
        self._trees = ProcessTrees(os.getpid())
        self._movers = Movers(poll)
        claimed = self._claims.all()
        unended = sorted(claimed - self._journal.records.keys())
        open_claims = {key: claim for key in unended if (claim := self._claims.read(key))}
        container_shim.sweep(self._notes)
        for key, why in process_trees.end_left_jobs(open_claims, self.execute, self._boot).items():
            self._unwritten[key] = {"say": "lost", "key": key, "why": why, "at": clock()}
        self._chores.append(self._scratch.clear(claimed))

    # Requests.

    def known(self, key: str) -> Record | None:
        """Return the state of an activation: running, or its record; None if it was never claimed."""
        if job := self.running.get(key):
            return job.state()
        return self._unwritten.get(key) or self._journal.records.get(key)

    def start(self, order: Order) -> Record | None:
        """Start a job, or the transfer of its files, and return its report. Start nothing if the activation was claimed
        before."""
        key: str = order["key"]
        if known := self.known(key):
            return {**known, "say": "started"} if known["say"] == "running" else known
        try:
            claim = self._claims.take(key)
        except FileExistsError:
            return None
        except OSError as error:
            return failed(key, launch.failure("claim", error, key))
        try:
            job = SupervisedJob(order, self._trees.number(), self._made(order))
            if job.order is None:
                self._launch(job, order)
            else:
                launch.check_iwd(order)
                self._move(job, order, "input")
        except StartError as error:
            os.close(claim)
            return self._not_begun(key, error)
        self._note(claim, self._claim(job))
        self.running[key] = job
        return began(job)

    def _claim(self, job: SupervisedJob) -> ActivationClaim:
        return ActivationClaim(job.pid, job.started, job.number, self._boot, job.at)

    def signal(self, key: str, how: str) -> None:
        """Signal a job; ignore one that runs no more."""
        job = self.running.get(key)
        if job is None:
            return
        if how == "hard" or (how in ("hold", "remove") and job.ended):
            job.given_up = True
        job.leaves = job.leaves or how == "remove"
        if job.mover is not None and how not in _PAUSES:
            self._end_transfer(job, how)
        elif how in job.kill_signals:
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
            self._unwritten[key] = failed(key, error)
            return None
        return failed(key, error)

    def _note(self, descriptor: int, claim: ActivationClaim) -> None:
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
                owner = self._trees.owner(pid)
                _, _, usage = os.wait4(pid, 0)
                if owner in self.running:
                    self.running[owner].spent(usage)
                continue
            _, status, usage = os.wait4(pid, 0)
            self._ending[job.key] = job
            if job.mover is not None:
                job.said = job.said or job.mover.hear()
                self._movers.leave(job.mover)
            else:
                job.status, job.ended = status, max(clock(), job.at)  # somebody may have set the clock back
                job.spent(usage)

    def hear(self, descriptor: int) -> None:
        """Take in what the process behind this descriptor says of its transfer. One that has done it is at rest then,
        unless it was stopped or killed meanwhile."""
        mover = self._movers.of(descriptor)
        if mover is None:
            return
        said, job = mover.hear(), self._by_pid.get(mover.pid)
        if said is None:
            self._movers.leave(mover)
        if said is None or job is None or job.mover is not mover:
            return
        job.said = said
        if not mover.lasts:
            return  # it ends now
        if job.given_up or job.suspended:
            processes.send(mover.pid, mover.started, signal.SIGKILL)
            return
        del self._by_pid[mover.pid]
        self._trees.leave_alone(mover.pid, mover.started)
        self._movers.rest(mover, ticker())
        job.childless = True
        self._ending[job.key] = job

    def settle(self, now: int) -> None:
        """Finish the ends: kill a job's descendants, measure, write the record."""
        due = [job for job in self._ending.values() if job.retry_at <= now]
        if not due:
            return
        dead = [job for job in due if job.childless]
        if len(dead) < len(due):
            dead += self._end_process_trees([job for job in due if not job.childless], now)
        floor_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for job in dead:
            if not job.is_out(now, self._trees):
                continue
            job.has_begun()
            job.name_core()
            if not job.over and self._goes_on(job):
                continue
            job.over = True
            job.final = job.final or job.measure()
            if _advance(job.final, _MEASURE_STEPS):
                continue
            del self._ending[job.key]
            self._hear(job)
            job.end_chirp()
            self._trees.end(job.key)
            self._unwritten[job.key] = (job.outcome or job.record(floor_kb)) | job.written()

    def _end_process_trees(self, jobs: list[SupervisedJob], now: int) -> Iterator[SupervisedJob]:
        """Kill what is left of these jobs; yield those of which nothing is."""
        for job in jobs:
            if job.dedicated and job.account is not None and job.mover is None:
                rights.end_all(job.account)
        self._trees.refresh()
        for job in jobs:
            if self._trees.signal(job.key, signal.SIGKILL):
                job.retry_at, job.retry_us = now + job.retry_us, min(job.retry_us * 2, LAST_RETRY_US)
            else:
                yield job
        self.reap()  # what died of it belongs to the job's CPU time

    def _goes_on(self, job: SupervisedJob) -> bool:
        """Begin what comes next of a job that transfers its files: its own process, or the way back. Return whether
        anything does."""
        order = job.order
        if order is None:
            return False
        moved = "" if job.mover is None else job.way
        if moved:
            job.moved(clock())
            self._news.append(moving(job))
        if job.given_up or job.failure or (moved and "ended" not in job.moves[-1]):
            self._stops(job)
            return False
        way = "run" if moved else job.next_move
        if not way or moved == "output" or (moved and job.told_to_end):
            return False
        try:
            if way == "run":
                self._launch(job, inside(order, job.directory, again=bool(job.checkpoints)))
            else:
                self._move(job, order, way)
        except StartError as error:
            if not moved and error.machine:  # for want of processes: another try
                job.retry_at = ticker() + LAST_RETRY_US
                return True
            job.given_up, job.ended = True, job.ended or clock()
            job.outcome = failed(job.key, error, job.moves)
            return False
        del self._ending[job.key]
        self._claims.renote(job.key, self._claim(job))
        self._news.append(began(job))
        if job.suspended and job.mover is None:
            self._suspend(job)
        return True

    def _stops(self, job: SupervisedJob) -> None:
        """Nothing more of a job begins, since its files did not move. Without its inputs it has failed to start."""
        job.ended = job.ended or clock()
        if job.failure and not job.at:
            words = {"part": "input", "errno": job.failure["errno"], "reason": job.failure["words"]}
            failed = {"say": "failed", "key": job.key, **words, "at": job.ended}
            job.outcome = {**failed, "moves": job.moves, "failure": job.failure}

    def news(self) -> list[Record]:
        """Return what is new of jobs that go on."""
        news, self._news = self._news, []
        return news

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
        self._trees.refresh(closely=True)
        for job in self.running.values():
            self._hear(job)
            if job.ended or job.mover is not None:
                continue
            family = self._trees.living(job.key)
            rss, image, user_us, system_us = job.uses(family)
            job.peak_kb = max(job.peak_kb, rss)
            if not job.measuring and now >= job.measure_at:
                self._chores.append(job.measure())
            self._enforce(job, {"memory_mb": rss / 1024, "disk_kb": job.disk_kb})
            yield {
                "say": "usage",
                "key": job.key,
                "user_us": user_us,
                "system_us": system_us,
                "rss_kb": rss,
                "image_kb": image,
                "disk_kb": job.disk_kb,
                "at": clock(),
            }

    def _hear(self, job: SupervisedJob) -> None:
        """Take in what a job wrote with condor_chirp."""
        if job.writes is not None and (news := job.writes.heard()):
            self._news.append({"say": "chirped", "key": job.key, "writes": news})

    def abandon(self) -> None:
        """Kill what is not to run while no pool attends to it."""
        for job in self.running.values():
            if job.attended and not job.ended and not job.violated:
                job.violated = "unattended"
                self._kill(job)

    def tire(self, now: int) -> None:
        """End the processes that transfer files, and have nothing to do."""
        self._movers.tire(now)

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

    def _made(self, order: Order) -> str:
        """Make a job's scratch directory; return its path."""
        try:
            user = None if order["attended"] else rights.of(order.get("account"))
            if user is not None and order["transfer"]:
                user = rights.of(order.get("files")) or UserIds(os.geteuid(), os.getegid())
            return self._scratch.make(order["key"], order["job_ad"], order["machine_ad"], order["execute"], user)
        except OSError as error:
            raise launch.failure("scratch", error, str(error.filename2 or error.filename)) from None
        except ValueError as error:
            raise StartError("scratch", 0, f"scratch: an ad cannot be written: {error}") from None

    def _launch(self, job: SupervisedJob, order: Order) -> None:
        """Start a job's own process, and before that what answers its condor_chirp."""
        job.begin(order, self.execute, self._notes, self._trees)
        self._joins(job)

    def _move(self, job: SupervisedJob, order: Order, way: str) -> None:
        """Start the transfer of a job's files."""
        task = Task(way, order, job.directory, job.number, way == "output" and job.failed, job.core)
        at = clock()
        try:
            mover = self._movers.begin(task, Hands(job.files, job.account))
        except OSError as error:
            raise launch.failure("scratch", error, "the transfer of its files") from None
        job.moves_by(mover, way, at)
        self._joins(job)

    def _joins(self, job: SupervisedJob) -> None:
        self._by_pid[job.pid] = job
        self._trees.begin(job.key, job.pid, job.started, job.number, job.users)

    def _end_transfer(self, job: SupervisedJob, how: str) -> None:
        """End a transfer, unless it is a soft end's of outputs, which are nearly there: a hard one follows in time."""
        if job.suspended:
            self._continue(job)
        job.told_to_end = job.told_to_end or job.way == "checkpoint"
        if how != "soft" or job.way == "input":
            job.given_up = True
            self._kill(job)

    def _enforce(self, job: SupervisedJob, uses: dict[str, float]) -> None:
        for limit, used in uses.items():
            allowed = job.limits.get(limit)  # an older pool knows fewer of them
            if allowed is not None and used > allowed and not job.violated:
                job.violated = limit.partition("_")[0]
                self._kill(job)

    def _terminate(self, job: SupervisedJob, number: int) -> None:
        """Send the soft kill to the job's own process alone, as the starter does; continue a suspended job. It is sent
        once: a pool that restarts asks for it again, and many programs take a second one as a call to hurry."""
        if job.suspended:
            self._continue(job)
        if job.told_to_end:
            return
        job.told_to_end = True
        if job.tell_container(f"kill {number}"):
            return
        processes.send(job.pid, job.started, number)

    def _kill(self, job: SupervisedJob) -> None:
        """Kill the job's own process first: otherwise it would see its children die and might exit by itself. A
        container's keeper is told to kill it, and is killed only when it is to be killed once more."""
        if job.tell_container("kill 9"):
            return
        if job.key not in self._ending:  # else it has ended, or is another job's mover by now
            processes.send(job.pid, job.started, signal.SIGKILL)
        self._trees.refresh()
        self._trees.signal(job.key, signal.SIGKILL)

    def _suspend(self, job: SupervisedJob) -> None:
        """Stop all processes, until a look finds none that was forked meanwhile."""
        job.suspended = True
        if job.tell_container("pause"):
            return
        if job.mover is not None:
            job.mover.stands_alone()
        stopped: set[int] = set()
        while True:
            self._trees.refresh()
            fresh = [process for process in self._trees.living(job.key) if process.pid not in stopped]
            if not fresh:
                return
            for process in fresh:
                processes.send(process.pid, process.started, signal.SIGSTOP)
                stopped.add(process.pid)

    def _continue(self, job: SupervisedJob) -> None:
        job.suspended = False
        if job.tell_container("unpause"):
            return
        self._trees.refresh()
        self._trees.signal(job.key, signal.SIGCONT)


_PAUSES = ("suspend", "continue")
_REACTIONS: dict[str, Callable[[SupervisedJobs, SupervisedJob], None]] = {
    "hard": SupervisedJobs._kill,
    "suspend": SupervisedJobs._suspend,
    "continue": SupervisedJobs._continue,
}


def _advance(steps: Generator[None, None, None], most: int) -> bool:
    """Take up to so many steps; return whether there are more."""
    return all(next(steps, steps) is not steps for _ in range(most))
