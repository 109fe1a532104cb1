"""Table: which of several negotiators `userprio` and `status -negotiator` use, by the arguments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.cli.main import main

from ..together import together

CONFIG = """\
NUM_SLOTS = 1
SLOT_TYPE_0_PARTITIONABLE = false
RUNBENCHMARKS = False
DAEMON_LIST = MASTER COLLECTOR NEGOTIATOR NEGOTIATOR_GPU SCHEDD STARTD
NEGOTIATOR_GPU.NEGOTIATOR_SLOT_CONSTRAINT = Machine == "gpu"
NEGOTIATOR_GPU.DEFAULT_PRIO_FACTOR = 10
"""
JOB = {"executable": "/bin/sleep", "arguments": "1000", "getenv": "false"}
WHICH = "this pool has several negotiators (NEGOTIATOR, NEGOTIATOR_GPU): select one with -name"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Alice has a slot of each of two negotiators."""
    path = tmp_path_factory.mktemp("several") / "pool.db"
    with Pool.open(path, config=CONFIG) as pool:
        for name in ("gpu", "cpu"):
            pool.add_machine(name)
            pool.submit(JOB, user="alice")
        pool.advance(50)
    return path


def run_command(capsys: pytest.CaptureFixture[str], log: Path, *arguments: str) -> tuple[int, str, str]:
    code = main([*arguments, "-log", str(log)])
    output = capsys.readouterr()
    return code, output.out, output.err


@together(
    ("arguments", "error"),
    [
        ("userprio -allusers", WHICH),
        ("userprio -at 2030-01-01 -allusers", WHICH),
        ("userprio -setfactor alice@x 2", WHICH),
        ("userprio -resetall", WHICH),
        ("userprio -delete alice@x", WHICH),
        ("status -negotiator", WHICH),
        ("userprio -name NEGOTIATOR_X", "there is no negotiator NEGOTIATOR_X; the pool has NEGOTIATOR, NEGOTIATOR_GPU"),
        ("userprio -setfactor a@x 2 -name X", "there is no negotiator X; the pool has NEGOTIATOR, NEGOTIATOR_GPU"),
        ("status -negotiator -name X", "there is no negotiator X; the pool has NEGOTIATOR, NEGOTIATOR_GPU"),
    ],
)
def test_an_unnamed_negotiator_is_ambiguous(
    arguments: str, error: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run_command(capsys, log, *arguments.split())
    assert (code, out) == (1, "")
    assert error in err


def test_each_negotiator_shows_its_own_accounts(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, factor in (("NEGOTIATOR", "1000.0"), ("negotiator_gpu", "10.0")):
        arguments = ("userprio", "-name", name, "alice", "-af", "PriorityFactor", "ResourcesUsed")
        assert run_command(capsys, log, *arguments)[1].split() == [factor, "1"]
    _, out, _ = run_command(capsys, log, "status", "-negotiator", "-name", "NEGOTIATOR_GPU", "-af", "Name")
    assert out == "NEGOTIATOR_GPU\n"
    _, out, _ = run_command(capsys, log, "status", "-any", "-constraint", 'MyType == "Negotiator"', "-af", "Name")
    assert out.split() == ["NEGOTIATOR", "NEGOTIATOR_GPU"]


def test_a_setting_changes_only_one_negotiators_accounts(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = run_command(capsys, log, "userprio", "-name", "NEGOTIATOR_GPU", "-setfactor", "bob@x", "7")
    assert output == (0, "The priority factor of bob@x was set to 7.000000\n", "")
    outputs = [
        run_command(capsys, log, "userprio", "-allusers", "-name", name, "-af", "Name", "PriorityFactor")[1]
        for name in ("NEGOTIATOR_GPU", "NEGOTIATOR")
    ]
    assert ["bob@x 7.0" in out for out in outputs] == [True, False]


def test_why_names_the_negotiator_that_decided(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stories = [run_command(capsys, log, "why", job, "-v")[1] for job in ("1.0", "2.0")]
    matched_by = {
        name for story in stories for name in re.findall("The negotiator (NEGOTIATOR\\w*) matched job", story)
    }
    assert sorted(matched_by) == ["NEGOTIATOR", "NEGOTIATOR_GPU"]
    _, out, _ = run_command(capsys, log, "why", "slot1@gpu")
    assert "The negotiator NEGOTIATOR_GPU matched it" in out


def test_why_names_the_negotiator_that_found_no_slot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "pool.db"
    with Pool.open(log, config=CONFIG) as pool:
        pool.add_machine("cpu")
        pool.submit({**JOB, "requirements": "Never"}, user="bob")
        pool.advance(100)
    _, out, _ = run_command(capsys, log, "why", "1.0", "-v")
    assert re.search(r"cycle of NEGOTIATOR(_GPU)? at [\d: -]+ (reported|found no slot)", out)
