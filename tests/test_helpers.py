"""Golden: the helpers that make tests fast do as they say: no case is left out, and a forked process is a process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from . import forked, sampling
from .together import together


def test_all_cases_are_checked_and_all_that_fail_are_told() -> None:
    checked = []

    @together("number, name", [(1, "a"), (2, "b"), (3, "c")])
    def odd(number: int, name: str) -> None:
        checked.append(name)
        assert number % 2 == 0

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases fail") as failed:
        odd()
    assert checked == ["a", "b", "c"]
    assert [failure.__notes__ for failure in failed.value.exceptions] == [
        ["the case: (1, 'a')"],
        ["the case: (3, 'c')"],
    ]


def test_what_has_no_case_holds_nothing() -> None:
    with pytest.raises(AssertionError):
        together("case", [])(lambda case: None)()


def test_a_sample_is_spread_evenly_and_the_soak_has_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sampling.spread("abcdef", 3) == ["a", "c", "e"]
    assert sampling.spread("ab", 9) == ["a", "b"]
    for share, soaked in ((1.0, "bce"), (0.1, "b")):
        monkeypatch.setattr(sampling, "SHARE", share)
        told = sampling.some("abcdef", 2, "f")
        assert [one for one in told if isinstance(one, str)] == ["a", "d", "f"]
        left = [one for one in told if not isinstance(one, str)]
        assert [(one.values, [mark.name for mark in one.marks]) for one in left] == [((c,), ["soak"]) for c in soaked]
    assert sampling.thorough(3) == [3, sampling.marked(6)]
    with pytest.raises(AssertionError, match="is one of the cases"):
        sampling.some("abc", 1, "x")


SAYS = (
    "import os, sys; print(os.getcwd(), os.environ['A'], sys.argv[1:], sys.stdin.read()); print('!', file=sys.stderr)"
)


def test_a_forked_process_has_its_words_folder_environment_and_streams(tmp_path: Path) -> None:
    done = forked.run(["-c", SAYS, "x", "y z"], cwd=tmp_path, env={"A": "1"})
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tmp_path} 1 ['x', 'y z'] \n", "!\n")
    assert os.environ.get("A") is None


def test_a_forked_process_has_the_umask_groups_and_input_that_it_is_given() -> None:
    groups = sorted({*os.getgroups(), 4}) if os.geteuid() == 0 else None
    says = (
        "import os, sys; sys.stdout.buffer.write(sys.stdin.buffer.read());"
        "print('', os.umask(0), sorted(os.getgroups()))"
    )
    for mask in (0o022, 0o077):
        told = forked.run(["-c", says], typed="a\udce9b", umask=mask, groups=groups).stdout
        assert told == f"a\udce9b {mask} {sorted(os.getgroups()) if groups is None else groups}\n"


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("import sys; sys.exit('no')", 1),
        ("1 / 0", 1),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import signal; signal.raise_signal(signal.SIGINT)", -signal.SIGINT),
    ],
)
def test_a_forked_process_ends_as_a_fresh_one(code: str, ended: int) -> None:
    assert forked.run(["-c", code]).returncode == ended


def test_a_forked_process_has_a_pid_and_hears_signals() -> None:
    process = forked.start(["-c", "import time; print('up', flush=True); time.sleep(60)"])
    assert process.poll() is None and Path(f"/proc/{process.pid}").exists()
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    process.terminate()
    assert process.wait(30) == -signal.SIGTERM == process.poll()
