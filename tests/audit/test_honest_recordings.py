"""Golden: recordings of honest pools are sound, whatever happened there: networks cut, daemons killed, parts of files
trimmed (tests/data/honest has a packed folder for each)."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from poolbook.replay.forensics.audit.examine import examine

from ..importing.folders import imported
from ..sampling import some, spread

HONEST = sorted((Path(__file__).resolve().parent.parent / "data" / "honest").glob("*.tar.xz"))
FAULTS = [recording for recording in HONEST if "fault" in recording.name]
"""What `tests/realpool/record_mixed.py` recorded: pools whose networks were cut and whose daemons were killed."""


def unpacked(recording: Path, folder: Path) -> Path:
    with tarfile.open(recording) as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize("recording", some(HONEST, 6, always=spread(FAULTS, 12)), ids=lambda path: path.name)
def test_a_recording_of_an_honest_pool_is_sound(recording: Path, tmp_path: Path) -> None:
    log, _ = imported(unpacked(recording, tmp_path))
    audit = examine(log)
    assert [found.words for found in audit.violations] == []
    assert [found.words for found in audit.contradictions] == []


@pytest.mark.parametrize("name", ["many-01-plain", "many-09-two-aps"])
def test_each_machine_of_an_honest_pool_is_sound_alone(name: str, tmp_path: Path) -> None:
    """Two access points use the same numbers of jobs; the central manager's logs have no ads that tell them apart."""
    (recording,) = (one for one in HONEST if one.name == f"{name}.tar.xz")
    (pool,) = unpacked(recording, tmp_path).iterdir()
    machines = [folder for folder in sorted(pool.iterdir()) if (folder / "log").is_dir()]
    assert len(machines) > 3
    for machine in machines:
        audit = examine(imported(machine)[0])
        assert (machine.name, audit.violations, audit.contradictions) == (machine.name, [], [])
