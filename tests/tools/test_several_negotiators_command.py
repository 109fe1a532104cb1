"""Table: which of several negotiators is meant, as `userprio` and `status -negotiator` are typed."""

from __future__ import annotations

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


def typed(capsys: pytest.CaptureFixture[str], log: Path, *words: str) -> tuple[int, str, str]:
    code = main([*words, "-log", str(log)])
    out = capsys.readouterr()
    return code, out.out, out.err


@together(
    ("words", "error"),
    [
        ("userprio -allusers", WHICH),
        ("userprio -at 1s -allusers", WHICH),
        ("userprio -setfactor alice@x 2", WHICH),
        ("userprio -resetall", WHICH),
        ("userprio -delete alice@x", WHICH),
        ("status -negotiator", WHICH),
        ("userprio -name NEGOTIATOR_X", "there is no negotiator NEGOTIATOR_X; the pool has NEGOTIATOR, NEGOTIATOR_GPU"),
        ("userprio -setfactor a@x 2 -name X", "there is no negotiator X; the pool has NEGOTIATOR, NEGOTIATOR_GPU"),
        ("status -negotiator -name X", "there is no negotiator X; the pool has NEGOTIATOR, NEGOTIATOR_GPU"),
    ],
)
def test_none_is_meant_if_none_is_named(words: str, error: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = typed(capsys, log, *words.split())
    assert (code, out) == (1, "")
    assert error in err


def test_each_shows_its_own(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, factor in (("NEGOTIATOR", "1000.0"), ("negotiator_gpu", "10.0")):
        words = ("userprio", "-name", name, "alice", "-af", "PriorityFactor", "ResourcesUsed")
        assert typed(capsys, log, *words)[1].split() == [factor, "1"]
    _, out, _ = typed(capsys, log, "status", "-negotiator", "-name", "NEGOTIATOR_GPU", "-af", "Name")
    assert out == "NEGOTIATOR_GPU\n"
    _, out, _ = typed(capsys, log, "status", "-any", "-constraint", 'MyType == "Negotiator"', "-af", "Name")
    assert out.split() == ["NEGOTIATOR", "NEGOTIATOR_GPU"]


def test_what_is_set_is_set_in_one_accounting(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = typed(capsys, log, "userprio", "-name", "NEGOTIATOR_GPU", "-setfactor", "bob@x", "7")
    assert said == (0, "The priority factor of bob@x was set to 7.000000\n", "")
    shown = [
        typed(capsys, log, "userprio", "-allusers", "-name", name, "-af", "Name", "PriorityFactor")[1]
        for name in ("NEGOTIATOR_GPU", "NEGOTIATOR")
    ]
    assert ["bob@x 7.0" in out for out in shown] == [True, False]
