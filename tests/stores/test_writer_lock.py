"""Property: processes that wait for the log's lock get it in order of arrival, however often each one polls."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poolbook.adapters.runtime import pool_client
from poolbook.adapters.stores.log_paths import WriterLock, log_paths
from poolbook.domain.ports.log import LogError

from ..children import child

CONTENDERS = 12


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(polls=st.lists(st.integers(0, CONTENDERS - 1), max_size=200))
def test_twelve_contenders_write_in_order_of_arrival(tmp_path: Path, polls: list[int]) -> None:
    """Each polls at its own times. The holder of the lock writes until its next poll, and queues again immediately."""
    url = str(tmp_path / "pool.db")
    locks = [WriterLock(url) for _ in range(CONTENDERS)]
    line: list[int] = []
    writer: int | None = None
    for contender in polls:
        if contender == writer:
            locks[contender].give_up()
            writer = None
        if contender not in line:
            line.append(contender)
        is_taken = locks[contender].take_in_turn()
        assert is_taken == (writer is None and line[0] == contender)
        if is_taken:
            writer = line.pop(0)
    for lock in locks:
        lock.give_up()


def test_a_process_that_does_not_wait_does_not_overtake_one_that_does(tmp_path: Path) -> None:
    first, second, third = (WriterLock(str(tmp_path / "pool.db")) for _ in range(3))
    assert first.take_in_turn() and not second.take_in_turn()
    first.give_up()
    assert not third.try_acquire(), "the second was there before"
    assert second.take_in_turn() and not first.try_acquire()
    second.give_up()
    assert third.try_acquire()
    third.give_up()


def test_a_place_in_line_ends_with_its_process(tmp_path: Path) -> None:
    writer, second = (WriterLock(str(tmp_path / "pool.db")) for _ in range(2))
    assert writer.try_acquire()

    def wait_in_line(tell: int) -> None:
        waiting = WriterLock(str(tmp_path / "pool.db"))
        waiting.take_in_turn()
        os.write(tell, b".")
        signal.pause()

    with child(wait_in_line) as killed:
        assert killed.read() == b"."
        assert not second.take_in_turn()
        writer.give_up()
        assert not second.take_in_turn()
        killed.kill()
        killed.wait()
        assert second.take_in_turn()
        second.give_up()


def test_a_command_that_times_out_names_the_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_client, "PATIENCE", 0.0)
    writer = WriterLock(str(tmp_path / "pool.db"))
    assert writer.try_acquire()
    with pytest.raises(LogError, match=f"process {os.getpid()} has been writing this log"):
        pool_client.ask(str(tmp_path / "pool.db"), {"kind": "Hold"})
    writer.give_up()
    assert writer.try_acquire(), "the command has left the line"
    writer.give_up()


def test_one_continuous_writer_is_distinguished_from_several() -> None:
    assert "process 7 has been writing this log" in pool_client._still_waiting(["7"])
    assert "3 processes, the last of them 9, have been writing this log in turn" in pool_client._still_waiting(
        ["7", "8", "9"]
    )


def test_a_server_that_does_not_answer_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_client, "PATIENCE", 0.01)
    url = str(tmp_path / "pool.db")
    writer = WriterLock(url)
    assert writer.try_acquire()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(log_paths(url).socket_path))
        server.listen()
        with pytest.raises(LogError, match=r"has not answered for 0 s\. It is busy or stopped"):
            pool_client.ask(url, {"kind": "Hold"})
    writer.give_up()
