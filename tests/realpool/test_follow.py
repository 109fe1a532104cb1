"""Follow an HTCondor pool while it runs jobs, and audit it at the end (`make realpool`).

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
    """An HTCondor pool."""

    def __init__(self, folder: Path, script: str) -> None:
        self.folder, self._script = folder, script
        self.logs = folder / "root/var/log/condor"
        self.spool = folder / "root/var/spool/condor"

    def run_script(self, *arguments: str) -> str:
        process = subprocess.run(["bash", self._script, *arguments], capture_output=True, text=True, timeout=300)
        return process.stdout + process.stderr

    def run_as_root(self, *command: str) -> str:
        return self.run_script("run", str(self.folder), *command)

    def submit(self, user: str, seconds: int, count: int = 1) -> int:
        """Submit jobs and return the cluster number."""
        home = self.folder / f"root/home/{user}"
        (home / "job.sub").write_text(SLEEP.format(user=user, seconds=seconds, count=count))
        output = self.run_script("as", user, str(self.folder), "condor_submit", "job.sub")
        match = re.search(r"submitted to cluster (\d+)", output)
        assert match is not None, output
        return int(match[1])

    def wait_until(self, constraint: str, command: str = "condor_q -all -allusers", patience: float = 60) -> None:
        """Wait until a job matches `constraint`."""
        end = time.monotonic() + patience
        while not self.run_as_root(*command.split(), "-constraint", constraint, "-af", "ClusterId").strip():
            assert time.monotonic() < end, f"no job became {constraint}"
            time.sleep(1)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    folder = Path(os.environ["POOLBOOK_REALPOOL"]).resolve()
    pool = Pool(folder, os.environ["POOLBOOK_REALPOOL_SCRIPT"])
    (tmp_path / "scenario.conf").write_text(CONF)
    output = "" if (folder / "root/usr/sbin/condor_startd").exists() else pool.run_script("build", str(folder))
    pool.run_script("down", str(folder))
    for file in [*pool.logs.glob("*"), *pool.spool.glob("*"), *folder.glob("root/home/*/job.log")]:
        if file.is_file():
            file.unlink()
    try:
        for _ in range(2):  # a pool that was not stopped properly needs a second start
            output += pool.run_script("up", str(folder), str(tmp_path / "scenario.conf"))
            if pool.run_as_root("condor_status", "-schedd", "-af", "Name").strip():
                break
            output += pool.run_script("down", str(folder))
        else:
            pytest.fail(f"the pool does not start:\n{output}")
        yield pool
    finally:
        pool.run_script("down", str(folder))


def run_jobs_and_commands(pool: Pool) -> None:
    """Run jobs, and end or move them with commands of users and an administrator."""
    short_jobs = pool.submit("alice", 4, 3)
    long_jobs = pool.submit("bob", 300, 4)
    pool.wait_until(f"ClusterId == {long_jobs} && JobStatus == 2")
    pool.run_as_root("condor_hold", f"{long_jobs}.0")
    pool.run_as_root("condor_rm", f"{long_jobs}.1")
    pool.wait_until(f"ClusterId == {long_jobs} && JobStatus == 5")
    pool.run_as_root("condor_release", f"{long_jobs}.0")
    pool.wait_until(f"ClusterId == {short_jobs}", "condor_history")
    pool.wait_until(f"ClusterId == {long_jobs} && JobStatus == 2")
    pool.run_as_root("condor_vacate_job", f"{long_jobs}.2")
    time.sleep(3)
    pool.run_as_root("condor_drain", "-graceful", "localhost")
    time.sleep(3)
    pool.run_as_root("condor_drain", "-cancel", "localhost")
    pool.run_as_root("condor_vacate", "-all")
    time.sleep(5)
    pool.run_as_root("condor_rm", "-all")
    time.sleep(5)
    last_job = pool.submit("alice", 1)
    pool.wait_until(f"ClusterId == {last_job}", "condor_history")


def test_following_a_running_pool_gives_the_same_sound_audit_as_importing_it(pool: Pool, tmp_path: Path) -> None:
    folders = [str(pool.logs), str(pool.spool), *map(str, pool.folder.glob("root/home/*"))]
    folder = Folder(tmp_path)
    following = folder.start("follow", *folders, "-log", "audit.db", "-zone", "UTC")
    run_jobs_and_commands(pool)
    pool.run_script("down", str(pool.folder))
    time.sleep(5)
    following.send_signal(2)
    output, _ = following.communicate(timeout=60)
    assert "violation" not in output, output
    assert "contradiction" not in output, output

    # Following in steps gives the same log as importing everything at once.
    folder.call("import", *folders, "-log", "whole.db", "-zone", "UTC")
    audits = [folder.json("audit", name) for name in ("audit.db", "whole.db")]
    for audit in audits:
        audit.pop("events")
        audit.pop("log", None)
    assert audits[0] == audits[1]
    audit = audits[0]
    assert [audit[name] for name in ("violations", "contradictions", "quarantined", "seal")] == [[], [], [], []]
    lines = "".join(path.read_text() for path in sorted(pool.logs.glob("StartLog*"), reverse=True))
    logged_changes = len(re.findall(r": Changing (?:state|activity)", lines)) + len(
        re.findall(r"no longer needed, delet", lines)
    )
    assert sum(audit["transitions"].values()) == logged_changes
    assert logged_changes > 20
    ended = [path.read_text().count("\n005 (") for path in pool.folder.glob("root/home/*/job.log")]
    assert audit["jobs"]["completed"] == sum(ended) == 4
