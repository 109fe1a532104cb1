"""The pool's spool: a directory for each job whose files are kept until it leaves the queue.

The supervisor's movers fill them (``execution/supervisor/spool.py``). HTCondor's layout limits the entries of each
directory: CLUSTER % 10000, PROC % 10000, clusterN.procM.subproc0. The spool is ``spool`` in the pool's folder or, if
SPOOL names a directory, a link to this pool's own directory in that directory. Other users cannot enter it. So if root
serves the jobs of other users, each user has a directory in a separate one next to the folder, which all users may
enter, and the movers fill it with these users' rights.
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
from ...domain.events import Event, JobsTransitioned, JobTransferEnded, Procs
from ...domain.state_machines.job_rows import LEFT
from .checkpoint_cleanup import ENDED, CheckpointCleanup, CleanupSettings
from .execution.activation import UnixAccount
from .execution.supervisor.rights import UserIds, acting_as
from .execution.supervisor.scratch import remove_now
from .execution.supervisor.url_checkpoints import CLEANUP
from .starter import make_own_directory, make_private_directory

SPOOL: Final = "SPOOL"
_WIDTH: Final = 10_000  #: maximum number of entries of a directory
_OF_A_JOB: Final = re.compile(
    r"cluster([0-9]{1,10})\.proc([0-9]{1,10})\.subproc0(?:\.tmp|\.swap|\.cleanup|\.ended)?", re.ASCII
)


class Spool:
    """The spool in a pool's folder. A thread removes directories, since one may have many files."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "spool"
        self.of_users = folder.with_name(f"{folder.name.removesuffix('.d')}.spool")
        self._users: set[int] = set()
        self._waste: SimpleQueue[str] = SimpleQueue()
        self._remover: Thread | None = None
        self.cleanup = CheckpointCleanup(self._rights_to_remove, self.remove, lambda: map(_plain, self._cleanups()))

    def configure(self, configuration: Configuration) -> None:
        """Use the directory that SPOOL names. Raise `ConfigError` if the directory cannot be used, or if the previous
        spool still contains files."""
        self.cleanup.settings = CleanupSettings(**configuration.field_values(CleanupSettings))
        if configuration.source(SPOOL).kind == "default":
            return
        named = configuration.get(SPOOL)
        try:
            own_folder = make_own_directory(named, self.root.parent)
            self._link_spool(own_folder)
        except OSError as error:
            problem = f"{SPOOL} = {named}: {error.strerror}: it must exist for jobs' files; create it or name another"
            raise configuration.error(SPOOL, problem) from None

    def _link_spool(self, own_folder: str) -> None:
        """Make the spool a link to this directory, unless it already is one. Raise `OSError` if that fails."""
        if os.path.realpath(self.root) == os.path.realpath(own_folder):
            return
        if self.root.is_symlink():
            if any(self.jobs()):
                raise OSError(0, f"files of jobs are kept in {os.path.realpath(self.root)} until these leave the queue")
            self.root.unlink()
        elif self.root.is_dir():
            if any(self.jobs()):
                raise OSError(0, f"files of jobs are kept in {self.root} until these leave the queue")
            shutil.rmtree(self.root)
        self.root.symlink_to(own_folder)

    def path(self, cluster: int, proc: int, user: UnixAccount | None = None) -> str:
        """Return a job's directory, which need not exist. ``user``: the owner of its files, if not this process's user;
        create that user's part of the spool. Raise `ValueError` if that fails."""
        root = self.root if user is None else self._directory_of_user(user)
        return f"{root}/{_name_of(cluster, proc)}"

    def _directory_of_user(self, user: UnixAccount) -> Path:
        user_folder = self.of_users / str(user.uid)
        if user.uid not in self._users:
            try:
                make_private_directory(str(self.of_users), passable=True)
                if not user_folder.is_dir():
                    os.mkdir(user_folder, 0o700)
                    os.chown(user_folder, user.uid, user.gid)
            except OSError as error:
                raise ValueError(f"{user_folder} cannot be used: {error.strerror}") from None
            self._users.add(user.uid)
        return user_folder

    def _spool_roots(self) -> list[str]:
        return [str(self.root), *_entries(self.of_users)]

    def jobs(self) -> Iterator[tuple[int, int, str]]:
        """Yield the cluster, the process number and the path of each directory, including incomplete ones that a killed
        process left."""
        for root in self._spool_roots():
            for bucket in _entries(root):
                yield from self._jobs_in(bucket)

    def _jobs_in(self, bucket: str) -> Iterator[tuple[int, int, str]]:
        for procs in _entries(bucket):
            for path in _entries(procs):
                if match := _OF_A_JOB.fullmatch(os.path.basename(path)):
                    yield int(match[1]), int(match[2]), path

    def follow(self, _: int, events: Sequence[Event]) -> None:
        """Remove the spool directories of jobs that leave the queue with these events, and delete checkpoints that are
        not needed any more."""
        for event in events:
            if isinstance(event, JobsTransitioned) and event.target == LEFT:
                self.remove_jobs(event.cluster, event.procs)
            elif isinstance(event, JobTransferEnded) and (event.way == "checkpoint" or event.failed):
                for root in self._spool_roots():
                    path = f"{root}/{_name_of(event.cluster, event.proc)}"
                    if os.path.isdir(f"{path}{CLEANUP}"):
                        self.cleanup.start(path, has_ended=False)

    def remove_jobs(self, cluster: int, procs: Procs) -> None:
        for root in self._spool_roots():
            self._remove_later(
                path
                for number, proc, path in self._jobs_in(f"{root}/{cluster % _WIDTH}")
                if number == cluster and any(first <= proc <= last for first, last in procs)
            )

    def sweep(self, in_queue: Callable[[int, int], bool]) -> None:
        """Remove the directories of jobs that are not in the queue, as after the pool was killed."""
        self._remove_later(path for cluster, proc, path in self.jobs() if not in_queue(cluster, proc))
        for path in self._cleanups():
            if path.endswith(CLEANUP):
                self.cleanup.start(_plain(path), has_ended=False)

    def _cleanups(self) -> Iterator[str]:
        return (path for _, _, path in self.jobs() if path.endswith((CLEANUP, ENDED)))

    def _remove_later(self, paths: Iterable[str]) -> None:
        """Remove directories, unless they belong to a job with checkpoints at a URL: these are deleted first."""
        all_paths = list(paths)
        cleaned = {_plain(path) for path in all_paths if path.endswith((CLEANUP, ENDED))}
        for path in cleaned:
            self.cleanup.start(path, has_ended=True)
        for path in all_paths:
            if _plain(path) in cleaned:
                continue
            self._waste.put(path)
            if self._remover is None:
                self._remover = Thread(target=self._remove_queued, daemon=True, name="spool")
                self._remover.start()

    def _remove_queued(self) -> None:
        while True:
            self.remove(self._waste.get())

    def remove(self, path: str) -> None:
        """Remove a job's directory, and its parents if this leaves them empty. Use the rights of its owner, who may
        have put links into its path."""
        with suppress(OSError), acting_as(self._rights_to_remove(path)):
            remove_now(path)
            for folder_above in (os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
                os.rmdir(folder_above)  # fails if the parent contains another job's directory

    def _rights_to_remove(self, path: str) -> UserIds | None:
        """Return the user whose rights are needed to remove a directory, or None for this process's rights."""
        try:
            user_folder = self.of_users / Path(path).relative_to(self.of_users).parts[0]
        except ValueError:
            return None
        info = user_folder.stat(follow_symlinks=False)
        return UserIds(info.st_uid, info.st_gid) if info.st_uid != os.geteuid() else None


def job_of(path: str) -> tuple[int, int]:
    """Return the cluster and the process number of the job that a spool directory belongs to."""
    match = _OF_A_JOB.fullmatch(os.path.basename(path))
    assert match is not None, path
    return int(match[1]), int(match[2])


def _name_of(cluster: int, proc: int) -> str:
    return f"{cluster % _WIDTH}/{proc % _WIDTH}/cluster{cluster}.proc{proc}.subproc0"


def _plain(path: str) -> str:
    """Return the spool directory next to which this directory is."""
    head, dot, _ = path.rpartition(".subproc0")
    return f"{head}{dot}"


def _entries(folder: str | Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
