"""property: a manager, an access point and an execution point that are separate processes run jobs together."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from poolbook.adapters.machine.host import user_name

from ..stores.places import POSTGRES, place_of
from .roles import role_processes

EXECUTION_POINT = ("-role", "execution-point", "-cpus", "1", "-memory", "512")


def test_jobs_run_although_each_role_restarts_without_a_token_and_while_the_manager_is_away(tmp_path: Path) -> None:
    with role_processes(tmp_path) as roles:
        roles.start_manager()
        assert f"{roles.url}#sha256=" in roles.output("m.db")
        token = roles.token()
        roles.start("a.db", "join", roles.url, token, "-role", "access-point", "-name", "ap")
        roles.start("e.db", "join", roles.url, token, *EXECUTION_POINT, "-name", "ep")
        assert "serving execution-point/ep of the pool " in roles.output("e.db")
        users = f"jobs of all users run as {user_name()}" if os.geteuid() else "jobs of the user root run as root here"
        assert f"warning: {users}" in roles.output("e.db").replace("the jobs", "jobs")
        for log, role in (("m.db", "manager"), ("a.db", "access-point"), ("e.db", "execution-point")):
            assert f"of the role {role}" in roles.call("doctor", "-log", log)
        roles.run_job("first")
        for log in ("m.db", "a.db", "e.db"):
            roles.call("reconfig", "-log", log)
        assert "slot1@ep" in roles.call("status", "-log", "m.db")
        assert [roles.stop(log) for log in ("m.db", "a.db", "e.db")] == [0, 0, 0]
        assert "-role manager -listen HOST:PORT` serves it" in roles.call("serve", "-log", "m.db", code=1)
        assert "`poolbook join` serves it" in roles.call("resume", "-log", "a.db", code=1)
        roles.submit("second", "echo second")  # to a log that is not being served
        roles.start("a.db", "join")
        roles.start("e.db", "serve", "-cpus", "1", "-memory", "512")
        roles.start_manager()
        roles.wait_until_printed("second", "second\n")
        for log in ("m.db", "a.db", "e.db"):
            assert f"{log}: sound" in roles.call("verify", "-log", log)


@pytest.mark.skipif(not POSTGRES, reason="POOLBOOK_TEST_POSTGRES has no URL")
def test_the_logs_of_a_manager_and_an_access_point_can_be_on_postgresql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # the roles' keys, and the broker's
    with ExitStack() as stack:
        manager, ap = (stack.enter_context(place_of("postgresql", tmp_path)).url for _ in range(2))
        roles = stack.enter_context(role_processes(tmp_path))
        for round in ("first", "second"):
            roles.start_manager(log=manager)
            if round == "first":
                token = roles.token(manager)
                roles.start(ap, "join", roles.url, token, "-role", "access-point", "-name", "ap")
                roles.start("e.db", "join", roles.url, token, *EXECUTION_POINT, "-name", "ep")
            else:
                roles.start(ap, "join")
            roles.run_job(round, ap)
            assert [roles.stop(log, signal.SIGKILL) for log in (manager, ap)] == [-signal.SIGKILL] * 2
        roles.stop("e.db")
        verdicts = roles.call("audit", manager, ap, "e.db")
        assert verdicts.count("sound") == 3
        assert "not sound" not in verdicts


@pytest.mark.parametrize("killed", ["m.db", "a.db", "e.db"])
def test_a_job_survives_the_death_of_a_role(tmp_path: Path, killed: str) -> None:
    with role_processes(tmp_path) as roles:
        roles.start_manager()
        token = roles.token()
        roles.start("a.db", "join", roles.url, token, "-role", "access-point", "-name", "ap")
        roles.start("e.db", "join", roles.url, token, *EXECUTION_POINT, "-name", "ep")
        roles.submit("long", f"echo started; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo ended")
        roles.wait_until_printed("long", "started\n")
        assert roles.stop(killed, signal.SIGKILL) == -signal.SIGKILL
        if killed != "m.db":  # while the manager is dead, the job can end
            roles.start(killed, "join", *(EXECUTION_POINT if killed == "e.db" else ("-role", "access-point")))
        (tmp_path / "go").touch()
        roles.wait_until_printed("long", "started\nended\n")
        ended = ("history", "-log", "a.db", "-af", "JobStatus", "ExitCode", "NumJobStarts")
        roles.wait_for(lambda: roles.call(*ended) == "4 0 1\n")
        if killed == "m.db":
            roles.start_manager()
        roles.run_job("next")


def test_one_command_runs_two_roles_with_separate_logs_and_ends_both(tmp_path: Path) -> None:
    with role_processes(tmp_path) as roles:
        roles.start_manager()
        roles.start("x.db", "join", roles.url, roles.token(), "-role", "access-point,execution-point", ready=2)
        assert "in x.db" in roles.output("x.db")
        assert "in x.execution-point.db" in roles.output("x.db")
        assert roles.stop("x.db") == 0
        assert roles.outputs["x.db"].count("stopping") == 2


def test_errors_name_the_problem_and_the_fix(tmp_path: Path) -> None:
    with role_processes(tmp_path) as roles:
        roles.start_manager()
        roles.token()
        (tmp_path / "damaged").write_text("e30.e30.AAAA\n")
        roles.start("e.db", "join", roles.url, "token", *EXECUTION_POINT, "-name", "ep")
        for call, code, message in [
            (
                "join URL damaged -log x.db",
                1,
                "the token's algorithm must be HS256, not 'None'; use a token that `poolbook token create`",
            ),
            (
                "join URL none -log x.db",
                2,
                "the second argument must be a token, a file or directory with tokens, or -",
            ),
            ("join URL -log x.db", 2, "a role joins with a manager's URL and a token; use poolbook join"),
            ("join -log x.db", 2, "x.db has not joined a pool yet; use poolbook join https://HOST:PORT TOKEN"),
            ("join URL token -role manager -log x.db", 2, "-role manager: use execution-point or access-point"),
            ("join URL token -role access-point -log e.db", 1, "e.db is the log of execution-point/ep in the pool"),
            ("join https://127.0.0.1:1 token -log x.db", 1, "does not answer: "),
            ("serve -role manager -log m.db", 2, "no address is set; other roles connect to it; use -listen"),
            (
                "serve -role manager -listen x:y -log m.db",
                2,
                "-listen: 'x:y' is not HOST:PORT; use for example 0.0.0.0",
            ),
            ("serve -role manager -listen ADDRESS -log n.db", 1, "Address already in use; stop the program that uses"),
            (
                "serve -role manager -listen ADDRESS -nats tls://x -log n.db",
                2,
                "-nats and -credentials: one is missing",
            ),
            (
                "serve -role startd -log n.db",
                2,
                "serve starts the role manager; `poolbook join` starts the other roles",
            ),
            ("serve -listen :1 -log n.db", 2, "-listen: use this option only with -role manager"),
        ]:
            address = f"127.0.0.1:{roles.port}"
            words = call.replace("URL", roles.url).replace("ADDRESS", address).split()
            output = " ".join(roles.call(*words, code=code).split())
            assert message in output, call
        assert "rejected a request from 127.0.0.1: the token's algorithm" in roles.output("m.db")
        assert not (tmp_path / "n.db").exists()


FILES_JOB = """executable = job.sh
transfer_input_files = input, folder
should_transfer_files = YES
output = stdout
error = stderr
request_memory = 16
request_disk = 10 MB
queue
"""


def test_files_are_transferred_between_roles(tmp_path: Path) -> None:
    with role_processes(tmp_path) as roles:
        roles.start_manager()
        token = roles.token()
        roles.start("a.db", "join", roles.url, token, "-role", "access-point")
        roles.start("e.db", "join", roles.url, token, *EXECUTION_POINT)
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "b").write_text("second\n")
        (tmp_path / "input").write_text("first\n")
        (tmp_path / "job.sh").write_text("#!/bin/sh\ncat input folder/b; echo made > made\n")
        (tmp_path / "job.sub").write_text(FILES_JOB)
        roles.call("submit", "job.sub", "-log", "a.db")
        roles.wait_for((tmp_path / "made").exists)
        assert (tmp_path / "stdout").read_text() == "first\nsecond\n"
        assert (tmp_path / "made").read_text() == "made\n"


def test_checkpoints_at_a_url_survive_a_change_of_the_execution_point(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (tmp_path / "map").write_text(
        rf"* file://{store}/ cleanup_locally_mounted_checkpoint,-prefix,\0,-path,{store}" + "\n"
    )
    (tmp_path / "ap.conf").write_text(f"CHECKPOINT_DESTINATION_MAPFILE = {tmp_path}/map\n")
    (tmp_path / "job.sh").write_text(
        f"""#!/bin/sh
n=$(cat state 2>/dev/null || echo 0); echo "from $n"; n=$((n+1)); echo $n > state
test $n -ge 4 && exit 0
test $n -eq 3 && test ! -e {tmp_path}/go && touch {tmp_path}/waits && sleep 1000
exit 85
"""
    )
    (tmp_path / "job.sub").write_text(
        f"executable = job.sh\noutput = out\nlog = job.log\nshould_transfer_files = YES\ncheckpoint_exit_code = 85\n"
        f"transfer_checkpoint_files = state\ncheckpoint_destination = file://{store}\nqueue\n"
    )
    with role_processes(tmp_path) as roles:
        roles.start_manager()
        token = roles.token()
        roles.start("a.db", "join", roles.url, token, "-role", "access-point", "-name", "ap", "-config", "ap.conf")
        roles.start("e.db", "join", roles.url, token, *EXECUTION_POINT, "-name", "ep")
        roles.call("submit", "job.sub", "-log", "a.db")
        roles.wait_for((tmp_path / "waits").exists)
        (job,) = roles.call("q", "-af", "GlobalJobId", "-log", "a.db").split()
        assert job.startswith("ap#1.0#")
        assert sorted(path.name for path in (store / job.replace("#", "_")).iterdir()) == ["0000", "0001"]
        roles.call("hold", "1", "-log", "a.db")
        roles.wait_for(lambda: "\n012 (" in (tmp_path / "job.log").read_text())  # its processes have ended
        roles.stop("e.db")
        (tmp_path / "go").touch()
        roles.start("f.db", "join", roles.url, token, *EXECUTION_POINT, "-name", "fp")
        roles.call("release", "1", "-log", "a.db")
        roles.wait_until_printed("out", "from 0\nfrom 1\nfrom 2\nfrom 3\n")
        roles.wait_for(lambda: "1, 2 deleted" in roles.call("log", "1", "-log", "a.db"))
        assert list(store.iterdir()) == []
        assert "a.db: sound" in roles.call("verify", "-log", "a.db")
