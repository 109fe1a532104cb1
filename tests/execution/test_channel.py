"""Property: whatever a way between two machines does to pieces of a file, the file arrives whole, or an error does."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.machine.execution.supervisor import channel
from poolbook.adapters.machine.execution.supervisor.channel import LocalChannel, Piece, PieceChannel

SIZES = st.integers(0, 5000)


@contextmanager
def two_files(data: bytes, there: bytes = b"") -> Iterator[tuple[int, int, Path]]:
    """One with these bytes, and one with those that have come before."""
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "source"), Path(folder, "target")
        source.write_bytes(data)
        target.write_bytes(there)
        one, other = os.open(source, os.O_RDONLY), os.open(target, os.O_RDWR)
        try:
            yield one, other, target
        finally:
            os.close(one)
            os.close(other)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "PIECE", 1000)


def damaging(which: set[int]) -> Callable[[Piece], Piece]:
    """A way that damages the pieces of these numbers, as they are sent."""
    sent = iter(range(1_000_000))

    def way(piece: Piece) -> Piece:
        return piece._replace(data=bytes([piece.data[0] ^ 1]) + piece.data[1:]) if next(sent) in which else piece

    return way


@given(size=SIZES, damaged=st.sets(st.integers(0, 12).map(lambda number: 2 * number)))
def test_pieces_that_are_damaged_on_their_way_are_sent_again(size: int, damaged: set[int]) -> None:
    data = os.urandom(size)
    with two_files(data) as (source, target, path):
        assert PieceChannel(damaging(damaged)).carry(source, target) == size
        assert path.read_bytes() == data


@given(size=SIZES, before=st.integers(0, 5000))
def test_what_has_come_before_is_not_sent_again(size: int, before: int) -> None:
    data, sent = os.urandom(size), list[Piece]()
    with two_files(data, data[:before]) as (source, target, path):
        PieceChannel(lambda piece: sent.append(piece) or piece).carry(source, target)  # type: ignore[func-returns-value]
        assert path.read_bytes() == data
        assert sum(len(piece.data) for piece in sent) == max(0, size - before)


def test_a_piece_that_is_damaged_each_time_is_an_error_and_nothing_of_it_is_written() -> None:
    with two_files(b"x" * 2500) as (source, target, path):
        with pytest.raises(OSError) as raised:
            PieceChannel(damaging({1, 2, 3})).carry(source, target)
        assert raised.value.errno == errno.EBADMSG
        assert path.read_bytes() == b"x" * 1000


@given(size=SIZES | st.integers(1 << 16, (1 << 16) + 3))
def test_on_one_machine_the_same_bytes_arrive(size: int) -> None:
    data = os.urandom(size)
    with two_files(data) as (source, target, path):
        assert LocalChannel().carry(source, target) == size
        assert path.read_bytes() == data
