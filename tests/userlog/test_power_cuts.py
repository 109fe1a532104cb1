"""Property: every event of a durable job log is in its file once, wherever the power fails: those that were written
stay, and the next writer writes the others."""

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


def held(paths: list[Path]) -> dict[str, str]:
    return {str(path): path.read_text() for path in paths if path.exists()}


@pytest.mark.parametrize("grown", [writer_module.GROWN, 300], ids=["growing", "rewritten"])
@pytest.mark.parametrize("begun", [0, 3, 8], ids=["new files", "in the middle of a batch", "later"])
def test_a_power_cut_loses_no_event_of_a_durable_log_and_doubles_none(
    memory: Path, monkeypatch: pytest.MonkeyPatch, grown: int, begun: int
) -> None:
    monkeypatch.setattr(writer_module, "GROWN", grown)
    disk = memory / "disk"
    logs = [disk / "job.log", disk / "other.log"]
    events = story(logs[0], clusters=4, jobs=1, other=logs[1])
    wanted, written = texts(events), texts(events[:10])

    def prepare() -> None:
        ours = writer(disk, durable=True)
        for at in range(begun):
            ours.write(events[at : at + 1])

    def act() -> None:
        ours = writer(disk, durable=True)
        ours.start(events[:begun])
        write_on(ours, events[begun:10])

    def write_on(ours: object, left: Story) -> None:
        for at in range(0, len(left), 3):
            ours.write(left[at : at + 3])  # type: ignore[attr-defined]

    for where, is_done in cuts(disk, prepare, act):
        if is_done:
            assert held(logs) == written, where
        writer(disk, durable=True).start(events)
        assert held(logs) == wanted, where
