"""Golden: command lines of programs that call HTCondor's tools print, and end, as a real pool's did."""

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

# Those that change the queue, in the order in which they were typed.
STEPS = ("dask_rm", "hold_ok", "q_held", "release_ok", "rm_ok", "rm_constraint", "rm_all")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log whose job 1.0 has ended with code 3, 2.0 runs, 3.0 is held and 4.0 waits."""
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


def called_by_name(log: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return a caller of tools by their own names: what one prints, without what differs, and its exit code."""
    monkeypatch.setenv("POOLBOOK_LOG", log)
    monkeypatch.setenv("TZ", "UTC")

    def called(command: str) -> tuple[str, str, int]:
        monkeypatch.setattr("sys.argv", shlex.split(command))
        code = main()
        out, err = capsys.readouterr()
        return plain(out), plain(err), code

    return called


@pytest.fixture
def call(log: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    return called_by_name(log, capsys, monkeypatch)


def capture(name: str) -> tuple[str, tuple[str, str, int]]:
    return captured(DATA / f"{name}.txt")


def captured(path: Path) -> tuple[str, tuple[str, str, int]]:
    """A command line, and what it printed, with its exit code."""
    command, _, rest = path.read_text(encoding="utf-8").partition("\n")
    printed, _, code = rest.rpartition("--- rc=")
    out, _, err = printed.partition("--- stderr ---\n")
    return command.removeprefix("$ ").replace("alice", user_name()), (plain(out), plain(err), int(code.split()[0]))


# What differs from pool to pool and from second to second: names, addresses and instants, and how wide columns are.
DIFFERS = (
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


def plain(text: str) -> str:
    for what, word in DIFFERS:
        text = re.sub(what, word, text)
    return text


QUESTIONS = sorted({path.stem for path in DATA.glob("*.txt")} - {*STEPS, "rm_name_bad"})


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_answered_as_by_the_real_pool(name: str, call: Call) -> None:
    command, real = capture(name)
    assert call(command) == real


def test_a_change_is_told_as_by_the_real_pool(call: Call) -> None:
    for name in STEPS:
        command, real = capture(name)
        assert call(command) == real, name


def test_another_pool_is_unknown_in_the_words_of_the_tool(call: Call) -> None:
    command, real = capture("rm_name_bad")
    assert call(command) == real


@pytest.fixture
def own_names() -> Iterator[list[str]]:
    yield [host_name(), f"me@{host_name()}", "localhost", "127.0.0.1:9618"]


def test_this_pool_may_be_named(call: Call, own_names: list[str]) -> None:
    for name in own_names:
        assert call(f"condor_q -name {name} -pool {name} -totals")[2] == 0
    assert call("poolbook q -name elsewhere")[1:] == (
        "poolbook: unknown host elsewhere: a log is one pool; use -log for another\n",
        1,
    )
