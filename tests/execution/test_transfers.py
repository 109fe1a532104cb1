"""A job's files are copied to its scratch directory, and its outputs come back: completely, or not at all."""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from poolbook.adapters.machine.execution.activation import (
    Exited,
    Failed,
    FileTransfer,
    LaunchRequest,
    Lost,
    Move,
    Running,
    Started,
    Transferring,
    Usage,
)
from poolbook.adapters.machine.execution.client import Supervisor
from poolbook.adapters.machine.execution.supervisor import mover, processes
from poolbook.adapters.machine.execution.supervisor.records import Claims
from poolbook.adapters.machine.execution.supervisor.scratch import remove
from poolbook.adapters.runtime.activations import remaps
from poolbook.domain.ports.world import How

from ..together import together
from .bench import PATIENCE_S, Bench

MANY = 1500  #: files whose transfer takes so long that something can happen meanwhile


@pytest.fixture
def iwd(bench: Bench) -> Path:
    """Return a submission's directory, with input files."""
    folder = bench.home / "iwd"
    (folder / "tree/deep").mkdir(parents=True)
    for name, text in {"a": "alpha\n", "b": "beta\n", "tree/one": "one\n", "tree/deep/two": "two\n"}.items():
        (folder / name).write_text(text)
    return folder


def start(bench: Bench, iwd: Path, script: str, key: str = "1", **fields: Any) -> None:
    """Start a shell script as a job whose output is transferred back."""
    transfer = {"executable": False, "brought": ("stdout",), **fields}
    bench.sh(key, script, iwd=str(iwd), stdout="out", transfer=FileTransfer(**transfer))


def files(folder: Path) -> dict[str, str]:
    """Return the files below a directory, with their contents."""
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


LISTING = "find . -type f | grep -v '/[._]' | LC_ALL=C sort"

INPUTS = {
    ("a",): ["a"],
    ("tree/one", "a"): ["a", "one"],
    ("tree",): ["tree/deep/two", "tree/one"],
    ("tree/",): ["deep/two", "one"],
    ("tree/deep/",): ["two"],
    ("/tree/one",): ["one"],
}


@pytest.mark.parametrize(("inputs", "file_names"), INPUTS.items(), ids=",".join)
def test_inputs_are_copied_by_name_and_directories_with_their_contents(
    bench: Bench, iwd: Path, inputs: tuple[str, ...], file_names: list[str]
) -> None:
    start(bench, iwd, LISTING, inputs=tuple(f"{iwd}{name}" if name[0] == "/" else name for name in inputs))
    assert bench.end("1").code == 0
    assert (iwd / "out").read_text().split() == [f"./{name}" for name in file_names]


PRESERVED = {
    ("tree/deep/two", "a"): ["a", "tree/deep/two"],
    ("tree/deep",): ["tree/deep/two"],
    ("tree/deep/",): ["tree/deep/two"],
    ("./a", "/tree/one"): ["a", "one"],
}


@pytest.mark.parametrize(("inputs", "file_names"), PRESERVED.items(), ids=",".join)
def test_relative_paths_are_preserved_if_requested(
    bench: Bench, iwd: Path, inputs: tuple[str, ...], file_names: list[str]
) -> None:
    inputs = tuple(f"{iwd}{name}" if name[0] == "/" else name for name in inputs)
    start(bench, iwd, LISTING, inputs=inputs, preserve=True)
    bench.end("1")
    assert (iwd / "out").read_text().split() == [f"./{name}" for name in file_names]


MAKES = (
    "echo new > made; mkdir -p d/e; echo in > d/in; echo deep > d/e/deep; echo more >> a; "
    "ln -s made link; ln -s /etc/passwd outside; ln -s /etc/passwd d/outside; ln -s ../../made d/e/link"
)

OUTPUTS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "new and changed files": ({}, {"a": "alpha\nmore\n", "made": "new\n", "link": "new\n"}),
    "by name": ({"outputs": ("made",)}, {"made": "new\n"}),
    "a directory": ({"outputs": ("d",)}, {"d/in": "in\n", "d/e/deep": "deep\n", "d/e/link": "new\n"}),
    "a directory's contents": ({"outputs": ("d/",)}, {"in": "in\n", "e/deep": "deep\n", "e/link": "new\n"}),
    "a file in a directory": ({"outputs": ("d/in",)}, {"in": "in\n"}),
    "with its path": ({"outputs": ("d/in",), "preserve": True}, {"d/in": "in\n"}),
    "none": ({"outputs": ()}, {}),
    "another name": ({"outputs": ("made",), "remaps": {"made": "x"}}, {"x": "new\n"}),
    "another place": ({"outputs": ("made",), "remaps": {"made": "x/y/z"}}, {"x/y/z": "new\n"}),
    "a directory's other name": (
        {"outputs": ("d",), "remaps": {"d": "x"}},
        {"x/in": "in\n", "x/e/deep": "deep\n", "x/e/link": "new\n"},
    ),
    "the longest of several": (
        {"outputs": ("d",), "remaps": {"d": "x", "d/e": "y"}},
        {"x/in": "in\n", "y/deep": "deep\n", "y/link": "new\n"},
    ),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_outputs_come_back(bench: Bench, iwd: Path, case: str) -> None:
    fields, expected = OUTPUTS[case]
    before = files(iwd)
    start(bench, iwd, MAKES, inputs=("a",), **fields)
    assert bench.end("1").code == 0
    assert files(iwd) == {**before, "out": "", **expected}
    assert not list(iwd.glob(".poolbook-*"))


def test_a_program_is_transferred_under_its_name_is_executable_and_never_comes_back(bench: Bench, iwd: Path) -> None:
    program = iwd / "program"
    program.write_text(
        "#!/bin/sh\necho $(basename $0); echo changed >> $0; test $PWD = $_CONDOR_JOB_IWD && echo there; exit 0\n"
    )
    program.chmod(0o600)
    transfer = FileTransfer(brought=("stdout",))
    bench.start("1", "program", iwd=str(iwd), stdout="out", transfer=transfer)
    assert bench.end("1").code == 0
    assert (iwd / "out").read_text() == "program\nthere\n"
    assert "changed\n" not in program.read_text()[-8:] and stat.S_IMODE(program.stat().st_mode) == 0o600


def test_streams_are_transferred_or_written_in_place(bench: Bench, iwd: Path) -> None:
    transfer = FileTransfer(executable=False, brought=("stdin", "stdout"), streamed=("stderr",))
    script = "cat; echo soon >&2; while ! test -e go; do sleep 0.01; done"
    bench.sh("1", script, iwd=str(iwd), stdin="tree/one", stdout="out", stderr="err", transfer=transfer)
    bench.file("iwd/err")
    assert not (iwd / "out").exists()
    (bench.folder / "execute/dir_1/scratch/go").touch()
    bench.end("1")
    assert ((iwd / "out").read_text(), (iwd / "err").read_text()) == ("one\n", "soon\n")


def test_a_file_keeps_its_mode_and_an_output_replaces_the_target_of_a_link(bench: Bench, iwd: Path) -> None:
    (iwd / "real").write_text("old\n")
    (iwd / "made").symlink_to("real")
    start(bench, iwd, "echo new > made; chmod 750 made")
    bench.end("1")
    assert (iwd / "made").is_symlink() and (iwd / "real").read_text() == "new\n"
    assert stat.S_IMODE((iwd / "real").stat().st_mode) == 0o750


def test_a_directory_keeps_its_mode_both_ways_and_a_remapped_one_is_private(bench: Bench, iwd: Path) -> None:
    (iwd / "tree").chmod(0o750)
    makes = "stat -c %a tree; touch a; mkdir -p d/e; chmod 711 d; chmod 500 d/e"
    start(bench, iwd, makes, inputs=("tree",), outputs=("d", "a"), remaps={"a": "x/y/a"})
    bench.end("1")
    assert (iwd / "out").read_text() == "750\n"
    modes = {name: f"{stat.S_IMODE((iwd / name).stat().st_mode):o}" for name in ("d", "d/e", "x", "x/y")}
    assert modes == {"d": "711", "d/e": "700", "x": "700", "x/y": "700"}


def test_output_and_error_may_be_remapped_too(bench: Bench, iwd: Path) -> None:
    transfer = FileTransfer(executable=False, brought=("stdout", "stderr"), remaps={"out": "x/said", "err": "wrong"})
    bench.sh("1", "echo said; echo wrong >&2", iwd=str(iwd), stdout="out", stderr="err", transfer=transfer)
    bench.end("1")
    assert {name: (iwd / name).read_text() for name in ("x/said", "wrong")} == {"x/said": "said\n", "wrong": "wrong\n"}
    assert not (iwd / "out").exists() and not (iwd / "err").exists()


def test_an_output_with_an_absolute_path_goes_there_or_where_its_directory_is_remapped(
    bench: Bench, iwd: Path, tmp_path: Path
) -> None:
    remaps = {f"{tmp_path}/elsewhere": f"{tmp_path}/there"}
    transfer = FileTransfer(executable=False, brought=("stdout", "stderr"), remaps=remaps)
    out, err = f"{tmp_path}/said", f"{tmp_path}/elsewhere/wrong"
    bench.sh("1", "echo said; echo wrong >&2", iwd=str(iwd), stdout=out, stderr=err, transfer=transfer)
    bench.end("1")
    assert ((tmp_path / "said").read_text(), (tmp_path / "there/wrong").read_text()) == ("said\n", "wrong\n")


def test_of_two_inputs_with_one_name_only_the_later_one_comes(bench: Bench, iwd: Path) -> None:
    (iwd / "tree/a").write_text("another\n")
    start(bench, iwd, "cat a", inputs=("a", "tree/a"))
    assert [(move.files, move.size, move.listed) for move in bench.end("1").moves[:1]] == [(1, 8, 2)]
    assert (iwd / "out").read_text() == "another\n"


def test_an_output_that_goes_to_a_device_leaves_the_device(bench: Bench, iwd: Path) -> None:
    start(bench, iwd, "echo new > made", outputs=("made",), remaps={"made": "/dev/null"})
    assert bench.end("1").code == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_transfers_are_reported_in_order(bench: Bench, iwd: Path) -> None:
    start(bench, iwd, "echo new > made", inputs=("a", "tree"))
    end = bench.end("1")
    kinds = [type(report) for report in bench.reports]
    assert kinds[0] is Transferring and kinds.index(Started) > 0 and kinds[-2:] == [Transferring, Exited]
    output_move, returned = end.moves
    assert (output_move.way, output_move.listed, output_move.files, output_move.size) == ("input", 2, 3, 14)
    assert (returned.way, returned.files, returned.size, returned.failed) == ("output", 2, 4, False)
    assert output_move.began <= output_move.ended <= end.began <= end.at <= returned.ended
    assert not end.undelivered and end.pid > 0


def test_an_absolute_path_is_an_output_too(bench: Bench, iwd: Path) -> None:
    start(bench, iwd, f"echo new > {bench.home}/made", outputs=(f"{bench.home}/made",))
    assert bench.end("1").code == 0
    assert (iwd / "made").read_text() == "new\n"


def test_a_job_whose_initial_directory_is_missing_does_not_start(bench: Bench, iwd: Path) -> None:
    start(bench, iwd / "gone", "true")
    end = bench.end("1")
    assert (end.part, end.errno, end.hold_code, end.moves) == ("iwd", 2, 14, ())


FAILURES: dict[str, tuple[str, dict[str, Any], tuple[int, int, str], str]] = {
    # the job, its transfer, the code, errno and end of its failure, and the message
    "no such input": ("true", {"inputs": ("gone", "a")}, (13, 2, "sending"), "iwd/gone: (errno 2) No such file"),
    "two of them": ("true", {"inputs": ("gone", "lost")}, (13, 2, "sending"), "2 total failures: first failure: "),
    "no such output": ("true", {"outputs": ("gone",)}, (12, 2, "sending"), "scratch/gone: (errno 2) No such file"),
    "no place for it": (
        "echo new > made",
        {"remaps": {"made": "a/made"}},
        (12, 20, "receiving"),
        "writing to file {iwd}/a/made: (errno 20) Not a directory",
    ),
    "a directory is there": ("echo new > tree", {}, (12, 21, "receiving"), "{iwd}/tree: (errno 21) Is a directory"),
    "an output from elsewhere": ("true", {"outputs": ("../../x",)}, (12, 18, "sending"), "(errno 18)"),
    "an output from a directory whose name begins alike": (
        "mkdir ../scratch2; echo secret > ../scratch2/x",
        {"outputs": ("../scratch2/x",)},
        (12, 18, "sending"),
        "(errno 18)",
    ),
    "a link to a directory whose name begins alike": (
        "mkdir ../scratch2; echo secret > ../scratch2/x; ln -s ../scratch2 x",
        {"outputs": ("x/x",)},
        (12, 18, "sending"),
        "(errno 18)",
    ),
    "a link to elsewhere": ("ln -s /etc x", {"outputs": ("x/passwd",)}, (12, 18, "sending"), "(errno 18)"),
    "a path that leads up": (
        "true",
        {"inputs": ("tree/../a", "a"), "preserve": True},
        (13, 1, "receiving"),
        "Attempt to write to illegal sandbox path: tree/../a",
    ),
    "too much input": (
        "true",
        {"inputs": ("big",), "max_input_mb": 1},
        (32, 0, "sending"),
        "(max=1 MB, this file=2 MB)",
    ),
    "too much output": (
        "head -c 2097152 /dev/zero > made",
        {"max_output_mb": 1},
        (33, 0, "sending"),
        "max total download bytes exceeded",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failed_transfer_is_reported_and_leaves_no_incomplete_file(bench: Bench, iwd: Path, case: str) -> None:
    script, fields, failure, message = FAILURES[case]
    with (iwd / "big").open("wb") as big:
        big.truncate(2 << 20)
    before = files(iwd)
    start(bench, iwd, script, **fields)
    end = bench.end("1")
    assert isinstance(end, Failed) is (end.moves[-1].way == "input")
    assert (end.failure.code, end.failure.errno, end.failure.end) == failure
    assert message.format(iwd=iwd) in end.failure.words
    assert files(iwd) == {**before, **({"out": ""} if isinstance(end, Exited) else {})}
    assert not list(iwd.glob(".poolbook-*"))


@pytest.mark.parametrize(("code", "came"), [(0, True), (3, False)])
def test_outputs_requested_on_success_stay_behind_after_a_failure_except_stdout_and_stderr(
    bench: Bench, iwd: Path, code: int, came: bool
) -> None:
    start(bench, iwd, f"echo said; echo new > made; exit {code}", success=0)
    end = bench.end("1")
    assert (end.code, end.undelivered, (iwd / "made").exists()) == (code, False, came)
    assert (iwd / "out").read_text() == "said\n"


def test_a_killed_job_transfers_nothing_back(bench: Bench, iwd: Path) -> None:
    start(bench, iwd, "echo new > made; echo ready > $0; exec sleep 1000", inputs=("a",))
    bench.until(lambda: bench.of("1", Started))
    bench.supervisor.signal("1", "soft")
    end = bench.end("1")
    assert end.signal == signal.SIGTERM and [move.way for move in end.moves] == ["input"]
    assert not (iwd / "made").exists() and not (iwd / "out").exists()


# Events during a transfer


@pytest.fixture
def many_inputs(iwd: Path) -> Path:
    """Create so many inputs that their transfer takes time."""
    folder = iwd / "many"
    folder.mkdir()
    for number in range(MANY):
        (folder / str(number)).write_text("x")
    return folder


def stop_transfer(bench: Bench, way: str) -> None:
    """Stop the job's transfer in this direction while it is running."""
    bench.until(
        lambda: (
            (way, 0) in [(transfer.moves[-1].way, transfer.moves[-1].ended) for transfer in bench.of("1", Transferring)]
        )
    )
    bench.supervisor.signal("1", "suspend")


@pytest.mark.parametrize("how", ["soft", "hold", "remove", "hard"])
def test_a_job_that_is_ended_during_its_input_transfer_never_starts(
    bench: Bench, iwd: Path, many_inputs: Path, how: Any
) -> None:
    start(bench, iwd, "echo ran > made", inputs=("many",))
    bench.supervisor.signal("1", "suspend")
    bench.supervisor.signal("1", how)
    end = bench.end("1")
    assert isinstance(end, Exited) and (end.code, end.signal, end.began) == (None, None, 0)
    assert end.undelivered and end.moves[0].ended == 0 and not (iwd / "made").exists()


OUTPUT = f"i=0; while test $i -lt {MANY}; do echo $i > f$i; i=$((i+1)); done"


@pytest.mark.parametrize("how", ["hold", "remove", "hard"])
def test_a_job_that_is_ended_during_its_output_transfer_leaves_no_partial_file(
    bench: Bench, iwd: Path, how: Any
) -> None:
    before = files(iwd)
    start(bench, iwd, OUTPUT)
    stop_transfer(bench, "output")
    bench.supervisor.signal("1", how)
    end = bench.end("1")
    bench.supervisor.acknowledge(["1"])
    bench.until(lambda: not list(iwd.glob(".poolbook-*")))
    assert end.undelivered and end.code == 0
    assert files(iwd) == before and not list(iwd.glob(".poolbook-*"))


def test_a_soft_kill_lets_an_output_transfer_finish(bench: Bench, iwd: Path) -> None:
    start(bench, iwd, OUTPUT)
    stop_transfer(bench, "output")
    bench.supervisor.signal("1", "soft")
    end = bench.end("1")
    assert not end.undelivered and len(list(iwd.glob("f*"))) == MANY


def test_a_suspended_transfer_continues_when_resumed(bench: Bench, iwd: Path, many_inputs: Path) -> None:
    start(bench, iwd, "ls many | wc -l", inputs=("many",))
    bench.supervisor.signal("1", "suspend")
    bench.supervisor.signal("1", "continue")
    assert bench.end("1").code == 0
    assert (iwd / "out").read_text().split() == [str(MANY)]


@pytest.mark.parametrize("way", ["input", "output"])
def test_a_killed_supervisor_takes_the_transfer_with_it_and_leaves_no_partial_file(
    bench: Bench, iwd: Path, many_inputs: Path, way: str
) -> None:
    before = files(iwd)
    start(bench, iwd, OUTPUT if way == "output" else "true", inputs=("many",) if way == "input" else ())
    stop_transfer(bench, way)
    bench.until(lambda: True)
    os.kill(bench.pid(), signal.SIGKILL)
    end = bench.end("1")
    assert isinstance(end, Lost)
    bench.supervisor.acknowledge(["1"])
    bench.until(lambda: not list(iwd.glob(".poolbook-*")))
    assert files(iwd) == before and not list(iwd.glob(".poolbook-*"))


def test_a_transfer_is_not_stopped_before_it_has_closed_its_supervisors_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If it were stopped earlier, clients that connect would wait for a supervisor that was killed."""
    leave = processes.close_all_but

    def takes_its_time(*kept_bytes: int) -> None:
        time.sleep(0.2)
        leave(*kept_bytes)

    monkeypatch.setattr(processes, "close_all_but", takes_its_time)
    monkeypatch.setattr(mover, "_run_task", lambda *_: time.sleep(1000))
    read_end, let_go = os.pipe()
    mover_pid = mover.fork(mover.Task("input", {}, "/", 0), mover.TransferUsers(None, None))
    os.close(let_go)
    mover_pid.wait_until_detached()
    os.kill(mover_pid.pid, signal.SIGSTOP)
    # The end of a pipe is readable when its other end is closed everywhere.
    readable, _, _ = select.select([read_end], [], [], PATIENCE_S)
    os.kill(mover_pid.pid, signal.SIGKILL)
    os.waitpid(mover_pid.pid, 0)
    os.close(read_end)
    assert (readable, mover_pid.receive_result()) == ([read_end], None)


def test_a_killed_transfer_does_not_end_the_job(bench: Bench, iwd: Path, many_inputs: Path) -> None:
    start(bench, iwd, "true", inputs=("many",))
    bench.supervisor.signal("1", "suspend")
    bench.until(lambda: bench.of("1", Transferring))
    os.kill(Claims(str(bench.folder)).by_key["1"].pid, signal.SIGKILL)
    end = bench.end("1")
    assert isinstance(end, Exited) and end.undelivered and end.failure is None


@pytest.fixture
def later_supervisor(bench: Bench) -> Iterator[Supervisor]:
    """Return the handle of a pool that starts after the first one was killed."""
    with Supervisor(bench.folder) as supervisor:
        yield supervisor


def test_a_pool_that_reconnects_receives_the_state_of_a_transfer(
    bench: Bench, iwd: Path, many_inputs: Path, later_supervisor: Supervisor
) -> None:
    start(bench, iwd, "true", inputs=("many",))
    start(bench, iwd, "while ! test -e go; do sleep 0.01; done; echo new > made", key="2", inputs=("a",))
    bench.supervisor.signal("1", "suspend")
    bench.until(lambda: bench.of("2", Started))
    states = later_supervisor.recover(["1", "2"])
    assert isinstance(states["1"], Transferring) and states["1"].moves[0].ended == 0
    assert isinstance(states["2"], Running) and [type(move) for move in states["2"].moves] == [Move]
    later_supervisor.signal("1", "hard")
    (bench.folder / "execute/dir_2/scratch/go").touch()
    ends: dict[str, Any] = {}
    while len(ends) < 2:
        ends |= {report.key: report for report in later_supervisor.poll(0.1) if isinstance(report, Exited)}
    assert ends["1"].undelivered and [move.way for move in ends["2"].moves] == ["input", "output"]


# Outputs that are moved


def inodes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in folder.iterdir()}


STAYS = {
    "a hard link": "echo new > made; ln made other",
    "a link": "echo new > real; ln -s real made",
    "unusual rights": "echo new > made; chmod 4755 made",
    "a directory that cannot be written": "mkdir d; echo new > d/made; chmod 500 d",
}


@pytest.mark.parametrize("script", ["echo new > made", *STAYS.values()])
def test_an_output_is_moved_if_a_copy_would_be_the_same(bench: Bench, iwd: Path, script: str) -> None:
    outputs = ("d/made",) if "mkdir" in script else ("made",)
    start(bench, iwd, f"{script}; ls -Li {outputs[0]} | cut -d' ' -f1", outputs=outputs)
    end = bench.end("1")
    inode = int((iwd / "out").read_text())
    moves = script not in STAYS.values() or ("mkdir" in script and os.geteuid() == 0)
    assert (end.code, end.undelivered, (iwd / "made").read_text()) == (0, False, "new\n")
    assert (inodes(iwd)["made"] == inode) is moves and not list(iwd.glob(".poolbook-*"))
    assert (end.moves[-1].files, end.moves[-1].size, stat.S_IMODE((iwd / "made").stat().st_mode) & 0o7000) == (
        2,
        4 + len(f"{inode}\n"),
        0,
    )


@pytest.mark.parametrize("place", ["a separate group", "another disk"])
def test_an_output_is_copied_if_its_target_gives_it_other_attributes(bench: Bench, iwd: Path, place: str) -> None:
    target = iwd / "there"
    if place == "another disk":
        target = Path("/dev/shm") / f"poolbook-{os.getpid()}"
    target.mkdir()
    if place == "a separate group":
        target.chmod(0o2777)
    start(bench, iwd, "echo new > made; ls -i made | cut -d' ' -f1", remaps={"made": f"{target}/made"})
    try:
        assert bench.end("1").undelivered is False
        assert inodes(target)["made"] != int((iwd / "out").read_text()) and (target / "made").read_text() == "new\n"
        assert list(inodes(target)) == ["made"]
    finally:
        for path in target.iterdir():
            path.unlink()
        target.rmdir()


HUNDRED = {str(number): f"{number}\n" for number in range(1, 101)} | {"e/f": "deep\n"}
TREES: dict[str, tuple[str, dict[str, Any], dict[str, str], bool]] = {
    # changes in a directory of a hundred files, the transfer, the result, and whether it was moved as a whole
    "as it is": ("", {}, {f"d/{name}": text for name, text in HUNDRED.items()}, True),
    "another name": ("", {"remaps": {"d": "x/y"}}, {f"x/y/{name}": text for name, text in HUNDRED.items()}, True),
    "a link in it": (
        "ln -s 1 d/link",
        {},
        {f"d/{name}": text for name, text in (HUNDRED | {"link": "1\n"}).items()},
        False,
    ),
    "a link that leads out": (
        "ln -s /etc/passwd d/l",
        {},
        {f"d/{name}": text for name, text in HUNDRED.items()},
        False,
    ),
    "two names of a file": (
        "ln d/1 d/0",
        {},
        {f"d/{name}": text for name, text in (HUNDRED | {"0": "1\n"}).items()},
        False,
    ),
    "a file of it with another name": (
        "",
        {"remaps": {"d/1": "x"}},
        {"x": "1\n", **{f"d/{name}": text for name, text in HUNDRED.items() if name != "1"}},
        False,
    ),
    "one of its files alone": (
        "",
        {"outputs": ("d/7", "d")},
        {"7": "7\n", **{f"d/{name}": text for name, text in HUNDRED.items()}},
        False,
    ),
    "itself and a file of it": (
        "",
        {"outputs": ("d", "d/7")},
        {"7": "7\n", **{f"d/{name}": text for name, text in HUNDRED.items()}},
        True,
    ),
    "a file of it with its path": ("", {"outputs": ("d/7",), "preserve": True}, {"d/7": "7\n"}, False),
    "a directory has its name": (
        "",
        {"remaps": {"d": "tree"}},
        {"tree/one": "one\n", "tree/deep/two": "two\n", **{f"tree/{name}": text for name, text in HUNDRED.items()}},
        False,
    ),
    "more than is allowed": ("head -c 3000000 /dev/zero > d/1", {"max_output_mb": 1}, {}, False),
}


@pytest.mark.parametrize("case", TREES)
def test_a_directory_with_many_files_is_moved_as_a_whole_if_the_result_is_the_same(
    bench: Bench, iwd: Path, case: str
) -> None:
    script, fields, expected_files, expected = TREES[case]
    before = files(iwd)
    makes = "mkdir -p d/e; for i in $(seq 100); do echo $i > d/$i; done; echo deep > d/e/f; stat -c %i d; "
    start(bench, iwd, f"{makes}{script}", **{"outputs": ("d",), **fields})
    end = bench.end("1")
    contents = files(iwd)
    inode = int(contents.pop("out"))
    if end.failure is None:
        assert contents == {**before, **expected_files}
    assert any(path.stat().st_ino == inode for path in iwd.rglob("*")) is expected
    assert (end.failure is not None) is (case == "more than is allowed") and not list(iwd.glob(".poolbook-*"))


def test_an_output_that_is_requested_twice_comes_twice(bench: Bench, iwd: Path) -> None:
    outputs = ("made", "./made", "d", "d/")
    start(bench, iwd, "echo new > made; mkdir d; echo in > d/in", outputs=outputs, remaps={"./made": "again"})
    assert bench.end("1").undelivered is False
    assert [(iwd / name).read_text() for name in ("made", "d/in", "in")] == ["new\n", "in\n", "in\n"]


def test_a_jobs_disk_usage_counts_moved_files(bench: Bench, iwd: Path) -> None:
    start(bench, iwd, "head -c 3000000 /dev/urandom > made")
    assert bench.end("1").disk_kb >= 2900


@contextmanager
def nested_directories(folder: Path, depth: int) -> Iterator[None]:
    """Create this many nested directories, and a file in the innermost."""
    directory = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=directory)
        above, directory = directory, os.open("d", os.O_RDONLY, dir_fd=directory)
        os.close(above)
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=directory))
    os.close(directory)
    try:
        yield
    finally:  # pytest's own cleanup does not reach that depth
        assert all(step is None for step in remove(str(folder)))


@pytest.mark.soak
def test_an_input_may_be_deeper_than_path_calls_can_reach(bench: Bench, iwd: Path) -> None:
    with nested_directories(iwd, 1100):
        bench.sh("1", f"test -e {'d/' * 1100}f", iwd=str(iwd), transfer=FileTransfer(executable=False, inputs=("d",)))
        assert bench.end("1").code == 0
        bench.supervisor.acknowledge(["1"])
        bench.until(
            lambda: not list((bench.folder / "execute").glob("*/scratch/d"))
        )  # emptied, and reused for another job


@pytest.mark.soak
def test_a_tree_too_deep_for_a_path_is_removed(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    with nested_directories(tmp_path / "tree", 3000):
        pass
    assert list(tmp_path.iterdir()) == []


@together(
    "text, expected",
    [
        ("", {}),
        ("nothing", {}),
        ("a = b; c = d e ;", {"a": "b", "c": "d e"}),
        ("d =", {"d": ""}),
        ("a = one; a = two", {"a": "one"}),
        (r"a\=b = x\=y; c = z\;w", {"a=b": r"x\=y", "c": "z;w"}),
        (r"c\;d = e; f; g = h", {"d": "e", "g": "h"}),
        (r"a\b = c\d", {r"a\b": r"c\d"}),
    ],
)
def test_remaps_are_parsed_as_in_htcondor(text: str, expected: dict[str, str]) -> None:
    assert remaps(text) == expected


def test_a_remapped_name_may_be_remapped_in_turn(bench: Bench, iwd: Path) -> None:
    names = {"a": "b", "b": "c", "d": "e", "e": "f"}
    script = "echo 1 > a; mkdir d; echo 2 > d/x"
    bench.sh("1", script, iwd=str(iwd), transfer=FileTransfer(executable=False, outputs=("a", "d"), remaps=names))
    assert bench.end("1").failure is None
    assert (iwd / "c").read_text() == "1\n" and (iwd / "f/x").read_text() == "2\n"


def test_a_cycle_of_remaps_is_reported(bench: Bench, iwd: Path) -> None:
    names = {"a": "b", "b": "a"}
    bench.sh("1", "echo 1 > a; echo 2 > c", iwd=str(iwd), transfer=FileTransfer(executable=False, remaps=names))
    failure = bench.end("1").failure
    assert (failure.code, failure.errno) == (12, errno.EPERM)
    assert failure.words.startswith("remaps resulted in a cycle: <0: a><1: b><2: a>")
    assert (iwd / "c").read_text() == "2\n"


def test_an_empty_remap_is_the_directory_itself(bench: Bench, iwd: Path) -> None:
    bench.sh("1", "echo 1 > a", iwd=str(iwd), transfer=FileTransfer(executable=False, remaps={"a": ""}))
    failure = bench.end("1").failure
    assert failure.errno == errno.EISDIR and failure.words.startswith(f"writing to file {iwd}/: ")


CORES: dict[str, tuple[str, tuple[str, ...] | None, str]] = {
    # what the process does, which outputs the job names, and the result
    "of the job": ("echo dumped > core.$$", None, "dumped\n"),
    "without a number": ("echo dumped > core", ("x",), "dumped\n"),
    "of a job without outputs": ("echo dumped > core", (), "dumped\n"),
    "of another process": ("echo dumped > core.1", (), ""),
    "a directory": ("mkdir core", (), ""),
}


@together("case", CORES)
def test_a_core_file_comes_back_by_the_jobs_name(bench: Bench, iwd: Path, case: str) -> None:
    script, outputs, content = CORES[case]
    key, place = str(len(bench.reports)), iwd / "core.1.0"
    place.unlink(missing_ok=True)
    bench.sh(key, f"echo > x; {script}", iwd=str(iwd), transfer=FileTransfer(executable=False, outputs=outputs))
    end = bench.end(key)
    assert (place.read_text() if place.exists() else "", end.core_file) == (content, str(place) if content else "")


def test_without_transfer_a_core_file_is_renamed_only_if_the_jobs_process_left_it(bench: Bench, iwd: Path) -> None:
    (iwd / "core").write_text("mine\n")
    bench.sh("1", "true", iwd=str(iwd), run_in_iwd=True)
    assert bench.end("1").core_file == "" and (iwd / "core").read_text() == "mine\n"
    (iwd / "core").unlink()
    bench.sh("2", "kill -SEGV $$", iwd=str(iwd), run_in_iwd=True, core_bytes=-1)
    end = bench.end("2")
    assert end.core and (iwd / "core.1.0").exists() == bool(end.core_file)


def test_a_program_is_executable_for_all_and_replaces_an_input_of_its_name(bench: Bench, iwd: Path) -> None:
    (iwd / "own").mkdir()
    for path, text in ((iwd / "own/run", "#!/bin/sh\necho input\n"), (iwd / "run", "#!/bin/sh\nstat -c %a $0\n")):
        path.write_text(text)
        path.chmod(0o600)
    transfer = FileTransfer(inputs=("own/run",), brought=("stdout",))
    bench.start("1", "run", iwd=str(iwd), stdout="out", transfer=transfer)
    assert bench.end("1").code == 0 and (iwd / "out").read_text() == "755\n"


def test_a_program_that_is_not_transferred_is_looked_up_among_the_inputs(bench: Bench, iwd: Path) -> None:
    (iwd / "tool").mkdir()
    (iwd / "tool/run").write_text("#!/bin/sh\necho $0\n")
    (iwd / "tool/run").chmod(0o755)
    transfer = FileTransfer(executable=False, inputs=("tool",), brought=("stdout",))
    bench.start("1", "tool/run", iwd=str(iwd), stdout="out", transfer=transfer)
    assert bench.end("1").code == 0
    assert (iwd / "out").read_text() == f"{bench.folder}/execute/dir_1/scratch/tool/run\n"


def test_a_dot_names_a_directorys_contents_and_a_device_is_an_empty_file(bench: Bench, iwd: Path) -> None:
    (iwd / "tree").mkdir(exist_ok=True)
    (iwd / "tree/leaf").write_text("leaf\n")
    transfer = FileTransfer(executable=False, inputs=("tree/.", "/dev/null"), brought=("stdout",))
    bench.sh("1", "cat leaf; stat -c '%F' null", iwd=str(iwd), stdout="out", transfer=transfer)
    assert bench.end("1").code == 0
    assert (iwd / "out").read_text() == "leaf\nregular empty file\n"


def test_output_that_cannot_be_streamed_has_its_own_hold_code(bench: Bench, iwd: Path) -> None:
    for key, streams in (("1", {"stdout": "none/out"}), ("2", {"stdout": "out", "stderr": "none/err"})):
        transfer = FileTransfer(executable=False, streamed=("stdout", "stderr"))
        bench.sh(key, "true", iwd=str(iwd), transfer=transfer, **streams)
        end, message = bench.end(key), {"1": "output", "2": "error"}[key]
        place = iwd / {"1": "none/out", "2": "none/err"}[key]
        assert (end.hold_code, end.errno) == (9, 0)
        assert end.reason == f"unable to establish standard {message} stream ({place}: No such file or directory)"


# Jobs whose inputs are transferred before they may start


def wait_with_files(bench: Bench, iwd: Path) -> LaunchRequest:
    """Start a job that waits after its transfer. Return the request that lets it start."""
    transfer = FileTransfer(executable=False, inputs=("a",), brought=("stdout",))
    request = bench.activation("1", "/bin/sh", "-c", "cat a", iwd=str(iwd), stdout="out", transfer=transfer)
    bench.supervisor.start([evolve(request, waits=True)])
    bench.until(lambda: any(report.moves[-1].ended for report in bench.of("1", Transferring)))
    return request


def test_a_job_waits_with_its_files_until_it_is_started_again(bench: Bench, iwd: Path) -> None:
    request = wait_with_files(bench, iwd)
    assert isinstance(bench.supervisor.recover(["1"])["1"], Transferring)
    (iwd / "a").write_text("changed since\n")
    bench.sh("2", "true", iwd=str(iwd), transfer=FileTransfer(executable=False))  # with the mover of the first
    assert bench.end("2").code == 0
    assert not bench.of("1", Started) + bench.of("1", Usage)
    bench.supervisor.start([request])
    assert bench.end("1").code == 0
    assert (iwd / "out").read_text() == "alpha\n"


def test_a_job_that_may_start_before_its_files_have_arrived_starts_with_them(
    bench: Bench, iwd: Path, many_inputs: Path
) -> None:
    request = bench.activation(
        "1", "/bin/sh", "-c", "ls | grep -c ^[0-9]", iwd=str(iwd), stdout="out",
        transfer=FileTransfer(executable=False, inputs=(f"{many_inputs}/",), brought=("stdout",)),
    )  # fmt: skip
    bench.supervisor.start([evolve(request, waits=True), request])
    assert bench.end("1").code == 0
    assert int((iwd / "out").read_text()) == MANY


@pytest.mark.parametrize("how", ["soft", "hold", "remove", "hard"])
def test_a_signal_ends_a_job_that_waits_with_its_files(bench: Bench, iwd: Path, how: How) -> None:
    request = wait_with_files(bench, iwd)
    bench.supervisor.signal("1", "suspend")
    bench.supervisor.signal("1", how)
    end = bench.end("1")
    assert (end.began, end.code, end.signal, end.undelivered) == (0, None, None, True)
    bench.supervisor.start([request])
    bench.sh("2", "true", iwd=str(iwd), transfer=FileTransfer(executable=False))  # the mover was not killed
    assert bench.end("2").code == 0
    assert not (iwd / "out").exists()


def test_the_directory_of_a_job_that_waits_is_removed_when_its_end_is_acknowledged(bench: Bench, iwd: Path) -> None:
    wait_with_files(bench, iwd)
    bench.supervisor.signal("1", "hard")
    bench.supervisor.acknowledge(["1"])
    bench.until(lambda: not list(bench.folder.rglob("scratch/a")) and not bench.supervisor.claimed_keys())
    assert bench.supervisor.recover(["1"]) == {"1": "unknown"}
