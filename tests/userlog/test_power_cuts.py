"""Property: every event of a durable job log is in its file once, whenever the power fails: the written events stay,
and the next writer writes the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook.adapters.runtime.userlog import writer as writer_module

from ..simulation.power_cuts import cuts, folder_in_memory
from .test_writer import Story, story, texts, writer


@pytest.fixture
def memory() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


def contents_of(paths: list[Path]) -> dict[str, str]:
    return {str(path): path.read_text() for path in paths if path.exists()}


@pytest.mark.parametrize("grown", [writer_module.GROWN, 300], ids=["growing", "rewritten"])
@pytest.mark.parametrize("already_begun", [0, 3, 8], ids=["new files", "in the middle of a batch", "later"])
def test_a_power_cut_neither_loses_nor_doubles_events_of_a_durable_log(
    memory: Path, monkeypatch: pytest.MonkeyPatch, grown: int, already_begun: int
) -> None:
    monkeypatch.setattr(writer_module, "GROWN", grown)
    disk = memory / "disk"
    logs = [disk / "job.log", disk / "other.log"]
    events = story(logs[0], clusters=4, jobs=1, other=logs[1])
    expected, already_written = texts(events), texts(events[:10])

    def prepare() -> None:
        log_writer = writer(disk, durable=True)
        for at in range(already_begun):
            log_writer.write(events[at : at + 1])

    def act() -> None:
        log_writer = writer(disk, durable=True)
        log_writer.start(events[:already_begun])
        write_on(log_writer, events[already_begun:10])

    def write_on(log_writer: object, remaining: Story) -> None:
        for at in range(0, len(remaining), 3):
            log_writer.write(remaining[at : at + 3])  # type: ignore[attr-defined]

    for disk_state, is_done in cuts(disk, prepare, act):
        if is_done:
            assert contents_of(logs) == already_written, disk_state
        writer(disk, durable=True).start(events)
        assert contents_of(logs) == expected, disk_state
