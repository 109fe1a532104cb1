"""Differential: q, status, userprio and history with -at print what they printed at that time, while the pool ran."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path

import pytest

from poolbook import Behaviour, Log, LogBeginsLater, Pool
from poolbook.adapters.cli.main import main
from poolbook.adapters.stores.fast_head import head_of
from poolbook.domain.units import SECOND
from poolbook.projections import snapshots

from ..sampling import marked, spread
from .real import PATIENCE, Folder

COMMANDS = (
    "q -all", "q -all -nobatch", "q -all -long", "q -all -run", "q -all -hold", "q -all -factory",
    "q -all -autocluster",
    "q -all -better-analyze", "q -all -unmatchable", "q -all -totals", "status", "status -long", "status -compact",
    "status -claimed", "status -schedd -long", "status -negotiator -long", "status -submitters -long",
    "status -startd -long", "status -any -long", "userprio -all -allusers", "userprio -long -allusers",
    "userprio -getreslist alice@example.org", "history", "history -long", "history -forwards", "history -epochs",
)  # fmt: skip
"""What is printed at each moment."""
CONFIG = """
CLAIM_WORKLIFE = 100
GROUP_NAMES = group_physics
DEFRAG_INTERVAL = 300
"""


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str, str, int], str]:
    """Return a function that runs a command on a log when the clock shows an instant in seconds, and returns its
    output."""

    def run(command: str, url: str, now: int) -> str:
        monkeypatch.setattr(time, "time", lambda: float(now))
        code = main([*command.split(), "-log", url])
        out, err = capsys.readouterr()
        return f"{code}\n{out}\n{err}"

    return run


def moments(pool: Pool) -> Iterator[None]:
    """Yield at many moments of a busy pool, when no further event happens in the same second."""
    for _ in busy_hours(pool):
        pool.advance(1)
        yield
        pool.advance(1)


def busy_hours(pool: Pool) -> Iterator[None]:
    """Let most things happen in a pool; yield many times."""
    pool.add_machine("node1", cpus=4, memory=8192)
    yield
    pool.add_machine("node2", cpus=2)
    pool.submit({"executable": "/bin/work", "arguments": "$(Process)"}, count=5)
    yield
    pool.submit(
        {"executable": "/bin/other", "request_cpus": 2, "accounting_group": "group_physics"}, count=2, user="bob"
    )
    pool.advance(20)
    yield
    pool.hold("1.4", reason="wrong input")
    pool.submit({"executable": "/bin/many", "max_materialize": 2}, count=6)
    pool.submit({"executable": "/bin/huge", "request_cpus": 64})
    for _ in range(5):
        pool.advance(17)
        yield
    pool.release(constraint="ClusterId == 1")
    pool.vacate(constraint="ClusterId == 2")
    pool.edit(constraint="ClusterId == 3", JobPrio=5)
    pool.set_priority_factor("bob@example.org", 10)
    pool.remove("4")
    for _ in range(6):
        pool.advance(31)
        yield
    pool.run(3600)
    yield


@pytest.mark.parametrize("share", [3, marked(1)])
def test_each_view_at_a_time_is_what_the_pool_printed_then(
    share: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Callable[[str, str, int], str]
) -> None:
    """Every third command is called at each moment, so that each command is called at every third moment; in the soak
    all are."""
    monkeypatch.setattr(snapshots, "EVENTS", 20)
    monkeypatch.setattr(snapshots, "EVENTS_PER_ROW", 0)
    url = str(tmp_path / "pool.db")
    outputs: dict[int, dict[str, str]] = {}
    with Pool.open(
        url, user="alice", uid_domain="example.org", behave=lambda launch: Behaviour(seconds=40), config=CONFIG
    ) as pool:
        for number, _ in enumerate(moments(pool)):
            commands = COMMANDS[number % share :: share]
            outputs[round(pool.now)] = {command: printed(command, url, round(pool.now)) for command in commands}
        end = round(pool.now)
    assert len(outputs) > 13
    for at, expected in outputs.items():
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
        for command, output in expected.items():
            assert printed(f"{command} -at {moment}", url, end + 1000) == output, (moment, command)


def test_the_library_answers_as_of_a_time(tmp_path: Path) -> None:
    url = str(tmp_path / "pool.db")
    answers = {}
    with Pool.open(url, user="alice", uid_domain="example.org", behave=lambda launch: Behaviour(seconds=40)) as pool:
        for _ in moments(pool):
            answers[pool.now] = (pool.jobs(), pool.slots(), pool.history(), pool.submitters())
        with Log.open(url) as log:
            for at, (jobs, slots, history, submitters) in answers.items():
                assert (pool.jobs(at=at), pool.slots(at=at), pool.submitters(at=at)) == (jobs, slots, submitters)
                assert pool.history(at=at) == log.history(at=at) == history
                assert [job["ProcId"] for job in log.jobs(at=at)] == [job["ProcId"] for job in jobs]
                assert log.slots("State == 'Claimed'", at=at) == pool.slots("State == 'Claimed'", at=at)
                assert [(row.name, row.slots) for row in log.submitters(at=at)] == [
                    (row.name, row.slots) for row in submitters
                ]
            for asked in (log, pool):
                for method in (asked.jobs, asked.slots, asked.history, asked.submitters):
                    with pytest.raises(LogBeginsLater, match="the log begins at 2027-01-15 08:00:00 UTC") as caught:
                        method(at=5)
                    assert caught.value.began == 1_800_000_000 * SECOND
                    with pytest.raises(ValueError, match="is not a valid time"):
                        method(at=float("nan"))


REAL_COMMANDS = (
    "q -all -nobatch", "q -all -long", "status -long", "status -schedd -long", "userprio -allusers -long",
    "history -long",
)  # fmt: skip


def test_views_at_a_time_are_those_of_a_pool_with_processes(folder: Folder) -> None:
    """Outputs are compared if no event and no new second came while the command ran."""
    outputs: list[tuple[float, int, str, str]] = []
    url = str(folder.path / "pool.db")
    folder.write("job.sub", "executable = /bin/sleep\narguments = 1.$(Process)\nrequest_memory = 1\nqueue 6\n")
    with folder.served("-slots", "2"):
        folder.call("submit", "job.sub")
        give_up = time.monotonic() + PATIENCE
        for command in cycle(REAL_COMMANDS):
            if len(outputs) >= 30 and not folder.json("q", "-all"):
                break
            assert time.monotonic() < give_up
            began, head = time.time(), head_of(url)
            output = folder.call(*command.split())
            ended = time.time()
            if head is not None and int(began) == int(ended) and head == head_of(url):
                outputs.append((ended, head[1], command, output))
    with Log.open(url) as log:
        store = log._log
        # An event is appended a little later than it is decided.
        logged = [output for output in outputs if store.position_at(round(output[0] * SECOND)) == output[1]]
    assert len(logged) > 10
    for at, _, command, output in spread(logged, 40):
        moment = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S.%f}+00:00"
        assert folder.call(*command.split(), "-at", moment) == output, (moment, command)
