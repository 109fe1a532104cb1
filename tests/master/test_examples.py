"""golden: the systemd units and the Containerfile in docs/examples call Poolbook with options that it has."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import COMMANDS
from poolbook.adapters.condor_tools.options import command_table, parse

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
UNITS = sorted(path.name for path in EXAMPLES.glob("*.service"))


def section(unit: str, name: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(EXAMPLES / unit)
    return dict(parser[name])


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_starts_a_command_and_leaves_jobs_alone(unit: str) -> None:
    service = section(unit, "Service")
    program, command, *options = shlex.split(service["ExecStart"])
    assert Path(program).name == "poolbook" and command in COMMANDS
    assert parse(command_table(command), options).value("log").startswith("/var/lib/poolbook/")
    assert service["KillMode"] == "process"


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_accepts_a_unit(unit: str, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        assert {"ExecStart", "Restart"} <= section(unit, "Service").keys()
        return
    text = (EXAMPLES / unit).read_text().replace("/usr/local/bin/poolbook", "/bin/true")
    (tmp_path / unit).write_text(text)
    checked = subprocess.run([program, "verify", tmp_path / unit], capture_output=True, text=True, timeout=150)
    assert (checked.returncode, [line for line in checked.stderr.splitlines() if unit in line]) == (0, [])


def test_the_containerfile_starts_the_master() -> None:
    lines = (EXAMPLES / "Containerfile").read_text().splitlines()
    assert 'ENTRYPOINT ["poolbook", "master"]' in lines
    assert "STOPSIGNAL SIGTERM" in lines
