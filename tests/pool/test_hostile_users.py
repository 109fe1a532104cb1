"""golden: what a user of a pool for all users does to harm the others, or the pool, and that these go on as before."""

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
from .test_users import CONF, OTHER, OWNER, ForAll

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can serve a pool for all users")

DEDICATED = pwd.getpwnam("uucp")  # of nobody else, whose processes would be stopped and killed with the job's


@pytest.fixture(scope="module")
def pool() -> Iterator[ForAll]:
    with folder_of_all() as folder:
        folder.path.chmod(0o755)
        served = ForAll(folder.path)
        served.path.chmod(0o755)
        served.write("pool.conf", f"{CONF}DEDICATED_EXECUTE_ACCOUNT_REGEXP = {DEDICATED.pw_name}\n")
        with served.served("-users", "-config", "pool.conf"):
            yield served


def test_a_program_that_has_become_a_fifo_keeps_nobody_waiting(pool: ForAll) -> None:
    """The server looks into a program that cannot be executed, for the interpreter that its first line names."""
    cluster = pool.submit(OWNER, "true", "hold = true")
    program = pool.home(OWNER) / f"{pool.name}.sh"
    program.unlink()
    os.mkfifo(program, 0o777)
    assert "released" in pool.says(OWNER, "release", str(cluster))
    assert pool.ends(cluster) == "5 6"
    assert pool.ran(OTHER, "echo on") == ["on"]


@contextmanager
def leased(user: pwd.struct_passwd, path: Path) -> Iterator[None]:
    """Have a process of the user's that has a lease of a file meanwhile."""
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


def test_a_program_that_its_user_keeps_from_being_opened_keeps_nobody_else_waiting(pool: ForAll) -> None:
    """Who has a lease of a file (fcntl(2)) makes others wait that open it, as a file system of a user's own would."""
    cluster = pool.submit(OWNER, "echo ran", "hold = true")
    name, home = pool.name, pool.home(OWNER)
    with leased(OWNER, home / f"{name}.sh"):
        pool.says(OWNER, "release", str(cluster))
        pool.wait_for((home / f"{name}.out").exists)
        assert pool.ran(OTHER, "echo on") == ["on"]
        assert (home / f"{name}.out").read_text() == ""
    assert pool.ends(cluster) == ""
    assert (home / f"{name}.out").read_text() == "ran\n"


def test_a_process_that_bears_the_number_of_another_users_job_is_none_of_that_jobs(pool: ForAll) -> None:
    """Numbers can be read by all, in /proc/PID/limits, and each process can give itself another one."""
    victim = pool.submit(OTHER, "echo $$ > victim; sleep 1000")
    there = pool.home(OTHER) / "victim"
    pool.wait_for(lambda: there.exists() and there.read_text().endswith("\n"))
    pid = there.read_text().strip()
    script = (
        f"n=$(sed -n 's/^Max realtime timeout *\\([0-9]*\\).*/\\1/p' /proc/{pid}/limits); cd $_CONDOR_JOB_IWD\n"
        '(env -i prlimit --rttime=$n: setsid sh -c "echo \\$\\$ > thief; exec sleep 1000" &)\n'
        "while ! [ -s thief ]; do sleep 0.01; done; sleep 1.5"
    )
    assert pool.ran(OWNER, script) == []
    assert not runs(int((pool.home(OWNER) / "thief").read_text()))
    assert pool.says(None, "q", "-allusers", str(victim), "-af", "JobStatus") == "2\n"
    pool.says(OTHER, "rm", str(victim))


def test_a_dedicated_account_that_stops_all_its_processes_keeps_nobody_waiting(pool: ForAll) -> None:
    """Among them is the one that is to kill them, which is theirs while it does so."""
    waits = "until test -s stops; do sleep 0.01; done"
    script = f'p=$$; sh -c "{waits}; kill -9 $p; while :; do kill -s STOP -- -1; done" & echo $! > stops; wait'
    cluster = pool.submit(DEDICATED, script)
    assert pool.ends(cluster) == ""
    assert not runs(int((pool.home(DEDICATED) / "stops").read_text()))
    assert pool.ran(OTHER, "echo on") == ["on"]


def test_a_deep_directory_in_the_spool_is_removed_and_what_others_keep_there_too(pool: ForAll) -> None:
    deep = "mkdir -p $(printf 'd/%.0s' $(seq 1200))"
    more = "should_transfer_files = YES\ncheckpoint_exit_code = 85\ntransfer_checkpoint_files = "
    for user, made, script in ((OWNER, "d", deep), (OTHER, "kept", "echo > kept")):
        cluster = pool.submit(user, f"test -e {made} && exit 0; {script}; exit 85", more + made)
        assert pool.ends(cluster) == "", (made, pool.says(None, "why", f"{cluster}.0"))
    pool.wait_for(lambda: not list(pool.path.glob("pool.db.spool/*/*")))
