"""Golden: recordings of honest pools are sound, whatever happened: networks cut, daemons killed, parts of files trimmed
(tests/data/honest has a packed folder for each)."""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from poolbook.domain.ports.log import EventStore
from poolbook.replay.forensics.audit.examine import examine

from ..importing.folders import imported
from ..sampling import some, spread

HONEST = sorted((Path(__file__).resolve().parent.parent / "data" / "honest").glob("*.tar.xz"))
FAULTS = [recording for recording in HONEST if "fault" in recording.name]
"""Recorded by `tests/realpool/record_mixed.py`: pools whose networks were cut and whose daemons were killed."""
USED = sorted({*spread(HONEST, 6), *spread(FAULTS, 12)})
"""Those that `make test` uses, here and elsewhere."""


def unpacked(recording: Path, folder: Path) -> Path:
    with tarfile.open(recording) as packed:
        packed.extractall(folder, filter="data")
    return folder


@cache
def _folder() -> TemporaryDirectory[str]:
    """Return a directory that exists until this process ends: tests also read the files that a log names."""
    return TemporaryDirectory()


@cache
def packed_log(recording: Path) -> EventStore:
    """Return the import of a packed recording, shared by all tests: they only read it."""
    return imported(unpacked(recording, Path(_folder().name) / recording.name))[0]


@pytest.mark.parametrize("recording", some(HONEST, 0, always=USED), ids=lambda path: path.name)
def test_a_recording_of_an_honest_pool_is_sound(recording: Path) -> None:
    audit = examine(packed_log(recording))
    assert [violation.words for violation in audit.violations] == []
    assert [violation.words for violation in audit.contradictions] == []


@pytest.mark.parametrize("name", ["many-01-plain", "many-09-two-aps"])
def test_each_machine_of_an_honest_pool_is_sound_alone(name: str, tmp_path: Path) -> None:
    """Two access points use the same job numbers; the central manager's logs have no ads that distinguish them."""
    (recording,) = (path for path in HONEST if path.name == f"{name}.tar.xz")
    (pool,) = unpacked(recording, tmp_path).iterdir()
    machines = [folder for folder in sorted(pool.iterdir()) if (folder / "log").is_dir()]
    assert len(machines) > 3
    for machine in machines:
        audit = examine(imported(machine)[0])
        assert (machine.name, audit.violations, audit.contradictions) == (machine.name, [], [])
