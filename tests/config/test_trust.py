"""Specification: which configurations may run programs: files of the user or root, and files that the user names.
A scenario runs none unless it is trusted."""

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
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run as other users")


@contextmanager
def folder_of_user() -> Iterator[Path]:
    """Create a folder that belongs to USER and that all users can read."""
    parent = Path(tempfile.mkdtemp())
    parent.chmod(0o755)
    folder = parent / "folder"
    folder.mkdir()
    set_owner(folder, USER, 0o755)
    yield folder
    shutil.rmtree(parent)


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_of_user() as folder:
        yield folder


def set_owner(path: Path, uid: int, mode: int) -> Path:
    os.chown(path, uid, uid)
    path.chmod(mode)
    return path


def call(folder: Path, *arguments: str, **variables: str) -> CompletedProcess[str]:
    env = {**environment(), "HOME": str(folder), **variables}
    return forked.run([*POOLBOOK, *arguments], cwd=folder, env=env, user=USER)


def write_configuration(folder: Path, owner: int, mode: int, name: str = "poolbook.conf") -> None:
    (folder / name).write_text("include command : /usr/bin/touch ran\nX = 7\n")
    set_owner(folder / name, owner, mode)


# Owner and mode of the file, owner and mode of the folder, mode of its parent, and why the configuration is ignored.
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
    (USER, 0o644, USER, 0o755, 0o777, "others may write {above}, and so replace the folder"),
]


@needs_root
@pytest.mark.parametrize(("owner", "mode", "folder_owner", "folder_mode", "parent_mode", "reason"), PLACES)
def test_a_folder_s_configuration_is_used_only_if_no_other_user_can_have_written_it(
    folder: Path, owner: int, mode: int, folder_owner: int, folder_mode: int, parent_mode: int, reason: str
) -> None:
    write_configuration(folder, owner, mode)
    set_owner(folder, folder_owner, folder_mode)
    folder.parent.chmod(parent_mode)
    result = call(folder, "config", "X")
    if not reason:
        assert result.stdout == "7\n", result.stderr
        return
    assert result.returncode == 1 and result.stdout == ""
    full_reason = reason.format(file=folder / "poolbook.conf", folder=folder, above=folder.parent)
    message = result.stderr.replace("\n", " ")
    assert f"it is ignored: {full_reason}, and a configuration can run programs as you." in message
    assert "-config poolbook.conf" in message
    assert not (folder / "ran").exists()


@needs_root
def test_a_link_to_another_user_s_file_is_ignored(folder: Path) -> None:
    other = folder.parent / "other"
    other.mkdir()
    write_configuration(other, OTHER, 0o644)
    (folder / "poolbook.conf").symlink_to(other / "poolbook.conf")
    assert "belongs to user 54322" in call(folder, "config", "X").stderr


@needs_root
@pytest.mark.parametrize(
    "command", ["config", "submit job.sub", "run job.sub", "resume", "serve", "doctor", "submit job.sub -dry-run -"]
)
def test_no_command_runs_programs_of_another_user_s_configuration(folder: Path, command: str) -> None:
    (folder / "job.sub").write_text("executable = /bin/true\nhold = true\nqueue\n")
    assert call(folder, "submit", "job.sub").returncode == 0
    write_configuration(folder, OTHER, 0o644)
    set_owner(folder, USER, 0o1777)
    result = call(folder, *command.split())
    assert result.returncode == 1 and "it is ignored" in result.stdout + result.stderr
    assert not (folder / "ran").exists()


@needs_root
def test_a_file_that_the_user_names_is_used_even_if_another_user_wrote_it(folder: Path) -> None:
    write_configuration(folder, OTHER, 0o644)
    assert call(folder, "config", "-config", "poolbook.conf", "X").stdout == "7\n"
    assert call(folder, "config", "X", POOLBOOK_CONFIG="poolbook.conf").stdout == "7\n"
    assert call(folder, "config", "X", POOLBOOK_CONFIG="/dev/null").stderr.startswith("Not defined: X")


def test_the_user_s_private_group_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each user has a private group, the default umask lets it write."""
    file = tmp_path / "poolbook.conf"
    file.touch()
    file.chmod(0o664)
    assert why_not_own(file) == "" or file.stat().st_gid != os.getuid()
    monkeypatch.setattr(config_sources, "_is_private", lambda gid: False)
    assert why_not_own(file) == f"others may write {file}"


# A scenario's configuration, whether `play` rejects it, and whether it runs if it is trusted.
REQUESTS = [
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


@together(("line", "rejected", "runs_if_trusted"), REQUESTS)
def test_a_scenario_runs_and_writes_nothing_unless_it_is_trusted(
    line: str, rejected: bool, runs_if_trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for old in tmp_path.iterdir():
        old.unlink()
    (tmp_path / "plain.conf").write_text("X = 1\n")
    (tmp_path / "a.play").write_text(f"config\n {line}\nend\nat 1:00 submit alice run=1:00\n")
    before = set(tmp_path.iterdir())
    assert main(["play", "a.play", "-quiet"]) == rejected
    assert set(tmp_path.iterdir()) == before
    assert main(["play", "a.play", "-quiet", "-trust"]) == 0
    created = {"ran"} if "touch" in line else {"kept"}
    assert {path.name for path in set(tmp_path.iterdir()) - before} == (created if runs_if_trusted else set())


def test_an_untrusted_scenario_reports_the_command_that_it_would_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.play").write_text("config\n include command : /usr/bin/touch ran\nend\n")
    assert main(["play", str(tmp_path / "a.play")]) == 1
    assert capsys.readouterr().err.replace("\n", " ").strip() == (
        f"poolbook play: {tmp_path}/a.play:2: it would run `/usr/bin/touch ran`, which an untrusted "
        "configuration may not do: check it, then use -trust"
    )
