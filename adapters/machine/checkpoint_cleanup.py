"""Delete checkpoints at their URLs, with the programs that CHECKPOINT_DESTINATION_MAPFILE names.

The manifests of the checkpoints to delete are in a directory next to the job's spool directory: CLEANUP while the job
is in the queue, ENDED afterwards. A manifest is removed when all its files are deleted. What remains is tried again
when the pool is served, and each PREEN_INTERVAL.

Source: checkpoint_cleanup_utils.cpp and deleteFilesStoredAt (manifest.cpp) in HTCondor; the manual's
"Self-Checkpointing Jobs".
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final

from attrs import define, field

from ...domain.settings_classes import setting
from ...domain.state.user_maps import DEFAULT_METHOD, read_map
from ..replaced_files import replace_file
from .execution.supervisor.file_pieces import check_name
from .execution.supervisor.rights import UserIds, acting_as
from .execution.supervisor.url_checkpoints import CLEANUP, FAILURE, MANIFEST, listed_files, number_of, retire
from .execution.supervisor.usage_meter import TransferError

ENDED: Final = ".ended"
_AD, _URL = ".job.ad", ".poolbook-url"
_OWN: Final = "cleanup_locally_mounted_checkpoint"  #: HTCondor's program, which Poolbook replaces if it is missing
_QUOTED: Final = 500  #: the characters of a program's output in a failure


class CleanupError(Exception):
    """A checkpoint could not be deleted."""


@define
class CleanupSettings:
    mapfile: str = field(default="", metadata=setting("CHECKPOINT_DESTINATION_MAPFILE", str))
    libexec: str = field(default="", metadata=setting("LIBEXEC", str))
    file_s: int = field(default=20, metadata=setting("CHECKPOINT_CLEANUP_TIMEOUT", int))  #: for each file
    job_s: int = field(default=300, metadata=setting("SCHEDD_CHECKPOINT_CLEANUP_TIMEOUT", int))  #: for each job
    interval_s: int = field(default=86_400, metadata=setting("PREEN_INTERVAL", int))  #: until another try (0: none)


class CheckpointCleanup:
    """Deletes checkpoints in a thread. ``rights_of`` returns the rights for a job's spool directory, ``remove`` removes
    a directory, ``waiting`` lists the spool directories of all jobs with checkpoints to delete; ``report`` is called in
    the thread, with a spool directory, the numbers of deleted checkpoints, and why others could not be deleted."""

    def __init__(
        self,
        rights_of: Callable[[str], UserIds | None],
        remove: Callable[[str], None],
        waiting: Callable[[], Iterable[str]],
    ) -> None:
        self._rights_of, self._remove, self._waiting = rights_of, remove, waiting
        self.settings = CleanupSettings()
        self.report: Callable[[str, tuple[int, ...], str], None] = lambda spool, numbers, failure: None
        self._jobs: SimpleQueue[tuple[str, bool]] = SimpleQueue()
        self._thread: Thread | None = None
        self._failures: dict[str, str] = {}  # the last one reported for each spool directory

    def prepare(self, spool: str, url: str, job_ad: str) -> None:
        """Note where a job's checkpoints will be, and its ad for the programs. Raise `OSError` if that fails."""
        with acting_as(self._rights_of(spool)):
            os.makedirs(f"{spool}{CLEANUP}", 0o700, exist_ok=True)
            replace_file(Path(f"{spool}{CLEANUP}/{_AD}"), job_ad)
            replace_file(Path(f"{spool}{CLEANUP}/{_URL}"), url)

    def start(self, spool: str, has_ended: bool) -> None:
        """Delete a job's checkpoints: all if it has left the queue, otherwise the failed and old ones."""
        self._jobs.put((spool, has_ended))
        if self._thread is None:
            self._thread = Thread(target=self._work, daemon=True, name="checkpoint cleanup")
            self._thread.start()

    def _work(self) -> None:
        while True:
            try:
                spool, has_ended = self._jobs.get(timeout=self.settings.interval_s or None)
            except Empty:
                for spool in self._waiting():
                    self._jobs.put((spool, False))
                continue
            try:
                self._clean(spool, has_ended)
            except OSError as error:
                self._report(spool, (), str(error))

    def _report(self, spool: str, numbers: tuple[int, ...], failure: str) -> None:
        """Report deleted checkpoints, and a failure unless it is the same as in the last attempt."""
        if numbers or failure != self._failures.get(spool, ""):
            self.report(spool, numbers, failure)
        self._failures[spool] = failure

    def _clean(self, spool: str, has_ended: bool) -> None:
        rights, ended_folder = self._rights_of(spool), f"{spool}{ENDED}"
        if has_ended and os.path.isdir(f"{spool}{CLEANUP}"):
            with acting_as(rights):
                if os.path.isdir(spool):
                    retire(spool, 0)
                os.rename(f"{spool}{CLEANUP}", ended_folder)
            self._remove(spool)
        folder = ended_folder if os.path.isdir(ended_folder) else f"{spool}{CLEANUP}"
        with acting_as(rights):
            manifests = [name for name in os.listdir(folder) if _number(name) >= 0]
            url = Path(folder, _URL).read_text() if manifests else ""
        deleted, failure, until = [], "", time.monotonic() + self.settings.job_s
        for name in sorted(manifests, key=_number):
            try:
                self._delete(folder, name, f"{url}/{_number(name):04}", rights, until)
                deleted.append(_number(name))
            except (CleanupError, TransferError) as error:
                failure = failure or str(error)
        self._report(spool, tuple(deleted), failure)
        if folder == ended_folder and not failure:
            del self._failures[spool]
            self._remove(folder)

    def _delete(self, folder: str, manifest: str, url: str, rights: UserIds | None, until: float) -> None:
        """Delete the files of a checkpoint, then its manifest. Raise `CleanupError` or `TransferError`."""
        program, *options = self._command(url)
        with acting_as(rights):
            names = [name for _, name in listed_files(Path(folder, manifest).read_bytes())]
        for name in names:
            check_name(name)
            arguments = [*options, "-from", url, "-delete", name, "-jobad", f"{folder}/{_AD}"]
            if manifest.startswith(FAILURE):
                arguments.append("-ignore-missing-files")
            if not os.path.exists(program) and os.path.basename(program) == _OWN:
                with acting_as(rights):
                    _delete_mounted(arguments)
            else:
                _run([program, *arguments], rights, min(self.settings.file_s, until - time.monotonic()))
        with acting_as(rights), suppress(FileNotFoundError):
            os.unlink(f"{folder}/{manifest}")

    def _command(self, url: str) -> list[str]:
        """Return the program that deletes what is at a URL, and its options. Raise `CleanupError`."""
        path = self.settings.mapfile
        try:
            entries = read_map(Path(path).read_text(), is_prefix=True)
        except (OSError, UnicodeDecodeError) as error:
            raise CleanupError(f"CHECKPOINT_DESTINATION_MAPFILE {path} cannot be read: {error}") from None
        lookup = entries.get(DEFAULT_METHOD)
        program, *options = re.split(r"[,\s]+", (lookup(url) if lookup else "") or "")
        if not program:
            raise CleanupError(f"CHECKPOINT_DESTINATION_MAPFILE {path} has no line for {url}")
        return [os.path.join(self.settings.libexec, program), *options]


def _number(name: str) -> int:
    return max(number_of(name, MANIFEST), number_of(name, FAILURE))


def _run(command: list[str], rights: UserIds | None, seconds: float) -> None:
    """Run a program as the owner of the checkpoint. Raise `CleanupError` if it fails."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", start_new_session=True,
                user=rights and rights.uid, group=rights and rights.gid, extra_groups=rights and rights.groups,
            )  # fmt: skip
            status = process.wait(max(0.0, seconds))
        except OSError as error:
            raise CleanupError(f"{command[0]} cannot be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise CleanupError(f"{' '.join(command)} did not end in time") from None
        if status:
            output.seek(0)
            text = output.read(_QUOTED).decode(errors="replace").strip()
            raise CleanupError(f"{' '.join(command)} ended with {status}: {text}")


def _delete_mounted(arguments: list[str]) -> None:
    """Delete a file in a mounted file system, and the directories that this leaves empty, up to that of the job. Raise
    `CleanupError` if that fails."""
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    if not {"-prefix", "-path"} <= options.keys() or not options["-from"].startswith(options["-prefix"]):
        raise CleanupError(f"{_OWN} needs -prefix, with which {options['-from']} begins, and -path")
    checkpoint = Path(options["-path"], options["-from"].removeprefix(options["-prefix"]).lstrip("/"))
    file = checkpoint / options["-delete"]
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise CleanupError(f"{file} cannot be deleted: {error.strerror}") from None
    with suppress(OSError):
        for parent in file.parents:
            parent.rmdir()  # fails if it contains other files
            if parent == checkpoint.parent:
                return
