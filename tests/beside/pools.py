"""The two pools, as the stories see them: where files are, and how commands are called."""

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
"""Variables of the user who submits."""


class Pool(Protocol):
    """A pool at work."""

    home: Path  #: where the stories' folders are, as seen from here
    shown: str  #: the same, as the pool names it
    user: str  #: whose jobs these are

    @property
    def uid(self) -> int:
        """The user's number."""

    def processes(self) -> list[int]:
        """The processes that are the pool, without the jobs'."""

    def command(self, name: str, *words: str, where: str = ".") -> str:
        """Call a command as the user, in a folder below the home; return what it prints."""


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def furnish(folder: Path, uid: int) -> None:
    """Make a job's folder with the files that the submit files name."""
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
    """A pool of ours, served in a folder."""

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
        """Serve it meanwhile by this configuration."""
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

    def command(self, name: str, *words: str, where: str = ".") -> str:
        variables = {**environment(), **USERS, "POOLBOOK_LOG": str(self._folder.path / "pool.db")}
        done = self._session.run([*POOLBOOK, name, *words], cwd=self.home / where, env=variables, timeout=300)
        return done.stdout + done.stderr


class Real:
    """A pool of HTCondor's daemons, in the folder in which ``script`` has built it."""

    user = "alice"

    def __init__(self, folder: Path, script: str) -> None:
        self.folder, self._script = folder, script
        self.home = folder / f"root/home/{self.user}/beside"
        self.shown = f"/home/{self.user}/beside"

    @contextmanager
    def served(self, conf: Path, text: str = CONF) -> Iterator[Real]:
        """Have it run meanwhile by this configuration, with nothing of earlier runs."""
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
            said = self._do("up", str(self.folder), str(conf))
            if not self._answers():  # a pool that was not stopped properly takes a second start
                self._do("down", str(self.folder))
                said += self._do("up", str(self.folder), str(conf))
            assert self._answers(), said
            yield self
        finally:
            self._do("down", str(self.folder))
            shutil.rmtree(self.home)  # who reads all logs in the users' homes would read these

    def _answers(self) -> bool:
        return "@" in self._do("run", str(self.folder), "condor_status", "-any", "-af", "Name")

    @property
    def uid(self) -> int:
        """The user's number, where the daemons run."""
        users = (self.folder / "root/etc/passwd").read_text()
        found = re.search(rf"^{self.user}:[^:]*:(\d+):", users, re.MULTILINE)
        assert found is not None
        return int(found[1])

    def processes(self) -> list[int]:
        names = {path.parent.name: path.read_text() for path in Path("/proc").glob("[0-9]*/comm")}
        return [int(pid) for pid, name in names.items() if name.startswith("condor_")]

    def _do(self, *words: str) -> str:
        done = subprocess.run(["bash", self._script, *words], capture_output=True, text=True, timeout=300)
        return done.stdout + done.stderr

    def command(self, name: str, *words: str, where: str = ".") -> str:
        called = shlex.join(["condor_vacate_job" if name == "vacate" else f"condor_{name}", *words])
        variables = " ".join(f"{name}={value}" for name, value in USERS.items())
        return self._do("as", self.user, str(self.folder), f"cd beside/{where} && {variables} {called}")
