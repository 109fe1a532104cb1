"""The two pools, as the stories use them: where files are, and how commands are called."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from .. import forked
from ..pool.real import POOLBOOK, Folder, environment
from .cases import FILES, FOLDERS, LINKS

USERS = {"BESIDE_ONE": "one", "BESIDE_TWO": "two"}
"""Variables of the submitting user."""


class Pool(Protocol):
    """A running pool."""

    home: Path  #: the stories' folders, by their path on this machine
    shown: str  #: the same, by the pool's path
    user: str  #: the owner of the jobs

    @property
    def uid(self) -> int:
        """The user's uid."""

    def processes(self) -> list[int]:
        """The pool's processes, without jobs' processes."""

    def command(self, name: str, *arguments: str, folder: str = ".") -> str:
        """Call a command as the user, in a folder below the home; return its output."""


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def create_folder(folder: Path, uid: int) -> None:
    """Create a job's folder with the files that the submit files name."""
    folder.mkdir(parents=True)
    for name in FOLDERS:
        (folder / name).mkdir()
    for name, (mode, text) in FILES.items():
        (folder / name).write_text(text)
        (folder / name).chmod(mode)
    for name, target in LINKS.items():
        (folder / name).symlink_to(target)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)


CONF = """\
NUM_CPUS = 100
MEMORY = 40000
JOB_DEFAULT_REQUESTMEMORY = 100
MachineMaxVacateTime = 5
PERIODIC_EXPR_INTERVAL = 1
SCHEDD_INTERVAL = 1
START = true
RUNBENCHMARKS = false
SUBMIT_TEMPLATE_NAMES = Beside
SUBMIT_TEMPLATE_Beside @=end
  arguments = $(1) $(2) $(own) $(0#)
  +Template = "$(2?) $(3:none)"
@end
SYSTEM_PERIODIC_HOLD_NAMES = Large
SYSTEM_PERIODIC_HOLD_Large = SystemHold =?= true && JobStatus == 2
SYSTEM_PERIODIC_HOLD_Large_REASON = strcat("too large: ", Size)
SYSTEM_PERIODIC_HOLD_Large_SUBCODE = 7 * 6
SYSTEM_PERIODIC_HOLD = SystemUnnamed =?= true
SYSTEM_PERIODIC_RELEASE = SystemRelease =?= true
SYSTEM_PERIODIC_REMOVE = SystemRemove =?= true && JobStatus == 2
SYSTEM_PERIODIC_VACATE = SystemVacate =?= true && NumShadowStarts < 2
PREEMPT = TARGET.TooSmall =?= true
WANT_SUSPEND = false
WANT_HOLD = TARGET.TooSmall =?= true
WANT_HOLD_REASON = "too small"
WANT_HOLD_SUBCODE = 102
"""
"""Both pools' configuration."""


class Own:
    """A Poolbook pool, served in a folder."""

    user = pwd.getpwuid(os.getuid()).pw_name
    uid = os.getuid()

    def __init__(self, path: Path) -> None:
        self._folder = Folder(path)
        self._session = forked.Session()
        self.home = path / "home"
        self.home.mkdir()
        self.shown = str(self.home)

    @contextmanager
    def served(self, text: str = CONF) -> Iterator[Own]:
        """Serve the pool with this configuration for the duration of the context."""
        self._folder.write("pool.conf", text)
        try:
            with self._folder.served("-config", "pool.conf", "-dialect", "htcondor-25") as server:
                self._server = server.pid
                yield self
        finally:
            self._session.close()
            self._folder.kill_everything()

    def processes(self) -> list[int]:
        lock = self._folder.path / "pool.db.d/lock"
        supervisor = int(lock.read_text()) if lock.exists() else 0
        return [self._server, *([supervisor, *_children(supervisor)] if supervisor else [])]

    def command(self, name: str, *arguments: str, folder: str = ".") -> str:
        variables = {**environment(), **USERS, "POOLBOOK_LOG": str(self._folder.path / "pool.db")}
        completed = self._session.run([*POOLBOOK, name, *arguments], cwd=self.home / folder, env=variables, timeout=300)
        return completed.stdout + completed.stderr


class Real:
    """A pool of HTCondor daemons, in the folder in which ``script`` has built it."""

    user = "alice"

    def __init__(self, folder: Path, script: str) -> None:
        self.folder, self._script = folder, script
        self.home = folder / f"root/home/{self.user}/beside"
        self.shown = f"/home/{self.user}/beside"

    @contextmanager
    def served(self, conf: Path, text: str = CONF) -> Iterator[Real]:
        """Run the pool with this configuration for the duration of the context, without data of earlier runs."""
        conf.write_text(text)
        self._do("down", str(self.folder))
        for place in ("root/var/log/condor", "root/var/spool/condor", "root/var/lib/condor/spool"):
            for path in (self.folder / place).glob("*"):
                if path.is_file():
                    path.unlink()
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir()
        os.chown(self.home, self.uid, self.uid)
        try:
            output = self._do("up", str(self.folder), str(conf))
            if not self._answers():  # a pool that was not stopped properly takes a second start
                self._do("down", str(self.folder))
                output += self._do("up", str(self.folder), str(conf))
            assert self._answers(), output
            yield self
        finally:
            self._do("down", str(self.folder))
            shutil.rmtree(self.home)  # programs that read all logs in the users' homes would read these

    def _answers(self) -> bool:
        return "@" in self._do("run", str(self.folder), "condor_status", "-any", "-af", "Name")

    @property
    def uid(self) -> int:
        """The user's uid on the daemons' system."""
        users = (self.folder / "root/etc/passwd").read_text()
        match = re.search(rf"^{self.user}:[^:]*:(\d+):", users, re.MULTILINE)
        assert match is not None
        return int(match[1])

    def processes(self) -> list[int]:
        names = {path.parent.name: path.read_text() for path in Path("/proc").glob("[0-9]*/comm")}
        return [int(pid) for pid, name in names.items() if name.startswith("condor_")]

    def _do(self, *arguments: str) -> str:
        completed = subprocess.run(["bash", self._script, *arguments], capture_output=True, text=True, timeout=300)
        return completed.stdout + completed.stderr

    def command(self, name: str, *arguments: str, folder: str = ".") -> str:
        called = shlex.join(["condor_vacate_job" if name == "vacate" else f"condor_{name}", *arguments])
        variables = " ".join(f"{name}={value}" for name, value in USERS.items())
        return self._do("as", self.user, str(self.folder), f"cd beside/{folder} && {variables} {called}")
