"""Specification: an `Executor` runs calls as jobs, and behaves like the executors of `concurrent.futures`."""

from __future__ import annotations

import concurrent.futures as futures
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from poolbook import Behaviour, Client, Executor, JobFailed, LogError, Pool, Refusal, UnknownThingError, events

from ..web.client import http_service
from .real import PATIENCE, Folder

Owner = Client | Pool | str


@contextmanager
def served_pool(folder: Folder, *options: str) -> Iterator[tuple[Owner, Client]]:
    with folder.served("-cpus", "4", *options), Client(folder.path / "pool.db") as client:
        yield client, client


@contextmanager
def path_of_served_pool(folder: Folder) -> Iterator[tuple[Owner, Client]]:
    with served_pool(folder) as (_, client):
        yield str(folder.path / "pool.db"), client


@contextmanager
def pool_in_process(folder: Folder) -> Iterator[tuple[Owner, Client]]:
    with Pool.open(folder.path / "pool.db", execute=True) as pool, Client(folder.path / "pool.db") as client:
        pool.add_machine(cpus=4, memory="2 GB")
        yield pool, client


@contextmanager
def pool_over_http(folder: Folder) -> Iterator[tuple[Owner, Client]]:
    with served_pool(folder) as (_, client), http_service(folder.path / "pool.db", folder.path) as service:
        yield service.url, client


POOLS = [served_pool, path_of_served_pool, pool_in_process, pool_over_http]


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "the condition was not met"
        time.sleep(0.02)


@pytest.mark.parametrize("owner", POOLS)
def test_results_and_exceptions_of_calls_come_back(owner: Any, folder: Folder) -> None:
    with owner(folder) as (pool, client), Executor(pool, request_memory=64) as executor:
        power = executor.submit(pow, 2, exp=10)
        failing = executor.submit(int, "no number")
        lambda_call = executor.submit(lambda: (os.getpid(), sys.executable, os.getcwd(), sys.path))
        assert power.result(PATIENCE) == 1024
        with pytest.raises(ValueError, match="invalid literal") as caught:
            failing.result(PATIENCE)
        assert "The call failed in a job" in caught.value.__notes__[0]
        pid, interpreter, directory, path = lambda_call.result(PATIENCE)
        assert pid != os.getpid() and (interpreter, directory) == (sys.executable, os.getcwd())
        assert set(filter(None, sys.path)) <= set(path)
        jobs = [executor.job(future) for future in (power, failing, lambda_call)]
        assert client.wait(constraint="true", timeout=PATIENCE)
        history = client.history()
        assert sorted(f"{job['ClusterId']}.{job['ProcId']}" for job in history) == sorted(map(str, jobs))
        assert {job["RequestMemory"] for job in history} == {64}


def test_items_are_mapped_in_order_and_in_batches(folder: Folder) -> None:
    with pool_in_process(folder) as (pool, client), Executor(pool) as executor:
        assert list(executor.map(divmod, range(10), [3] * 10, chunksize=4)) == [
            divmod(number, 3) for number in range(10)
        ]
        assert client.wait(constraint="true", timeout=PATIENCE)
        assert len(client.history()) == 3
        assert list(executor.map(abs, [])) == []
        with pytest.raises(ValueError, match="chunksize"):
            executor.map(abs, [1], chunksize=0)
        with pytest.raises(TimeoutError):
            next(executor.map(time.sleep, [1000], timeout=0.1))
        assert client.wait(constraint="true", timeout=PATIENCE)


def test_calls_that_arrive_together_are_few_events(folder: Folder) -> None:
    with served_pool(folder) as (pool, client), Executor(pool, hold=True) as executor:
        calls = [executor.submit(abs, number) for number in range(1000)]
        assert {type(call.exception(PATIENCE)) for call in calls} == {JobFailed}
        submitted = [event for _, event in client.events() if isinstance(event, events.ClusterSubmitted)]
        assert sum(event.count for event in submitted) == 1000 and len(submitted) < 100


def test_a_future_runs_when_its_job_runs_and_cancelling_removes_the_job(folder: Folder) -> None:
    with served_pool(folder) as (pool, client), Executor(pool) as executor:
        running = executor.submit(time.sleep, 1000)
        idle = executor.options(requirements="false").submit(time.sleep, 1000)
        wait_until(running.running)
        wait_until(lambda: executor.job(idle) is not None)
        assert not idle.running() and not idle.done()
        assert [future.cancel() for future in (running, idle)] == [True, True]
        assert futures.wait([running, idle], PATIENCE).not_done == set()
        for future in (running, idle):
            with pytest.raises(futures.CancelledError):
                future.result()
        assert client.wait(constraint="true", timeout=PATIENCE)
        assert {job["JobStatus"] for job in client.history()} == {3}
        done = executor.submit(abs, -1)
        assert done.result(PATIENCE) == 1 and not done.cancel()


def crash() -> None:
    print("about to crash", file=sys.stderr, flush=True)
    os._exit(3)


def test_a_job_without_result_raises_its_id_its_reason_and_the_end_of_its_stderr(folder: Folder) -> None:
    with served_pool(folder) as (pool, client), Executor(pool) as executor:
        crashed = executor.submit(crash)
        killed = executor.submit(os.kill, 0, 9)
        held = executor.options(request_memory=64, hold=True).submit(abs, 1)
        removed = executor.options(requirements="false").submit(abs, 1)
        wait_until(lambda: executor.job(removed) is not None)
        client.remove(executor.job(removed) or "", reason="enough")
        failures = [future.exception(PATIENCE) for future in (crashed, killed, held, removed)]
        jobs = [executor.job(future) for future in (crashed, killed, held, removed)]
        assert [(type(failure), failure.job) for failure in failures] == [(JobFailed, job) for job in jobs]  # type: ignore[union-attr]
        reasons = [failure.reason for failure in failures]  # type: ignore[union-attr]
        assert reasons[:2] == ["ended with code 3", "was killed by signal 9"]
        assert reasons[2].startswith("was held: submitted on hold") and "enough" in reasons[3]
        assert str(failures[0]) == f"job {jobs[0]} ended with code 3; its stderr ends with:\nabout to crash\n"
        copied = pickle.loads(pickle.dumps(failures[0]))
        assert (str(copied), copied.stderr) == (str(failures[0]), "about to crash\n")
        assert client.wait(constraint="true", timeout=PATIENCE)


def test_results_that_cannot_be_pickled_are_exceptions(folder: Folder) -> None:
    with pool_in_process(folder) as (pool, _), Executor(pool) as executor:
        error = executor.submit(threading.Lock).exception(PATIENCE)
        assert isinstance(error, TypeError) and "pickle" in str(error)
        with pytest.raises((TypeError, pickle.PicklingError)):
            executor.submit(print, threading.Lock())


def test_functions_are_pickled_by_the_standard_library_without_cloudpickle(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pool_in_process(folder) as (pool, _), Executor(pool) as executor:
        assert executor.submit(pow, 3, 3).result(PATIENCE) == 27
        with pytest.raises((AttributeError, pickle.PicklingError)):
            executor.submit(lambda: 1)


def test_a_shut_down_executor_waits_for_its_calls_and_accepts_no_more(folder: Folder, tmp_path: Path) -> None:
    calls_folder = tmp_path / "calls"
    with served_pool(folder) as (pool, client):
        executor = Executor(pool, folder=calls_folder)
        call = executor.submit(time.sleep, 0.2)
        executor.shutdown()
        assert call.done() and [path.name for path in calls_folder.iterdir()] == ["worker.py"]
        with pytest.raises(RuntimeError, match="shut down"):
            executor.submit(abs, 1)
        executor = Executor(pool, requirements="false")
        waiting = [executor.submit(abs, number) for number in range(3)]
        wait_until(lambda: executor.job(waiting[-1]) is not None)
        executor.shutdown(cancel_futures=True)
        assert all(future.cancelled() for future in waiting)
        assert client.wait(constraint="true", timeout=PATIENCE)


def test_invalid_arguments_and_rejected_submissions_are_errors(folder: Folder) -> None:
    with pytest.raises(LogError):
        Executor(folder.path / "missing.db")
    with Pool.open(behave=lambda launch: Behaviour(seconds=1)) as virtual, pytest.raises(Refusal, match="execute=True"):
        Executor(virtual)
    with pool_in_process(folder) as (pool, client), Executor(pool) as executor:
        with pytest.raises(ValueError, match="executable"):
            executor.options(executable="/bin/sh")
        rejected = executor.options(request_memory="plenty of").submit(abs, 1)
        assert "request_memory" in str(rejected.exception(PATIENCE))
        assert executor.submit(abs, -1).result(PATIENCE) == 1
        assert executor.job(futures.Future()) is None
        with pytest.raises(UnknownThingError):
            client.output("9.0")


def test_calls_fail_when_their_pool_is_gone(folder: Folder) -> None:
    client = Client(_founded(folder))
    executor = Executor(client)
    call = executor.submit(abs, 1)
    wait_until(lambda: executor.job(call) is not None)
    client.close()
    assert isinstance(call.exception(PATIENCE), LogError)
    executor.shutdown()


def _founded(folder: Folder) -> str:
    url = str(folder.path / "pool.db")
    Pool.open(url).close()
    return url


def test_calls_and_results_are_transferred_to_and_from_a_directory_of_the_job(folder: Folder) -> None:
    (folder.path / "data.txt").write_text("data")
    commands = {"should_transfer_files": "YES", "transfer_input_files": str(folder.path / "data.txt")}
    with served_pool(folder) as (pool, _), Executor(pool, **commands) as executor:
        files = executor.submit(lambda: sorted(os.listdir(os.environ["_CONDOR_SCRATCH_DIR"]))).result(PATIENCE)
        assert {"data.txt", "worker.py"} < set(files)
        assert executor.submit(pow, 2, 5).result(PATIENCE) == 32
