"""The life of a job: claimed, started, watched, ended with all its descendants, recorded, released.

A job's end has a fixed order: its own process is reaped; its descendants are killed until a refresh of all processes
finds none; its record is written to disk; the end is reported. A job's files are transferred before its own process
starts, and again when that and its descendants are dead. During a transfer, a mover represents the job.
"""

from __future__ import annotations

import os
import resource
import select
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator

from . import container_shim, launch, process_trees, processes, rights
from .dataflow import NOT_NEEDED, SKIPPED, check_dataflow
from .launch import Order, StartError
from .mover import Movers, Task, TransferUsers
from .process_trees import ProcessTrees
from .records import ActivationClaim, Claims, Journal, Record
from .rights import UserIds
from .sandbox import order_in_scratch
from .scratch import Scratch
from .supervised_job import (
    LAST_RETRY_US,
    SupervisedJob,
    boot_ticker,
    clock,
    failed_record,
    started_record,
    ticker,
    transferring_record,
)

SAMPLE_US = 1_000_000  #: limits are checked and usage is reported this often
_KILL_AGAIN_US = 10_000_000  #: the interval between two kills of a job whose deadline has passed
_EXPIRED = "the lease of its claim was over before it could be started"
_MEASURE_STEPS = 16  #: how many steps of measuring a directory to run at a job's end before serving other jobs


class SupervisedJobs:
    """All jobs of one folder."""

    def __init__(self, folder: str) -> None:
        """Create missing directories, and read the state of the previous supervisor. Raise `OSError` if that fails. The
        process that will be the jobs' parent calls ``inherit`` next."""
        self.execute = f"{folder}/execute"
        self._notes = f"{folder}/containers"
        self._scratch = Scratch(self.execute, f"{folder}/elsewhere")
        self._boot = processes.boot_id()
        self._claims = Claims(folder)
        self._journal = Journal(f"{folder}/exits", set(self._claims.by_key))
        self.running: dict[str, SupervisedJob] = {}
        self._by_pid: dict[int, SupervisedJob] = {}
        self._ending: dict[str, SupervisedJob] = {}
        self._unwritten: dict[str, Record] = {}
        self._unwritten_claims: dict[str, ActivationClaim] = {}
        self._unreleased: list[str] = []
        self._reports: list[Record] = []  # reports of running jobs
        self._chores: deque[Generator[None, None, None]] = deque()

    # Before the first request: the previous supervisor's jobs.

    def inherit(self, poll: select.epoll) -> None:
        """Become the parent of all jobs: kill the previous supervisor's jobs, remove unclaimed directories. ``poll``:
        where the server waits for the messages that ``hear`` reads."""
        self._trees = ProcessTrees(os.getpid())
        self._movers = Movers(poll)
        claims, ended_keys = self._claims.by_key, self._journal.records.keys()
        open_claims = {key: claims[key] for key in sorted(claims.keys() - ended_keys)}
        container_shim.sweep(self._notes)
        for key, reason in process_trees.end_orphaned_jobs(open_claims, self.execute, self._boot).items():
            self._unwritten[key] = {"say": "lost", "key": key, "why": reason, "at": clock()}
        self._chores.append(self._scratch.clear(claims))

    # Requests.

    def known_state(self, key: str) -> Record | None:
        """Return the state of an activation: running, or its record, or None if it was never claimed."""
        if job := self.running.get(key):
            return job.state()
        return self._unwritten.get(key) or self._journal.records.get(key)

    def start(self, order: Order) -> Record | None:
        """Start a job or the transfer of its files, and return the report. Do nothing if the activation was already
        claimed."""
        key: str = order["key"]
        if known_job := self.known_state(key):
            if (job := self.running.get(key)) and job.waits and not order.get("waits"):
                job.waits = False
                if job.has_no_process:
                    self._ending[key] = job
            return {**known_job, "say": "started"} if known_job["say"] == "running" else known_job
        if 0 < order.get("deadline", 0) <= boot_ticker():
            return failed_record(key, StartError("executable", 0, _EXPIRED, machine=True))
        try:
            self._claims.claim_activation(key)
        except FileExistsError:
            return None
        except OSError as error:
            return failed_record(key, launch.failure("claim", error, key))
        try:
            check_dataflow(order)
            job = SupervisedJob(order, self._trees.number(), self._make_scratch(order))
            if job.order is None:
                self._launch(job, order)
            else:
                if not order.get("access_point"):
                    launch.check_iwd(order)
                self._move(job, order, "input")
        except StartError as error:
            return self._undo_start(key, error)
        self._note(key, self._claim(job))
        self.running[key] = job
        return started_record(job)

    def _claim(self, job: SupervisedJob) -> ActivationClaim:
        return ActivationClaim(job.pid, job.started, job.number, self._boot, job.at)

    def signal(self, key: str, how: str) -> None:
        """Signal a job; do nothing if it has ended."""
        job = self.running.get(key)
        if job is None or job.is_over:
            return
        if how == "hard" or (how in ("hold", "remove") and job.ended):
            job.given_up = True
        job.removed = job.removed or how == "remove"
        if (job.mover is not None or job.has_no_process) and how not in _PAUSES:
            if job.has_no_process:
                self._ending[key] = job
            self._end_transfer(job, how)
        elif how in job.kill_signals:
            self._terminate(job, job.kill_signals[how])
        else:
            _REACTIONS[how](self, job)

    def set_deadlines(self, deadlines: dict[str, int]) -> None:
        """Set when jobs are killed; do nothing for jobs that have ended or that an earlier deadline has killed."""
        for key, deadline in deadlines.items():
            job = self.running.get(key)
            if job is not None and job.violated != "lease":
                job.deadline = deadline

    def release(self, keys: Iterable[str]) -> None:
        """Release the records, claims and directories of these jobs, whose ends are durable elsewhere. Skip jobs with
        processes."""
        for key in keys:
            if (job := self.running.get(key)) is not None and job.has_no_process:
                del self.running[key]
                self._ending.pop(key, None)
                if key not in self._unwritten:
                    self._trees.remove_job(key)
        ended_keys = [key for key in keys if key not in self.running]
        for key in ended_keys:
            self._unwritten.pop(key, None)
            self._release(key)
            discarding = self._scratch.discard(key)
            if _advance(discarding, _MEASURE_STEPS):
                self._chores.append(discarding)
        self._journal.drop_records(ended_keys)

    def _undo_start(self, key: str, error: StartError) -> Record | None:
        """Undo a failed start. No process ran, so no record is needed, and the failure can be reported even if the disk
        is full. A pool that does not receive the report starts the same activation again, so remove the directory
        immediately; it contains only the two ads."""
        for _ in self._scratch.discard(key):
            pass
        try:
            self._claims.release_claim(key)
        except OSError:  # the claim remains, so there must be a record, which is reported once it is written
            self._unwritten[key] = failed_record(key, error)
            return None
        return failed_record(key, error)

    def _note(self, key: str, claim: ActivationClaim) -> None:
        try:
            self._claims.write_holder(key, claim)
        except OSError:  # until the claim is written, only the process's mark identifies the job
            self._unwritten_claims[key] = claim
        else:
            self._unwritten_claims.pop(key, None)

    def _release(self, key: str) -> None:
        try:
            self._claims.release_claim(key)
        except OSError:
            self._unreleased.append(key)

    # Each iteration of the loop.

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
                self._trees.forget(pid)
                if owner in self.running:
                    self.running[owner].add_usage(usage)
                continue
            _, status, usage = os.wait4(pid, 0)
            self._trees.forget(pid)
            self._ending[job.key] = job
            if job.mover is not None:
                job.mover_result = job.mover_result or job.mover.receive_result()
                self._movers.drop_mover(job.mover)
            else:
                job.status, job.ended = status, max(clock(), job.at)  # the clock may have been set back
                job.add_usage(usage)

    def read_mover_result(self, descriptor: int) -> None:
        """Read the result of the mover with this descriptor. The mover is then idle, unless it was suspended or killed
        meanwhile."""
        mover = self._movers.mover_with_descriptor(descriptor)
        if mover is None:
            return
        result, job = mover.receive_result(), self._by_pid.get(mover.pid)
        if result is None:
            self._movers.drop_mover(mover)
        if result is None or job is None or job.mover is not mover:
            return
        job.mover_result = result
        if not mover.reusable:
            return  # it exits now
        if job.given_up or job.suspended:
            processes.send_signal(mover.pid, mover.started, signal.SIGKILL)
            return
        del self._by_pid[mover.pid]
        self._trees.leave_alone(mover.pid, mover.started)
        self._movers.set_idle(mover, ticker())
        job.childless = True
        self._ending[job.key] = job

    def settle(self, now: int) -> None:
        """Process ended jobs: kill the descendants, start the next step, or measure and write the record."""
        due_jobs = [job for job in self._ending.values() if job.retry_at <= now]
        if not due_jobs:
            return
        childless_jobs = [job for job in due_jobs if job.childless]
        if len(childless_jobs) < len(due_jobs):
            childless_jobs += self._end_process_trees([job for job in due_jobs if not job.childless], now)
        floor_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for job in childless_jobs:
            if not job.container_is_gone(now, self._trees):
                continue
            job.read_start_result()
            job.name_core()
            if not job.is_over and self._start_next_step(job):
                continue
            job.is_over = True
            job.final = job.final or job.measure()
            if _advance(job.final, _MEASURE_STEPS):
                continue
            del self._ending[job.key]
            self._receive_writes(job)
            job.end_chirp()
            self._trees.remove_job(job.key)
            self._unwritten[job.key] = (job.outcome or job.record(floor_kb)) | job.writes_record()

    def _end_process_trees(self, jobs: list[SupervisedJob], now: int) -> Iterator[SupervisedJob]:
        """Kill the remaining processes of these jobs; yield the jobs that have none."""
        for job in jobs:
            if job.dedicated and job.account is not None and job.mover is None:
                rights.kill_all(job.account)
        self._trees.refresh_orphans()
        for job in jobs:
            if self._trees.signal(job.key, signal.SIGKILL):
                job.retry_at, job.retry_us = now + job.retry_us, min(job.retry_us * 2, LAST_RETRY_US)
            else:
                yield job
        self.reap()  # the killed processes add to the job's CPU time

    def _start_next_step(self, job: SupervisedJob) -> bool:
        """Start the next step of a job that transfers its files: its own process, or a transfer. Return False if there
        is none."""
        order = job.order
        if order is None:
            return False
        moved_direction = "" if job.mover is None else job.direction
        if moved_direction:
            job.end_transfer(clock())
            self._reports.append(transferring_record(job))
        if job.given_up or job.failure or (moved_direction and "ended" not in job.moves[-1]):
            self._end_after_transfer(job)
            return False
        step = "run" if moved_direction or not job.at else job.next_move
        if not step or moved_direction == "output" or (moved_direction and job.terminating):
            return False
        if step == "run" and job.waits:
            del self._ending[job.key]
            return True
        try:
            if step == "run":
                self._launch(job, order_in_scratch(order, job.directory, resumed=bool(job.checkpoints)))
            else:
                self._move(job, order, step)
        except StartError as error:
            if not moved_direction and error.machine:  # no process could be started: try again
                job.retry_at = ticker() + LAST_RETRY_US
                return True
            job.given_up, job.ended = True, job.ended or clock()
            job.outcome = failed_record(job.key, error, job.moves)
            return False
        del self._ending[job.key]
        self._note(job.key, self._claim(job))
        self._reports.append(started_record(job))
        if job.suspended and job.mover is None:
            self._suspend(job)
        return True

    def _end_after_transfer(self, job: SupervisedJob) -> None:
        """End a job whose transfer failed or was stopped. Without its inputs, its start has failed."""
        job.ended = job.ended or clock()
        if job.failure and not job.at:
            part = SKIPPED if job.failure["errno"] == NOT_NEEDED else "input"
            problem = {"part": part, "errno": job.failure["errno"], "reason": job.failure["words"]}
            failure = {"say": "failed", "key": job.key, **problem, "at": job.ended}
            job.outcome = {**failure, "moves": job.moves, "failure": job.failure}

    def new_reports(self) -> list[Record]:
        """Return the new reports of running jobs."""
        reports, self._reports = self._reports, []
        return reports

    def flush(self) -> list[bytes]:
        """Make the known ends durable, and return their lines for reporting. Raise `OSError` if no end could be made
        durable. Also retry other failed writes."""
        for key, claim in list(self._unwritten_claims.items()):
            self._note(key, claim)
        unreleased_keys, self._unreleased = self._unreleased, []
        for key in unreleased_keys:
            self._release(key)
        if not self._unwritten:
            return []
        lines = self._journal.append(self._unwritten.values())
        for key in self._unwritten:
            self.running.pop(key, None)
        self._unwritten.clear()
        return lines

    def sample(self, now: int) -> Iterator[Record]:
        """Kill jobs beyond their limits; yield the usage of each running job."""
        self._trees.refresh(closely=True)
        for job in self.running.values():
            self._receive_writes(job)
            if job.ended or job.mover is not None or job.has_no_process:
                continue
            family = self._trees.live_processes(job.key)
            rss, image, user_us, system_us = job.usage(family)
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
                **({"sandbox": job.sandbox} if job.sandbox else {}),
                "at": clock(),
            }

    def _receive_writes(self, job: SupervisedJob) -> None:
        """Receive what a job wrote with condor_chirp."""
        if job.writes is not None and (writes := job.writes.receive()):
            self._reports.append({"say": "chirped", "key": job.key, "writes": writes})

    def abandon(self) -> None:
        """Kill attended jobs, since no pool is connected."""
        for job in self.running.values():
            if job.attended and not job.ended and not job.violated:
                job.violated = "unattended"
                self._kill(job)

    def end_expired(self) -> None:
        """Kill the jobs whose deadline has passed, and end their transfers. Kill jobs that are still there again."""
        now = boot_ticker() if any(job.deadline for job in self.running.values()) else 0
        for job in self.running.values():
            if 0 < job.deadline <= now and not job.is_over and not (job.ended and job.mover is None):
                job.violated = job.violated or "lease"
                job.deadline = now + _KILL_AGAIN_US
                self.signal(job.key, "hard")

    def next_deadline_us(self) -> int | None:
        """Return the microseconds until ``end_expired`` must run again, or None if no job has a deadline."""
        deadline = min((job.deadline for job in self.running.values() if job.deadline), default=None)
        return None if deadline is None else max(0, deadline - boot_ticker())

    def leave_alone(self, pid: int) -> None:
        """Ignore a child of this process, which is not a job's process."""
        process = processes.read_process(pid)
        if process is not None:
            self._trees.leave_alone(process.pid, process.started)

    def end_idle_movers(self, now: int) -> None:
        """End the movers that have been idle for long."""
        self._movers.end_idle(now)

    def chores(self, budget_us: int) -> bool:
        """Measure and remove directories for about `budget_us` microseconds; return whether any work remains."""
        until = ticker() + budget_us
        while self._chores and ticker() < until:
            chore = self._chores.popleft()
            if _advance(chore, _MEASURE_STEPS):
                self._chores.append(chore)
        return bool(self._chores)

    def refused(self) -> bool:
        """Return True if a write to disk failed and must be retried."""
        return bool(self._unwritten or self._unwritten_claims or self._unreleased)

    def next_retry(self) -> int | None:
        """Return when ``settle`` must run again if no job ends before."""
        return min((job.retry_at for job in self._ending.values()), default=None)

    def _make_scratch(self, order: Order) -> str:
        """Create a job's scratch directory; return its path."""
        try:
            user = None if order["attended"] else rights.ids_of_account(order.get("account"))
            if user is not None and order["transfer"]:
                user = rights.ids_of_account(order.get("files")) or UserIds(os.geteuid(), os.getegid())
            return self._scratch.make(order["key"], order["job_ad"], order["machine_ad"], order["execute"], user)
        except OSError as error:
            raise launch.failure("scratch", error, str(error.filename2 or error.filename)) from None
        except ValueError as error:
            raise StartError("scratch", 0, f"scratch: an ad cannot be written: {error}") from None

    def _launch(self, job: SupervisedJob, order: Order) -> None:
        """Start the process that answers a job's condor_chirp, then the job's own."""
        job.start_processes(order, self.execute, self._notes, self._trees)
        self._register(job)

    def _move(self, job: SupervisedJob, order: Order, kind: str) -> None:
        """Start the transfer of a job's files."""
        number = max(job.restored, order["transfer"].get("checkpoint_number", -1)) + job.checkpoints + 1
        task = Task(kind, order, job.directory, job.number, kind == "output" and job.failed, job.core, number)
        at = clock()
        try:
            users = TransferUsers(job.files, job.account, bool(order.get("access_point")))
            mover = self._movers.start_task(task, users)
        except OSError as error:
            raise launch.failure("scratch", error, "the transfer of its files") from None
        job.start_transfer(mover, kind, at)
        self._register(job)

    def _register(self, job: SupervisedJob) -> None:
        self._by_pid[job.pid] = job
        self._trees.add_process(job.key, job.pid, job.started, job.number, job.users)

    def _end_transfer(self, job: SupervisedJob, ending: str) -> None:
        """Stop a transfer. After a soft kill, let a transfer of outputs finish; a hard kill follows if it takes too
        long."""
        if job.suspended:
            self._continue(job)
        job.terminating = job.terminating or job.direction == "checkpoint"
        if ending != "soft" or job.direction == "input":
            job.given_up = True
            self._kill(job)

    def _enforce(self, job: SupervisedJob, uses: dict[str, float]) -> None:
        for limit, used_amount in uses.items():
            allowed_amount = job.limits.get(limit)  # an older pool sends fewer limits
            if allowed_amount is not None and used_amount > allowed_amount and not job.violated:
                job.violated = limit.partition("_")[0]
                self._kill(job)

    def _terminate(self, job: SupervisedJob, number: int) -> None:
        """Send the soft kill signal to the job's own process only, as the starter does; continue a suspended job. Send
        it once: a restarted pool requests it again, and many programs treat a second signal as a request to hurry."""
        if job.suspended:
            self._continue(job)
        if job.terminating:
            return
        job.terminating = True
        if job.tell_container(f"kill {number}"):
            return
        processes.send_signal(job.pid, job.started, number)

    def _kill(self, job: SupervisedJob) -> None:
        """Kill the job's own process first: otherwise it would see its children die and might exit normally. A
        container's shim first receives a command to kill it, and is itself killed the second time."""
        if job.tell_container("kill 9"):
            return
        if job.key not in self._ending:  # otherwise the mover has ended, or now works for another job
            processes.send_signal(job.pid, job.started, signal.SIGKILL)
        self._trees.refresh()
        self._trees.signal(job.key, signal.SIGKILL)

    def _suspend(self, job: SupervisedJob) -> None:
        """Stop all processes of a job, and repeat until a refresh finds no process that was forked meanwhile."""
        job.suspended = True
        if job.tell_container("pause"):
            return
        if job.mover is not None:
            job.mover.wait_until_detached()
        stopped_pids: set[int] = set()
        while True:
            self._trees.refresh()
            new_processes = [
                process for process in self._trees.live_processes(job.key) if process.pid not in stopped_pids
            ]
            if not new_processes:
                return
            for process in new_processes:
                processes.send_signal(process.pid, process.started, signal.SIGSTOP)
                stopped_pids.add(process.pid)

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
    """Run up to so many steps; return whether there are more."""
    return all(next(steps, steps) is not steps for _ in range(most))
