"""Golden: the pictures in the documentation can be made, and nothing overflows in them."""

from __future__ import annotations

import struct
from pathlib import Path

from .browser import MODES
from .pictures import FOLDER, NAMES, make_pictures


def test_the_pictures_of_the_documentation_can_be_made(tmp_path: Path) -> None:
    make_pictures(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(NAMES)
    for path in tmp_path.iterdir():
        viewport = MODES[path.stem.rpartition("-")[2]]["viewport"]
        assert struct.unpack(">II", path.read_bytes()[16:24]) == (viewport["width"], viewport["height"])


def test_the_documentation_has_all_pictures() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(NAMES)
    assert all(path.stat().st_size < 300_000 for path in FOLDER.iterdir())
