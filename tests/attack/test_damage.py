"""Property: whatever happens to the bytes of a log or its views, commands end with a named error or the right answer.

`make test` tries a few changes of each kind, the soak thousands (POOLBOOK_SOAK_EXAMPLES, 20000).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ..pool.real import Folder
from .attacks import Trial
from .calls import called
from .damage import _log, altered, mangled, views_altered

KINDS = [mangled, altered, views_altered]
BATCH = 40  #: changed copies that one process tries
SOAK = range(int(os.environ.get("POOLBOOK_SOAK_EXAMPLES", "20000")) // (BATCH * len(KINDS)) or 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_ends_every_command_with_a_named_error(
    kind: Callable[[Trial, int], None], tmp_path: Path
) -> None:
    kind(Trial(5, tmp_path), 4)


def test_a_stream_that_lost_its_events_is_reported_as_damage(tmp_path: Path) -> None:
    """Of one stream alone events are read without their seals: what cannot be made of them has the log verified."""
    folder = Folder(_log(tmp_path / "log", waiting=False))
    folder.write("job.sub", "executable = /bin/true\nqueue\n")
    with closing(sqlite3.connect(folder.path / "pool.db")) as db, db:
        db.execute("UPDATE stored_events SET originator_id='moved' WHERE originator_id='pool'")
    (call,) = called(folder, [["submit", "job.sub", "-dry-run", "-"]])
    assert call.code == 1 and "pool.db is damaged at position 1" in call.err, call


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_damaged_files_end_every_command_with_a_named_error(
    kind: Callable[[Trial, int], None], tmp_path: Path
) -> None:
    for seed in SOAK:
        folder = tmp_path / str(seed)
        folder.mkdir()
        kind(Trial(seed, folder), BATCH)
