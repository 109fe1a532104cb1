"""Property and golden: processes open one log in turn, none loses it while it has it open, and none waits for dead
processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook import AlreadyServed, Log, LogError, Pool
from poolbook.domain.events import ClusterSubmitted

from .. import forked
from ..stores.places import DURABLE, POSTGRES, Place, place_of
from .real import PATIENCE, POOLBOOK, Folder

WORK = {"executable": "/bin/work"}
IN_TURN = f"""
import sys
from poolbook import Behaviour, Pool
for _ in range(int(sys.argv[2])):
    with Pool.open(sys.argv[1], user="alice", uid_domain="x.org", behave=lambda launch: Behaviour(60), wait=60) as pool:
        print(pool.submit({WORK}), flush=True)
        pool.advance(1)
"""
HOLDING = f"""
import sys, time
from poolbook import Pool
pool = Pool.open(sys.argv[1], user="alice", uid_domain="x.org")
print(pool.submit({WORK}), flush=True)
time.sleep(1000)
"""


@pytest.fixture(params=DURABLE)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place_of(request.param, tmp_path) as log_place:
        yield log_place


def process_with_open_log(url: str) -> forked.Process:
    """Run a process that has the log open and has submitted a cluster to it."""
    process = forked.start(["-c", HOLDING, url])
    assert process.stdout is not None and process.stdout.readline() == "1\n"
    return process


def test_no_open_of_several_processes_is_lost(place: Place) -> None:
    processes = [forked.start(["-c", IN_TURN, place.url, "6"]) for _ in range(3)]
    printed_outputs = [process.communicate(PATIENCE) for process in processes]
    assert [error for _, error in printed_outputs] == [""] * 3
    clusters = sorted(int(line) for out, _ in printed_outputs for line in out.split())
    assert clusters == list(range(1, 19))
    with Log.open(place.url) as log:
        submitted_clusters = [event.cluster for _, event in log.events() if isinstance(event, ClusterSubmitted)]
        assert sorted(submitted_clusters) == clusters and log.verify().sound


def test_an_open_pool_is_never_taken_away_and_the_error_names_its_process(place: Place) -> None:
    process = process_with_open_log(place.url)
    try:
        start_time = time.monotonic()
        with pytest.raises(AlreadyServed, match=rf"process {process.pid}\b.* has it open in a pool.*wait longer"):
            Pool.open(place.url, wait=0.2)
        assert time.monotonic() - start_time >= 0.2
        with Log.open(place.url) as log:
            assert len(log.jobs()) == 1
    finally:
        process.kill()
        process.communicate(PATIENCE)
    with Pool.open(place.url, wait=60) as pool:  # immediately: a lock ends with its process
        assert len(pool.jobs()) == 1


if POSTGRES:

    @pytest.mark.parametrize("place", ["postgresql"], indirect=True)
    def test_a_log_on_a_server_names_the_process_of_another_machine(
        place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "there"))
        process = process_with_open_log(place.url)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
        try:
            with pytest.raises(AlreadyServed, match=f"process {process.pid} on {os.uname().nodename}"):
                Pool.open(place.url, wait=0)
        finally:
            process.kill()
            process.communicate(PATIENCE)
        Pool.open(place.url, wait=60).close()


def test_a_served_log_is_not_opened_and_its_server_is_named(folder: Folder) -> None:
    with folder.served() as server, pytest.raises(AlreadyServed, match=f"process {server.pid} already serves the log"):
        Pool.open(folder.path / "pool.db", wait=0)
    Pool.open(folder.path / "pool.db").close()


def test_a_command_waits_while_a_pool_is_open_and_a_pool_while_a_command_writes(
    folder: Folder,
) -> None:
    url = str(folder.path / "pool.db")
    with Pool.open(url) as pool:
        pool.submit(WORK)
        command = forked.start([*POOLBOOK, "hold", "1", "-log", url])
        assert pool.submit(WORK) == 2 and pool.jobs("JobStatus == 5") == []
        folder.wait_for(lambda: has_open(command.pid, Path(f"{url}.lock")))  # it is waiting for the lock
    with Pool.open(url) as pool:
        assert command.communicate(PATIENCE)[0] == "All jobs in cluster 1 have been held\n"
        assert len(pool.jobs()) == 2


def has_open(pid: int, path: Path) -> bool:
    return any(fd.resolve() == path.resolve() for fd in Path(f"/proc/{pid}/fd").iterdir())


def test_a_pool_of_real_jobs_answers_commands_while_it_runs(folder: Folder) -> None:
    url = str(folder.path / "pool.db")
    with Pool.open(url, execute=True) as pool:
        pool.add_machine("here", cpus=1, memory=512)
        pool.submit("executable = /bin/true\nhold = true\nqueue\n", folder=folder.path)
        command = forked.start([*POOLBOOK, "rm", "1", "-log", url])
        until = time.monotonic() + PATIENCE
        while pool.jobs() and time.monotonic() < until:
            pool.advance(0.1)
        assert command.communicate(PATIENCE) == ("All jobs in cluster 1 have been marked for removal\n", "")


WORKERS = f"""
import multiprocessing, sys
from poolbook import Behaviour, Pool
def request(url):
    with Pool.open(url, user="alice", behave=lambda launch: Behaviour(60)) as pool:
        return pool.submit({WORK})
with Pool.open(sys.argv[1], user="alice", uid_domain="x.org") as pool:
    pool.submit({WORK})
with multiprocessing.get_context("fork").Pool(3) as workers:
    print(*sorted(workers.map(request, [sys.argv[1]] * 9, chunksize=1)))
"""


def test_workers_forked_before_the_pool_was_opened_take_turns(place: Place) -> None:
    """Like gunicorn's workers, each opens the log for each request. Their parent is a separate process: forked from the
    tests' own, they would have what other tests left there, for example threads' locks."""
    completed = forked.run(["-c", WORKERS, place.url])
    assert (completed.stdout, completed.stderr) == (" ".join(map(str, range(2, 11))) + "\n", "")


def test_a_pool_is_not_opened_where_no_lock_can_be_made(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="does not exist"):
        Pool.open(tmp_path / "nowhere" / "pool.db")
    (tmp_path / "pool.db.lock").mkdir()
    with pytest.raises(LogError, match=r"pool\.db\.lock cannot be written"):
        Pool.open(tmp_path / "pool.db")
