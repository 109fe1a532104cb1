"""Real: HTCondor's names in a directory, and a shell in which they use a pool that was started for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook.adapters.cli import tools
from poolbook.adapters.cli.main import TOOLS, UNSUPPORTED, command_named
from poolbook.adapters.condor_tools.options import ToolError

from .real import PATIENCE, Folder, environment

COMMAND = Path(sys.executable).with_name("poolbook")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    test_folder = Folder(tmp_path)
    yield test_folder
    test_folder.kill_everything()


def shell(folder: Folder, script: str, code: int = 0) -> str:
    """Return the output of a shell that has the tools on its path and a started pool."""
    begin = f'set -e; found="$({COMMAND} shell -log pool.db -slots 2)"; eval "$found"\n'
    command = ["bash", "-c", begin + script]
    env = {name: value for name, value in environment().items() if name != "POOLBOOK_LOG"}
    completed = subprocess.run(command, cwd=folder.path, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert completed.returncode == code, completed.stdout + completed.stderr
    return completed.stdout + completed.stderr


def test_every_tool_is_a_link_to_the_command_which_knows_its_name(tmp_path: Path) -> None:
    linked = tools._link_tool(tmp_path / "tools", COMMAND)
    names = {path.name for path in linked.iterdir()}
    assert names >= {
        "htcondor",
        "condor_submit",
        "condor_q",
        "condor_rm",
        "condor_history",
        "condor_wait",
        "condor_config_val",
    }
    assert all(os.readlink(linked / name) == str(COMMAND) for name in names)
    known_tools = {*TOOLS, *UNSUPPORTED}
    assert all(command_named(name) or name.removeprefix("condor_") in known_tools for name in names)
    (linked / "condor_q").unlink()
    (linked / "condor_q").symlink_to("/elsewhere/poolbook")  # of an installation that was moved
    tools._link_tool(linked, COMMAND)
    assert os.readlink(linked / "condor_q") == str(COMMAND)
    assert {path.name for path in linked.iterdir()} == names


def test_programs_find_htcondors_tools_and_a_pool_that_runs_their_jobs(folder: Folder) -> None:
    folder.write("job.sub", "executable = /bin/sh\narguments = \"-c 'exit 3'\"\nlog = job.log\nqueue\n")
    script = """
        condor_submit -terse job.sub
        condor_wait -wait 50 job.log
        condor_history -af ClusterId ExitCode
        cd / && condor_q -totals | grep -c 'Total for query: 0 jobs'
        """
    assert shell(folder, script) == "1.0 - 1.0\nAll jobs done.\n1 3\n1\n"
    assert shell(folder, "condor_history -af ClusterId") == "1\n"  # the same pool, which is still there
    stop = ("shell", "-stop")
    assert folder.call(*stop) == ""
    assert "not being served; run `poolbook serve` to serve it" in folder.call(*stop, code=1)


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("condor_q -nonsense", "unknown option -nonsense"),  # 2 under the name of poolbook
        ("condor_rm 99", "No pool in this directory yet"),
        ("condor_wait nosuch.log", "Couldn't open nosuch.log"),
    ],
)
def test_a_tool_exits_with_1_where_htcondors_does(call: str, arguments: str, tmp_path: Path) -> None:
    folder = tools._link_tool(tmp_path / "tools", COMMAND)
    env = {**environment(), "PATH": f"{folder}:{os.environ['PATH']}"}

    completed = subprocess.run(["bash", "-c", call], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert completed.returncode == 1
    assert arguments in completed.stderr


def test_a_pool_that_cannot_be_started_is_explained_and_nothing_is_exported(folder: Folder) -> None:
    folder.write("poolbook.conf", "NUM_SLOTS = many\n")
    completed = subprocess.run(
        [COMMAND, "shell", "-config", "poolbook.conf"],
        cwd=folder.path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert (completed.returncode, completed.stdout) == (1, "")
    assert "NUM_SLOTS" in completed.stderr


def test_without_the_command_there_is_no_folder_of_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "other")])
    with pytest.raises(ToolError, match="install Poolbook with pip"):
        tools.tools_folder()
