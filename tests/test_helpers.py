"""Golden: the helpers that make tests fast are correct: no case is left out, and a forked process is a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from . import forked, sampling
from .children import child
from .together import together


def test_all_cases_are_checked_and_all_failures_are_reported() -> None:
    checked = []

    @together("number, name", [(1, "a"), (2, "b"), (3, "c")])
    def odd(number: int, name: str) -> None:
        checked.append(name)
        assert number % 2 == 0

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases fail") as group_error:
        odd()
    assert checked == ["a", "b", "c"]
    assert [failure.__notes__ for failure in group_error.value.exceptions] == [
        ["the case: (1, 'a')"],
        ["the case: (3, 'c')"],
    ]


def test_a_test_without_cases_fails() -> None:
    with pytest.raises(AssertionError):
        together("case", [])(lambda case: None)()


def test_a_sample_is_spread_evenly_and_the_soak_has_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sampling.spread("abcdef", 3) == ["a", "c", "e"]
    assert sampling.spread("ab", 9) == ["a", "b"]
    for share, soaked in ((1.0, "bce"), (0.1, "b")):
        monkeypatch.setattr(sampling, "SHARE", share)
        cases = sampling.some("abcdef", 2, "f")
        assert [case for case in cases if isinstance(case, str)] == ["a", "d", "f"]
        soak_cases = [case for case in cases if not isinstance(case, str)]
        assert [(case.values, [mark.name for mark in case.marks]) for case in soak_cases] == [
            ((c,), ["soak"]) for c in soaked
        ]
    assert sampling.thorough(3) == [3, sampling.marked(6)]
    with pytest.raises(AssertionError, match="is one of the cases"):
        sampling.some("abc", 1, "x")


@pytest.mark.parametrize(
    ("examples", "cost", "taken", "cases", "cases_taken"),
    [
        (20000, 1, 20000, 500, 500),
        (20000, 200, 100, 5, 5),
        (60, 200, 1, 500, 8),
        (60, 2, 30, 5, 5),
        (10000, 1, 10000, 500, 250),
    ],
)
def test_a_short_soak_takes_fewer_examples_and_cases_but_never_none(
    monkeypatch: pytest.MonkeyPatch, examples: int, cost: int, taken: int, cases: int, cases_taken: int
) -> None:
    monkeypatch.setattr(sampling, "SOAK_EXAMPLES", examples)
    monkeypatch.setattr(sampling, "SHARE", examples / sampling.WHOLE_SOAK)
    assert sampling.soak_examples(cost) == taken
    assert sampling.soak_cases(cases) == cases_taken


SAYS = (
    "import os, sys; print(os.getcwd(), os.environ['A'], sys.argv[1:], sys.stdin.read()); print('!', file=sys.stderr)"
)


def test_a_forked_process_has_its_arguments_folder_environment_and_streams(tmp_path: Path) -> None:
    completed = forked.run(["-c", SAYS, "x", "y z"], cwd=tmp_path, env={"A": "1"})
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, f"{tmp_path} 1 ['x', 'y z'] \n", "!\n")
    assert os.environ.get("A") is None


def test_a_forked_process_has_the_umask_groups_and_input_that_it_is_given() -> None:
    groups = sorted({*os.getgroups(), 4}) if os.geteuid() == 0 else None
    says = (
        "import os, sys; sys.stdout.buffer.write(sys.stdin.buffer.read());"
        "print('', os.umask(0), sorted(os.getgroups()))"
    )
    for mask in (0o022, 0o077):
        output = forked.run(["-c", says], typed="a\udce9b", umask=mask, groups=groups).stdout
        assert output == f"a\udce9b {mask} {sorted(os.getgroups()) if groups is None else groups}\n"


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("import sys; sys.exit('no')", 1),
        ("1 / 0", 1),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import signal; signal.raise_signal(signal.SIGINT)", -signal.SIGINT),
    ],
)
def test_a_forked_process_ends_like_a_fresh_one(code: str, exit_code: int) -> None:
    assert forked.run(["-c", code]).returncode == exit_code


HANGS = """
import signal, subprocess, threading

def test_hangs():
    child = subprocess.Popen(["sleep", "100"], preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
    try:
        threading.Event().wait()
    finally:
        child.terminate()
        child.wait()
        threading.Event().wait()

def test_does_not():
    pass
"""


def test_a_test_that_waits_endlessly_fails_by_its_name_and_the_next_one_runs(tmp_path: Path) -> None:
    path = tmp_path / "test_hangs.py"
    path.write_text(HANGS)
    config = Path(__file__).parent.parent / "pyproject.toml"
    arguments = ["-q", "-c", str(config), "-p", "no:cacheprovider", "-p", "tests.conftest", "--timeout=1", str(path)]
    completed = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], cwd=config.parent, capture_output=True, text=True, timeout=200
    )
    assert "test_hangs - Failed: Timeout (>1.0s)" in completed.stdout, completed.stdout + completed.stderr
    assert "1 failed, 1 passed" in completed.stdout


def test_a_child_never_returns_into_the_test_and_ends_with_it() -> None:
    def fail(tell: int) -> None:
        os.write(tell, b"fails")
        raise SystemExit(0)

    with child(fail) as failing, child(lambda tell: signal.pause()) as waiting_child:
        assert (failing.read(), failing.read(), failing.wait()) == (b"fails", b"", 1)
        assert Path(f"/proc/{waiting_child.pid}").exists()
    assert not Path(f"/proc/{waiting_child.pid}").exists()


def test_a_forked_process_has_a_pid_and_receives_signals() -> None:
    process = forked.start(["-c", "import time; print('up', flush=True); time.sleep(60)"])
    assert process.poll() is None and Path(f"/proc/{process.pid}").exists()
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    process.terminate()
    assert process.wait(30) == -signal.SIGTERM == process.poll()


def test_a_session_whose_process_was_killed_has_another_one_for_the_next_command(tmp_path: Path) -> None:
    session = forked.Session()

    def pid() -> int:
        return int(session.run(["-c", "import os; print(os.getpid())"], cwd=tmp_path, env={}).stdout)

    first = pid()
    assert pid() == first
    killed = session.run(["-c", f"import os; os.kill({first}, 9)"], cwd=tmp_path, env={})
    assert (killed.returncode, killed.stdout, killed.stderr) == (-9, "", "")
    second = pid()
    os.kill(second, signal.SIGKILL)
    while Path(f"/proc/{second}").exists():
        time.sleep(0.01)
    assert pid() not in (first, second)
    session.close()
