"""Property: the mark of a closed log is on the disk, and no power cut leaves a mark that refuses its own log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook.adapters.stores.head_witness import Mark, read_mark
from poolbook.domain.ports.log import Head

from ..simulation.power_cuts import cuts, folder_in_memory

HEADS = [Head(1, position, f"{position:064x}") for position in (1, 20, 300)]


@pytest.fixture
def memory() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


@pytest.mark.parametrize("before", [0, 1], ids=["a new log", "a log that was marked"])
def test_a_power_cut_after_a_log_was_closed_does_not_lose_its_mark(memory: Path, before: int) -> None:
    path = str(memory / "disk/pool.db.head")

    def write(heads: list[Head]) -> None:
        mark = Mark(path)
        for head in heads:
            mark.write(head)
        mark.close()

    def prepare() -> None:
        write(HEADS[:before])

    for disk_state, is_closed in cuts(
        memory / "disk", prepare, lambda: write(HEADS[before:]), block=512
    ):  # a disk's sector
        mark = read_mark(path)
        assert mark in ([HEADS[-1]] if is_closed else [None, *HEADS]), disk_state
