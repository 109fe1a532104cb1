"""Golden: the commands as a user types them, with real pools: their effects, output and exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from pathlib import Path

import htcondor2
import pytest

from poolbook.adapters.cli.main import COMMANDS, main
from poolbook.adapters.library.embedded_pool import Pool
from poolbook.adapters.machine.host import host_name, user_name
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import SlotAdChanged, SlotTransitioned

from .real import PATIENCE, Folder

SLEEP = "executable = /bin/sleep\narguments = {}\nrequest_memory = 16\nrequest_disk = 1 MB\nqueue {}\n"


def shell(text: str, more: str = "") -> str:
    """Return a submit file for one job that is a shell script."""
    quoted = text.replace('"', '""').replace("'", "''")
    return (
        f"executable = /bin/sh\narguments = \"-c '{quoted}'\"\nrequest_memory = 64\nrequest_disk = 1 MB\n"
        f"output = out.txt\nerror = err.txt\nlog = job.log\n{more}\nqueue\n"
    )


def test_a_run_prints_the_jobs_the_log_and_the_next_commands(folder: Folder) -> None:
    folder.write("job.sub", shell("echo hello; for n in 1 2 3 4 5 6; do printf 'line %d\\a\\n' $n >&2; done; exit 3"))
    output = folder.call("run", "job.sub", code=1)
    assert (folder.path / "out.txt").read_text() == "hello\n"
    assert "1 failed (exit 3) in " in output and "; every state change is recorded in pool.db" in output
    lines = "".join(f"    line {number}\\x07\n" for number in range(2, 7))
    assert f"1.0 failed (exit 3); the end of its stderr (err.txt):\n{lines}" in output
    assert "poolbook why 1.0  explain why it failed" in output
    assert "Cluster 1 has 1 job: 1 failed (exit 3)." in folder.call("why", "1")
    assert folder.json("history", "1.0")[0]["ExitCode"] == 3
    assert "with code 3" in folder.call("why", "1.0")
    assert "sound" in folder.call("verify")
    kinds = [type(event).__name__ for event in htcondor2.JobEventLog(str(folder.path / "job.log")).events(0)]
    assert len(kinds) >= 3


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_wrong_usage_exits_with_2(folder: Folder, command: str) -> None:
    output = folder.call(command, "-help")
    assert f"poolbook {command}" in output
    assert ("-log" in output) == (command not in ("completion", "man", "doc", "tools-path"))  # which do not use a log
    assert "-nosuchoption" in folder.call(command, "-nosuchoption", code=2)


def test_a_misspelled_command_suggests_the_right_one(folder: Folder) -> None:
    assert "did you mean status" in folder.call("statsu", code=2)
    assert "usage: poolbook COMMAND" in folder.call(code=2)


def test_commands_do_the_same_on_a_served_and_an_unserved_log(folder: Folder) -> None:
    folder.write("job.sub", "hold = true\n" + SLEEP.format(300, 3))
    outputs: list[list[str]] = []
    for is_served in (False, True):
        for name in folder.path.glob("pool.db*"):
            shutil.rmtree(name) if name.is_dir() else name.unlink()
        with folder.served("-slots", "1") if is_served else _nothing():
            outputs.append(
                [
                    folder.call("submit", "job.sub", "-terse").partition("\n")[0],
                    folder.call("prio", "-p", "4", "1.1"),
                    folder.call("q", "-af", "ProcId", "JobStatus", "JobPrio"),
                    folder.call("rm", "1.2"),
                    folder.call("rm", "1.2", code=1),
                    folder.call("hold", "1.0"),  # which was submitted on hold, and now is held by its user
                    folder.call("hold", "1.0", code=1),
                    folder.call("release", "7", code=1),
                    folder.call("vacate", "1.0", code=1),
                    folder.call("history", "-af", "ClusterId", "ProcId", "JobStatus"),
                ]
            )
    assert outputs[0] == outputs[1]
    assert outputs[0][2] == "0 5 0\n1 5 4\n2 5 0\n"


class _nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_a_running_job_can_be_held_released_vacated_and_removed_by_commands(folder: Folder) -> None:
    folder.write("job.sub", SLEEP.format(300, 1))
    with folder.served("-slots", "2"):
        folder.call("submit", "job.sub")

        def status() -> str:
            return folder.call("q", "-af", "JobStatus").strip()

        folder.wait_for(lambda: status() == "2")
        pid = _pid(folder, "1.0")
        assert Path(f"/proc/{pid}").exists()
        assert "1.0 held" in folder.call("hold", "1.0", "-reason", "lunch")
        folder.wait_for(lambda: not Path(f"/proc/{pid}").exists())
        assert "lunch (by user" in folder.call("q", "-hold")
        folder.call("release", "1.0")
        folder.wait_for(lambda: status() == "2")
        first = _pid(folder, "1.0")
        assert "1.0 suspended" in folder.call("suspend", "1.0")
        folder.wait_for(lambda: _state(first) == "T")
        folder.call("continue", "1.0")
        folder.wait_for(lambda: _state(first) == "S")
        assert "1.0 vacated" in folder.call("vacate", "1.0")
        folder.wait_for(lambda: status() == "2" and _pid(folder, "1.0") != first)
        slot = folder.call("q", "-af", "RemoteHost").strip()
        assert slot in folder.call("why", "1.0")
        assert f"Slot {slot} vacated" in folder.call("vacate", slot)
        folder.wait_for(lambda: status() == "2")
        folder.call("rm", "-all")
        folder.wait_for(lambda: status() == "")
    assert "sound" in folder.call("verify")


def _pid(folder: Folder, job: str) -> int:
    events = folder.json("log", job)
    details = [event["details"] for event in events if event["what"] == "executing"]
    return int(details[-1].partition("pid ")[2]) if details else 0


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_submissions_to_a_running_pool_neither_fail_nor_wait_long(folder: Folder) -> None:
    folder.write("job.sub", "executable = /bin/true\nrequest_memory = 16\nrequest_disk = 1 MB\nqueue 2\n")
    with folder.served("-slots", "2", "-cpus", "2"):
        calls = [folder.start("submit", "job.sub", "-terse") for _ in range(8)]
        outputs = [call.communicate(timeout=PATIENCE)[0] for call in calls]
        assert [call.returncode for call in calls] == [0] * 8, outputs
        assert sorted(outputs) == sorted(f"{n}.0 - {n}.1\n" for n in range(1, 9))
        folder.wait_for(lambda: folder.call("history", "-af", "ExitCode").count("0") == 16)


def test_an_unknown_option_is_reported_under_the_command_that_was_typed(folder: Folder) -> None:
    folder.write("job.sub", "executable = /bin/true\nqueue\n")
    assert "poolbook run: -slots must be a whole number" in folder.call("run", "job.sub", "-slots", "x", code=2)


def test_a_job_that_fits_no_slot_ends_the_run_with_the_reason(folder: Folder) -> None:
    folder.write("job.sub", "executable = /bin/true\nrequest_memory = 900 GB\nqueue\n")
    output = folder.call("run", "job.sub", code=1)
    message = "no slot can run it: it requests 900.0 GiB of memory; the largest slot has "
    assert f"poolbook: 1.0 waits: {message}" in output, "at once"
    assert f"1.0 waits: {message}" in output, "and at the end"
    assert "poolbook rm 1     remove it" in output
    assert f"N{message[1:]}" in folder.call("why", "1.0")


def test_jobs_held_for_one_reason_end_the_run_with_the_reason_and_a_fix(folder: Folder) -> None:
    text = "executable = /bin/true\nrequest_memory = 16\nrequest_disk = 1 MB\n"
    folder.write("job.sub", f"{text}output = out/$(Process)\nqueue 2\n")
    output = folder.call("run", "job.sub", "-quiet", code=1)
    assert "\n2 held in " in output
    out = folder.path / "out"
    assert "2 jobs are held for the same reason; 1.0: Error from slot1_" in output
    reason = f"Failed to open '{out}/0' as standard output: No such file or directory (errno 2)"
    assert f": {reason}. `mkdir -p {out}`, then `poolbook release 1`" in output
    out.mkdir()
    folder.call("release", "1")
    assert "\n2 completed in " in folder.call("resume", "-quiet")


def test_a_shortened_table_names_the_command_that_lists_all_jobs(folder: Folder) -> None:
    folder.write("job.sub", "executable = /bin/true\nhold = true\nqueue 42\n")
    output = folder.call("run", "job.sub", "-quiet", code=1)
    assert "\n... and 2 more held: poolbook q 1 -hold\n" in output
    assert "You submitted them on hold: `poolbook release 1` and `poolbook resume` let them run." in output


def test_a_served_pool_reports_events_if_asked_to(folder: Folder) -> None:
    folder.write("job.sub", shell("exit 0"))
    with folder.served("-slots", "1", "-verbose") as server:
        folder.call("submit", "job.sub")
        folder.wait_for(lambda: "1.0" in folder.call("history", "-af:j", "ExitCode"))
        server.send_signal(signal.SIGTERM)
        output, _ = server.communicate(timeout=PATIENCE)
    lines = output.splitlines()
    for phrase in (
        "Unsubmitted -> Idle",
        "match ",
        "Idle -> Running",
        "Running -> Completed",
        "Claimed/Busy -> Claimed/Idle",
    ):
        assert any(phrase in line for line in lines), output


@pytest.mark.parametrize(
    ("script", "more", "expected"),
    [
        ("(setsid sleep 90901 & setsid setsid sleep 90901 &) ; exit 0", "", {"ExitCode": 0}),
        ("kill -SEGV $$", "", {"ExitBySignal": True, "ExitSignal": 11}),
        ("cat; exit 7", "input = seven.txt", {"ExitCode": 7}),
        (
            "test $_CONDOR_SCRATCH_DIR/x != /x && test -f $_CONDOR_JOB_AD && test -f $_CONDOR_MACHINE_AD",
            "",
            {"ExitCode": 0},
        ),
        ("echo $MINE", 'environment = "MINE=yours"', {"ExitCode": 0}),
    ],
)
def test_real_jobs_of_every_kind_end_as_expected(
    folder: Folder, script: str, more: str, expected: dict[str, object]
) -> None:
    folder.write("seven.txt", "seven\n")
    folder.write("job.sub", shell(script, more))
    folder.call("run", "job.sub", code=None)
    (ad,) = folder.json("history")
    assert {name: ad.get(name) for name in expected} == expected
    if "90901" in script:
        pids = subprocess.run(["pgrep", "-f", "sleep 90901"], capture_output=True, text=True).stdout
        assert pids == "", "a descendant has survived its job"
    if "MINE" in script:
        assert (folder.path / "out.txt").read_text() == "yours\n"


def test_a_job_that_ignores_its_soft_kill_is_killed_when_its_time_is_up(folder: Folder) -> None:
    folder.write("job.sub", shell("trap : TERM; touch ready; while :; do sleep 0.1; done"))
    with folder.served("-slots", "1", "-set", "MachineMaxVacateTime=1"):
        folder.call("submit", "job.sub")
        folder.wait_for(lambda: (folder.path / "ready").exists())
        folder.call("rm", "1.0")
        folder.wait_for(lambda: "1.0" in folder.call("history", "-af:j", "JobStatus"))
    rows = [event["what"] for event in folder.json("log", "1.0")]
    assert rows.count("signalled") == 2 or "hard" in folder.call("log", "1.0")


@pytest.mark.parametrize(
    ("text", "message", "code"),
    [
        ("executable = /no/such/thing\nqueue\n", "Can't access executable file /no/such/thing", 1),
        ("executable = /bin/true\nrequest_memory = lots of\nqueue\n", "line 2", 1),
        ("executable = /bin/true\nuniverse = grid\nqueue\n", "grid", 1),
        ("\0\1\2\xff\n", "NUL", 1),
        ("", "", 1),
    ],
)
def test_an_invalid_submit_file_is_rejected_with_its_line(folder: Folder, text: str, message: str, code: int) -> None:
    folder.write("bad.sub", text)
    assert message in folder.call("submit", "bad.sub", code=code)
    assert not (folder.path / "pool.db").exists() or folder.json("q", "-all") == []


def test_ten_megabytes_of_arguments_are_held_with_the_reason(folder: Folder) -> None:
    folder.write("big.sub", f"executable = /bin/true\narguments = {'x' * 10_000_000}\nqueue\n")
    folder.call("run", "big.sub", code=1)
    assert "too long" in folder.call("q", "-hold", "-af", "HoldReason")


def test_a_program_that_cannot_be_executed_is_held_with_code_6(folder: Folder) -> None:
    folder.write("garbage", "\x7fELF nothing")
    (folder.path / "garbage").chmod(0o755)
    folder.write("job.sub", f"executable = {folder.path}/garbage\nqueue\n")
    folder.call("run", "job.sub", code=1)
    assert folder.call("q", "-hold", "-af", "HoldReasonCode") == "6\n"


HELD = {
    "missing": (
        "executable = /no/such\ntransfer_executable = false",
        "6 2 Failed to execute '/no/such': (errno=2: 'No such file or directory')",
    ),
    "plain": (
        "executable = plain.txt",
        "6 13 Failed to execute '{home}/plain.txt': (errno=13: 'Permission denied')",
    ),
    "interpreter": (
        "executable = script",
        "6 2 Failed to execute '{home}/script': invalid interpreter (/no/interpreter) specified on first line of "
        "script (errno=2: 'No such file or directory')",
    ),
    "output": (
        "executable = /bin/true\noutput = none/out",
        "7 2 Failed to open '{home}/none/out' as standard output: No such file or directory (errno 2)",
    ),
    "error": (
        "executable = /bin/true\nerror = none/err",
        "7 2 Failed to open '{home}/none/err' as standard error: No such file or directory (errno 2)",
    ),
    "input": (
        "executable = /bin/cat\ninput = none/in",
        "8 2 Failed to open '{home}/none/in' as standard input: No such file or directory (errno 2)",
    ),
    "ends": (
        "executable = /bin/true\non_exit_hold = true",
        "3 0 The job attribute OnExitHold expression 'true' evaluated to TRUE",
    ),
}
"""Submit files, and why a real pool (25.14) holds their jobs: code, subcode, reason."""


def test_jobs_are_held_for_the_same_reasons_as_in_htcondor(folder: Folder) -> None:
    folder.write("plain.txt", "no program")
    folder.write("script", "#!/no/interpreter\n")
    (folder.path / "script").chmod(0o755)
    for number, (name, (text, _)) in enumerate(HELD.items(), 1):
        folder.write(f"{name}.sub", f"{text}\nrequest_memory = 16\nrequest_disk = 1 MB\nlog = {number}.log\nqueue\n")
        folder.call("submit", f"{name}.sub")
    folder.call("resume", code=1)
    reasons = folder.call("q", "-hold", "-af", "HoldReasonCode", "HoldReasonSubCode", "HoldReason").splitlines()
    plain_reasons = [re.sub(r"Error from slot1_\d+@[^:]+: ", "", line) for line in reasons]
    assert plain_reasons == [message.format(home=folder.path) for _, message in HELD.values()]
    log = (folder.path / f"{list(HELD).index('ends') + 1}.log").read_text()
    assert re.search(rf'CondorScratchDir = "{folder.path}/.*/execute/dir_[0-9a-f]{{16}}-\d+/scratch"', log), log


def test_a_job_that_uses_more_memory_than_it_requested_is_held_with_code_34(folder: Folder) -> None:
    program = "import time; x = bytearray(300_000_000); time.sleep(1000)"
    folder.write("job.py", program)
    folder.write(
        "job.sub",
        "executable = /usr/bin/env\narguments = python3 job.py\ngetenv = PATH\nrequest_memory = 64\n"
        "request_disk = 1 MB\nqueue\n",
    )
    folder.call("run", "job.sub", code=1)
    code, _, reason = folder.call("q", "-hold", "-af", "HoldReasonCode", "HoldReason").partition(" ")
    assert code == "34"
    assert "more memory" in reason


# Faults in a pool's environment


def test_a_log_of_a_newer_version_is_refused_with_a_message(folder: Folder) -> None:
    folder.write("job.sub", "executable = /bin/true\nqueue\n")
    folder.call("submit", "job.sub")
    with sqlite3.connect(folder.path / "pool.db") as database:
        database.execute("UPDATE head SET format = format + 1")
    for command in (["q"], ["submit", "job.sub"], ["serve"], ["verify"], ["log"], ["why", "1.0"]):
        output = folder.call(*command, code=1)
        assert "version" in output and "Traceback" not in output, command


@pytest.mark.parametrize("damage", ["truncated", "rubbish", "empty"])
def test_a_damaged_log_is_refused_with_a_message(folder: Folder, damage: str) -> None:
    folder.write("job.sub", "executable = /bin/true\nqueue\n")
    folder.call("submit", "job.sub")
    path = folder.path / "pool.db"
    log_data = path.read_bytes()
    path.write_bytes({"truncated": log_data[: len(log_data) // 2], "rubbish": os.urandom(8192), "empty": b""}[damage])
    (folder.path / "pool.db-wal").unlink(missing_ok=True)
    for command in (["verify"], ["submit", "job.sub"], ["serve"]):
        output = folder.call(*command, code=1)
        assert "Traceback" not in output, command
        assert "pool.db" in output


def test_a_full_disk_is_reported_and_the_pool_continues_without_loss_when_there_is_space(folder: Folder) -> None:
    """The log is on a separate disk of a few megabytes."""
    disk = folder.path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], check=True)
    try:
        small = Folder(disk)
        small.write("job.sub", "executable = /bin/true\nrequest_memory = 16\nrequest_disk = 1 MB\nqueue 2\n")
        small.call("submit", "job.sub")
        free = os.statvfs(disk)
        filler = disk / "filler"
        filler.write_bytes(b"x" * (free.f_bavail * free.f_frsize - 4096))
        acknowledged = 1
        for _ in range(40):
            call = small.start("submit", "job.sub")
            output = call.communicate(timeout=PATIENCE)[0]
            if call.returncode:
                break
            acknowledged += 1
        assert call.returncode == 1
        assert "Traceback" not in output
        assert "disk" in output or "space" in output
        filler.unlink()
        assert small.call("q", "-af", "ProcId").count("\n") == 2 * acknowledged
        small.call("submit", "job.sub")
        assert "sound" in small.call("verify")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_queries_work_on_a_read_only_log_and_requests_explain_why_they_fail(folder: Folder) -> None:
    folder.write("job.sub", "executable = /bin/true\nqueue\n")
    folder.call("submit", "job.sub")
    shown_folder = Folder(folder.path / "shown")
    shown_folder.path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(shown_folder.path)], check=True)
    try:
        for name in ("pool.db", "pool.db.head", "job.sub"):
            shutil.copy(folder.path / name, shown_folder.path)
        subprocess.run(["mount", "-o", "remount,ro", str(shown_folder.path)], check=True)
        for arguments in (["-af", "ClusterId"], ["1.0", "-af", "ClusterId"]):
            assert shown_folder.call("q", *arguments) == "1\n"
        assert "sound" in shown_folder.call("verify")
        for command in (["rm", "1.0"], ["submit", "job.sub"], ["serve"]):
            output = shown_folder.call(*command, code=1)
            assert "Traceback" not in output
            assert "writ" in output or "read-only" in output.lower(), output
    finally:
        subprocess.run(["umount", "-l", str(shown_folder.path)], check=True)


def test_a_stopped_server_leaves_no_process_running(folder: Folder) -> None:
    folder.write("job.sub", SLEEP.format(88181, 2))
    with folder.served("-slots", "2", "-cpus", "2") as server:
        folder.call("submit", "job.sub")
        folder.wait_for(lambda: folder.call("q", "-af", "JobStatus") == "2\n2\n")
        server.send_signal(signal.SIGTERM)
        server.wait(PATIENCE)
        assert server.returncode == 0
    assert subprocess.run(["pgrep", "-f", "sleep 88181"], capture_output=True).returncode == 1
    assert folder.call("q", "-af", "JobStatus") == "1\n1\n"


def test_json_output_is_valid_json_for_every_command(folder: Folder) -> None:
    folder.write("job.sub", SLEEP.format(1, 1))
    folder.call("run", "job.sub")
    for arguments in (["q"], ["status"], ["history"], ["log"], ["verify"], ["why", "1.0"], ["views"]):
        json.loads(folder.call(*arguments, "--json"))
    assert folder.json("status")[0]["State"] == "Unclaimed"


def test_a_malformed_request_does_no_harm(folder: Folder) -> None:
    """A broken client could send such requests over the socket: each gets an answer, and the server survives."""
    ad = {"Cmd": '"/bin/true"', "JobUniverse": "5"}
    submit = {"kind": "Submit", "id": "x", "user": "root", "cluster": 0, "ad": ad, "count": 1, "columns": []}
    requests: list[object] = [
        b"\xff\xfe not json",
        b"[" * 200_000,
        [],
        {"kind": "Nonsense"},
        {"kind": "Submit"},
        {**submit, "count": -1},
        {**submit, "count": "many"},
        {**submit, "ad": {"Requirements": "(("}},
        {**submit, "ad": {"a b": "1"}},
        {**submit, "columns": ["AAAA"]},
        {**submit, "cluster": 10**12},
        {"kind": "Explode", "id": "y", "user": "root", "selection": {}},
        {"kind": "Hold", "id": "z", "user": "root", "selection": {"constraint": "1 +"}},
        {"kind": "Edit", "id": "w", "user": "root", "selection": {"everything": True}, "changes": {"Owner": '"bob"'}},
        {"kind": "VacateSlot", "id": "v", "user": "root", "slot": "nowhere"},
        {"kind": "ReserveCluster"},
        {**submit, "id": "good"},
    ]
    with folder.served() as server, socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(folder.path / "pool.db.sock"))
        stream = connection.makefile("rwb")
        errors = []
        for request in requests:
            stream.write((request if isinstance(request, bytes) else json.dumps(request).encode()) + b"\n")
            stream.flush()
            errors.append(json.loads(stream.readline()))
        assert server.poll() is None
    assert [sorted(answer.keys() - {"code"}) for answer in errors] == [["refusal"]] * 15 + [["answer"]] * 2
    assert "sound" in folder.call("verify")


def test_clients_that_do_not_read_or_are_too_many_do_no_harm(folder: Folder) -> None:
    folder.write("job.sub", "hold = true\n" + SLEEP.format(1, 4000))
    folder.call("submit", "job.sub")
    address = str(folder.path / "pool.db.sock")
    with folder.served() as server:
        limit = 40
        subprocess.run(["prlimit", f"--nofile={limit}:{limit}", f"--pid={server.pid}"], check=True)
        deaf = socket.socket(socket.AF_UNIX)
        deaf.connect(address)
        jobs = [(1, proc) for proc in range(0, 4000, 2)]
        for number in range(20):
            act = {"kind": "Hold", "id": f"n{number}", "user": "", "selection": {"jobs": jobs}}
            deaf.sendall(json.dumps(act).encode() + b"\n")
        connections = [socket.socket(socket.AF_UNIX) for _ in range(60)]
        for connection in connections:
            connection.settimeout(5)
            try:
                connection.connect(address)
            except OSError:
                break
        assert "1.1 marked" in folder.call("rm", "1.1")
        for connection in [deaf, *connections]:
            connection.close()
        assert "1.3 marked" in folder.call("rm", "1.3")
        assert server.poll() is None


def test_a_job_belongs_to_its_submitter_whatever_the_request_says(folder: Folder) -> None:
    import sys

    from .real import environment

    for place in [folder.path, *folder.path.parents][:-2]:
        place.chmod(0o755)
    (folder.path / "x").mkdir()
    with folder.served():
        (folder.path / "pool.db.sock").chmod(0o666)
        request = {"kind": "Submit", "id": "x", "user": "root", "cluster": 0, "count": 1, "columns": []}
        request["ad"] = {"JobStatus": "5"}
        code = (
            "import os, socket, sys; os.setgid(65534); os.setuid(65534); c = socket.socket(socket.AF_UNIX);"
            "c.connect(sys.argv[1]); c.sendall(sys.argv[2].encode() + b'\\n'); print(c.recv(9999).decode())"
        )
        completed = subprocess.run(
            [sys.executable, "-c", code, str(folder.path / "pool.db.sock"), json.dumps(request)],
            env=environment(), capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert json.loads(completed.stdout) == {"answer": {"cluster": 1, "count": 1}}, completed.stderr
        assert folder.call("q", "-allusers", "-af", "Owner") == "nobody\n"


@pytest.mark.parametrize(
    "arguments", [["q", "-totals"], ["q", "-af", "ClusterId", "JobStatus"], ["-help"], ["rm", "-help"]]
)
def test_a_short_command_imports_no_slow_modules(folder: Folder, arguments: list[str]) -> None:
    import sys

    from .real import environment

    folder.write("job.sub", "hold = true\n" + SLEEP.format(1, 3))
    folder.write("poolbook.conf", "RUNBENCHMARKS = false\n")  # their news would change the views
    folder.call("submit", "job.sub")
    code = (
        "import sys; from poolbook.adapters.cli.main import main; main(sys.argv[1:]);"
        "slow = ['numpy', 'attrs', 'msgspec', 'eventsourcing', 'transitions', 'sqlite_utils', 'psycopg', 'psutil'];"
        "print([name for name in slow if name in sys.modules])"
    )
    with folder.served():
        folder.wait_for(lambda: folder.call("status", "-af", "LoadAvg").strip())  # the last event of its start
        folder.call("q", "-totals")
        output = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=folder.path, env=environment(), capture_output=True, text=True
        ).stdout
    assert output.splitlines()[-1] == "[]"


def test_a_run_can_report_its_jobs_as_json(folder: Folder) -> None:
    folder.write("job.sub", shell("exit 4"))
    call = folder.start("run", "job.sub", "--json", "-quiet")
    (job,) = json.loads(call.communicate(timeout=PATIENCE)[0])
    assert (job["ClusterId"], job["ProcId"], job["State"], job["ExitCode"]) == (1, 0, "completed", 4)


def test_a_served_machine_without_a_configuration_shows_its_sensor_readings(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_tool(*arguments: str) -> str:
        assert main([*arguments, "-log", str(folder.path / "pool.db")]) == 0
        return capsys.readouterr().out

    with folder.served("-slots", "1"):
        folder.wait_for(lambda: '"Mips"' in run_tool("status", "-json"))
        load, keyboard, mips, kflops = run_tool("status", "-af", "LoadAvg", "KeyboardIdle", "Mips", "KFlops").split()
        assert float(load) >= 0 and int(keyboard) >= 0 and int(mips) > 0 and int(kflops) > 0
        assert "[?" not in run_tool("status", "-state") + run_tool("status", "-server")
        assert int(run_tool("status", "-master", "-af", "DaemonStartTime")) <= time.time()
        report = json.loads(run_tool("log", f"slot1@{host_name()}", "-json"))
        # It publishes only with a change of its state: UPDATE_INTERVAL has not passed.
        assert sum(line["cause"] == "published" for line in report) <= sum(bool(line["source"]) for line in report)


def test_a_run_reads_the_sensors_and_does_not_wait_for_benchmarks(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.write("job.sub", shell("true"))
    folder.call("run", "job.sub", "-slots", "1")
    main(["status", "-json", "-log", str(folder.path / "pool.db")])
    (slot,) = json.loads(capsys.readouterr().out)
    assert "LoadAvg" in slot and "KeyboardIdle" in slot and "Mips" not in slot


def test_a_command_that_reads_no_sensor_publishes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "pool.db")
    job = {"executable": "/bin/sleep", "arguments": "1000", "request_memory": "128", "request_disk": "1 MB"}
    with Pool.open(path, user=user_name()) as pool:
        pool.add_machine("h", cpus=1, memory=2048, static=1)
        pool.submit(job)
        pool.read("h", LoadAvg=0.5, KeyboardIdle=3)
        pool.advance(400)
    assert main(["vacate", "slot1@h", "-log", path]) == 0
    log = open_log(path, create=False, read_only=True)
    events = [event for _, event in log.read_stream("slot/slot1@h")]
    log.close()
    assert isinstance(events[-1], SlotTransitioned) and events[-1].target == "Preempting/Vacating"
    (change,) = [event.changes for event in events if isinstance(event, SlotAdChanged)]
    assert change["LoadAvg"] == "0.5"


def test_a_run_within_a_program_restores_its_signal_handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that the program forks afterwards ends on SIGTERM."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sub").write_text("executable = /bin/true\nqueue\n")
    assert main(["run", "job.sub", "-quiet"]) == 0
    assert [signal.getsignal(number) for number in numbers] == before
