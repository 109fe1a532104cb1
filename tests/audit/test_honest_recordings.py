"""Golden: recordings of honest pools are sound, whatever happened there: networks cut, daemons killed, parts of files
trimmed (tests/data/honest has a packed folder for each)."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from poolbook.replay.forensics.audit.examine import examine

from ..importing.folders import imported
from ..sampling import some

HONEST = sorted((Path(__file__).resolve().parent.parent / "data" / "honest").glob("*.tar.xz"))


def unpacked(recording: Path, folder: Path) -> Path:
    with tarfile.open(recording) as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize(
    "recording", some(HONEST, 6, always=[one for one in HONEST if "fault" in one.name]), ids=lambda path: path.name
)
def test_a_recording_of_an_honest_pool_is_sound(recording: Path, tmp_path: Path) -> None:
    log, _ = imported(unpacked(recording, tmp_path))
    audit = examine(log)
    assert [found.words for found in audit.violations] == []
    assert [found.words for found in audit.contradictions] == []
