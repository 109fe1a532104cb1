"""Differential: a program that uses a running pool through a client gets the same results and errors as one that runs
the pool itself."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from poolbook import (
    AsyncClient,
    Behaviour,
    ClassAdSyntaxError,
    Client,
    Expr,
    LogBeginsLater,
    LogClosed,
    LogError,
    LogUnavailable,
    Pool,
    Refusal,
    SubmitError,
    SubmitWarning,
    UnknownThingError,
    events,
)
from poolbook.adapters.machine.host import host_addresses

from ..servers import web
from ..web.client import http_service, running
from .real import PATIENCE, Folder

Until = Callable[[Callable[[], bool]], None]
TIMES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?")


class Blocking:
    """An `AsyncClient` whose coroutines are run to their ends, so that a story can call it like a `Client`."""

    def __init__(self, url: str) -> None:
        self._client = AsyncClient(url)
        self._runner = asyncio.Runner()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if inspect.isasyncgenfunction(method):
                return self._runner.run(_collected(method(*arguments, **options)))
            return self._runner.run(method(*arguments, **options))

        return call

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


async def _collected(items: Any) -> list[Any]:
    return [item async for item in items]


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "the condition was not met"
        time.sleep(0.02)


@contextmanager
def embedded(folder: Folder) -> Iterator[tuple[Any, Until]]:
    with Pool.open(folder.path / "pool.db", execute=True) as pool:
        pool.add_machine(cpus=2)

        def until(condition: Callable[[], bool]) -> None:
            def is_met_later() -> bool:
                pool.advance(0.02)
                return condition()

            wait_until(is_met_later)

        yield pool, until


@contextmanager
def over_the_socket(folder: Folder) -> Iterator[tuple[Any, Until]]:
    with folder.served("-cpus", "2"), Client(folder.path / "pool.db") as client:
        yield client, wait_until


@contextmanager
def with_coroutines(folder: Folder) -> Iterator[tuple[Any, Until]]:
    with folder.served("-cpus", "2"):
        client = Blocking(str(folder.path / "pool.db"))
        yield client, wait_until
        client.close()


@contextmanager
def over_http(folder: Folder) -> Iterator[tuple[Any, Until]]:
    with (
        folder.served("-cpus", "2"),
        http_service(folder.path / "pool.db", folder.path) as service,
        Client(service.url) as client,
    ):
        yield client, wait_until


@contextmanager
def over_http_with_coroutines(folder: Folder) -> Iterator[tuple[Any, Until]]:
    with folder.served("-cpus", "2"), http_service(folder.path / "pool.db", folder.path) as service:
        client = Blocking(service.url)
        yield client, wait_until
        client.close()


KINDS = [over_the_socket, with_coroutines, over_http, over_http_with_coroutines]


def error_of(call: Callable[[], object]) -> tuple[type[Exception] | None, str]:
    """Return the class and the message of the error that a call raises, with the message's times removed. A call that
    succeeds has its result instead of a message."""
    try:
        return None, repr(call())
    except Exception as error:
        return type(error), TIMES.sub("_", str(error))


def story(pool: Any, until: Until) -> list[Any]:
    """Use a pool with one machine of two cores, and return what it answered."""
    answers: list[Any] = []
    hello = {
        "executable": "/bin/sh",
        "arguments": "\"-c 'exit 3'\"",
        "transfer_executable": "false",
        "request_memory": 1,
    }
    answers.append(pool.submit(hello, count=2))
    until(lambda: len(pool.history()) == 2)
    answers.append(sorted((job["ProcId"], job["ExitCode"], job["JobStatus"]) for job in pool.history("ExitCode == 3")))
    answers.append(pool.history("ExitCode == 0"))
    answers.append(pool.why("1.0")[0].partition(" at ")[0])
    answers.append([type(event) for _, event in pool.events(stream="1")][:1])

    text = (
        "executable = /bin/sleep\narguments = 1000\nhold = $(held)\nnote = $UNKNOWN\nqueue held from (\ntrue\nfalse\n)"
    )
    with pytest.warns(SubmitWarning) as warnings:
        answers.append(pool.submit(text))
    answers.append([str(warning.message) for warning in warnings])
    until(lambda: len(pool.jobs("JobStatus == 2")) == 1)
    answers.append([(job["ProcId"], job["JobStatus"], job["Args"]) for job in pool.jobs()])
    answers.append(pool.prio("2", value=7))
    answers.append(pool.edit("2.1", Note='a "quoted" note', Requirements=Expr("Memory > 1"), Share=0.5, Flag=True))
    answers.append(
        [(job["JobPrio"], job.get("Note"), job.get("Share"), job.get("Flag")) for job in pool.jobs("ClusterId == 2")]
    )
    answers.append(pool.release((2, 0), 2))
    answers.append(pool.hold("2.1", reason="wrong input"))
    answers.append([job["HoldReason"] for job in pool.jobs("JobStatus == 5")])
    answers.append(pool.vacate("2", constraint="JobStatus == 5"))
    until(lambda: len(pool.jobs("JobStatus == 2")) == 1)
    answers.append(pool.suspend("2.0"))
    answers.append(pool.resume("2.0"))
    (host,) = {slot["Machine"] for slot in pool.slots()}
    answers.append([(slot["Name"], slot["State"], slot["TotalCpus"]) for slot in pool.slots("!(DynamicSlot ?: false)")])
    (busy,) = (job["RemoteHost"] for job in pool.jobs("JobStatus == 2"))
    answers.append(pool.suspend_slot(busy) == [busy])
    answers.append(pool.resume_slot(host) == [busy])
    answers.append(pool.drain(host, reason="new kernel"))
    answers.append(pool.cancel_drain(host))
    submitter = pool.submitters()[0].name
    answers.append(pool.set_priority_factor(submitter, 50))
    answers.append(pool.set_ceiling(submitter, 8, duration=1000))
    answers.append(pool.set_floor(submitter, 1))
    answers.append(pool.end_lease(submitter, "ceiling"))
    answers.append([(one.name, one.factor, one.floor, one.ceiling, one.slots) for one in pool.submitters()])
    answers.append(pool.set_usage(submitter, 99))
    answers.append(pool.reset_usage())
    answers.append(list(pool.usage()))
    answers.append(pool.remove(constraint="true"))
    until(lambda: not pool.jobs())
    answers.append(sorted(job["JobStatus"] for job in pool.history("ClusterId == 2")))
    founded = next(iter(pool.events()))[1].at / 1_000_000
    answers.append([pool.jobs(at=founded), pool.history(at=founded)])
    answers.append([
        error_of(call)
        for call in (
            lambda: pool.hold("2.0"),
            lambda: pool.hold("99"),
            lambda: pool.hold("2.0", "99.1"),
            lambda: pool.hold(),
            lambda: pool.hold("not a job"),
            lambda: pool.edit("2", Note=[1]),
            lambda: pool.prio("2.0", value=1),
            lambda: pool.run_now("2"),
            lambda: pool.run_now("2.0", "2.1"),
            lambda: pool.jobs("JobPrio >"),
            lambda: pool.slots("Name =="),
            lambda: pool.jobs(at=1),
            lambda: pool.jobs(at=-1),
            lambda: pool.submit({"executable": "/bin/sh", "request_memory": "plenty"}),
            lambda: pool.submit("executable = /bin/sh\nrequest_cpus =\n"),
            lambda: pool.submit({"executable": "/bin/sh"}, count=0),
            lambda: pool.submit(7),
            lambda: pool.submit({"executable": "/bin/sh"}, count="3"),
            lambda: pool.vacate_slot("slot9@nowhere"),
            lambda: pool.drain("nowhere"),
            lambda: pool.cancel_drain(host),
            lambda: pool.set_priority_factor(submitter, 0),
            lambda: pool.set_priority_factor(submitter, "much"),
            lambda: pool.set_ceiling(submitter, 8, duration=-1),
            lambda: pool.delete_submitter("nobody@nowhere"),
            lambda: pool.submitters(negotiator="NEGOTIATOR_OTHER"),
            lambda: pool.why("99.0"),
            lambda: pool.why("?"),
            lambda: list(pool.events(stream="1.0")),
        )
    ])  # fmt: skip
    return answers


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = Folder(tmp_path_factory.mktemp("embedded"))
    try:
        with embedded(folder) as (pool, until):
            return story(pool, until)
    finally:
        folder.kill_everything()


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_has_the_results_and_errors_of_a_pool(kind: Any, expected: list[Any], folder: Folder) -> None:
    with kind(folder) as (client, until):
        answers = story(client, until)
    for number, (answer, other) in enumerate(zip(answers, expected, strict=True)):
        assert answer == other, number


def test_the_story_has_each_kind_of_error(expected: list[Any]) -> None:
    errors = {error for error, _ in expected[-1]}
    assert errors > {
        Refusal, UnknownThingError, SubmitError, ClassAdSyntaxError, LogBeginsLater, ValueError, TypeError,
    }  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_waits_for_jobs_and_reads_their_output(kind: Any, folder: Folder) -> None:
    with kind(folder) as (client, _):
        description = {
            "executable": "/bin/sh",
            "arguments": "\"-c 'echo $0; echo bad >&2' $(Process)\"",
            "output": "$(Process).out",
            "error": "$(Process).err",
            "transfer_executable": False,
        }
        cluster = client.submit(description, count=3, folder=folder.path)
        assert client.wait(cluster, timeout=PATIENCE)
        assert [client.output((cluster, proc)) for proc in range(3)] == ["0\n", "1\n", "2\n"]
        assert client.output("1.2", "stderr") == "bad\n"
        (folder.path / "0.out").unlink()
        assert error_of(lambda: client.output("1.0"))[0] is UnknownThingError
        error, message = error_of(lambda: client.output("1.7"))
        assert error is UnknownThingError and message.startswith("job 1.7 is neither in the queue nor in the history")
        assert error_of(lambda: client.output("1.0", "stdin"))[0] is ValueError
        client.submit({"executable": "/bin/sleep", "hold": True})
        assert not client.wait("2", timeout=0.1)
        assert client.wait("1", timeout=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_follows_the_events_of_a_pool(kind: Any, folder: Folder) -> None:
    with kind(folder) as (client, _):
        old = list(client.follow(0, timeout=0))
        assert isinstance(old[0][1], events.PoolFounded) and [position for position, _ in old] == list(
            range(1, len(old) + 1)
        )
        before = old[-1][0]
        client.submit({"executable": "/bin/sleep", "hold": True})
        new = list(client.follow(before, timeout=2))
        assert type(new[0][1]) is events.ClusterSubmitted
        assert list(client.follow(timeout=0)) == []


def test_a_client_uses_a_pool_that_is_not_running(folder: Folder) -> None:
    url = str(folder.path / "pool.db")
    with pytest.raises(LogError):
        Client(url)
    Pool.open(url, user="alice").close()
    with Client(url) as client:
        assert client.submit({"executable": "/bin/work"}, count=2) == 1
        assert client.submit({"executable": "/bin/work"}, user="alice") == 2
        assert [job["User"].partition("@")[0] for job in client.jobs()][-1] == "alice"
        assert [outcome["result"] for outcome in client.hold(1)] == ["done"]
        with pytest.raises(Refusal, match="Reschedule"):
            client.negotiate()
    with pytest.raises(LogClosed):
        client.hold(1)
    with pytest.raises(LogClosed):
        client.jobs()


def test_the_user_who_runs_a_pool_may_act_for_other_users(folder: Folder) -> None:
    with folder.served("-cpus", "2"), Client(folder.path / "pool.db") as client:
        client.submit({"executable": "/bin/sleep", "hold": True})
        assert [outcome["result"] for outcome in client.remove(1, user="nobody")] == ["permission denied"]
        assert [outcome["result"] for outcome in client.remove(1)] == ["done"]


def test_a_cancelled_wait_leaves_its_client_usable(folder: Folder, tmp_path: Path) -> None:
    Pool.open(tmp_path / "pool.db").close()

    async def cancel() -> None:
        async with AsyncClient(tmp_path / "pool.db") as client:
            await client.submit({"executable": "/bin/work"})
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.wait(1), 0.3)
            assert len(await client.jobs()) == 1

    asyncio.run(cancel())


def test_a_client_over_http_survives_a_restart_of_the_service(folder: Folder) -> None:
    log = folder.path / "pool.db"
    with folder.served("-cpus", "1"), http_service(log, folder.path) as service:
        port, client = int(service.url.rstrip("/").rpartition(":")[2]), Client(service.url)
        followed = client.follow(client.position, interval=0.05, timeout=PATIENCE)
        client.submit({"executable": "/bin/sleep", "hold": True})
        assert type(next(followed)[1]) is events.ClusterSubmitted
    with folder.served("-cpus", "1"), client:
        requests = Thread(target=lambda: client.submit({"executable": "/bin/sleep", "hold": True}))
        requests.start()
        with http_service(log, folder.path, port=port):
            requests.join(PATIENCE)
            clusters = (event.cluster for _, event in followed if isinstance(event, events.ClusterSubmitted))
            assert next(clusters) == 2


def test_a_client_over_http_reports_what_does_not_answer(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolbook.adapters.library.http_pool.PATIENCE", 0)
    with pytest.raises(LogUnavailable, match="does not answer"), Client("http://127.0.0.1:9") as client:
        client.jobs()
    with pytest.raises(LogClosed):
        client.jobs()
    with (
        web(folder.path) as address,
        Client(f"http://{address}") as client,
        pytest.raises(LogError, match="not the API"),
    ):
        client.jobs()
    with pytest.raises(ValueError, match="neither token nor ca"):
        Client(folder.path / "pool.db", token="secret")
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(LogError, match=r"poolbook\[client\]"):
        Client("http://127.0.0.1:9")


def test_over_http_a_client_acts_only_as_its_own_user(folder: Folder) -> None:
    with over_http(folder) as (client, _):
        client.submit({"executable": "/bin/sleep", "hold": True})
        with pytest.raises(Refusal, match="acts only as"):
            client.remove(1, user="nobody")


def test_pages_of_a_history_over_http_are_complete_and_in_order(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poolbook.adapters.library.http_pool._PAGE", 3)
    with Pool.open(folder.path / "pool.db", behave=lambda launch: Behaviour(seconds=60)) as pool:
        pool.add_machine(cpus=2)
        pool.submit({"executable": "/bin/work"}, count=9)
        pool.run()
        expected = [job["ProcId"] for job in pool.history("ProcId != 4")]
    with http_service(folder.path / "pool.db", folder.path) as service, Client(service.url) as client:
        assert [job["ProcId"] for job in client.history("ProcId != 4")] == expected
        assert len(client.history()) == 9 and client.history("false") == []


def test_a_client_on_another_machine_is_the_holder_of_its_token(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder.path))
    log, address = folder.path / "pool.db", next(iter(host_addresses()))
    with (
        folder.served("-cpus", "1"),
        running(["view", "-no-browser", "-listen", "0.0.0.0:0", str(log)], folder.path, "shown at") as line,
    ):
        port = line.split(" shown at ")[1].split(";")[0].strip("/").rpartition(":")[2]
        token = folder.call("token", "create", "-identity", "alice@example.org", "-log", str(log)).strip()
        (authority,) = folder.path.rglob("ca.pem")
        with Client(f"https://{address}:{port}", token=token, ca=authority) as client:
            client.submit({"executable": "/bin/sleep", "hold": True})
            assert [job["Owner"] for job in client.jobs()] == ["alice@example.org"]
        with Client(f"https://{address}:{port}", ca=authority) as client, pytest.raises(Refusal, match="authenticate"):
            client.hold(1)
