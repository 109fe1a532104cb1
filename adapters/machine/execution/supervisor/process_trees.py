"""Map processes to jobs: every descendant of every job, including daemons in separate sessions.

The supervisor is a subreaper, so a process descends from a job if, and only if, its chain of parents leads here. The
first of these rules that applies finds its job:

1. the parent's job;
2. session or process group: a job's own process leads its own;
3. the number that marks the job's processes, if the process runs as a user of that job: any process may set another
number for itself, and every process can read a job's number;
4. none: an orphan that created a session and changed its number. It is a *stray* of all jobs of its user that ran when
it started (of all jobs, if none of them is its user's), and is killed with the last of them.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable

from . import processes
from .processes import Process
from .records import ActivationClaim

_NUMBERS = 10**9  #: maximum number of jobs of one supervisor
_TRIES = 4  #: how often to restart a walk up the parents when one vanishes, before the next refresh


class ProcessTrees:
    """The processes of the running jobs. Call ``refresh`` before a query."""

    def __init__(self, own_pid: int) -> None:
        self._own = own_pid
        # A job may run a pool with another supervisor: the pid keeps their numbers apart.
        self._next = own_pid * _NUMBERS
        self._numbers: dict[int, str] = {}
        self._mains: dict[int, str] = {}
        self._jobs: dict[str, tuple[int, int, int]] = {}  # each job's own process: pid, start time and number
        self._users: dict[str, frozenset[int]] = {}  # by job: the users that its processes run as
        self._members: dict[int, tuple[int, str]] = {}
        self._of: dict[str, set[int]] = {}
        self._strays: dict[int, tuple[int, set[str]]] = {}
        # Processes that belong to no job; with their start time, since pids are reused.
        self._foreign: dict[int, int] = {}
        if (process := processes.read_process(own_pid)) is not None:
            self._foreign[own_pid] = process.started

    def number(self) -> int:
        """Return a number for the processes of the next job."""
        self._next += 1
        return self._next

    def add_process(self, key: str, pid: int, started: int, number: int, users: frozenset[int]) -> None:
        """Add a job's own process, marked with this number, in place of its previous process; ``users`` are the users
        that its processes run as."""
        if key in self._jobs:
            self.remove_job(key)
        self.forget(pid)
        self._users[key] = users
        self._mains[pid] = key
        self._jobs[key] = (pid, started, number)
        self._numbers[number] = key
        self._of[key] = set()
        self._join(pid, started, key)

    def leave_alone(self, pid: int, started: int) -> None:
        """Ignore a child of the supervisor: it is not, or no longer, a job's process."""
        self.forget(pid)
        self._foreign[pid] = started

    def remove_job(self, key: str) -> None:
        """Remove a job without living processes."""
        for pid in self._of.pop(key):
            del self._members[pid]
        main_pid, _, number = self._jobs.pop(key)
        del self._numbers[number], self._users[key]
        if self._mains[main_pid] == key:  # otherwise another job now has its pid
            del self._mains[main_pid]
        for pid, (started, keys) in list(self._strays.items()):
            keys.discard(key)
            if len(keys) == 1:
                del self._strays[pid]
                self._join(pid, started, *keys)

    def refresh(self, closely: bool = False) -> None:
        """Find new processes. With ``closely``, also notice a foreign pid that was reused."""
        present_pids = processes.all_pids()
        for known_pids in (self._members, self._strays, self._foreign):
            for pid in known_pids.keys() - present_pids:
                self.forget(pid)
        if closely:
            for pid, started in list(self._foreign.items()):
                process = processes.read_process(pid)
                if process is None or process.started != started:
                    self.forget(pid)
        for pid in sorted(present_pids - self._members.keys() - self._strays.keys() - self._foreign.keys()):
            self._place(pid)

    def refresh_orphans(self) -> None:
        """Find new processes of jobs whose own process is reaped. They descend from children of this process, so search
        all processes only if it has other children than the own processes of running jobs, and helper processes."""
        pids = processes.children(self._own)
        if pids is None or not all(
            pid in self._foreign or (pid in self._mains and pid in self._members) for pid in pids
        ):
            self.refresh()

    def forget(self, pid: int) -> None:
        """Forget a process that has ended: another process may receive its pid."""
        self._foreign.pop(pid, None)
        self._strays.pop(pid, None)
        member = self._members.pop(pid, None)
        if member is not None:
            self._of[member[1]].discard(pid)

    def live_processes(self, key: str) -> list[Process]:
        """Return the living processes of a job, as of the last refresh."""
        live_processes = []
        for pid in list(self._of.get(key, ())):
            process = processes.read_process(pid)
            if process is None or process.started != self._members[pid][0]:
                self.forget(pid)
            elif not process.dead:
                live_processes.append(process)
        return live_processes

    def owner(self, pid: int) -> str | None:
        """Return the job of an ended child that is not yet reaped."""
        if pid not in self._members and pid not in self._foreign:
            self._place(pid)
        return self._members[pid][1] if pid in self._members else None

    def signal(self, key: str, number: int) -> int:
        """Signal all living processes of a job; return how many received the signal."""
        return sum(processes.send_signal(process.pid, process.started, number) for process in self.live_processes(key))

    def _place(self, pid: int) -> None:
        """Find the job of a process, and of its unknown ancestors."""
        for _ in range(_TRIES):
            line: list[Process] = []
            process = processes.read_process(pid)
            while process is not None and process.pid != self._own:
                line.append(process)
                if process.parent in (0, self._own) or self._is_known(process.parent):
                    break
                process = processes.read_process(process.parent)
            if not line or process is not None:
                break  # a vanished parent's child has a new parent: read again
        else:
            return
        if line:
            self._settle(line)

    def _settle(self, line: list[Process]) -> None:
        top_process = line[-1]
        if top_process.parent in self._members:
            self._join_all(line, self._members[top_process.parent][1])
        elif top_process.parent in self._strays:
            self._stray_all(line, self._strays[top_process.parent][1])
        elif top_process.parent != self._own:
            self._foreign.update((process.pid, process.started) for process in line)
        elif key := self._mains.get(top_process.session) or self._mains.get(top_process.group):
            self._join_all(line, key)
        else:
            self._settle_orphan(top_process, line)

    def _settle_orphan(self, orphan: Process, line: list[Process]) -> None:
        key, user = self._numbers.get(processes.mark_number(orphan.pid) or 0), processes.user(orphan.pid)
        if key is not None and user in self._users[key]:
            self._join_all(line, key)
            return
        keys = {key for key, (_, began, _) in self._jobs.items() if began <= orphan.started}
        self._stray_all(line, {key for key in keys if user in self._users[key]} or keys)

    def _stray_all(self, line: list[Process], keys: set[str]) -> None:
        if len(keys) == 1:
            self._join_all(line, *keys)
        elif not keys:  # the process belonged to a job that has ended
            for process in line:
                processes.send_signal(process.pid, process.started, signal.SIGKILL)
        else:
            self._strays.update((process.pid, (process.started, set(keys))) for process in line)

    def _join_all(self, line: Iterable[Process], key: str) -> None:
        for process in line:
            self._join(process.pid, process.started, key)

    def _join(self, pid: int, started: int, key: str) -> None:
        self._members[pid] = (started, key)
        self._of[key].add(pid)

    def _is_known(self, pid: int) -> bool:
        return pid in self._members or pid in self._strays or pid in self._foreign


# The jobs that a killed predecessor left behind.
#
# Only the parent receives exit codes, and it has ended, so the jobs' results could not be trusted. So the jobs are
# killed, with all their descendants, and reported as lost. Nothing else happens before that, so that a restarted job
# never runs twice at the same time.


_UNMARKED_S = 0.1  #: the longest time between fork and exec, when a process is not yet marked
_PAUSE_S = 0.005

_RESTARTED = "the machine was restarted while it ran"
_UNWATCHED = "its supervisor was killed while it ran, so its exit code is unknown; its processes were killed"


def end_orphaned_jobs(claims: dict[str, ActivationClaim], execute: str, boot: str) -> dict[str, str]:
    """Kill the processes of these claims; return why each activation is lost."""
    losses = {key: _RESTARTED if claim.boot not in ("", boot) else _UNWATCHED for key, claim in claims.items()}
    unwatched = {key: claim for key, claim in claims.items() if losses[key] is _UNWATCHED}
    if any(claim.pid == 0 for claim in unwatched.values()):
        time.sleep(_UNMARKED_S)
    while unwatched and (live_processes := _find_living(unwatched, execute)):
        for process in live_processes:
            processes.send_signal(process.pid, process.started, signal.SIGKILL)
        time.sleep(_PAUSE_S)
    return losses


def _find_living(claims: dict[str, ActivationClaim], execute: str) -> list[Process]:
    """Return the claims' own processes, those marked with their numbers or keys, and all their descendants."""
    table = {pid: process for pid in processes.all_pids() if (process := processes.read_process(pid)) is not None}
    own_keys = {(claim.pid, claim.started) for claim in claims.values()}
    numbers = {claim.number for claim in claims.values() if claim.pid}

    def belongs(process: Process) -> bool:
        return (
            (process.pid, process.started) in own_keys
            or processes.mark_number(process.pid) in numbers
            or processes.marked_activation(process.pid, execute) in claims
        )

    pids = {process.pid for process in table.values() if belongs(process)}
    while more_pids := {process.pid for process in table.values() if process.parent in pids} - pids:
        pids |= more_pids
    return [table[pid] for pid in sorted(pids) if not table[pid].dead]
