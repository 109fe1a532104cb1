"""The pytest plugin: each `*.play` file is a test, which fails if an expectation of its scenario is not met.

pytest loads this module in every project with Poolbook installed, so it imports nothing until a scenario is found.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix != ".play":
        return None
    from .play_files import PlayFile

    file: pytest.Collector = PlayFile.from_parent(parent, path=file_path)
    return file
