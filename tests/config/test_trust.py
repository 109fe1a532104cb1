"""Specification: whose configuration may run programs: that of the user and of root, and what the user names. A
scenario runs none unless it is trusted."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.runtime import config_sources
from poolbook.adapters.runtime.config_sources import why_not_own

from .. import forked
from ..pool.real import POOLBOOK, environment
from ..together import together

USER, OTHER = 54321, 54322  #: users without names, of groups of these numbers
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users")


@contextmanager
def place_of_user() -> Iterator[Path]:
    """A folder of USER's that everybody can reach."""
    above = Path(tempfile.mkdtemp())
    above.chmod(0o755)
    folder = above / "folder"
    folder.mkdir()
    give(folder, USER, 0o755)
    yield folder
    shutil.rmtree(above)


@pytest.fixture
def place() -> Iterator[Path]:
    with place_of_user() as found:
        yield found


def give(path: Path, uid: int, mode: int) -> Path:
    os.chown(path, uid, uid)
    path.chmod(mode)
    return path


def call(folder: Path, *words: str, **more: str) -> CompletedProcess[str]:
    env = {**environment(), "HOME": str(folder), **more}
    return forked.run([*POOLBOOK, *words], cwd=folder, env=env, user=USER)


def configuration(folder: Path, owner: int, mode: int, name: str = "poolbook.conf") -> None:
    (folder / name).write_text("include command : /usr/bin/touch ran\nX = 7\n")
    give(folder / name, owner, mode)


# The file's owner and mode, the folder's, that of the folder above; the reason why it does not count.
PLACES = [
    (USER, 0o644, USER, 0o755, 0o755, ""),
    (USER, 0o600, USER, 0o700, 0o755, ""),
    (0, 0o644, USER, 0o755, 0o755, ""),
    (0, 0o644, 0, 0o755, 0o755, ""),
    (USER, 0o644, USER, 0o755, 0o1777, ""),
    (OTHER, 0o644, USER, 0o755, 0o755, "{file} belongs to user 54322"),
    (USER, 0o644, OTHER, 0o755, 0o755, "{folder} belongs to user 54322"),
    (USER, 0o646, USER, 0o755, 0o755, "others may write {file}"),
    (USER, 0o664, USER, 0o755, 0o755, "others may write {file}"),
    (USER, 0o644, USER, 0o777, 0o755, "others may write {folder}"),
    (USER, 0o644, USER, 0o775, 0o755, "others may write {folder}"),
    (USER, 0o644, 0, 0o1777, 0o755, "others may write {folder}"),
    (USER, 0o644, USER, 0o755, 0o777, "others may write {above}, and so put another folder in its place"),
]


@as_root
@pytest.mark.parametrize(("owner", "mode", "whose", "rights", "above", "why"), PLACES)
def test_the_folders_configuration_counts_if_nobody_else_may_have_written_it(
    place: Path, owner: int, mode: int, whose: int, rights: int, above: int, why: str
) -> None:
    configuration(place, owner, mode)
    give(place, whose, rights)
    place.parent.chmod(above)
    said = call(place, "config", "X")
    if not why:
        assert said.stdout == "7\n", said.stderr
        return
    assert said.returncode == 1 and said.stdout == ""
    reason = why.format(file=place / "poolbook.conf", folder=place, above=place.parent)
    words = said.stderr.replace("\n", " ")
    assert f"it does not count: {reason}, and a configuration may run programs as you." in words
    assert "-config poolbook.conf" in words
    assert not (place / "ran").exists()


@as_root
def test_a_link_to_anothers_file_does_not_count(place: Path) -> None:
    other = place.parent / "other"
    other.mkdir()
    configuration(other, OTHER, 0o644)
    (place / "poolbook.conf").symlink_to(other / "poolbook.conf")
    assert "belongs to user 54322" in call(place, "config", "X").stderr


@as_root
@pytest.mark.parametrize(
    "words", ["config", "submit job.sub", "run job.sub", "resume", "serve", "doctor", "submit job.sub -dry-run -"]
)
def test_no_command_runs_what_another_put_into_the_folder(place: Path, words: str) -> None:
    (place / "job.sub").write_text("executable = /bin/true\nhold = true\nqueue\n")
    assert call(place, "submit", "job.sub").returncode == 0
    configuration(place, OTHER, 0o644)
    give(place, USER, 0o1777)
    said = call(place, *words.split())
    assert said.returncode == 1 and "it does not count" in said.stdout + said.stderr
    assert not (place / "ran").exists()


@as_root
def test_what_the_user_names_counts_whoever_wrote_it(place: Path) -> None:
    configuration(place, OTHER, 0o644)
    assert call(place, "config", "-config", "poolbook.conf", "X").stdout == "7\n"
    assert call(place, "config", "X", POOLBOOK_CONFIG="poolbook.conf").stdout == "7\n"
    assert call(place, "config", "X", POOLBOOK_CONFIG="/dev/null").stderr.startswith("Not defined: X")


def test_a_group_of_the_users_own_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where users have groups of their own, an umask lets these write."""
    file = tmp_path / "poolbook.conf"
    file.touch()
    file.chmod(0o664)
    assert why_not_own(file) == "" or file.stat().st_gid != os.getuid()
    monkeypatch.setattr(config_sources, "_is_private", lambda gid: False)
    assert why_not_own(file) == f"others may write {file}"


# What a scenario's configuration asks for, whether the play refuses it, and whether a trusted one does it.
ASKED = [
    ("include command : /usr/bin/touch ran", True, True),
    ("include ifexist command : /usr/bin/touch ran", True, True),
    ("include : /usr/bin/touch ran |", True, True),
    ("include command into kept : /bin/echo X = 1", True, True),
    ("LOCAL_CONFIG_FILE = /usr/bin/touch ran |", True, True),
    ("REQUIRE_LOCAL_CONFIG_FILE = false\n LOCAL_CONFIG_FILE = /usr/bin/touch ran |", True, True),
    ("STARTD_CRON_JOBLIST = A\n STARTD_CRON_A_EXECUTABLE = /usr/bin/touch\n STARTD_CRON_A_ARGS = ran", False, False),
    ("MACHINE_RESOURCE_INVENTORY_A = /usr/bin/touch ran", False, False),
    ("include : plain.conf", False, False),
]


@together(("asked", "refused", "trusted"), ASKED)
def test_a_scenario_runs_and_writes_nothing_unless_it_is_trusted(
    asked: str, refused: bool, trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for old in tmp_path.iterdir():
        old.unlink()
    (tmp_path / "plain.conf").write_text("X = 1\n")
    (tmp_path / "a.play").write_text(f"config\n {asked}\nend\nat 1:00 submit alice run=1:00\n")
    before = set(tmp_path.iterdir())
    assert main(["play", "a.play", "-quiet"]) == refused
    assert set(tmp_path.iterdir()) == before
    assert main(["play", "a.play", "-quiet", "-trust"]) == 0
    done = {"ran"} if "touch" in asked else {"kept"}
    assert {path.name for path in set(tmp_path.iterdir()) - before} == (done if trusted else set())


def test_a_scenario_that_is_not_trusted_says_what_it_asks_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.play").write_text("config\n include command : /usr/bin/touch ran\nend\n")
    assert main(["play", str(tmp_path / "a.play")]) == 1
    assert capsys.readouterr().err.replace("\n", " ").strip() == (
        f"poolbook play: {tmp_path}/a.play:2: it asks to run `/usr/bin/touch ran`, and "
        "runs and writes nothing unless it is trusted: read it, "
        "then say -trust"
    )
