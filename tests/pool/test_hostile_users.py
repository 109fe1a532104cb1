"""golden: what a user of a pool for all users can do to harm others or the pool, and that they are not affected."""

from __future__ import annotations

import fcntl
import os
import pwd
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ..children import child
from ..execution.bench import runs
from .test_strangers import folder_of_all
from .test_users import CONF, OTHER, OWNER, PoolForAll

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can serve a pool for all users")

DEDICATED = pwd.getpwnam("uucp")  # a separate account: its processes are stopped and killed with the job's


@pytest.fixture(scope="module")
def pool() -> Iterator[PoolForAll]:
    with folder_of_all() as folder:
        folder.path.chmod(0o755)
        served = PoolForAll(folder.path)
        served.path.chmod(0o755)
        served.write("pool.conf", f"{CONF}DEDICATED_EXECUTE_ACCOUNT_REGEXP = {DEDICATED.pw_name}\n")
        with served.served("-users", "-config", "pool.conf"):
            yield served


def test_a_program_that_became_a_fifo_keeps_no_one_waiting(pool: PoolForAll) -> None:
    """If a program cannot be executed, the server reads its first line to find the interpreter."""
    cluster = pool.submit(OWNER, "true", "hold = true")
    program = pool.home(OWNER) / f"{pool.name}.sh"
    program.unlink()
    os.mkfifo(program, 0o777)
    assert "released" in pool.says(OWNER, "release", str(cluster))
    assert pool.wait_for_end(cluster) == "5 6"
    assert pool.output_of_job(OTHER, "echo on") == ["on"]


@contextmanager
def lease_held(user: pwd.struct_passwd, path: Path) -> Iterator[None]:
    """Run a process of the user's that has a lease of a file meanwhile."""
    os.chown(path, user.pw_uid, user.pw_gid)

    def lease(tell: int) -> None:
        os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
        os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        fcntl.fcntl(os.open(path, os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)
        os.write(tell, b"leased")
        signal.pause()

    with child(lease) as holder:
        assert holder.read() == b"leased"
        yield


def test_a_program_that_its_user_blocks_from_being_opened_keeps_no_one_else_waiting(pool: PoolForAll) -> None:
    """A lease of a file (fcntl(2)) makes other processes wait that open it, as a user's own file system could."""
    cluster = pool.submit(OWNER, "echo ran", "hold = true")
    name, home = pool.name, pool.home(OWNER)
    with lease_held(OWNER, home / f"{name}.sh"):
        pool.says(OWNER, "release", str(cluster))
        pool.wait_for((home / f"{name}.out").exists)
        assert pool.output_of_job(OTHER, "echo on") == ["on"]
        assert (home / f"{name}.out").read_text() == ""
    assert pool.wait_for_end(cluster) == ""
    assert (home / f"{name}.out").read_text() == "ran\n"


def test_a_process_with_the_number_of_another_users_job_does_not_belong_to_that_job(pool: PoolForAll) -> None:
    """Everyone can read the numbers in /proc/PID/limits, and each process can give itself another one."""
    victim = pool.submit(OTHER, "echo $$ > victim; sleep 1000")
    home_of_victim = pool.home(OTHER) / "victim"
    pool.wait_for(lambda: home_of_victim.exists() and home_of_victim.read_text().endswith("\n"))
    pid = home_of_victim.read_text().strip()
    script = (
        f"n=$(sed -n 's/^Max realtime timeout *\\([0-9]*\\).*/\\1/p' /proc/{pid}/limits); cd $_CONDOR_JOB_IWD\n"
        '(env -i prlimit --rttime=$n: setsid sh -c "echo \\$\\$ > thief; exec sleep 1000" &)\n'
        "while ! [ -s thief ]; do sleep 0.01; done; sleep 1.5"
    )
    assert pool.output_of_job(OWNER, script) == []
    assert not runs(int((pool.home(OWNER) / "thief").read_text()))
    assert pool.says(None, "q", "-allusers", str(victim), "-af", "JobStatus") == "2\n"
    pool.says(OTHER, "rm", str(victim))


def test_a_dedicated_account_that_stops_all_its_processes_keeps_no_one_waiting(pool: PoolForAll) -> None:
    """One of them is the process that kills the others, which belongs to the account at that time. The submission would
    be another one: the job is released after it."""
    waits = "until test -s stops; do sleep 0.01; done"
    script = f'p=$$; sh -c "{waits}; kill -9 $p; while :; do kill -s STOP -- -1; done" & echo $! > stops; wait'
    cluster = pool.submit(DEDICATED, script, "hold = true")
    assert "released" in pool.says(None, "release", str(cluster))
    assert pool.wait_for_end(cluster) == ""
    assert not runs(int((pool.home(DEDICATED) / "stops").read_text()))
    assert pool.output_of_job(OTHER, "echo on") == ["on"]


def test_a_deep_directory_in_the_spool_is_removed_and_other_files_there_too(pool: PoolForAll) -> None:
    deep = "mkdir -p $(printf 'd/%.0s' $(seq 1200))"
    more = "should_transfer_files = YES\ncheckpoint_exit_code = 85\ntransfer_checkpoint_files = "
    for user, name, script in ((OWNER, "d", deep), (OTHER, "kept", "echo > kept")):
        cluster = pool.submit(user, f"test -e {name} && exit 0; {script}; exit 85", more + name)
        assert pool.wait_for_end(cluster) == "", (name, pool.says(None, "why", f"{cluster}.0"))
    pool.wait_for(lambda: not list(pool.path.glob("pool.db.spool/*/*")))
