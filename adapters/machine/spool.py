"""The pool's spool: a directory for each job of which something is kept until it leaves the queue.

The supervisor's movers fill them (``execution/supervisor/spool.py``). They stand in HTCondor's layout, so that neither
clusters nor jobs of one become too many for a directory: CLUSTER % 10000, PROC % 10000, clusterN.procM.subproc0. The
spool is ``spool`` in the pool's folder; where SPOOL names a directory, a link to this pool's own part of that. That is
closed to others: where root serves the jobs of other users, the movers have these users' rights, and each user has a
directory in one beside the folder, which is passable.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Final

from ...domain.config import Configuration
from ...domain.events import Event, JobsTransitioned, Procs
from ...domain.state_machines.job_rows import LEFT
from .execution import UnixAccount
from .execution.supervisor.rights import UserIds, acting
from .execution.supervisor.scratch import remove_now
from .starter import make_execute, own_part

SPOOL: Final = "SPOOL"
_WIDTH: Final = 10_000  #: directories in one, at most
_OF_A_JOB: Final = re.compile(r"cluster([0-9]{1,10})\.proc([0-9]{1,10})\.subproc0(?:\.tmp|\.swap)?", re.ASCII)


class Spool:
    """The spool in a pool's folder. Directories are removed by a thread: one may hold many files."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "spool"
        self.of_users = folder.with_name(f"{folder.name.removesuffix('.d')}.spool")
        self._users: set[int] = set()
        self._waste: SimpleQueue[str] = SimpleQueue()
        self._remover: Thread | None = None

    def configure(self, configuration: Configuration) -> None:
        """Use the directory that SPOOL names. Raise `ConfigError` if it cannot be used, or files are kept in another
        one."""
        if configuration.source(SPOOL).kind == "default":
            return
        named = configuration.get(SPOOL)
        try:
            own = own_part(named, self.root.parent)
            self._place(own)
        except OSError as error:
            words = f"{SPOOL} = {named}: {error.strerror}: jobs' files are kept below it; make it, or name another"
            raise configuration.error(SPOOL, words) from None

    def _place(self, own: str) -> None:
        """Make the spool a link to this directory, unless it is that already. Raise `OSError`."""
        if os.path.realpath(self.root) == os.path.realpath(own):
            return
        if self.root.is_symlink():
            if any(self.jobs()):
                raise OSError(0, f"files of jobs are kept in {os.path.realpath(self.root)} until these leave the queue")
            self.root.unlink()
        elif self.root.is_dir():
            if any(self.jobs()):
                raise OSError(0, f"files of jobs are kept in {self.root} until these leave the queue")
            shutil.rmtree(self.root)
        self.root.symlink_to(own)

    def path(self, cluster: int, proc: int, user: UnixAccount | None = None) -> str:
        """Return a job's directory, which there need not be. ``user``: whose its files are, if not this process's
        user's; there is a directory for what is that user's. Raise `ValueError` if that cannot be made."""
        root = self.root if user is None else self._of_user(user)
        name = f"cluster{cluster}.proc{proc}.subproc0"
        return str(root / str(cluster % _WIDTH) / str(proc % _WIDTH) / name)

    def _of_user(self, user: UnixAccount) -> Path:
        own = self.of_users / str(user.uid)
        if user.uid not in self._users:
            try:
                make_execute(str(self.of_users), passable=True)
                if not own.is_dir():
                    os.mkdir(own, 0o700)
                    os.chown(own, user.uid, user.gid)
            except OSError as error:
                raise ValueError(f"{own} cannot be used: {error.strerror}") from None
            self._users.add(user.uid)
        return own

    def _roots(self) -> list[str]:
        return [str(self.root), *_entries(self.of_users)]

    def jobs(self) -> Iterator[tuple[int, int, str]]:
        """Yield the cluster, the process number and the path of each directory, those that a killed process has left
        half made included."""
        for root in self._roots():
            for bucket in _entries(root):
                yield from self._in(bucket)

    def _in(self, bucket: str) -> Iterator[tuple[int, int, str]]:
        for procs in _entries(bucket):
            for path in _entries(procs):
                if found := _OF_A_JOB.fullmatch(os.path.basename(path)):
                    yield int(found[1]), int(found[2]), path

    def follow(self, _: int, events: Sequence[Event]) -> None:
        """Take the events that were appended: what is kept of jobs that leave the queue is removed."""
        for event in events:
            if isinstance(event, JobsTransitioned) and event.target == LEFT:
                self.left(event.cluster, event.procs)

    def left(self, cluster: int, procs: Procs) -> None:
        """Jobs have left the queue: nothing is kept of them any longer."""
        for root in self._roots():
            self._discard(
                path
                for number, proc, path in self._in(f"{root}/{cluster % _WIDTH}")
                if number == cluster and any(first <= proc <= last for first, last in procs)
            )

    def sweep(self, in_queue: Callable[[int, int], bool]) -> None:
        """Remove what belongs to jobs that are not in the queue: a pool that was killed did not come to it."""
        self._discard(path for cluster, proc, path in self.jobs() if not in_queue(cluster, proc))

    def _discard(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._waste.put(path)
            if self._remover is None:
                self._remover = Thread(target=self._remove, daemon=True, name="spool")
                self._remover.start()

    def _remove(self) -> None:
        while True:
            self.remove(self._waste.get())

    def remove(self, path: str) -> None:
        """Remove a job's directory, and those around it that are empty then: with the rights of the user whose it is,
        who may have put links into its path."""
        with suppress(OSError), acting(self._rights_for(path)):
            remove_now(path)
            for above in (os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
                os.rmdir(above)  # fails if another job's stands there

    def _rights_for(self, path: str) -> UserIds | None:
        """Return whose rights a directory is removed with; None: those of this process."""
        try:
            own = self.of_users / Path(path).relative_to(self.of_users).parts[0]
        except ValueError:
            return None
        found = own.stat(follow_symlinks=False)
        return UserIds(found.st_uid, found.st_gid) if found.st_uid != os.geteuid() else None


def _entries(folder: str | Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
