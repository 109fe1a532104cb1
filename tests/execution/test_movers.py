"""A process that transfers files serves one job after the other, and keeps no state of one job for the next."""

from __future__ import annotations

import os
import pwd
import select
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.machine.execution.activation import Exited, Failed, FileTransfer, Started, Transferring
from poolbook.adapters.machine.execution.supervisor.mover import Mover, Movers, Task, TransferUsers
from poolbook.adapters.machine.execution.supervisor.rights import UserIds

from .bench import Bench, runs, state, wait

SECOND_US = 1_000_000
OWN = TransferUsers(None, None)


@pytest.fixture
def iwd(bench: Bench) -> Path:
    """Return a submission's directory, with an input file."""
    folder = bench.home / "iwd"
    folder.mkdir()
    (folder / "a").write_text("alpha\n")
    return folder


def start(
    bench: Bench, iwd: Path, key: str, script: str = "cat a", environment: dict[str, str] | None = None, **fields: Any
) -> None:
    """Start a job with an input, whose output comes back in a file named after the job's key."""
    transfer: dict[str, Any] = {"executable": False, "inputs": ("a",), "brought": ("stdout",), **fields}
    environment_field = {"environment": environment or {}}
    bench.sh(key, script, iwd=str(iwd), stdout=key, transfer=FileTransfer(**transfer), **environment_field)


def children(bench: Bench) -> set[int]:
    """Return the supervisor's living children: if no job runs, the idle movers."""
    pid = bench.pid()
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(child) for child in pids if runs(int(child))}


def mover(bench: Bench, iwd: Path, key: str) -> int:
    """Return the process that transferred the files of a job that has ended since."""
    start(bench, iwd, key)
    assert bench.end(key).code == 0 and (iwd / key).read_text() == "alpha\n"
    (pid,) = children(bench)
    return pid


def test_one_process_moves_the_files_of_one_job_after_the_other(bench: Bench, iwd: Path) -> None:
    assert mover(bench, iwd, "1") == mover(bench, iwd, "2")


def test_a_mover_keeps_no_state_of_a_job(bench: Bench, iwd: Path) -> None:
    pid = mover(bench, iwd, "1")

    def process_state() -> list[Any]:
        proc = Path(f"/proc/{pid}")
        umask = [line for line in (proc / "status").read_text().splitlines() if line.startswith(("Umask", "Uid"))]
        open_files = sorted(os.readlink(path).partition(":")[0] for path in (proc / "fd").iterdir())
        return [umask, open_files, os.readlink(proc / "cwd"), os.getsid(pid) == pid]

    before = process_state()
    start(bench, iwd, "2", "cat a; umask 0; echo $OWN > made", {"OWN": "value"})
    bench.end("2")
    assert (iwd / "made").read_text() == "value\n"
    assert children(bench) == {pid} and process_state() == before
    assert len(before[1]) == 4  # the three streams, and its control socket


FAILS: dict[str, dict[str, Any]] = {
    "a transfer that failed": {"inputs": ("gone",)},
    "a plugin's, which may have left anything behind": {
        "inputs": ("own://x",),
        "plugins": {"own": ("/bin/true",)},
        "plugin_seconds": 60,
    },
}


@pytest.mark.parametrize("case", FAILS)
def test_there_is_no_second_mover(bench: Bench, iwd: Path, case: str) -> None:
    pid = mover(bench, iwd, "1")
    start(bench, iwd, "2", **FAILS[case])
    assert isinstance(bench.end("2"), Failed)
    wait(lambda: not runs(pid))
    assert mover(bench, iwd, "3") != pid


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_mover_that_dies_while_idle_is_replaced(bench: Bench, iwd: Path, how: signal.Signals) -> None:
    pid = mover(bench, iwd, "1")
    os.kill(pid, how)
    wait(lambda: state(pid) == "")
    assert mover(bench, iwd, "2") != pid


def test_a_hanging_mover_keeps_no_other_job_waiting_and_ends_with_its_job(bench: Bench, iwd: Path) -> None:
    pid = mover(bench, iwd, "1")
    os.kill(pid, signal.SIGSTOP)  # as a file system may cause
    start(bench, iwd, "2")
    other = None
    for key in ("3", "4"):
        start(bench, iwd, key)
        assert bench.end(key).code == 0
        (other,) = children(bench) - {pid}
    assert not bench.of("2", Started)
    bench.supervisor.signal("2", "hold")
    end = bench.end("2")
    assert isinstance(end, Exited) and end.undelivered
    assert not runs(pid) and children(bench) == {other}


@pytest.mark.parametrize("how", ["hold", "hard", "suspend"])
def test_the_next_job_is_served_whether_a_transfer_or_its_job_ended_first(bench: Bench, iwd: Path, how: Any) -> None:
    """A mover's report and a request about its job arrive together at a supervisor that was stopped."""
    pid = mover(bench, iwd, "1")
    os.kill(pid, signal.SIGSTOP)
    start(bench, iwd, "2")
    bench.until(lambda: bench.of("2", Transferring))
    supervisor = bench.pid()
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(pid, signal.SIGCONT)
    bench.supervisor.signal("2", how)
    wait(lambda: state(pid) == "S")  # it has reported the result, and waits for the next task
    os.kill(supervisor, signal.SIGCONT)
    if how == "suspend":
        bench.until(lambda: bench.of("2", Started))
        bench.supervisor.signal("2", "continue")
    assert isinstance(bench.end("2"), Exited)
    assert mover(bench, iwd, "3")


def test_a_job_with_a_large_environment_gets_a_new_mover(bench: Bench, iwd: Path) -> None:
    pid = mover(bench, iwd, "1")
    start(bench, iwd, "2", "cat a; echo ${#B}", {name: name * 100_000 for name in "ABC"})
    bench.end("2")
    assert (iwd / "2").read_text() == "alpha\n100000\n"
    assert pid in children(bench)


# Idle movers


@pytest.fixture
def movers() -> Iterator[Movers]:
    poll = select.epoll()
    yield Movers(poll)
    poll.close()


def run_task(movers: Movers, folder: Path, hands: TransferUsers = OWN) -> Mover:
    """Return the mover that did a task: a transfer of nothing."""
    (folder / "scratch").mkdir(exist_ok=True)
    transfer = {"executable": False, "inputs": [], "brought": [], "preserve": False, "max_input_mb": None}
    order = {"key": "1", "iwd": str(folder), "executable": "/bin/true", "transfer": transfer}
    task = movers.start_task(Task("input", order, f"{folder}/scratch", 1), hands)
    select.select([task.talk], [], [])
    report = task.receive_result()
    assert report is not None and "failure" not in report, report
    return task


def has_ended(mover: Mover) -> bool:
    return os.waitpid(mover.pid, 0)[0] == mover.pid


def test_movers_that_are_idle_for_long_or_too_many_end(movers: Movers, tmp_path: Path) -> None:
    scratches = [run_task(movers, tmp_path) for _ in range(3)]
    assert len({mover.pid for mover in scratches}) == 3
    for second, mover in enumerate(scratches):
        movers.set_idle(mover, second * SECOND_US)
    assert run_task(movers, tmp_path) is scratches[2]  # the last one that became idle
    movers.set_idle(scratches[2], 3 * SECOND_US)
    movers.end_idle(30 * SECOND_US)
    assert has_ended(scratches[0]) and movers.mover_with_descriptor(scratches[1].talk.fileno()) is scratches[1]
    movers.end_idle(60 * SECOND_US)
    assert has_ended(scratches[1]) and has_ended(scratches[2])
    assert run_task(movers, tmp_path) not in scratches


@pytest.fixture
def passable() -> Iterator[Path]:
    """Return a directory that other users can enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o711)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="the files of other users are moved by root alone")
def test_no_mover_serves_two_users(movers: Movers, passable: Path) -> None:
    account, other = (pwd.getpwnam(name) for name in ("games", "news"))
    hands = {}
    for user in (account, other):
        rights = UserIds(user.pw_uid, user.pw_gid, (user.pw_gid,))
        hands[user.pw_name] = TransferUsers(rights, rights)
    owners = {}
    for name, users in (*hands.items(), ("", OWN)):
        folder = passable / (name or "root")
        (folder / "scratch").mkdir(parents=True)
        for path in (folder, folder / "scratch"):
            if name:
                os.chown(path, users.files.uid, users.files.gid)  # type: ignore[union-attr]
        owners[name] = run_task(movers, folder, users)
        movers.set_idle(owners[name], 0)
        assert owners[name].reusable
    assert len({mover.pid for mover in owners.values()}) == 3
    assert run_task(movers, passable / "games", hands["games"]) is owners["games"]
    owner_uids = run_task(movers, passable / "news", TransferUsers(hands["news"].files, hands["games"].account))
    assert owner_uids not in owners.values() and not owner_uids.reusable and has_ended(owner_uids)
    movers.end_idle(60 * SECOND_US)
