"""Golden: what survives the death of the pool, of the supervisor and of the machine, and what is reported about the
rest."""

from __future__ import annotations

import errno
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from poolbook.adapters.machine.execution import client
from poolbook.adapters.machine.execution.activation import Exited, Failed, Lost, Running, Started
from poolbook.adapters.machine.execution.client import ReplacedError, Supervisor, SupervisorError
from poolbook.adapters.machine.execution.supervisor.records import UNHELD
from poolbook.adapters.sockets import connect

from .bench import Bench, runs, wait

ROOT = Path(__file__).parent.parent.parent

# A pool in a separate process: starts a job that ends on request and one that continues, and is killed.
POOL = """
import os, signal, sys
from pathlib import Path
from poolbook.adapters.machine.execution.activation import LaunchRequest, Started
from poolbook.adapters.machine.execution.client import Supervisor
home = Path(sys.argv[1])
supervisor = Supervisor(home / "pool")
work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; while ! [ -e stop ]; do sleep 0.01; done; exit 6"
jobs = {"ends": ("/bin/sh", "-c", work), "goes": ("/bin/sleep", "1000")}
supervisor.start([
    LaunchRequest(key=key, job="1", slot="s", executable=program, arguments=rest, iwd=str(home), run_in_iwd=True)
    for key, (program, *rest) in jobs.items()
])
started = 0
while started < 2:
    started += sum(isinstance(report, Started) for report in supervisor.poll(10))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_restarted_pool_finds_its_jobs_and_how_they_ended(bench: Bench) -> None:
    completed = subprocess.run([sys.executable, "-c", POOL, str(bench.home)], env={"PYTHONPATH": str(ROOT / ".path")})
    assert completed.returncode == -signal.SIGKILL
    (bench.home / "stop").touch()
    exited = bench.until(lambda: isinstance(bench.supervisor.recover(["ends"])["ends"], Exited))
    assert exited
    states = bench.supervisor.recover(["ends", "goes", "never"])
    assert isinstance(states["ends"], Exited)
    assert states["ends"].code == 6
    assert states["ends"].user_us > 30_000
    assert isinstance(states["goes"], Running)
    assert runs(states["goes"].pid)
    assert states["never"] == "unknown"
    bench.supervisor.signal("goes", "hard")
    assert bench.end("goes").signal == signal.SIGKILL


def test_a_record_is_stored_until_it_is_acknowledged_even_without_a_supervisor(bench: Bench) -> None:
    bench.sh("1", "exit 5")
    end = bench.end("1")
    bench.kill_supervisor()
    assert bench.supervisor.recover(["1"]) == {"1": end}
    bench.supervisor.acknowledge(["1"])
    bench.until(lambda: not bench.supervisor.claimed_keys())
    bench.until(lambda: not list((bench.folder / "execute").glob("dir_1/scratch/[!.]*")))
    bench.kill_supervisor()
    assert bench.supervisor.recover(["1"]) == {"1": "unknown"}


def test_an_acknowledged_directory_that_the_job_changed_is_removed(bench: Bench) -> None:
    bench.sh("1", "mkdir -p a/b c; touch a/b/file; chmod 0 a/b c; ln -s / link; mkfifo fifo; chmod 750 .")
    bench.end("1")
    assert (bench.folder / "execute/dir_1/scratch/fifo").exists()
    bench.supervisor.acknowledge(["1"])
    wait(lambda: not (bench.folder / "execute/dir_1").exists())


@pytest.mark.parametrize("crash", [False, True])
def test_a_directory_below_another_place_is_removed_too_even_by_the_next_supervisor(bench: Bench, crash: bool) -> None:
    place = bench.home / "place"
    place.mkdir()
    bench.sh(
        "1", "touch file; chmod 750 .; echo $_CONDOR_SCRATCH_DIR; exec sleep 1000", stdout="out", execute=str(place)
    )
    scratch = bench.file("out").strip()
    assert scratch == f"{place}/dir_1/scratch"
    if crash:
        bench.kill_supervisor()
        assert isinstance(bench.end("1"), Lost)
    else:
        bench.supervisor.signal("1", "hard")
        bench.end("1")
    assert (place / "dir_1").exists()
    bench.supervisor.acknowledge(["1"])
    wait(lambda: not list(place.iterdir()))


def test_unclaimed_directories_in_another_place_are_removed_by_the_next_supervisor(bench: Bench) -> None:
    place = bench.home / "place"
    place.mkdir()
    bench.sh("1", "true", execute=str(place))
    bench.end("1")
    bench.supervisor.acknowledge(["1"])  # the directory is stored for another job
    bench.until(lambda: not bench.supervisor.claimed_keys())
    assert list(place.iterdir())
    bench.kill_supervisor()
    bench.supervisor.recover([])
    wait(lambda: not list(place.iterdir()))


def test_a_missing_place_fails_the_start_with_its_name(bench: Bench) -> None:
    bench.sh("1", "true", execute="/nowhere/at/all")
    end = bench.end("1")
    assert isinstance(end, Failed)
    assert (end.hold_code, end.reason) == (6, "scratch /nowhere/at/all/dir_1: No such file or directory")


def test_an_acknowledgement_does_not_release_a_running_job(bench: Bench) -> None:
    bench.sh("1", "while ! [ -e stop ]; do sleep 0.01; done; exit 3", run_in_iwd=True)
    bench.supervisor.acknowledge(["1"])
    assert isinstance(bench.supervisor.recover(["1"])["1"], Running)  # it has heard of it, while the job runs
    (bench.home / "stop").touch()
    assert bench.end("1").code == 3
    assert bench.supervisor.claimed_keys() == {"1"}


def test_when_the_supervisor_is_killed_its_jobs_are_ended_and_lost(bench: Bench) -> None:
    daemon = "(env -i setsid sh -c 'echo $$ > daemon; exec sleep 1000' &)"
    bench.sh("1", f"{daemon}; echo $$ > main; exec sleep 1000", run_in_iwd=True)
    pids = [int(bench.file("main")), int(bench.file("daemon"))]
    bench.kill_supervisor()
    assert all(runs(pid) for pid in pids)
    lost_end = bench.end("1")  # without a call: the handle detects it
    assert isinstance(lost_end, Lost)
    assert "its supervisor was killed while it ran" in lost_end.why
    wait(lambda: not any(runs(pid) for pid in pids))
    assert bench.supervisor.recover(["1"]) == {"1": lost_end}


def test_descendants_without_number_and_mark_end_with_the_job_of_a_killed_supervisor(bench: Bench) -> None:
    """Only its parents identify this process: its environment is cleared, and its number is another job's."""
    child = "env -i /usr/bin/prlimit --rttime=unlimited /bin/sh -c 'echo $$ > child; exec /bin/sleep 1000'"
    bench.sh("1", f"setsid {child} & echo $$ > main; wait", run_in_iwd=True)
    pids = [int(bench.file("main")), int(bench.file("child"))]
    bench.kill_supervisor()
    assert isinstance(bench.end("1"), Lost)
    assert not any(runs(pid) for pid in pids)


def test_jobs_of_a_killed_supervisor_have_ended_when_a_new_pool_gets_its_answer(bench: Bench) -> None:
    bench.sh("1", "echo $$ > main; exec sleep 1000", run_in_iwd=True)
    pid = int(bench.file("main"))
    bench.kill_supervisor()
    with Supervisor(bench.folder) as second_supervisor:
        assert isinstance(second_supervisor.recover(["1"])["1"], Lost)
    assert not runs(pid)


BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
ANOTHER_BOOT = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    ("boot", "why"),
    [
        (ANOTHER_BOOT, "the machine was restarted while it ran"),
        (BOOT, "its supervisor was killed while it ran"),
    ],
)
def test_a_claim_whose_pid_now_belongs_to_another_process_is_lost_and_that_process_untouched(
    bench: Bench, boot: str, why: str
) -> None:
    bystander = subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)
    try:
        (bench.folder / "claims").mkdir(parents=True)
        (bench.folder / "claims" / "1").write_text(f"{bystander.pid},1,1,{boot},1\n")
        lost_state = bench.supervisor.recover(["1"])["1"]
        assert isinstance(lost_state, Lost)
        assert lost_state.why.startswith(why)
        assert runs(bystander.pid)
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("text", [UNHELD.text(), b"of another version".ljust(111)])
def test_a_claim_that_names_no_process_finds_it_by_its_mark(bench: Bench, text: bytes) -> None:
    bench.sh("1", "echo $$ > main; exec sleep 1000", run_in_iwd=True)
    pid = int(bench.file("main"))
    with open(bench.folder / "claims.table", "r+b") as table:
        table.write(text)
    bench.kill_supervisor()
    assert isinstance(bench.supervisor.recover(["1"])["1"], Lost)
    assert not runs(pid)


def test_a_key_that_was_claimed_is_not_started_again_but_reported_again(bench: Bench) -> None:
    bench.sh("ended", "echo >> count; exit 3", run_in_iwd=True)
    bench.sh("runs", "echo >> count; exec sleep 1000", run_in_iwd=True)
    first = bench.end("ended")
    bench.until(lambda: (bench.home / "count").read_text() == "\n\n")
    bench.reports.clear()
    for key in ("ended", "runs"):
        bench.sh(key, "echo >> count", run_in_iwd=True)
    assert bench.end("ended") == first
    bench.until(lambda: bench.of("runs", Started))
    assert (bench.home / "count").read_text() == "\n\n"


def test_a_failed_start_leaves_nothing_and_may_be_requested_again(bench: Bench) -> None:
    """The request may come from a pool that was killed before it heard of the failure, or from one that has heard;
    other jobs start and fail in between."""
    for round in range(3):
        for key in ("1", "2", "3"):
            bench.start(key, "/no/such")
            end = bench.end(key)
            assert (end.part, end.errno) == ("executable", errno.ENOENT), round
            assert bench.supervisor.recover([key]) == {key: "unknown"}
            bench.reports.clear()
        if round == 1:
            bench.supervisor.acknowledge(["1", "2", "3"])
            bench.supervisor.recover([])
    assert not bench.supervisor.claimed_keys()
    for number in range(4, 10):
        bench.sh(str(number), "exit 7")
        assert bench.end(str(number)).code == 7
        bench.supervisor.acknowledge([str(number)])
    bench.until(lambda: not bench.supervisor.claimed_keys())


def test_the_last_handle_is_the_pool_and_earlier_ones_are_replaced(bench: Bench) -> None:
    bench.start("1", "/bin/sleep", "1000")
    bench.until(lambda: bench.of("1", Started))
    with Supervisor(bench.folder) as second:
        assert isinstance(second.recover(["1"])["1"], Running)
        with pytest.raises(ReplacedError, match="only one pool may serve a log"):
            bench.until(lambda: False)
        with pytest.raises(ReplacedError, match="another process now uses the supervisor"):
            bench.start("2", "/bin/true")
        second.signal("1", "hard")
        ends: list[Exited] = []
        while not ends:
            ends = [report for report in second.poll(1) if isinstance(report, Exited)]
        assert ends[0].signal == signal.SIGKILL


def test_requests_of_a_killed_pool_are_settled_before_those_of_the_next(bench: Bench) -> None:
    keys = [f"k{number}" for number in range(40)]
    bench.supervisor.start([bench.activation(key, "/bin/true") for key in keys])
    with Supervisor(bench.folder) as second:
        assert all(outcome != "unknown" for outcome in second.recover(keys).values())


def test_a_full_disk_delays_the_report_of_an_end_but_loses_none(bench: Bench) -> None:
    bench.start("1", "/bin/true")
    bench.end("1")
    bench.sh("2", "until [ -e stop ]; do sleep 0.01; done; exit 9", run_in_iwd=True)
    bench.until(lambda: bench.of("2", Started))
    size = (bench.folder / "exits").stat().st_size
    # A limit on file sizes acts like a full disk; only half of the next record fits.
    resource.prlimit(bench.pid(), resource.RLIMIT_FSIZE, (size + 50, resource.RLIM_INFINITY))
    (bench.home / "stop").touch()
    bench.until(lambda: "cannot be written" in (bench.folder / "supervisor.log").read_text())
    assert not bench.of("2", Exited)
    assert isinstance(bench.supervisor.recover(["2"])["2"], Running)
    resource.prlimit(bench.pid(), resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert bench.end("2").code == 9
    lines = (bench.folder / "exits").read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["1", "2"]


def test_a_supervisor_without_jobs_and_pool_ends_and_another_replaces_it(bench: Bench) -> None:
    bench.start("1", "/bin/true")
    end = bench.end("1")
    pid = bench.pid()
    bench.supervisor.close()
    wait(lambda: not runs(pid))
    bench.supervisor = Supervisor(bench.folder)
    assert bench.supervisor.recover(["1"]) == {"1": end}
    assert bench.pid() != pid


def test_a_supervisor_with_a_job_stays_without_a_pool(bench: Bench) -> None:
    bench.start("1", "/bin/sleep", "1000")
    bench.until(lambda: bench.of("1", Started))
    bench.supervisor.close()
    bench.supervisor = Supervisor(bench.folder)
    assert isinstance(bench.supervisor.recover(["1"])["1"], Running)


def test_the_supervisor_has_no_parent_and_keeps_nothing_of_the_pool_open(bench: Bench) -> None:
    inherited = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    bench.supervisor.start([])
    open_files = {os.readlink(f"/proc/{bench.pid()}/fd/{name}") for name in os.listdir(f"/proc/{bench.pid()}/fd")}
    os.close(inherited)
    assert os.getsid(bench.pid()) == bench.pid()
    kinds = ("/dev/null", "anon_inode:", "socket:", "pipe:", str(bench.folder))
    assert all(name.startswith(kinds) for name in open_files)
    assert [name for name in open_files if name.startswith("/dev/")] == ["/dev/null"]


def test_a_selector_sees_reports_also_after_the_supervisor_was_replaced(bench: Bench) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(bench.supervisor.fileno(), selectors.EVENT_READ)
        for key in ("1", "2"):
            bench.start(key, "/bin/true")
            while not bench.of(key, Exited):
                assert selector.select(10)
                bench.reports += bench.supervisor.poll(0)
            bench.kill_supervisor()


def test_a_supervisor_that_does_not_answer_is_reported_with_the_command_that_continues_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.supervisor.start([])
    os.kill(bench.pid(), signal.SIGSTOP)
    monkeypatch.setattr(client, "_SILENCE_S", 0.1)
    with pytest.raises(SupervisorError, match=f"kill -CONT {bench.pid()}"):
        bench.supervisor.recover(["1"])
    monkeypatch.undo()
    os.kill(bench.pid(), signal.SIGCONT)
    assert bench.supervisor.recover(["1"]) == {"1": "unknown"}


def test_the_end_of_a_client_with_unread_answers_disturbs_nothing(bench: Bench) -> None:
    bench.supervisor.start([])
    with connect(bench.folder / "socket", (0, os.geteuid())) as other:
        keys = [str(number) for number in range(100_000)]
        other.sendall(json.dumps({"do": "recover", "keys": keys}).encode() + b"\n")
        answer = other.recv(1)
        other.sendall(b"no request\n")
        while answer:
            answer = other.recv(1 << 20)
    with Supervisor(bench.folder) as last:
        last.start([])
    assert "iteration failed" not in (bench.folder / "supervisor.log").read_text()


def test_many_concurrent_jobs_all_end_with_their_own_code(bench: Bench) -> None:
    codes = {f"k{number}": number for number in range(100)}
    bench.supervisor.start([bench.activation(key, "/bin/sh", "-c", f"exit {code}") for key, code in codes.items()])
    assert {key: bench.end(key).code for key in codes} == codes
