"""Property: whenever the pool is killed, no acknowledged command is lost, and no job ever runs twice at the same
time.

Each job records when it starts and ends; the log must agree with the jobs' records.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from poolbook.adapters.stores.log_paths import WriterLock
from poolbook.adapters.stores.opening import open_log, verify_seal
from poolbook.domain.events import Event, JobExecuting, JobExited
from poolbook.domain.fold.evolve import fold
from poolbook.replay.validation import validate

from ..sampling import examples
from .real import PATIENCE, Folder

JOBS = 50
SCRIPT = """#!/bin/sh
# $1: which job; records when it starts and ends, and whether another run of it lives; its exit code is unique
[ ! -e "$2/$1" ] || for pid in $(cut -d " " -f 2 "$2/$1" | uniq); do
    grep -qs . "/proc/$pid/cmdline" && echo "beside $pid" >> "$2/$1"  # a zombie's is empty
done
echo "begin $$ $(date +%s%N)" >> "$2/$1"
while [ -e "$2/../wait" ]; do sleep 0.05; done
sleep 0.$(($1 % 7))
echo "end $$ $(date +%s%N)" >> "$2/$1"
exit $(($1 % 5))
"""
SUBMIT = """executable = {folder}/job.sh
arguments = $(Process) {folder}/marks
request_memory = 16
request_disk = 1 MB
log = job.log
queue {jobs}
"""
KILLS = examples(2, 300)


def prepare(folder: Folder) -> None:
    script = folder.path / "job.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    (folder.path / "marks").mkdir()
    folder.write("jobs.sub", SUBMIT.format(folder=folder.path, jobs=JOBS))


def runs_of(marks: Path) -> dict[int, list[tuple[str, str]]]:
    return {
        int(path.name): [tuple(line.split()[:2]) for line in path.read_text().splitlines()]  # type: ignore[misc]
        for path in marks.iterdir()
    }


def check(folder: Folder, runs: int = 1) -> None:
    """Check that the log is sound, that every job ended once with its exit code, and that none ran more often than
    allowed."""
    starts = Counter(event.proc for event in events_of_ended_log(folder) if isinstance(event, JobExecuting))
    for proc, marks in runs_of(folder.path / "marks").items():
        assert [word for word, _ in marks] == ["begin", "end"] * (len(marks) // 2), f"job {proc} ran twice at one time"
        assert len(marks) // 2 <= runs
        assert starts[proc] == len(marks) // 2


def events_of_ended_log(folder: Folder) -> list[Event]:
    """Return the events of a sound log in which every job ended once, with its exit code, and nothing remains."""
    assert verify_seal(str(folder.path / "pool.db")) == []
    log = open_log(str(folder.path / "pool.db"), create=False, read_only=True)
    entries = list(log.read())
    log.close()
    assert list(validate(entries)) == []
    state = fold(iter(entries))
    assert not state.clusters and not state.activations and not state.matches
    events = [event for _, event in entries]
    ends = [event for event in events if isinstance(event, JobExited) and event.target == "Completed"]
    assert Counter(event.proc for event in ends) == Counter(range(JOBS))
    assert {event.proc: event.code for event in ends} == {proc: proc % 5 for proc in range(JOBS)}
    return events


@pytest.mark.parametrize("kill", range(KILLS))
def test_a_killed_pool_continues_and_each_job_runs_exactly_once(folder: Folder, kill: int) -> None:
    prepare(folder)
    rng = random.Random(kill)
    pool = folder.start("run", "jobs.sub", "-slots", "8", "-cpus", "8", "-memory", "1024")
    folder.wait_for(lambda: list((folder.path / "marks").iterdir()))
    for _ in range(2):
        time.sleep(rng.uniform(0, 0.6))
        pool.send_signal(signal.SIGKILL)
        pool.communicate()
        time.sleep(rng.choice([0, 0.3]))
        pool = folder.start("resume", "-slots", "8", "-cpus", "8", "-memory", "1024")
    output, _ = pool.communicate(timeout=PATIENCE)
    if pool.returncode != 0:  # everything had ended before the last kill
        assert "There are no jobs in the queue" in output or pool.returncode == 1, output
    assert "Traceback" not in output
    check(folder)


def test_an_acknowledged_submission_survives_an_immediate_kill_of_the_pool(folder: Folder) -> None:
    prepare(folder)
    folder.write("one.sub", "executable = /bin/true\nqueue 3\n")
    with folder.served("-slots", "1") as server:
        answers = [folder.json("submit", "one.sub")[0]["ClusterId"] for _ in range(3)]
        server.send_signal(signal.SIGKILL)
    log = open_log(str(folder.path / "pool.db"), create=False, read_only=True)
    numbers = {event.cluster for _, event in log.read() if type(event).__name__ == "ClusterSubmitted"}  # type: ignore[attr-defined]
    log.close()
    assert numbers == set(answers)


def test_ctrl_c_stops_cleanly_and_resume_continues(folder: Folder) -> None:
    prepare(folder)
    folder.write("wait", "")
    pool = folder.start("run", "jobs.sub", "-slots", "8", "-cpus", "8", "-memory", "1024")
    folder.wait_for(lambda: len(list((folder.path / "marks").iterdir())) > 5)
    pool.send_signal(signal.SIGINT)
    output, _ = pool.communicate(timeout=PATIENCE)
    assert pool.returncode == 130
    assert "Traceback" not in output
    assert "ending the running jobs" in output
    assert re.search(r"[0-9]+ jobs are left: `poolbook resume` continues with them\.\n", output)
    log = open_log(str(folder.path / "pool.db"), create=False, read_only=True)
    state = fold(log.read())
    log.close()
    assert not state.activations, "nothing runs behind the user's back"
    (folder.path / "wait").unlink()
    folder.call("resume", "-slots", "8", "-cpus", "8", "-memory", "1024", code=None)
    folder.call("verify")


def test_two_pools_cannot_serve_one_log(folder: Folder) -> None:
    with folder.served():
        output = folder.call("serve", code=1)
        assert "already serves the log pool.db" in output
        assert "-log" in output
        folder.write("job.sub", "executable = /bin/true\nqueue\n")
        assert "`poolbook submit job.sub` submits the jobs to it" in folder.call("run", "job.sub", code=1)


LONG = "executable = /bin/sleep\narguments = {}\nrequest_memory = 16\nrequest_disk = 1 MB\nqueue {}\n"


def living(arguments: str) -> int:
    """Return the number of processes with this command line."""
    return int(subprocess.run(["pgrep", "-fc", arguments], capture_output=True, text=True).stdout)


def test_a_link_to_a_log_is_the_same_log(folder: Folder) -> None:
    folder.write("job.sub", LONG.format("771", 2))
    with folder.served("-slots", "2", "-cpus", "2"):
        folder.call("submit", "job.sub")
        folder.wait_for(lambda: folder.call("q", "-af", "JobStatus") == "2\n2\n")
        os.symlink("pool.db", folder.path / "link.db")
        assert "already" in folder.call("serve", "-log", "link.db", code=1)
        assert folder.call("q", "-log", "link.db", "-af", "JobStatus") == "2\n2\n"
        assert living("sleep 771") == 2


def test_a_server_waits_for_a_short_command_to_release_the_log(folder: Folder) -> None:
    folder.write("job.sub", LONG.format("1", 1))
    folder.call("submit", "job.sub")
    lock = WriterLock(str(folder.path / "pool.db"))
    assert lock.try_acquire()
    server = folder.start("serve", "-slots", "1")
    time.sleep(1)
    assert server.poll() is None
    lock.give_up()
    folder.wait_for(lambda: "1.0" in folder.call("history", "-af:j", "ExitCode"))
    server.send_signal(signal.SIGTERM)
    assert server.wait(PATIENCE) == 0
    assert server.stdout is not None
    server.stdout.close()


def pid_of(folder: Folder, job: str) -> int:
    """Return the process of a job's latest run."""

    def details() -> list[str]:
        return [event["details"] for event in folder.json("log", job) if event["what"] == "executing"]

    folder.wait_for(lambda: bool(details()))  # a job is running before its process has started
    return int(details()[-1].partition("pid ")[2])


def test_commands_given_while_the_pool_was_dead_are_done_when_it_is_back(folder: Folder) -> None:
    """A suspended job continues; one that had ended before it was vacated has ended, and is not run again."""
    folder.write("long.sub", LONG.format("772", 1))
    folder.write("job.sh", "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.05; done\ntouch gone\n")
    (folder.path / "job.sh").chmod(0o755)
    folder.write("short.sub", "executable = job.sh\nrequest_memory = 16\nrequest_disk = 1 MB\nqueue\n")
    with folder.served("-slots", "2", "-cpus", "2") as server:
        folder.call("submit", "long.sub")
        folder.call("submit", "short.sub")
        folder.wait_for(lambda: folder.call("q", "-af", "JobStatus") == "2\n2\n")
        pids = [pid_of(folder, "1.0"), pid_of(folder, "2.0")]
        folder.call("suspend", "1.0")
        server.send_signal(signal.SIGKILL)
        server.wait()
        (folder.path / "pool.db.sock").unlink()
        (folder.path / "go").touch()
        folder.wait_for(lambda: not Path(f"/proc/{pids[1]}").exists())
        assert (folder.path / "gone").exists()
        folder.call("continue", "1.0")
        folder.call("vacate", "2.0")
        with folder.served("-slots", "2", "-cpus", "2"):
            folder.wait_for(lambda: "2.0 0" in folder.call("history", "-af:j", "ExitCode"))
            starts = [event for event in folder.json("log", "2.0") if event["what"] == "activate"]
            assert len(starts) == 1
            folder.wait_for(lambda: Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()[0] == "S")
            folder.call("rm", "-all")
            folder.wait_for(lambda: folder.call("q", "-af", "JobStatus") == "")
    assert "sound" in folder.call("verify")


def test_a_log_whose_jobs_may_run_elsewhere_is_not_served_here_unless_they_are_known_to_be_lost(folder: Folder) -> None:
    folder.write("job.sub", LONG.format("773", 1))
    with folder.served("-slots", "1") as server:
        folder.call("submit", "job.sub")
        folder.wait_for(lambda: living("sleep 773") == 1)
        server.send_signal(signal.SIGKILL)
        server.wait()
        elsewhere = Folder(folder.path / "elsewhere")
        elsewhere.path.mkdir()
        for path in folder.path.glob("pool.db*"):
            if path.is_file():
                (elsewhere.path / path.name).write_bytes(path.read_bytes())
        output = elsewhere.call("serve", "-slots", "1", code=1)
        assert "1 jobs of this log were started on" in output and "-lost" in output
        assert living("sleep 773") == 1
        with elsewhere.served("-slots", "1", "-lost"):
            elsewhere.wait_for(lambda: living("sleep 773") == 2)
            assert "lost" in elsewhere.call("log", "1.0")
            elsewhere.call("rm", "-all")
            elsewhere.wait_for(lambda: elsewhere.call("q", "-af", "JobStatus") == "")
        assert "sound" in elsewhere.call("verify")


def test_a_pool_that_was_deleted_and_created_again_runs_its_own_jobs(folder: Folder) -> None:
    """Both logs start alike: their first jobs are activated at the same position, and one of them is still running."""
    # After benchmarks, the machine would publish its load if it changed.
    folder.write("poolbook.conf", "RUNBENCHMARKS = false\nNUM_CPUS = 1\nMEMORY = 1024\nSTART = true\n")
    folder.write("job.sh", "#!/bin/sh\necho begun >> $1\nsleep $2\necho ended >> $1\nexit 3\n")
    (folder.path / "job.sh").chmod(0o755)
    for name, seconds in {"old": 774, "new": 0}.items():
        files = f"executable = job.sh\narguments = {folder.path}/{name} {seconds}\nlog = {name}.log\n"
        folder.write(f"{name}.sub", f"{files}request_memory = 16\nrequest_disk = 1 MB\nqueue\n")
    with folder.served() as server:
        folder.call("submit", "old.sub")
        folder.wait_for((folder.path / "old").exists)
        before = {event["position"] for event in folder.json("log", "1.0") if event["what"] == "activate"}
        server.send_signal(signal.SIGKILL)
    for name in ("pool.db", "pool.db-wal", "pool.db-shm", "pool.db.head", "pool.db.views", "pool.db.sock"):
        (folder.path / name).unlink(missing_ok=True)
    with folder.served():
        folder.call("submit", "new.sub")
        folder.wait_for(lambda: "1.0 3" in folder.call("history", "-af:j", "ExitCode"))
        assert before == {event["position"] for event in folder.json("log", "1.0") if event["what"] == "activate"}
    assert (folder.path / "new").read_text() == "begun\nended\n"
    assert (folder.path / "old").read_text() == "begun\n"
    assert "(1) Normal termination (return value 3)" in (folder.path / "new.log").read_text()
    assert living("sleep 774") == 1
