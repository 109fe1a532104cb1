"""Golden: recordings of honest pools are sound, whatever happened there: networks cut, daemons killed, parts of files
trimmed (tests/data/honest has a packed folder for each)."""

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
"""What `tests/realpool/record_mixed.py` recorded: pools whose networks were cut and whose daemons were killed."""
TAKEN = sorted({*spread(HONEST, 6), *spread(FAULTS, 12)})
"""Those that `make test` takes, here and elsewhere."""


def unpacked(recording: Path, folder: Path) -> Path:
    with tarfile.open(recording) as packed:
        packed.extractall(folder, filter="data")
    return folder


@cache
def _folder() -> TemporaryDirectory[str]:
    """What stays until this process ends: tests read the files, too, of which a log tells."""
    return TemporaryDirectory()


@cache
def packed_log(recording: Path) -> EventStore:
    """The import of a packed recording, once for all tests: they only read it."""
    return imported(unpacked(recording, Path(_folder().name) / recording.name))[0]


@pytest.mark.parametrize("recording", some(HONEST, 0, always=TAKEN), ids=lambda path: path.name)
def test_a_recording_of_an_honest_pool_is_sound(recording: Path) -> None:
    audit = examine(packed_log(recording))
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
