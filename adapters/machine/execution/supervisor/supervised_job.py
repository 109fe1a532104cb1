"""One supervised job: its state from its start to its end, and the record of its end."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import stat
import time
from collections.abc import Generator, Iterable

from . import chirp_requests, container_shim, launch, processes, rights
from .chirp_writes import Receiver, Sender
from .container_shim import ContainerShim
from .launch import Order, StartError
from .mover import Mover
from .process_trees import ProcessTrees
from .processes import Process
from .records import Record
from .sandbox import STREAMS
from .scratch import size_kb
from .usage_meter import Result

_MEASURE_REST = 20  #: measure a directory tree again after this many times the duration of the last measurement
FIRST_RETRY_US = 2_000  #: the first pause before killing the remaining processes again; it doubles
LAST_RETRY_US = 1_000_000


def clock() -> int:
    """Return microseconds since the epoch, for reports."""
    return time.time_ns() // 1000


def ticker() -> int:
    """Return microseconds of the monotonic clock, for deadlines."""
    return time.monotonic_ns() // 1000


def boot_ticker() -> int:
    """Return microseconds since the machine was booted, including its sleep, for the deadlines of jobs."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class SupervisedJob:
    """One job, from its claim until its end is recorded. A job that transfers its files first has a mover, then its own
    process, then a mover again; ``pid`` is the process id of the current one."""

    def __init__(self, order: Order, number: int, directory: str) -> None:
        self.key: str = order["key"]
        self.limits: dict[str, int | None] = order["limits"]
        self.kill_signals: dict[str, int] = order["kill_signals"]
        self.attended: bool = order.get("attended", False)  # an older pool does not send this field
        self.deadline: int = order.get("deadline", 0)  # when it is killed, or killed again (0: never)
        self.waits: bool = order.get("waits", False)  # whether its process must not start yet
        self.order = order if order["transfer"] else None  # kept for the job's next steps
        self.account = rights.ids_of_account(order.get("account"))  # the job's user, if not this process's user
        self.files = rights.ids_of_account(order.get("files"))  # the owner of the files that the job transfers
        users = [rights.uid for rights in (self.account, self.files) if rights is not None]
        self.users = frozenset(users if self.account else [*users, os.geteuid()])  # the users that its processes run as
        self.dedicated = bool(order["account"] and order["account"]["dedicated"]) if self.account else False
        self.number = number
        self.directory = directory
        self.mover: Mover | None = None  # during a transfer
        self.mover_result: Result | None = None
        self.shim: ContainerShim | None = None  # the shim of its container
        self.chirp: Process | None = None  # the process that answers its condor_chirp
        self.writes: Receiver | None = None  # receives what the job writes with condor_chirp
        self.childless = False  # whether its mover was its only process, and is idle now
        self.moves: list[Record] = []
        self.failure: Record | None = None  # the failure of a transfer
        self.outcome: Record | None = None  # the record of its end, if its process did not end normally
        self.given_up = False  # whether to leave its files where they are
        self.is_over = False  # whether no further step starts
        self.start_reply = -1  # the descriptor that reports why a slow process could not start
        self.core = ""  # the final name of its core file
        self.name, self.iwd = str(order["job"]), str(order["iwd"])
        self.pid = self.started = self.at = self.began = 0
        self.outputs: list[str] = []
        self.output_kb = 0
        self.suspended = False
        self.terminating = False
        self.removed = False  # whether the job ends because it was removed; its files are then not kept
        self.checkpoints = 0  # how many checkpoints it has taken
        self.restored = -1  # the number of the checkpoint at a URL from which it continued
        self.violated = ""
        self.user_us = 0
        self.system_us = 0
        self.peak_kb = 0
        self.largest_rss_kb = 0  # the largest resident size of a reaped process
        self.disk_kb = self.moved_kb = 0
        self.sandbox: dict[str, int] = {}  # the number of files in its scratch directory, and the times of its output
        self.measuring = False
        self.measure_at = 0
        self.status = 0
        self.ended = 0
        self.retry_at = 0
        self.retry_us = FIRST_RETRY_US
        self.final: Generator[None, None, None] | None = None

    @property
    def has_no_process(self) -> bool:
        """Return True if its input files have arrived, but its own process has not been started."""
        return self.mover is None and not self.at

    @property
    def direction(self) -> str:
        """Return the direction of its last transfer: input, output or checkpoint."""
        direction: str = self.moves[-1]["way"]
        return direction

    def start_transfer(self, mover: Mover, kind: str, at: int) -> None:
        """Record the start of a transfer. The kind ``evict`` copies outputs to the job's spool directory, for its next
        run."""
        self.mover, self.mover_result, self.pid, self.started = mover, None, mover.pid, mover.started
        self.childless = False
        move: Record = {"way": "output" if kind == "evict" else kind, "began": at}
        if kind == "checkpoint":
            self.checkpoints += 1
            move["number"] = self.checkpoints
            if self.moves and self.direction == "checkpoint":  # a pool that reconnects receives only the last transfer
                self.moves.pop()
        self.moves.append(move | ({"kept": True} if kind == "evict" else {}))
        self.retry_at, self.retry_us = 0, FIRST_RETRY_US

    def end_transfer(self, at: int) -> None:
        """Record the end of its transfer, with the mover's result."""
        result, self.mover = self.mover_result, None
        if result is not None:
            failure = result.pop("failure", None)
            self.moved_kb = result.pop("moved_kb", 0)
            self.restored = result.pop("checkpoint", self.restored)
            if not self.moves[-1].get("kept"):  # otherwise the next run restarts, which does not justify a hold
                self.failure = failure
            self.moves[-1].update(result, ended=at, **({"failed": True} if failure else {}))

    def start_processes(self, order: Order, execute: str, notes: str, trees: ProcessTrees) -> None:
        """Start the process that answers the job's condor_chirp, then the job's own process. ``notes`` is the directory
        of the notes on containers. Raise `StartError` if a process cannot be started."""
        if order.get("chirp") and self.chirp is None:
            self._start_chirp(order, trees)
        try:
            self._start_own_process(order, execute, notes)
        except StartError:
            self.end_chirp()
            raise

    def _start_own_process(self, order: Order, execute: str, notes: str) -> None:
        """Start the job's own process. Set ``output_kb``, the size of its outputs before it writes, which does not
        count as disk usage."""
        is_separate = order.get("container") or self.account
        streams = [] if is_separate else launch.open_streams(order, self.directory)
        try:
            with rights.acting_as(None if order.get("container") else self.account):
                output_kb = files_kb(launch.outputs(order, must_append=bool(is_separate)))
            at, earliest = clock(), processes.boot_ticks()
            processes.mark_children(self.number)
            if order.get("container"):
                variables = launch.environment(order, execute, self.directory)
                self.shim = container_shim.fork(order, self.number, self.directory, variables, notes)
                pid = self.shim.pid
            elif self.account is not None:
                pid, self.start_reply = launch.start_as(self.account, order, self.directory, execute)
            else:
                variables = launch.environment(order, execute, self.directory)
                pid = launch.spawn(order, variables, self.directory, streams)
        finally:
            launch.close(streams)
        self.pid, self.started, self.at, self.began, self.ended = (
            pid, processes.start_time(pid, earliest), at, ticker(), 0
        )  # fmt: skip
        self.childless = False
        self.outputs = [path for path in launch.outputs(order) if not path.startswith(f"{self.directory}/")]
        self.output_kb = output_kb
        self.retry_at, self.retry_us = 0, FIRST_RETRY_US

    def _start_chirp(self, order: Order, trees: ProcessTrees) -> None:
        iwd = (self.order or order)["iwd"]
        if order.get("access_point"):
            iwd = os.devnull  # the job's directory is on another machine: there are no files to access
        try:
            with rights.acting_as(self.account):
                listener, cookie = chirp_requests.listen(self.directory)
            user = self.files if self.order else self.account
            processes.mark_children(0)
            with listener:
                pid, channel = chirp_requests.fork(
                    listener, cookie, iwd, lambda channel: Sender(order["job_ad"], order["chirp"], channel),
                    lambda: None if user is None else rights.become(user),
                )  # fmt: skip
        except OSError as error:
            raise launch.failure("scratch", error, "condor_chirp's port") from None
        self.writes = Receiver(channel, order["chirp"]["most"])
        self.chirp = processes.read_process(pid)
        assert self.chirp is not None, "a child that is not reaped always exists"
        trees.leave_alone(pid, self.chirp.started)

    def end_chirp(self) -> None:
        """Kill the process that answers the job's condor_chirp."""
        if self.chirp is not None:
            processes.send_signal(self.chirp.pid, self.chirp.started, signal.SIGKILL)
            self.chirp = None
        if self.writes is not None:
            self.writes.close()

    def read_start_result(self) -> None:
        """Read, after the end of a process that was slow to start, whether it was started."""
        if self.start_reply < 0:
            return
        reply, self.start_reply = self.start_reply, -1
        try:
            launch.read_start_reply(reply)
        except StartError as error:
            self.outcome, self.given_up = failed_record(self.key, error, self.moves), True

    def name_core(self) -> None:
        """Name the core file after the job, since its directory may receive core files of other jobs. Without file
        transfer, rename only a core file that this job's process has just written."""
        if self.mover is not None or not self.at or self.core or not (self.order or os.WCOREDUMP(self.status)):
            return
        where, new = self.directory if self.order else self.iwd, f"core.{self.name}"
        with contextlib.suppress(OSError), rights.acting_as(self.account):
            for old in (f"core.{self.pid}", "core"):
                with contextlib.suppress(FileNotFoundError):
                    if stat.S_ISREG(os.lstat(f"{where}/{old}").st_mode):
                        os.rename(f"{where}/{old}", f"{where}/{new}")
                        self.core = new
                        return

    def tell_container(self, command: str) -> bool:
        """Send a command to the shim of a docker container; return False if the job has no shim, or for a second kill.
        The caller then kills the shim itself."""
        shim = self.shim
        if shim is None or not shim.note or self.mover is not None or (command == "kill 9" and shim.killed):
            return False
        shim.killed = command == "kill 9"
        shim.send_command(command)
        return True

    def usage(self, family: Iterable[Process]) -> tuple[int, int, int, int]:
        """Return the resident and virtual memory, and the user and system time, of the job's processes or container. A
        container's virtual memory is unknown, so its resident memory is used instead."""
        if self.shim is not None and self.shim.note:
            self.shim.listen()
            used = self.shim.usage
            return (used.get("rss_kb", 0), used.get("rss_kb", 0), used.get("user_us", 0), used.get("system_us", 0))
        sums = [(process.rss_kb, process.image_kb, process.user_us, process.system_us) for process in family]
        rss, image, user_us, system_us = (sum(column) for column in zip(*sums, strict=True)) if sums else (0, 0, 0, 0)
        return rss, image, self.user_us + user_us, self.system_us + system_us

    def container_is_gone(self, now: int, trees: ProcessTrees) -> bool:
        """Return True if the job's container has been removed after the process has ended; otherwise continue the
        removal."""
        shim = self.shim
        if shim is None:
            return True
        if not shim.remains:
            self._record_container(shim)
            return True
        sweeper = shim.sweep()
        if sweeper is not None and (process := processes.read_process(sweeper.pid)) is not None:
            trees.leave_alone(process.pid, process.started)
        self.retry_at, self.retry_us = now + self.retry_us, min(self.retry_us * 2, LAST_RETRY_US)
        return False

    def _record_container(self, shim: ContainerShim) -> None:
        """Record the shim's last messages after its container is gone."""
        shim.listen()
        self.shim = None
        if shim.note:
            container_usage = shim.usage
            self.user_us, self.system_us = container_usage.get("user_us", 0), container_usage.get("system_us", 0)
            self.peak_kb, self.largest_rss_kb = container_usage.get("peak_kb", 0), 0
        failure = shim.failed
        if failure and failure["part"] == "memory":
            self.violated = "memory"
        elif failure:
            moves_record = {"moves": self.moves} if self.moves else {}
            self.outcome = {"say": "failed", "key": self.key, **failure, "at": clock(), **moves_record}
            self.given_up = True

    @property
    def next_move(self) -> str:
        """Return the transfer that follows the end of the job's process: "output" (to its destination), "checkpoint" or
        "evict" (kept for its next process or run), or an empty string if there is none."""
        assert self.order is not None
        transfer = self.order["transfer"]
        if self.given_up or self.violated or self.removed:
            return ""
        if self.terminating:
            return "evict" if transfer.get("on_evict") else ""
        return "checkpoint" if self._took_checkpoint(transfer.get("checkpoint")) else "output"

    def _took_checkpoint(self, promised: dict[str, int] | None) -> bool:
        """Return True if the job's process ended with the code or signal that announces a checkpoint."""
        if promised is None:
            return False
        if "signal" in promised:
            return os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == promised["signal"]
        return os.WIFEXITED(self.status) and os.WEXITSTATUS(self.status) == promised["code"]

    @property
    def failed(self) -> bool:
        """Return True if the job's outputs are requested only after success, and the job has not succeeded."""
        assert self.order is not None
        success: int | None = self.order["transfer"]["success"]
        return success is not None and not (os.WIFEXITED(self.status) and os.WEXITSTATUS(self.status) == success)

    def state(self) -> Record:
        """Return the job's state as a report."""
        moves = {"moves": self.moves} if self.moves else {}
        if self.at:
            return {"say": "running", "key": self.key, "pid": self.pid, "at": self.at, **moves, **self.writes_record()}
        return {"say": "transferring", "key": self.key, **moves}

    def writes_record(self) -> Record:
        """Return what the job wrote with condor_chirp, as part of a record."""
        writes = self.writes.all_writes() if self.writes is not None else []
        return {"writes": writes} if writes else {}

    def add_usage(self, usage: resource.struct_rusage) -> None:
        """Add the usage of a reaped process of the job, which includes its own reaped children."""
        self.user_us += round(usage.ru_utime * 1e6)
        self.system_us += round(usage.ru_stime * 1e6)
        self.largest_rss_kb = max(self.largest_rss_kb, usage.ru_maxrss)

    def measure(self) -> Generator[None, None, None]:
        """Update ``disk_kb`` and ``sandbox``, in steps."""
        self.measuring = True
        began = ticker()
        steps = size_kb(self.directory)
        inside_kb, count = yield from (steps if self.account is None else rights.in_steps(self.account, steps))
        with rights.acting_as(self.account):
            self.disk_kb = inside_kb + self.moved_kb + max(0, files_kb(self.outputs) - self.output_kb)
            if self.order is not None:
                self.sandbox = {"ScratchDirFileCount": count, **_output_times(self.directory)}
        self.measure_at = ticker() + (ticker() - began) * _MEASURE_REST
        self.measuring = False

    def record(self, floor_kb: int) -> Record:
        """Return the record of the job's end. ``floor_kb`` is the supervisor's own peak memory, which a spawned process
        reports until its exec."""
        code = os.WEXITSTATUS(self.status) if os.WIFEXITED(self.status) and self.at else None
        peak = max(self.peak_kb, self.largest_rss_kb)
        return {
            "say": "exited",
            "key": self.key,
            "code": code,
            "signal": None if code is not None or not self.at else os.WTERMSIG(self.status),
            "user_us": self.user_us,
            "system_us": self.system_us,
            "peak_kb": self.peak_kb if self.peak_kb and peak <= floor_kb else peak,
            "disk_kb": self.disk_kb,
            **({"sandbox": self.sandbox} if self.sandbox else {}),
            "core": os.WCOREDUMP(self.status),
            **({"core_file": f"{self.iwd}/{self.core}"} if self.core else {}),
            "at": self.ended,
            "violated": self.violated,
            **(self._transfer_record() if self.order else {}),
        }

    def _transfer_record(self) -> Record:
        """Return the transfer part of the job's record. This part includes the start, since a pool that reconnects may
        receive only this record, and must log the transfers before it."""
        is_done = bool(self.moves) and "ended" in self.moves[-1] and self.failure is None
        is_input_done = is_done and bool(self.at)
        is_output_done = is_done and self.moves[-1]["way"] == "output"
        is_undelivered = not (is_output_done or (is_input_done and (self.terminating or self.violated)))
        record: Record = {"moves": self.moves, "pid": self.pid, "began": self.at, "undelivered": is_undelivered}
        return record | ({"failure": self.failure} if self.failure else {})


def started_record(job: SupervisedJob) -> Record:
    return {**job.state(), "say": "started"} if job.mover is None else transferring_record(job)


def transferring_record(job: SupervisedJob) -> Record:
    return {"say": "transferring", "key": job.key, "moves": job.moves}


def failed_record(key: str, error: StartError, moves: list[Record] | None = None) -> Record:
    problem = {"part": error.part, "errno": error.number, "reason": error.reason, **({"moves": moves} if moves else {})}
    return {"say": "failed", "key": key, **problem, "at": clock(), **({"machine": True} if error.machine else {})}


def _output_times(scratch: str) -> dict[str, int]:
    """Return when output and error were last written, for those in the scratch directory."""
    times = {}
    for stream, name in STREAMS.items():
        with contextlib.suppress(OSError):
            times[f"{stream.capitalize()}Mtime"] = int(os.stat(f"{scratch}/{name}", follow_symlinks=False).st_mtime)
    return times


def files_kb(paths: Iterable[str]) -> int:
    """Return the disk space of files in KiB; missing files count as 0."""
    blocks = 0
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            blocks += os.stat(path).st_blocks
    return blocks // 2
