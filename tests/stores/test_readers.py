"""Property: a reader of another user's log leaves no file next to it, and no reader believes views that a third user
forged: each reading command as another user, in a folder that both may write."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from poolbook.adapters.runtime.views import views_path
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.ports.log import LogUnavailable

from .. import forked
from ..pool.real import POOLBOOK, Folder, environment
from .samples import samples

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users")
OWNER, OTHER, THIRD = 54321, 54322, 54323
READING = ["q -all", "history", "status", "usage", "userprio", "log", "why 1.0", "audit", "verify", "doctor", "views"]


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Provide a folder that all may write, with a log of OWNER's that all may read."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    (folder / "job.sub").write_text("executable = /bin/true\nhold = true\nqueue 2\n")
    assert call(folder, OWNER, "submit", "job.sub").returncode == 0
    for suffix in ("-wal", "-shm"):
        (folder / f"pool.db{suffix}").unlink(missing_ok=True)
    for file in folder.iterdir():
        file.chmod(file.stat().st_mode | 0o044)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def shared() -> Iterator[Path]:
    with shared_folder() as folder:
        yield folder


def call(folder: Path, uid: int, *arguments: str) -> CompletedProcess[str]:
    home = folder / f"home{uid}"
    if not home.exists():
        home.mkdir()
        os.chown(home, uid, uid)
    return forked.run([*POOLBOOK, *arguments], cwd=folder, env={**environment(), "HOME": str(home)}, user=uid)


def files_next_to(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return the log and the files next to it: owner, size, mode."""
    return {
        path.name: (status.st_uid, status.st_size, stat.S_IMODE(status.st_mode))
        for path in folder.glob("pool.db*")
        for status in [path.stat()]
    }


def test_reading_another_users_log_leaves_no_files(shared: Path) -> None:
    before = files_next_to(shared)
    for command in READING:
        completed = call(shared, OTHER, *command.split())
        assert completed.returncode in (0, 1) and "poolbook: " not in completed.stderr, (
            command,
            completed.stdout,
            completed.stderr,
        )
        assert files_next_to(shared) == before, command
    assert call(shared, OTHER, "q", "-all", "-af", "ProcId").stdout == "0\n1\n"
    assert call(shared, OWNER, "rm", "1.0").returncode == 0
    assert call(shared, OTHER, "q", "-all", "-af", "ProcId").stdout == "1\n", "and reads later events"


def test_reading_during_writes_leaves_no_files_of_the_reader(shared: Path) -> None:
    with closing(sqlite3.connect(shared / "pool.db")) as writer:
        writer.execute("SELECT * FROM head").fetchall()
        assert (shared / "pool.db-shm").exists() and (shared / "pool.db-wal").exists()
        for command in READING:
            call(shared, OTHER, *command.split())
        assert {owner for owner, _, _ in files_next_to(shared).values()} <= {0, OWNER}


def test_another_users_write_ahead_log_is_not_read_by_creating_a_file(shared: Path) -> None:
    (shared / "pool.db-wal").write_bytes(b"x" * 100)
    os.chown(shared / "pool.db-wal", OWNER, OWNER)
    before = files_next_to(shared)
    completed = call(shared, OTHER, "log")
    assert completed.returncode == 1 and "its last writes are in" in completed.stderr
    assert files_next_to(shared) == before


def test_a_log_at_rest_is_followed_when_its_owner_continues(tmp_path: Path) -> None:
    """A reader's handle that was opened at rest sees later appends, and no partial page."""
    path = str(tmp_path / "pool.db")
    with closing(open_log(path, create=True)) as log:
        log.append(samples(20))
    os.chown(path, OWNER, OWNER)
    for suffix in ("-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)
    with closing(open_log(path, create=False, read_only=True)) as reader:
        assert len(list(reader.read())) == 20
        for length in (40, 60):
            with closing(open_log(path, create=False)) as writer:
                writer.append(samples(20))
                if length == 60:
                    assert reader.refresh().position == length
                    assert len(list(reader.read())) == length
            assert reader.refresh().position == length
            assert len(list(reader.read())) == length


@pytest.mark.parametrize(("uid", "mode"), [(OTHER, 0o644), (OTHER, 0o600), (OWNER, 0o646), (OWNER, 0o664)])
def test_views_that_another_user_may_have_written_are_not_believed(shared: Path, uid: int, mode: int) -> None:
    assert call(shared, OWNER, "q").returncode == 0
    views = shared / "pool.db.views"
    with closing(sqlite3.connect(views)) as forged_views, forged_views:
        for (table,) in forged_views.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall():
            for _, column, *_ in forged_views.execute(f"PRAGMA table_info({table})").fetchall():
                forged_views.execute(f"UPDATE {table} SET {column}=replace({column}, '/bin/true', '/bin/forged') "
                               f"WHERE typeof({column})='text'")  # fmt: skip
    assert "/bin/forged" in call(shared, OWNER, "q", "-af", "Cmd").stdout, "the owner's own word"
    os.chown(views, uid, uid)
    views.chmod(mode)
    for reader in (OWNER, THIRD):
        assert call(shared, reader, "q", "-all", "-af", "Cmd").stdout == "/bin/true\n" * 2
    assert views.stat().st_uid == uid


def test_a_readers_views_are_kept_in_the_readers_own_cache(shared: Path) -> None:
    call(shared, OTHER, "q", "-all")
    (cache_folder,) = (shared / f"home{OTHER}" / ".cache" / "poolbook").glob("*.views")
    assert cache_folder.stat().st_uid == OTHER and stat.S_IMODE(cache_folder.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache_folder.parent.stat().st_mode) == 0o700


def test_views_without_a_place_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pool.db"
    path.touch()
    os.chown(path, OWNER, OWNER)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert views_path(str(path)) is None


# The server's options, and the permissions of the log and the files next to it.
@pytest.mark.parametrize(("options", "mode"), [((), 0o600), (("-group",), 0o660)])
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_a_log_and_its_files_are_private_unless_the_group_is_allowed(
    tmp_path: Path, options: tuple[str, ...], mode: int, umask: int
) -> None:
    folder = Folder(tmp_path)
    folder.write("job.sub", "executable = /bin/true\nhold = true\nqueue\n")
    before = os.umask(umask)
    try:
        folder.call("submit", "job.sub")
        assert {file_mode for _, _, file_mode in files_next_to(tmp_path).values()} == {0o600}
        with folder.served("-slots", "1", *options):
            folder.call("submit", "job.sub")
            folder.call("q")
            folder.wait_for(lambda: (tmp_path / "pool.db.views").exists())
            modes = {
                name: file_mode for name, (_, _, file_mode) in files_next_to(tmp_path).items() if name != "pool.db.d"
            }
    finally:
        os.umask(before)
    assert set(modes) >= {"pool.db", "pool.db.head", "pool.db.lock", "pool.db.sock", "pool.db.views", "pool.db-wal"}
    assert set(modes.values()) == {mode}, modes


def test_a_log_that_is_not_a_file_has_no_group() -> None:
    from poolbook.adapters.stores.log_paths import share_with_group
    from poolbook.domain.ports.log import LogError

    with pytest.raises(LogError, match="so it has no group"):
        share_with_group("memory:")


def test_a_continuously_written_log_is_not_read_at_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from itertools import count

    from poolbook.adapters.stores import sqlite

    path = str(tmp_path / "pool.db")
    open_log(path, create=True).close()
    os.chown(path, OWNER, OWNER)
    for suffix in ("-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)
    counter = count()
    monkeypatch.setattr(sqlite, "state_of", lambda path: (next(counter),))
    with pytest.raises(LogUnavailable, match="is being written by another user"):
        open_log(path, create=False, read_only=True)
