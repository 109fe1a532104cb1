"""Folders for pools of real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .real import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path)
    yield found
    found.kill_everything()
