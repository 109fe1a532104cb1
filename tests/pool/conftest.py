"""Directories for pools of real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .real import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    test_folder = Folder(tmp_path)
    yield test_folder
    test_folder.kill_everything()
