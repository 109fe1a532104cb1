"""Property: a stream of files arrives completely, however it is divided, damaged or interrupted."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.machine.execution.supervisor.file_pieces import (
    DIRECTORY,
    FILE,
    PIECE,
    Entry,
    Layout,
    Receiver,
    describe,
    read_pieces,
)

SIZES = st.lists(st.sampled_from([-1, 0, 1, 2, 1000, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE]), max_size=5)
"""Sizes of files; -1: a directory."""


def make_files(folder: Path, sizes: list[int]) -> list[Entry]:
    entries = []
    for number, size in enumerate(sizes):
        path = folder / f"file{number}"
        if size < 0:
            path.mkdir()
        else:
            path.write_bytes(os.urandom(min(size, 64)) + bytes(max(0, size - 64)))
        entries.append(describe(DIRECTORY if size < 0 else FILE, path.name, str(path)))
    return entries


@given(SIZES, st.lists(st.tuples(st.integers(0, 3 * PIECE), st.booleans()), max_size=4))
def test_a_stream_continues_where_its_receiver_was_interrupted(sizes: list[int], cuts: list[tuple[int, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        entries = make_files(place, sizes)
        layout = Layout(entries)
        (place / "received").mkdir()
        for cut, is_damaged in [*cuts, (layout.length, False)]:  # each time a new receiver, as in a new process
            receiver = Receiver(str(place / "received"), layout, lambda entry: entry.name, {})
            begin = receiver.position
            data = bytearray(b"".join(read_pieces(layout, begin, layout.length))[:cut])
            if is_damaged and data:
                data[len(data) // 2] ^= 1
            receiver.feed(bytes(data))
            receiver.close()
            assert begin <= receiver.position <= begin + len(data)
        assert receiver.is_complete and receiver.position == layout.length
        for index, entry in enumerate(entries):
            path = Path(receiver.path(index))
            assert path.is_dir() if entry.kind == DIRECTORY else path.read_bytes() == Path(entry.source).read_bytes()


@given(SIZES, st.integers(1, 4 * PIECE))
def test_ranges_of_whole_pieces_cover_a_stream(sizes: list[int], count: int) -> None:
    layout = Layout([Entry(FILE, f"{size}", max(0, size), 0o644, "") for size in sizes])
    position, pieces = 0, []
    while position < layout.length:
        end = layout.end_of(position, count)
        assert position < end <= layout.length
        pieces += list(layout.pieces(position, end))
        position = end
    assert pieces == list(layout.pieces(0, layout.length))
    assert sum(length for _, _, length in pieces) == sum(max(0, size) for size in sizes)


@pytest.mark.parametrize("position", [-1, 1, 99, PIECE, PIECE + 31])
def test_positions_inside_a_piece_are_rejected(position: int) -> None:
    layout = Layout([Entry(FILE, "large", 2 * PIECE, 0o644, "")])
    with pytest.raises(ValueError, match="no piece begins"):
        list(layout.pieces(position, layout.length))
