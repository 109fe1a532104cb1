"""A real HTCondor pool is followed while it runs jobs, and audited at its end (`make realpool`).

POOLBOOK_REALPOOL is the folder of a pool, and POOLBOOK_REALPOOL_SCRIPT the script that builds and runs it.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..pool.real import Folder

pytestmark = pytest.mark.realpool

CONF = """\
NUM_CPUS = 4
MEMORY = 4000
MachineMaxVacateTime = 5
JOB_DEFAULT_REQUESTMEMORY = 100
"""
SLEEP = """\
executable = /bin/sleep
arguments = {seconds}
log = /home/{user}/job.log
max_retries = 0
queue {count}
"""


class Pool:
    """A real pool, and what is done with it."""

    def __init__(self, folder: Path, script: str) -> None:
        self.folder, self._script = folder, script
        self.logs = folder / "root/var/log/condor"
        self.spool = folder / "root/var/spool/condor"

    def do(self, *words: str) -> str:
        done = subprocess.run(["bash", self._script, *words], capture_output=True, text=True, timeout=300)
        return done.stdout + done.stderr

    def root(self, *command: str) -> str:
        return self.do("run", str(self.folder), *command)

    def submit(self, user: str, seconds: int, count: int = 1) -> int:
        """The number of the cluster."""
        home = self.folder / f"root/home/{user}"
        (home / "job.sub").write_text(SLEEP.format(user=user, seconds=seconds, count=count))
        said = self.do("as", user, str(self.folder), "condor_submit", "job.sub")
        found = re.search(r"submitted to cluster (\d+)", said)
        assert found is not None, said
        return int(found[1])

    def until(self, constraint: str, command: str = "condor_q -all -allusers", patience: float = 60) -> None:
        """Wait until a job is as `constraint` says."""
        end = time.monotonic() + patience
        while not self.root(*command.split(), "-constraint", constraint, "-af", "ClusterId").strip():
            assert time.monotonic() < end, f"no job became {constraint}"
            time.sleep(1)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    folder = Path(os.environ["POOLBOOK_REALPOOL"]).resolve()
    found = Pool(folder, os.environ["POOLBOOK_REALPOOL_SCRIPT"])
    (tmp_path / "scenario.conf").write_text(CONF)
    said = "" if (folder / "root/usr/sbin/condor_startd").exists() else found.do("build", str(folder))
    found.do("down", str(folder))
    for file in [*found.logs.glob("*"), *found.spool.glob("*"), *folder.glob("root/home/*/job.log")]:
        if file.is_file():
            file.unlink()
    try:
        for _ in range(2):  # a pool that was not stopped properly takes a second start
            said += found.do("up", str(folder), str(tmp_path / "scenario.conf"))
            if found.root("condor_status", "-schedd", "-af", "Name").strip():
                break
            said += found.do("down", str(folder))
        else:
            pytest.fail(f"the pool does not begin:\n{said}")
        yield found
    finally:
        found.do("down", str(folder))


def lives(pool: Pool) -> None:
    """What users and an administrator do to the pool: some of everything that ends or moves a job."""
    short = pool.submit("alice", 4, 3)
    long = pool.submit("bob", 300, 4)
    pool.until(f"ClusterId == {long} && JobStatus == 2")
    pool.root("condor_hold", f"{long}.0")
    pool.root("condor_rm", f"{long}.1")
    pool.until(f"ClusterId == {long} && JobStatus == 5")
    pool.root("condor_release", f"{long}.0")
    pool.until(f"ClusterId == {short}", "condor_history")
    pool.until(f"ClusterId == {long} && JobStatus == 2")
    pool.root("condor_vacate_job", f"{long}.2")
    time.sleep(3)
    pool.root("condor_drain", "-graceful", "localhost")
    time.sleep(3)
    pool.root("condor_drain", "-cancel", "localhost")
    pool.root("condor_vacate", "-all")
    time.sleep(5)
    pool.root("condor_rm", "-all")
    time.sleep(5)
    last = pool.submit("alice", 1)
    pool.until(f"ClusterId == {last}", "condor_history")


def test_a_pool_that_is_followed_while_it_runs_is_sound_and_fully_told(pool: Pool, tmp_path: Path) -> None:
    folders = [str(pool.logs), str(pool.spool), *map(str, pool.folder.glob("root/home/*"))]
    here = Folder(tmp_path)
    following = here.start("follow", *folders, "-log", "audit.db", "-zone", "UTC")
    lives(pool)
    pool.do("down", str(pool.folder))
    time.sleep(5)
    following.send_signal(2)
    told, _ = following.communicate(timeout=60)
    assert "violation" not in told, told
    assert "contradiction" not in told, told

    # What the follower did in pieces is what an import of all does at once.
    here.call("import", *folders, "-log", "whole.db", "-zone", "UTC")
    audits = [here.json("audit", name) for name in ("audit.db", "whole.db")]
    for audit in audits:
        audit.pop("events")
        audit.pop("log", None)
    assert audits[0] == audits[1]
    audit = audits[0]
    assert [audit[name] for name in ("violations", "contradictions", "quarantined", "seal")] == [[], [], [], []]
    lines = "".join(path.read_text() for path in sorted(pool.logs.glob("StartLog*"), reverse=True))
    plain = len(re.findall(r": Changing (?:state|activity)", lines)) + len(
        re.findall(r"no longer needed, delet", lines)
    )
    assert sum(audit["transitions"].values()) == plain
    assert plain > 20
    ended = [path.read_text().count("\n005 (") for path in pool.folder.glob("root/home/*/job.log")]
    assert audit["jobs"]["completed"] == sum(ended) == 4
