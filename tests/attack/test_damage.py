"""Property: whatever happens to the bytes of a log or its views, commands end with a named error or the right answer.

`make test` tries a few changes of each kind, the soak thousands (POOLBOOK_SOAK_EXAMPLES, 20000).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from .attacks import Trial
from .damage import altered, mangled, views_altered

KINDS = [mangled, altered, views_altered]
BATCH = 40  #: changed copies that one process tries
SOAK = range(int(os.environ.get("POOLBOOK_SOAK_EXAMPLES", "20000")) // (BATCH * len(KINDS)) or 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_ends_every_command_with_a_named_error(
    kind: Callable[[Trial, int], None], tmp_path: Path
) -> None:
    kind(Trial(5, tmp_path), 4)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_damaged_files_end_every_command_with_a_named_error(
    kind: Callable[[Trial, int], None], tmp_path: Path
) -> None:
    for seed in SOAK:
        folder = tmp_path / str(seed)
        folder.mkdir()
        kind(Trial(seed, folder), BATCH)
