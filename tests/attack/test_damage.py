"""Property: after any damage to a log or its views, commands give the right answer or end with a message.

`make test` tries a few changes of each kind, the soak thousands (POOLBOOK_SOAK_EXAMPLES, 20000).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from poolbook import LogUnavailable
from poolbook.adapters.runtime.damage import raise_if_damaged
from poolbook.adapters.runtime.queries import Queries

from ..pool.real import Folder
from ..sampling import soak_examples
from .attacks import Trial
from .calls import run_calls
from .damage import alter_cells, alter_views, mangle_files, write_log

KINDS = [mangle_files, alter_cells, alter_views]
BATCH = 40  #: changed copies per process
SOAK = range(soak_examples(BATCH * len(KINDS)))


@pytest.mark.parametrize("damage", KINDS)
def test_every_command_on_a_damaged_file_ends_with_a_message(
    damage: Callable[[Trial, int], None], tmp_path: Path
) -> None:
    damage(Trial(5, tmp_path), 4)


def test_a_stream_that_lost_its_events_is_reported_as_damage(tmp_path: Path) -> None:
    """Reading one stream does not check seals, so a stream that cannot be folded causes a verification of the log."""
    folder = Folder(write_log(tmp_path / "log", waiting=False))
    folder.write("job.sub", "executable = /bin/true\nqueue\n")
    with closing(sqlite3.connect(folder.path / "pool.db")) as db, db:
        db.execute("UPDATE stored_events SET originator_id='moved' WHERE originator_id='pool'")
    (call,) = run_calls(folder, [["submit", "job.sub", "-dry-run", "-"]])
    assert call.code == 1 and "pool.db is damaged at position 1" in call.err, call


@pytest.mark.soak
@pytest.mark.parametrize("damage", KINDS)
def test_every_command_on_thousands_of_damaged_files_ends_with_a_message(
    damage: Callable[[Trial, int], None], tmp_path: Path
) -> None:
    for seed in SOAK:
        folder = tmp_path / str(seed)
        folder.mkdir()
        damage(Trial(seed, folder), BATCH)


def test_equal_views_with_rows_in_another_order_are_not_damaged(tmp_path: Path) -> None:
    url = str(Folder(write_log(tmp_path / "log", waiting=True)).path / "pool.db")
    with Queries(url) as queries:
        assert queries.views.batches()
    with closing(sqlite3.connect(f"{url}.views")) as db, db:
        first, *row = db.execute("SELECT rowid, * FROM jobs ORDER BY rowid").fetchone()
        db.execute("DELETE FROM jobs WHERE rowid=?", (first,))
        db.execute(f"INSERT INTO jobs VALUES ({', '.join('?' * len(row))})", row)
        assert db.execute("SELECT COUNT(*) FROM jobs").fetchone()[0] > 1
    raise_if_damaged(url, ValueError("of a request"))
    with closing(sqlite3.connect(f"{url}.views")) as db, db:
        db.execute("UPDATE jobs SET status=3")
    with pytest.raises(LogUnavailable, match="differ from their log"):
        raise_if_damaged(url, ValueError("of a request"))
