"""Property: a command is the same class, with one rule in the pool, whether it comes from the command line, the socket,
`Pool` or `AsyncPool`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from poolbook import AsyncPool, Pool, Refusal
from poolbook.adapters.cli.main import main
from poolbook.adapters.runtime import log_writer
from poolbook.adapters.runtime.command_codec import COMMANDS
from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.runtime.pool_client import ask
from poolbook.adapters.runtime.requests import RequestRefused
from poolbook.domain.decide import decide
from poolbook.domain.ports import stimuli as s

ALICE = "alice@pool"
JOBS = {"selection": {"clusters": [1]}}


class EntryPoints(NamedTuple):
    """How a command is given: as a command line, as a request's fields, and as a method call, if it has a method."""

    words: str
    fields: dict[str, Any]
    method: str = ""
    arguments: tuple[Any, ...] = ()
    named: dict[str, Any] = {}  # noqa: RUF012


DOORS = {
    s.Submit: EntryPoints(
        "submit job.sub", {"cluster": 0, "ad": {}, "count": 1, "columns": []}, "submit", ("executable = a\nqueue",)
    ),
    s.Hold: EntryPoints("hold 1", JOBS, "hold", (1,)),
    s.Release: EntryPoints("release 1", JOBS, "release", (1,)),
    s.ReleaseSpooled: EntryPoints("", JOBS),
    s.Remove: EntryPoints("rm 1", JOBS, "remove", (1,)),
    s.RemoveNow: EntryPoints("rm -forcex 1", JOBS),
    s.Vacate: EntryPoints("vacate 1", JOBS, "vacate", (1,)),
    s.Suspend: EntryPoints("suspend 1", JOBS, "suspend", (1,)),
    s.Continue: EntryPoints("continue 1", JOBS, "resume", (1,)),
    s.RunNow: EntryPoints("condor_now 1.0 2.0", {"job": [1, 0], "victims": [[2, 0]]}, "run_now", ("1.0", "2.0")),
    s.Edit: EntryPoints("prio -p 5 1", {**JOBS, "changes": {"JobPrio": "5"}}, "prio", (1,), {"value": 5}),
    s.VacateSlot: EntryPoints("vacate slot1@m", {"slot": "slot1@m"}, "vacate_slot", ("slot1@m",)),
    s.SuspendClaim: EntryPoints("suspend slot1@m", {"slot": "slot1@m"}, "suspend_slot", ("slot1@m",)),
    s.ContinueClaim: EntryPoints("continue slot1@m", {"slot": "slot1@m"}, "resume_slot", ("slot1@m",)),
    s.Drain: EntryPoints("drain m", {"machine": "m"}, "drain", ("m",)),
    s.CancelDrain: EntryPoints("drain -cancel m", {"machine": "m"}, "cancel_drain", ("m",)),
    s.ShutDown: EntryPoints("off m", {"machine": "m"}, "shut_down", ("m",)),
    s.SetSubmitter: EntryPoints(
        f"userprio -setprio {ALICE} 5",
        {"submitter": ALICE, "name": "priority", "value": 5.0},
        "set_priority",
        (ALICE, 5),
    ),
    s.ResetUsage: EntryPoints(f"userprio -resetusage {ALICE}", {"submitters": [ALICE]}, "reset_usage", (ALICE,)),
    s.SwitchDaemons: EntryPoints("off -negotiator", {"daemon": "negotiator", "on": False}),
    s.DeleteSubmitter: EntryPoints(f"userprio -delete {ALICE}", {"submitter": ALICE}, "delete_submitter", (ALICE,)),
}


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[type[s.Stimulus]]:
    """Return the classes of the commands that are decided, refused or not."""
    names: list[type[s.Stimulus]] = []

    def noted(state: Any, stimulus: s.Stimulus, *more: Any) -> Any:
        if isinstance(stimulus, s.Command):
            names.append(type(stimulus))
        return decide(state, stimulus, *more)

    monkeypatch.setattr(log_writer, "decide", noted)
    return names


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Return a pool that this process serves, and a function that calls it like a client."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POOLBOOK_LOG", str(tmp_path / "pool.db"))
    (tmp_path / "job.sub").write_text("executable = /bin/true\nhold = true\nqueue\n")
    with Pool.open(tmp_path / "pool.db", execute=True) as pool:

        def called(call: Callable[[], object]) -> None:
            client = Thread(target=call)
            client.start()
            while client.is_alive():
                pool.advance(0.01)

        yield called


def send_request(kind: str, **fields: Any) -> None:
    with suppress(RequestRefused):
        ask("pool.db", {"kind": kind, **fields})


def test_every_client_command_has_its_entry_points() -> None:
    assert {kind.__name__ for kind in DOORS} == set(COMMANDS)


def test_a_command_line_and_a_request_are_the_same_command(
    decided: list[type[s.Stimulus]], served: Callable[[Callable[[], object]], None]
) -> None:
    for kind, doors in DOORS.items():
        served(lambda kind=kind, doors=doors: send_request(kind.__name__, **doors.fields))  # type: ignore[misc]
        assert decided == [kind], doors
        decided.clear()
        if doors.words:
            served(lambda doors=doors: main(doors.words.split()))  # type: ignore[misc]
            assert decided == [kind], doors.words
            decided.clear()


HELD = {"executable": "/bin/true", "hold": "true"}
"""The job that the methods name."""


def test_a_pool_method_and_its_coroutine_are_the_same_command(
    decided: list[type[s.Stimulus]],
) -> None:
    async def awaited(doors: EntryPoints) -> None:
        async with AsyncPool.open() as pool:
            await pool.submit(HELD)
            decided.clear()
            with suppress(Refusal):
                await getattr(pool, doors.method)(*doors.arguments, **doors.named)

    for kind, doors in DOORS.items():
        if doors.method:
            with Pool.open() as pool, suppress(Refusal):
                pool.submit(HELD)
                decided.clear()
                getattr(pool, doors.method)(*doors.arguments, **doors.named)
            assert decided == [kind], doors.method
            decided.clear()
            asyncio.run(awaited(doors))
            assert decided == [kind], doors.method
            decided.clear()


def test_a_cycle_is_started_by_one_function(
    monkeypatch: pytest.MonkeyPatch, served: Callable[[Callable[[], object]], None]
) -> None:
    names: list[str] = []
    monkeypatch.setattr(Engine, "reschedule", lambda self, negotiator="": names.append(negotiator))

    async def awaited() -> None:
        async with AsyncPool.open() as pool:
            await pool.negotiate(negotiator="d")

    served(lambda: main(["reschedule", "-name", "a"]))
    served(lambda: send_request("Reschedule", name="b"))
    with Pool.open() as pool:
        pool.negotiate(negotiator="c")
    asyncio.run(awaited())
    assert names == ["a", "b", "c", "d"]
