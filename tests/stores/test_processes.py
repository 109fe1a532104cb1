"""Property: the fence, durability and complete appends, between processes of the operating system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poolbook.domain.ports.log import Head

from .. import forked
from .places import Place
from .samples import changed

ROOT = Path(__file__).parent.parent.parent


class Writer:
    """A process that runs writer.py."""

    def __init__(self, place: Place) -> None:
        self._process = forked.start(
            [str(Path(__file__).parent / "writer.py"), place.url, place.mark or ""],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / ".path"), str(ROOT)])},
            stdin=forked.PIPE,
            stderr=2,
        )

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def rest(self) -> list[str]:
        """Return its remaining output from before it was killed; the last line may be incomplete."""
        assert self._process.stdout is not None
        return [line for line in self._process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def writers(place: Place, count: int) -> Iterator[list[Writer]]:
    """Start processes that open the log simultaneously, and create it if there is none."""
    processes = [Writer(place) for _ in range(count)]
    try:
        assert [writer.answer() for writer in processes] == ["open"] * count
        yield processes
    finally:
        for writer in processes:
            writer.end()


def test_only_one_of_two_processes_succeeds_at_each_head_in_disjoint_streams(durable: Place) -> None:
    rounds = 25
    with writers(durable, 2) as two_writers:
        for number in range(rounds):
            for name, writer in zip("ab", two_writers, strict=True):
                writer.tell(f"append {name} 4")
            assert sorted(writer.answer() for writer in two_writers) == ["fenced", f"stored {4 * number + 4}"]
            for writer in two_writers:
                writer.tell("refresh")
            assert [writer.answer() for writer in two_writers] == [f"head {4 * number + 4}"] * 2
    streams = [event.stream for _, event in durable.open().read()]
    assert all(len(set(streams[i : i + 4])) == 1 for i in range(0, 4 * rounds, 4))
    assert len(streams) == 4 * rounds
    assert durable.problems() == []


def test_each_process_that_takes_over_gets_its_own_epoch(durable: Place) -> None:
    with writers(durable, 3) as all_three:
        for writer in all_three:
            writer.tell("epoch")
        assert sorted(writer.answer() for writer in all_three) == ["epoch 1", "epoch 2", "epoch 3"]
        for writer in all_three:
            writer.tell("append x 1")
        assert sorted(writer.answer() for writer in all_three) == ["fenced", "fenced", "stored 4"]
    assert durable.problems() == []


def test_a_reader_during_writes_sees_only_complete_appends(durable: Place) -> None:
    with writers(durable, 1) as (writer,):
        reader = durable.open(create=False, read_only=True)
        writer.tell("flood 7")
        positions_seen: set[int] = set()
        while len(positions_seen) < 30:
            head = reader.refresh()
            assert len(list(reader.read())) == head.position
            assert head.position % 7 == 0
            positions_seen.add(head.position)
        reader.close()


def test_a_log_can_be_verified_while_it_is_written(durable: Place) -> None:
    with writers(durable, 1) as (writer,):
        writer.tell("flood 3")
        for _ in range(20):
            assert writer.answer().startswith("stored")
            assert durable.problems() == []


def test_acknowledged_appends_survive_a_kill_and_no_append_is_partial(durable: Place) -> None:
    last_position = 0
    for wait in range(6):
        with writers(durable, 1) as (writer,):
            writer.tell("flood 5")
            for _ in range(1 + 13 * wait):
                acknowledged = writer.answer()
            writer.kill()
            acknowledged = [acknowledged, *writer.rest()][-1]
        log = durable.open(create=False)
        assert last_position < int(acknowledged.split()[1]) <= log.head.position
        assert log.head.position % 5 == 0
        assert len(list(log.read())) == log.head.position
        last_position = log.append([changed(1)] * 5)
        log.close()
        assert durable.problems() == []


def test_a_mark_that_lags_after_a_crash_is_updated(durable: Place) -> None:
    assert durable.mark is not None
    log = durable.open()
    log.append([changed(1)])
    old_mark = Path(durable.mark).read_bytes()
    log.append([changed(2)])
    log.close()
    now = Path(durable.mark).read_bytes()
    for mark in (old_mark, b"", b"\0" * 160):
        Path(durable.mark).write_bytes(mark)
        assert durable.problems() == []
        log = durable.open()
        assert isinstance(log.head, Head)
        log.append([changed(3)])
        log.close()
        assert len(Path(durable.mark).read_bytes()) == len(now)
        assert durable.problems() == []
