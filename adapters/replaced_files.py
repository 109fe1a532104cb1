"""Replaces files as a whole, so that a reader never sees a part of one."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, text: str) -> None:
    """Write a text to a new file, and rename it. Raise `OSError` if the file cannot be written."""
    new_path = path.with_name(f".{path.name}.new")
    new_path.write_text(text)
    os.replace(new_path, path)
