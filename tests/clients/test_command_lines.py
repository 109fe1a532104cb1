"""Golden: HTCondor's tools, as called by client programs, have the recorded output and exit code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.cli.main import main
from poolbook.adapters.machine.host import host_name, user_name
from poolbook.replay.virtual_world import Behaviour

DATA = Path(__file__).resolve().parent.parent / "data" / "clients"
Call = Callable[[str], tuple[str, str, int]]

# The commands that change the queue, in the recorded order.
STEPS = ("dask_rm", "hold_ok", "q_held", "release_ok", "rm_ok", "rm_constraint", "rm_all")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Create a log in which job 1.0 exited with code 3, 2.0 is running, 3.0 is held and 4.0 is idle."""
    path = str(tmp_path_factory.mktemp("queue") / "pool.db")
    work = {"executable": "/home/alice/cl/j.sh", "arguments": "a b", "request_disk": 1024}
    other = {"executable": "/home/alice/cl/j.sh", "request_disk": 1024}

    behaviours = iter([Behaviour(seconds=1, code=3), Behaviour(seconds=600)])

    with Pool.open(path, name=host_name(), user=user_name(), behave=lambda launch: next(behaviours)) as pool:
        pool.add_machine(host_name(), cpus=4, memory=8192)
        pool.submit({**work, "arguments": "c"})
        pool.advance(10)
        pool.submit(work)
        pool.submit({**other, "hold": True})
        pool.submit({**other, "requirements": "false"})
        pool.advance(10)
    return path


def tool_caller(log: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return a function that calls a tool by its name and returns its normalized output and its exit code."""
    monkeypatch.setenv("POOLBOOK_LOG", log)
    monkeypatch.setenv("TZ", "UTC")

    def call_tool(command: str) -> tuple[str, str, int]:
        monkeypatch.setattr("sys.argv", shlex.split(command))
        code = main()
        out, err = capsys.readouterr()
        return normalize(out), normalize(err), code

    return call_tool


@pytest.fixture
def call(log: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    return tool_caller(log, capsys, monkeypatch)


def recorded_call(name: str) -> tuple[str, tuple[str, str, int]]:
    return read_recording(DATA / f"{name}.txt")


def read_recording(path: Path) -> tuple[str, tuple[str, str, int]]:
    """Return a recorded command line, and its output and exit code."""
    command, _, recording = path.read_text(encoding="utf-8").partition("\n")
    output, _, code = recording.rpartition("--- rc=")
    out, _, err = output.partition("--- stderr ---\n")
    return command.removeprefix("$ ").replace("alice", user_name()), (
        normalize(out),
        normalize(err),
        int(code.split()[0]),
    )


# Texts that differ between pools and over time: names, addresses, times, and the width of columns.
VARIABLE_TEXTS = (
    (rf"\b(?:alice|{re.escape(user_name())})\b", "USER"),
    (rf"\b(?:localhost|{re.escape(host_name())})\b", "HOST"),
    (r"<(?:HOST|127)[^> \n]*>?", "ADDRESS"),
    (r"\d?\d/\d\d(?:/\d\d)? \d\d:\d\d(?::\d\d)?", "DATE"),
    (r"\b1[78]\d{8}\b", "TIME"),
    (r"slot1_\d", "SLOT"),
    (r"-?\d+\+\d\d:\d\d:\d\d", "SPAN"),
    (r"(?:PackageID|BuildID): \S+", "BUILD"),
    (r"\$CondorPlatform: \S+ \$", "PLATFORM"),
    (r" +", " "),
)


def normalize(text: str) -> str:
    for pattern, placeholder in VARIABLE_TEXTS:
        text = re.sub(pattern, placeholder, text)
    return text


QUERIES = sorted({path.stem for path in DATA.glob("*.txt")} - {*STEPS, "rm_name_bad"})


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_has_the_same_output_as_in_htcondor(name: str, call: Call) -> None:
    command, expected = recorded_call(name)
    assert call(command) == expected


def test_a_change_has_the_same_output_as_in_htcondor(call: Call) -> None:
    for name in STEPS:
        command, expected = recorded_call(name)
        assert call(command) == expected, name


def test_another_pool_is_rejected_with_the_tool_s_message(call: Call) -> None:
    command, expected = recorded_call("rm_name_bad")
    assert call(command) == expected


@pytest.fixture
def own_names() -> Iterator[list[str]]:
    yield [host_name(), f"me@{host_name()}", "localhost", "127.0.0.1:9618"]


def test_the_pool_accepts_its_own_names(call: Call, own_names: list[str]) -> None:
    for name in own_names:
        assert call(f"condor_q -name {name} -pool {name} -totals")[2] == 0
    assert call("poolbook q -name elsewhere")[1:] == (
        "poolbook: unknown host elsewhere: a log is one pool; use -log for another\n",
        1,
    )
