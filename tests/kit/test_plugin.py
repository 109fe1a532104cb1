"""Specification: pytest runs `*.play` files, and the plugin is harmless in other projects."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "poolbook.adapters.testing.plugin"
LINES = "at 0:20 submit alice run=10:00\nat 1:00 expect 1.0 "


def run_pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", PLUGIN, "-q", *arguments]
    # An installed Poolbook would register the plugin a second time, under its own name.
    environment = {"PYTHONPATH": str(ROOT / ".path"), "COLUMNS": "200", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    completed = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    return completed.returncode, completed.stdout


def test_each_scenario_is_a_test_and_a_failure_shows_its_line_and_the_story(tmp_path: Path) -> None:
    (tmp_path / "good.play").write_text(f"{LINES}Running\n")
    (tmp_path / "failing.play").write_text(f"{LINES}Held\nat 3:00 expect 1.0 Idle\n")
    (tmp_path / "invalid.play").write_text("at 0:20 sumit alice\n")
    (tmp_path / "other.txt").write_text("at 0:20 sumit alice\n")
    code, output = run_pytest(tmp_path)
    assert code == 1
    assert "2 failed, 1 passed" in output
    assert "failing.play:2: at 0:01:00: expected job 1.0 Held, but it is Running\n  Job 1.0 has been running" in output
    assert "failing.play:3: at 0:03:00: expected job 1.0 Idle" in output
    assert "invalid.play:1: 'sumit' is not a valid step; did you mean submit?" in output
    assert "Traceback" not in output


def test_the_plugin_is_registered() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"poolbook": PLUGIN}


@pytest.mark.parametrize(
    ("module", "loaded"),
    [
        (PLUGIN, [PLUGIN, "poolbook.adapters.testing", "poolbook.adapters"]),
        ("poolbook.adapters.testing.report", None),
    ],
)
def test_the_plugin_imports_nothing_and_playing_does_not_need_hypothesis(module: str, loaded: list[str] | None) -> None:
    program = (
        f"import sys; sys.modules['hypothesis'] = None; import {module}; "
        "print([name for name in sys.modules if name.startswith('poolbook.')])"
    )
    environment = {"PYTHONPATH": str(ROOT / ".path")}
    output = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)
    assert loaded is None or sorted(eval(output)) == sorted(loaded)


def test_without_hypothesis_an_error_names_the_extra() -> None:
    program = "import sys; sys.modules['hypothesis'] = None; import poolbook.testing"
    completed = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(ROOT / ".path")}, capture_output=True, text=True
    )
    assert completed.stderr.endswith("ImportError: poolbook.testing needs hypothesis: install poolbook[testing]\n")


def test_the_example_of_a_site_passes(tmp_path: Path) -> None:
    site = shutil.copytree(ROOT / "docs" / "examples" / "site", tmp_path / "site")
    code, output = run_pytest(site, "-k", "owner_returns or groups")
    assert (code, "2 passed" in output) == (0, True), output
