"""Specification: the test kit finds faults in the policies of sites.

Each directory in `faults/` has a configuration with a fault, the corrected one, and the promise that a site would test:
a scenario, or a test in Python. Both are written with the kit's documentation only.
"""

from __future__ import annotations

import runpy
import shutil
import unittest
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from poolbook.testing import play

settings.register_profile("without shrinking", settings.get_profile("poolbook"), phases=[Phase.generate])

FAULTS = sorted(path.name for path in (Path(__file__).parent / "faults").iterdir())


def keep_promise(folder: Path) -> None:
    """Run the promise's test in a folder, which contains the configuration."""
    for scenario in folder.glob("*.play"):
        play(scenario)
    for test in folder.glob("test_*.py"):
        for name, value in runpy.run_path(str(test)).items():
            if name.startswith("test_"):
                value()
            elif name.startswith("Test") and issubclass(value, unittest.TestCase):
                value("runTest").runTest()


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder with the promise of a fault."""
    source = Path(__file__).parent / "faults" / request.param
    for path in source.glob("promise.*"):
        shutil.copy(path, tmp_path / (path.name if path.suffix == ".play" else "test_promise.py"))
    shutil.copytree(source, tmp_path / "configurations")
    monkeypatch.chdir(tmp_path)
    settings.load_profile("without shrinking")  # whose settings those of the promise override
    yield tmp_path
    settings.load_profile("poolbook")


@pytest.mark.parametrize("folder", FAULTS, indirect=True)
def test_a_planted_fault_is_found(folder: Path) -> None:
    shutil.copy("configurations/faulty.conf", "site.conf")
    with pytest.raises(AssertionError):
        keep_promise(folder)


@pytest.mark.parametrize("folder", FAULTS, indirect=True)
def test_the_corrected_policy_passes(folder: Path) -> None:
    shutil.copy("configurations/fixed.conf", "site.conf")
    keep_promise(folder)


def test_there_are_ten_faults() -> None:
    assert len(FAULTS) >= 10
