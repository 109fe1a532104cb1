"""One job of the supervisor's: what is known of it while it is there, and the record of its end."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import stat
import time
from collections.abc import Generator, Iterable

from . import chirp_requests, container_shim, launch, processes, rights
from .chirp_writes import Desk, Writes
from .container_shim import ContainerShim
from .launch import Order, StartError
from .mover import Mover
from .process_trees import ProcessTrees
from .processes import Process
from .records import Record
from .scratch import size_kb
from .usage_meter import Result

_MEASURE_REST = 20  #: a directory tree is measured again after this many times what measuring it took
FIRST_RETRY_US = 2_000  #: the pause before processes that refuse to die are looked for again; it doubles
LAST_RETRY_US = 1_000_000


def clock() -> int:
    """Return microseconds since the epoch, for reports."""
    return time.time_ns() // 1000


def ticker() -> int:
    """Return microseconds of the monotonic clock, for due times."""
    return time.monotonic_ns() // 1000


class SupervisedJob:
    """One job: from its claim until its end is recorded. One that transfers its files has a mover first, then its own
    process, then a mover again; ``pid`` is that of the one that is there."""

    def __init__(self, order: Order, number: int, directory: str) -> None:
        self.key: str = order["key"]
        self.limits: dict[str, int | None] = order["limits"]
        self.kill_signals: dict[str, int] = order["kill_signals"]
        self.attended: bool = order.get("attended", False)  # an older pool does not say
        self.order = order if order["transfer"] else None  # what is still to be done of it
        self.account = rights.of(order.get("account"))  # as whom it runs, if not as this process's user
        self.files = rights.of(order.get("files"))  # whose the files are that it brings and takes back
        users = [rights.uid for rights in (self.account, self.files) if rights is not None]
        self.users = frozenset(users if self.account else [*users, os.geteuid()])  # as whom its processes run
        self.dedicated = bool(order["account"] and order["account"]["dedicated"]) if self.account else False
        self.number = number
        self.directory = directory
        self.mover: Mover | None = None  # while its files move
        self.said: Result | None = None  # what that has said
        self.keeper: ContainerShim | None = None  # of its container
        self.chirp: Process | None = None  # what answers its condor_chirp
        self.writes: Writes | None = None  # what it wrote with that
        self.childless = False  # whether its mover was its only process, and is at rest
        self.moves: list[Record] = []
        self.failure: Record | None = None  # of a transfer
        self.outcome: Record | None = None  # the record of its end, if it did not come to its own
        self.given_up = False  # whether its files are to stay where they are
        self.over = False  # whether nothing more is to begin
        self.begins = -1  # where its process says why it could not begin, if it has not done so at once
        self.core = ""  # its core file, by the name that it has for good
        self.name, self.iwd = str(order["job"]), str(order["iwd"])
        self.pid = self.started = self.at = self.began = 0
        self.outputs: list[str] = []
        self.output_kb = 0
        self.suspended = False
        self.told_to_end = False
        self.leaves = False  # whether it is told to end because it was removed: nothing of it is kept
        self.checkpoints = 0  # how many it has taken
        self.violated = ""
        self.user_us = 0
        self.system_us = 0
        self.peak_kb = 0
        self.largest_rss_kb = 0  # of a process that was reaped
        self.disk_kb = self.moved_kb = 0
        self.measuring = False
        self.measure_at = 0
        self.status = 0
        self.ended = 0
        self.retry_at = 0
        self.retry_us = FIRST_RETRY_US
        self.final: Generator[None, None, None] | None = None

    @property
    def way(self) -> str:
        """Of its last transfer: input, output, checkpoint."""
        way: str = self.moves[-1]["way"]
        return way

    def moves_by(self, mover: Mover, way: str, at: int) -> None:
        """Its files are on their way: ``evict`` is output that goes to its spool directory, for its next run."""
        self.mover, self.said, self.pid, self.started = mover, None, mover.pid, mover.started
        self.childless = False
        move: Record = {"way": "output" if way == "evict" else way, "began": at}
        if way == "checkpoint":
            self.checkpoints += 1
            move["number"] = self.checkpoints
            if self.moves and self.way == "checkpoint":  # a pool that was gone hears of the last one
                self.moves.pop()
        self.moves.append(move | ({"kept": True} if way == "evict" else {}))
        self.retry_at, self.retry_us = 0, FIRST_RETRY_US

    def moved(self, at: int) -> None:
        """Its transfer is over: take what was said of it."""
        result, self.mover = self.said, None
        if result is not None:
            failure = result.pop("failure", None)
            self.moved_kb = result.pop("moved_kb", 0)
            if not self.moves[-1].get("kept"):  # a run that begins anew is no reason for a hold
                self.failure = failure
            self.moves[-1].update(result, ended=at, **({"failed": True} if failure else {}))

    def begin(self, order: Order, execute: str, notes: str, trees: ProcessTrees) -> None:
        """Start its own process, and before that what answers its condor_chirp. ``notes``: the directory of notes on
        containers. Raise `StartError`."""
        if order.get("chirp") and self.chirp is None:
            self._begin_chirp(order, trees)
        try:
            self._begin(order, execute, notes)
        except StartError:
            self.end_chirp()
            raise

    def _begin(self, order: Order, execute: str, notes: str) -> None:
        """``output_kb`` is what its outputs have on the disk before it can write: that is not its own."""
        apart = order.get("container") or self.account
        streams = [] if apart else launch.open_streams(order, self.directory)
        try:
            with rights.acting(None if order.get("container") else self.account):
                output_kb = files_kb(launch.outputs(order, kept=bool(apart)))
            at = clock()
            processes.bequeath(self.number)
            if order.get("container"):
                variables = launch.environment(order, execute, self.directory)
                self.keeper = container_shim.fork(order, self.number, self.directory, variables, notes)
                pid = self.keeper.pid
            elif self.account is not None:
                pid, self.begins = launch.begin_as(self.account, order, self.directory, execute)
            else:
                variables = launch.environment(order, execute, self.directory)
                pid = launch.spawn(order, variables, self.directory, streams)
        finally:
            launch.close(streams)
        process = processes.read(pid)
        assert process is not None, "a child that is not reaped is always there"
        self.pid, self.started, self.at, self.began, self.ended = pid, process.started, at, ticker(), 0
        self.childless = False
        self.outputs = [path for path in launch.outputs(order) if not path.startswith(f"{self.directory}/")]
        self.output_kb = output_kb
        self.retry_at, self.retry_us = 0, FIRST_RETRY_US

    def _begin_chirp(self, order: Order, trees: ProcessTrees) -> None:
        iwd = (self.order or order)["iwd"]
        try:
            with rights.acting(self.account):
                listener, cookie = chirp_requests.listen(self.directory)
            user = self.files if self.order else self.account
            processes.bequeath(0)
            with listener:
                pid, way = chirp_requests.fork(
                    listener, cookie, iwd, lambda way: Desk(order["job_ad"], order["chirp"], way),
                    lambda: None if user is None else rights.become(user),
                )  # fmt: skip
        except OSError as error:
            raise launch.failure("scratch", error, "condor_chirp's port") from None
        self.writes = Writes(way, order["chirp"]["most"])
        self.chirp = processes.read(pid)
        assert self.chirp is not None, "a child that is not reaped is always there"
        trees.leave_alone(pid, self.chirp.started)

    def end_chirp(self) -> None:
        """End what answers its condor_chirp."""
        if self.chirp is not None:
            processes.send(self.chirp.pid, self.chirp.started, signal.SIGKILL)
            self.chirp = None
        if self.writes is not None:
            self.writes.close()

    def has_begun(self) -> None:
        """Its process, which was long in beginning, has ended: hear whether it ever began."""
        if self.begins < 0:
            return
        said, self.begins = self.begins, -1
        try:
            launch.read_start_reply(said)
        except StartError as error:
            self.outcome, self.given_up = failed(self.key, error, self.moves), True

    def name_core(self) -> None:
        """Name a core file of its process after the job, where core files of others may come, too. Of a job that finds
        its files where they are only one that its process has left now is its own."""
        if self.mover is not None or not self.at or self.core or not (self.order or os.WCOREDUMP(self.status)):
            return
        where, new = self.directory if self.order else self.iwd, f"core.{self.name}"
        with contextlib.suppress(OSError), rights.acting(self.account):
            for old in (f"core.{self.pid}", "core"):
                with contextlib.suppress(FileNotFoundError):
                    if stat.S_ISREG(os.lstat(f"{where}/{old}").st_mode):
                        os.rename(f"{where}/{old}", f"{where}/{new}")
                        self.core = new
                        return

    def tell_container(self, words: str) -> bool:
        """Tell the keeper of a container that has no processes here what to do; return whether there is one. Who is to
        kill it once more is killed itself."""
        keeper = self.keeper
        if keeper is None or not keeper.note or self.mover is not None or (words == "kill 9" and keeper.killed):
            return False
        keeper.killed = words == "kill 9"
        keeper.tell(words)
        return True

    def uses(self, family: Iterable[Process]) -> tuple[int, int, int, int]:
        """Return its resident and virtual memory, and its user and system time: of its processes, or of its
        container, of whose memory only the resident is known."""
        if self.keeper is not None and self.keeper.note:
            self.keeper.listen()
            used = self.keeper.usage
            return used.get("rss_kb", 0), used.get("rss_kb", 0), used.get("user_us", 0), used.get("system_us", 0)
        sums = [(process.rss_kb, process.image_kb, process.user_us, process.system_us) for process in family]
        rss, image, user_us, system_us = (sum(each) for each in zip(*sums, strict=True)) if sums else (0, 0, 0, 0)
        return rss, image, self.user_us + user_us, self.system_us + system_us

    def is_out(self, now: int, trees: ProcessTrees) -> bool:
        """Return whether nothing is left of its container, now that its process has ended; else see that it is
        removed."""
        keeper = self.keeper
        if keeper is None:
            return True
        if not keeper.left:
            self._left(keeper)
            return True
        sweeper = keeper.sweep()
        if sweeper is not None and (process := processes.read(sweeper.pid)) is not None:
            trees.leave_alone(process.pid, process.started)
        self.retry_at, self.retry_us = now + self.retry_us, min(self.retry_us * 2, LAST_RETRY_US)
        return False

    def _left(self, keeper: ContainerShim) -> None:
        """Its container has ended, and is gone: take what its keeper said."""
        keeper.listen()
        self.keeper = None
        if keeper.note:
            used = keeper.usage
            self.user_us, self.system_us = used.get("user_us", 0), used.get("system_us", 0)
            self.peak_kb, self.largest_rss_kb = used.get("peak_kb", 0), 0
        said = keeper.failed
        if said and said["part"] == "memory":
            self.violated = "memory"
        elif said:
            moves = {"moves": self.moves} if self.moves else {}
            self.outcome = {"say": "failed", "key": self.key, **said, "at": clock(), **moves}
            self.given_up = True

    @property
    def next_move(self) -> str:
        """What is to be done with its files now that its process has ended: output (they go to where they belong),
        checkpoint or evict (they are kept for its next process, or run), nothing (empty)."""
        assert self.order is not None
        transfer = self.order["transfer"]
        if self.given_up or self.violated or self.leaves:
            return ""
        if self.told_to_end:
            return "evict" if transfer.get("on_evict") else ""
        return "checkpoint" if self._took_a_checkpoint(transfer.get("checkpoint")) else "output"

    def _took_a_checkpoint(self, promised: dict[str, int] | None) -> bool:
        """Tell whether its process ended as the job has promised for a checkpoint: by a code, or by a signal."""
        if promised is None:
            return False
        if "signal" in promised:
            return os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == promised["signal"]
        return os.WIFEXITED(self.status) and os.WEXITSTATUS(self.status) == promised["code"]

    @property
    def failed(self) -> bool:
        """Whether it has not come to what its submitter calls a success, who wants outputs of a success alone."""
        assert self.order is not None
        success: int | None = self.order["transfer"]["success"]
        return success is not None and not (os.WIFEXITED(self.status) and os.WEXITSTATUS(self.status) == success)

    def state(self) -> Record:
        """Return what it is at."""
        moves = {"moves": self.moves} if self.moves else {}
        if self.at:
            return {"say": "running", "key": self.key, "pid": self.pid, "at": self.at, **moves, **self.written()}
        return {"say": "transferring", "key": self.key, **moves}

    def written(self) -> Record:
        """Return what it wrote with condor_chirp, as a part of a record."""
        writes = self.writes.all() if self.writes is not None else []
        return {"writes": writes} if writes else {}

    def spent(self, usage: resource.struct_rusage) -> None:
        """Add the usage of a reaped process of the job, its own reaped children included."""
        self.user_us += round(usage.ru_utime * 1e6)
        self.system_us += round(usage.ru_stime * 1e6)
        self.largest_rss_kb = max(self.largest_rss_kb, usage.ru_maxrss)

    def measure(self) -> Generator[None, None, None]:
        """Bring ``disk_kb`` up to date, in steps."""
        self.measuring = True
        began = ticker()
        steps = size_kb(self.directory)
        inside = yield from (steps if self.account is None else rights.in_steps(self.account, steps))
        with rights.acting(self.account):
            self.disk_kb = inside + self.moved_kb + max(0, files_kb(self.outputs) - self.output_kb)
        self.measure_at = ticker() + (ticker() - began) * _MEASURE_REST
        self.measuring = False

    def record(self, floor_kb: int) -> Record:
        """Return the record of its end. ``floor_kb``: a spawned process counts its parent's memory as its own until its
        exec."""
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
            "core": os.WCOREDUMP(self.status),
            **({"core_file": f"{self.iwd}/{self.core}"} if self.core else {}),
            "at": self.ended,
            "violated": self.violated,
            **(self._transferred() if self.order else {}),
        }

    def _transferred(self) -> Record:
        """Return what else is recorded of a job with files: its own begin, too, since a pool that hears of its end
        only has to tell when its files moved before that."""
        done = bool(self.moves) and "ended" in self.moves[-1] and self.failure is None
        came = done and bool(self.at)
        returned = done and self.moves[-1]["way"] == "output"
        undelivered = not (returned or (came and (self.told_to_end or self.violated)))
        said: Record = {"moves": self.moves, "pid": self.pid, "began": self.at, "undelivered": undelivered}
        return said | ({"failure": self.failure} if self.failure else {})


def began(job: SupervisedJob) -> Record:
    return {**job.state(), "say": "started"} if job.mover is None else moving(job)


def moving(job: SupervisedJob) -> Record:
    return {"say": "transferring", "key": job.key, "moves": job.moves}


def failed(key: str, error: StartError, moves: list[Record] | None = None) -> Record:
    told = {"part": error.part, "errno": error.number, "reason": error.reason, **({"moves": moves} if moves else {})}
    return {"say": "failed", "key": key, **told, "at": clock(), **({"machine": True} if error.machine else {})}


def files_kb(paths: Iterable[str]) -> int:
    """Return the disk space of files in KiB, 0 for missing ones."""
    blocks = 0
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            blocks += os.stat(path).st_blocks
    return blocks // 2
