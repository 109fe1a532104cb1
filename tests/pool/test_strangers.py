"""Table: who may do what. Every command that changes something is typed by the pool's user and by another system user,
on a served log and on an unserved one, in a directory that both may write.

Golden: whose jobs are run, which users the sockets talk to, and which files are in which directory.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.machine.execution.client import Supervisor, SupervisorError
from poolbook.adapters.machine.execution.supervisor.records import claimed_keys
from poolbook.adapters.machine.host import host_name, user_name
from poolbook.adapters.runtime.requests import SubmitDescription
from poolbook.adapters.sockets import make_private

from .. import forked
from ..stores.places import POSTGRES, place_of
from .real import PATIENCE, POOLBOOK, Folder, environment

STRANGER = 65534
NAME = "nobody"
SUBMIT = "executable = /bin/true\ntransfer_executable = false\nrequest_memory = 16\nrequest_disk = 1 MB\n{}queue\n"


class SharedFolder(Folder):
    """A directory that everyone may write, so that the system's permissions prevent nothing."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        path.chmod(0o777)
        self._sessions: dict[int | None, forked.Session] = {}

    def open_up(self) -> None:
        for entry in self.path.iterdir():
            with suppress(FileNotFoundError):  # a server may remove it
                if not stat.S_ISDIR(entry.stat().st_mode):
                    entry.chmod(0o666)

    def call_as(self, user: int | None, *arguments: str) -> str:
        """Run a command as this user (None: the pool's), and return its output."""
        self.open_up()
        env = {**environment(), "HOME": str(self.path), "XDG_STATE_HOME": str(self.path / f"state-{user}")}
        said_to = self.said_to(user, *arguments, cwd=self.path, env=env)
        self.open_up()
        return said_to

    def said_to(self, user: int | None, *arguments: str, cwd: Path, env: dict[str, str]) -> str:
        """Run a command as this user, somewhere, and return its output."""
        session = self._sessions.setdefault(user, forked.Session(user))
        completed = session.run([*POOLBOOK, *arguments], cwd=cwd, env=env, timeout=PATIENCE)
        output = completed.stdout + completed.stderr
        assert completed.returncode >= 0, f"signal {-completed.returncode} killed {arguments}: {output}"
        assert "Traceback" not in completed.stderr, f"{arguments}: {completed.stderr}"
        return output

    def kill_everything(self) -> None:
        for session in self._sessions.values():
            session.close()
        super().kill_everything()

    def ask_as_stranger(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request over the server's socket as another user."""
        self.open_up()
        code = (
            "import socket, sys; c = socket.socket(socket.AF_UNIX); c.connect('pool.db.sock');"
            "c.sendall(sys.argv[1].encode() + b'\\n'); print(c.makefile().readline())"
        )
        completed = forked.run(["-c", code, json.dumps(request)], cwd=self.path, user=STRANGER, check=True)
        answer: dict[str, Any] = json.loads(completed.stdout)
        return answer


@contextmanager
def folder_of_all(*below: str) -> Iterator[SharedFolder]:
    """Return a directory, new or of that name. Any session of pytest closes pytest's own to other users when it
    starts."""
    home = Path(tempfile.mkdtemp())
    home.chmod(0o755)
    path = home.joinpath("shared", *below)
    path.mkdir(parents=True)
    shared = SharedFolder(path)
    shared.write("job.sub", SUBMIT.format(""))
    shared.write("held.sub", SUBMIT.format("hold = true\n"))
    yield shared
    shared.kill_everything()
    shutil.rmtree(home)


@pytest.fixture
def shared() -> Iterator[SharedFolder]:
    with folder_of_all() as shared_folder:
        yield shared_folder


HOST = host_name()
DENIED = "Permission denied to "
ADMIN = "only the pool's owner may do that (condor, root)"
ROOT = "only root, who runs this pool, may do that"
STILL = "the pool is not running; start it with"
SENT = "Sent "

# What is typed; its output for another user, on a served log and on an unserved one; then for the pool's user.
TABLE: list[tuple[str, str, str, str, str]] = [
    # command                      other: served   still             own: served      still
    ("submit held.sub", "submitted to", "submitted to", "submitted to", "submitted to"),
    ("hold 1.0", f"{DENIED}hold", f"{DENIED}hold", "Job 1.0 held", "Job 1.0 held"),
    ("suspend 1.0", f"{DENIED}suspend", f"{DENIED}suspend", "1.0 not running", "1.0 not running"),
    (
        "continue 1.0",
        f"{DENIED}continue",
        f"{DENIED}continue",
        "1.0 not running to be continued",
        "1.0 not running to be continued",
    ),
    ("vacate 1.0", f"{DENIED}vacate", f"{DENIED}vacate", "1.0 not running", "1.0 not running"),
    ("prio -p 5 1.0", f"{DENIED}change", f"{DENIED}change", "", ""),
    ("rm 2.0", f"{DENIED}remove", f"{DENIED}remove", "2.0 marked for removal", "2.0 marked for removal"),
    ("rm -forcex 2.0", f"{DENIED}force removal", f"{DENIED}force removal", "2.0 not found", "2.0 not found"),
    ("release 2.0", f"{DENIED}release", f"{DENIED}release", "2.0 not found", "2.0 not found"),
    ("userprio -setfactor alice@x 7", ADMIN, ADMIN, "was set to 7", "was set to 7"),
    ("userprio -setprio alice@x 7", ADMIN, ADMIN, "was set to 7", "was set to 7"),
    ("userprio -resetall", ADMIN, ADMIN, "was reset for all users", "was reset for all users"),
    ("userprio -delete alice@x", ADMIN, ADMIN, "alice@x", "alice@x"),
    (f"drain {HOST}", ADMIN, STILL, SENT, STILL),
    (f"drain -cancel {HOST}", ADMIN, STILL, SENT, STILL),
    ("off", ADMIN, STILL, SENT, STILL),
    ("on", ROOT, STILL, SENT, STILL),
    ("reconfig", ROOT, STILL, SENT, STILL),
    ("reschedule", SENT, STILL, SENT, STILL),
    ("rm -all", "marked for removal", "marked for removal", "marked for removal", "marked for removal"),
]
"""``rm -all`` removes the jobs of the user who types it: the other user has one, too."""

# The same as requests of a client that lies: each claims to be from the pool's user, or from no one.
ALL = {"everything": True}
LIES: list[tuple[dict[str, Any], str]] = [
    ({"kind": "Hold", "selection": ALL}, "denied"),
    ({"kind": "RemoveNow", "selection": ALL}, "denied"),
    ({"kind": "Edit", "selection": ALL, "changes": {"Cmd": '"/usr/bin/id"'}}, "denied"),
    (
        {"kind": "Edit", "selection": ALL, "changes": {"Owner": f'"{NAME}"'}},
        'immutable attribute "Owner" is not allowed',
    ),
    ({"kind": "Drain", "machine": HOST}, "denied"),
    ({"kind": "CancelDrain", "machine": HOST}, "denied"),
    ({"kind": "ShutDown", "machine": HOST}, "denied"),
    ({"kind": "SetSubmitter", "submitter": "a@b", "name": "factor", "value": 5.0}, "denied"),
    ({"kind": "ResetUsage"}, "denied"),
    ({"kind": "DeleteSubmitter", "submitter": "a@b"}, "denied"),
]
SUBMISSIONS: list[dict[str, Any]] = [
    {"kind": "Submit", "cluster": 0, "ad": {"Cmd": '"/bin/true"'}, "count": 1, "columns": []},
    SubmitDescription("x", "queue", "", "/", {}, [], None, {}).as_request(),
    {"kind": "ReserveCluster"},
]
OF_SERVERS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "VacateSlot", "slot": HOST}, "only the pool's owner may vacate it"),
    ({"kind": "SuspendClaim", "slot": HOST}, "only the pool's owner may suspend it"),
    ({"kind": "ContinueClaim", "slot": HOST}, "only the pool's owner may continue it"),
    ({"kind": "ReadConfiguration"}, ROOT),
    ({"kind": "ComeBack"}, ROOT),
]


def jobs(pool: SharedFolder) -> str:
    return pool.call("q", "-constraint", 'Owner == "root"', "-af", "ClusterId", "JobStatus", "JobPrio", "Cmd")


def check_rights(pool: SharedFolder, served: bool) -> None:
    """Check that no command in the table changes anything of the user's when the stranger types it, and that all work
    for the user."""
    before = jobs(pool)
    for command, *says in TABLE:
        assert says[0 if served else 1] in (output := pool.call_as(STRANGER, *command.split())), (command, output)
    assert jobs(pool) == before
    for command, *says in TABLE:
        assert says[2 if served else 3] in (output := pool.call_as(None, *command.split())), (command, output)
    assert jobs(pool) == ""
    assert "sound" in pool.call("verify")


def test_on_an_unserved_log_another_user_submits_and_changes_only_their_own_jobs(shared: SharedFolder) -> None:
    for _ in range(2):
        shared.call_as(None, "submit", "held.sub")
    check_rights(shared, served=False)


def test_on_a_served_log_another_user_changes_nothing(shared: SharedFolder) -> None:
    for _ in range(2):
        shared.call_as(None, "submit", "held.sub")
    with shared.served():
        check_rights(shared, served=True)


def refused(answer: dict[str, Any]) -> str:
    """Return what was refused: the whole request, or each job."""
    if "refusal" in answer:
        return str(answer["refusal"]).replace("permission denied", "denied")
    return " ".join({str(entry.get("result")) for entry in answer["answer"]})


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o710, 0o701, 0o700])
def test_a_folder_of_ours_that_others_could_enter_is_closed_to_them(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "pool.db.d"
    folder.mkdir()
    folder.chmod(mode)
    make_private(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("claimed", ["root", "condor", ""])
def test_a_server_asks_the_system_and_not_the_request_who_the_client_is(shared: SharedFolder, claimed: str) -> None:
    shared.call_as(None, "submit", "held.sub")
    shared.write("runs.sub", SUBMIT.replace("/bin/true", "/bin/sleep").format("arguments = 1000\n"))
    shared.call_as(None, "submit", "runs.sub")
    with shared.served():
        shared.wait_for(lambda: shared.call("q", "2", "-af", "JobStatus") == "2\n")
        before = jobs(shared)
        for number, (request, then) in enumerate([*LIES, *OF_SERVERS]):
            answer = shared.ask_as_stranger({"id": f"lie-{number}", "user": claimed, **request})
            assert then in refused(answer), (request, answer)
        assert jobs(shared) == before


def test_a_server_reads_a_submit_file_for_its_own_user_and_for_no_other(shared: SharedFolder) -> None:
    """The server would read the files that it names with its own rights. So another user's process reads the file, with
    that user's rights. The other one claims to see the disk as the server does, with its groups and umask."""
    shared.write("secret", "of-the-pools-user\n")
    text = f"{SUBMIT.format('hold = true' + chr(10))[:-1]} arguments from secret\n"
    with shared.served():
        (shared.path / "secret").chmod(0o600)

        def ask(number: int, as_stranger: bool) -> dict[str, Any]:
            folder = str(shared.path)
            submission = SubmitDescription(f"description-{number}", text, "job.sub", folder, {}, (), None, {})
            request = {**submission.as_request(), "user": ""}
            if as_stranger:
                code = (
                    "import socket, sys; c = socket.socket(socket.AF_UNIX); c.connect('pool.db.sock');"
                    "c.sendall(sys.argv[1].encode() + b'\\n'); print(c.makefile().readline())"
                )
                completed = forked.run(["-c", code, json.dumps(request)], cwd=shared.path, user=STRANGER, check=True)
                return dict(json.loads(completed.stdout))
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(shared.path / "pool.db.sock"))
                client.sendall(json.dumps(request).encode() + b"\n")
                return dict(json.loads(client.makefile().readline()))

        (shared.path / "pool.db.sock").chmod(0o666)
        own_answer, other = ask(1, as_stranger=False), ask(2, as_stranger=True)
        assert own_answer["answer"]["cluster"] == 1, own_answer
        assert other["answer"].keys() == {"terms"}, other
        assert shared.call("q", "-allusers", "-af", "Owner", "Args") == f"{user_name()} of-the-pools-user\n"


# A writer of an unserved log that claims to be another user.
WRITER = """
import json, sys
from poolbook.adapters.runtime.pool_client import ask
from poolbook.adapters.runtime.requests import RequestRefused
try:
    print(json.dumps({"answer": ask("pool.db", json.loads(sys.argv[1]))}))
except RequestRefused as refused:
    print(json.dumps({"refusal": str(refused)}))
"""


def test_a_direct_writer_of_an_unserved_log_changes_only_their_own_jobs(shared: SharedFolder) -> None:
    with shared.served():  # from now on the log has the machine
        shared.call_as(None, "submit", "held.sub")
    before = jobs(shared)
    for number, (request, then) in enumerate(LIES):
        shared.open_up()
        lie = json.dumps({"id": f"lie-{number}", "user": "root", **request})
        answer = json.loads(forked.run(["-c", WRITER, lie], cwd=shared.path, user=STRANGER, check=True).stdout)
        assert then in refused(answer), (request, answer)
    assert jobs(shared) == before


SCRIPT = "executable = /bin/sh\ntransfer_executable = false\narguments = \"-c 'id -u >> ran.{}'\"\nqueue\n"


def submit_for_both(shared: SharedFolder) -> None:
    """Submit a job of each user to the log, and a held one."""
    for name in ("theirs", "ours"):
        shared.write(f"{name}.sub", SCRIPT.format(name))
    shared.call_as(None, "submit", "held.sub")
    shared.call_as(STRANGER, "submit", "theirs.sub")
    shared.call_as(None, "submit", "ours.sub")


def test_a_job_in_a_log_that_root_serves_runs_with_its_owners_rights(shared: SharedFolder) -> None:
    submit_for_both(shared)
    shared.path.parent.chmod(0o755)
    with shared.served():
        shared.wait_for(lambda: shared.call("q", "-allusers", "2", "3", "-af", "ClusterId") == "")
    assert (shared.path / "ran.ours").read_text() == "0\n"
    assert (shared.path / "ran.theirs").read_text() == f"{STRANGER}\n"
    assert "sound" in shared.call("verify")


@contextmanager
def served_by_another(shared: SharedFolder) -> Iterator[None]:
    """Serve the pool as the other user."""
    shared.open_up()
    for path in [shared.path, *shared.path.iterdir()]:
        os.chown(path, STRANGER, STRANGER)
    env = {**environment(), "HOME": str(shared.path), "XDG_STATE_HOME": str(shared.path / "state")}
    arguments = [*POOLBOOK, "serve", "-cpus", "2"]
    server = forked.start(arguments, cwd=shared.path, env=env, stderr=forked.STDOUT, user=STRANGER)
    try:
        shared.wait_for((shared.path / "pool.db.sock").exists)
        yield
    finally:
        server.terminate()
        server.wait(PATIENCE)


def test_a_job_in_a_log_that_another_user_serves_is_held_and_not_run_with_their_rights(shared: SharedFolder) -> None:
    submit_for_both(shared)
    with served_by_another(shared):
        for _ in range(2):
            shared.wait_for(lambda: shared.call("q", "3", "-af", "JobStatus", "HoldReasonCode") == "5 23\n")
            output = shared.call("why", "3.0")
            assert f"this pool runs its jobs as {NAME}, and this is a job of root" in output, output
            assert "Job 3.0 released" in shared.call_as(None, "release", "3.0")
        assert f"runs its jobs as {NAME}, and accepts no other user's jobs" in shared.call_as(
            None, "submit", "held.sub"
        )
    assert not (shared.path / "ran.ours").exists()


@pytest.mark.parametrize("request_", SUBMISSIONS, ids=lambda process: process["kind"])
def test_a_users_pool_takes_no_jobs_over_its_socket(shared: SharedFolder, request_: dict[str, Any]) -> None:
    with served_by_another(shared), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(shared.path / "pool.db.sock"))
        client.sendall(json.dumps({"id": "lie", "user": NAME, **request_}).encode() + b"\n")
        answer = json.loads(client.makefile().readline())
    assert "no other user" in refused(answer)


@pytest.mark.skipif(not POSTGRES, reason="POOLBOOK_TEST_POSTGRES has no URL")
def test_a_job_of_another_user_in_a_shared_schema_runs_with_its_owners_rights(
    tmp_path: Path, shared: SharedFolder
) -> None:
    """Both submit to one schema of a PostgreSQL server, and one of them continues."""
    for name in ("theirs", "ours"):
        shared.write(f"{name}.sub", SCRIPT.format(name))

    def says(user: int | None, *arguments: str) -> str:
        return shared.call_as(user, *arguments, "-log", place.url)

    def job(number: int) -> str:
        return says(None, "q", "-allusers", str(number), "-af", "JobStatus", "HoldReasonCode").strip()

    with place_of("postgresql", tmp_path) as place:
        assert "submitted to cluster 1" in says(None, "submit", "ours.sub")
        assert "submitted to cluster 2" in says(STRANGER, "submit", "theirs.sub")
        assert f"{DENIED}hold" in says(STRANGER, "hold", "1.0")
        shared.write("pool.conf", f"EXECUTE = {shared.path}\n")  # a place that both may enter
        says(None, "resume", "-config", "pool.conf")
        assert (job(1), job(2)) == ("", "")
        assert (shared.path / "ran.ours").read_text() == "0\n"
        assert (shared.path / "ran.theirs").read_text() == f"{STRANGER}\n"
        assert "sound" in says(None, "verify")


def test_a_job_cannot_choose_its_owner(shared: SharedFolder) -> None:
    shared.write("a.sub", 'executable = /bin/true\nhold = true\n+owner = "root"\n+User = "root@x"\nqueue\n')
    shared.write("b.sub", 'executable = /bin/true\nhold = true\nMY.OWNER = "$(x)"\nqueue x in (root toor)\n')
    shared.call_as(None, "submit", "held.sub")
    assert "submitted to cluster 2" in shared.call_as(STRANGER, "submit", "a.sub")
    assert f"it is always the submitting user, {NAME}; leave it out" in shared.call_as(STRANGER, "submit", "b.sub")
    owner, user = shared.call("q", "-allusers", "2", "-af", "Owner", "User").split()
    assert (owner, user.partition("@")[0]) == (NAME, NAME)


# Sockets and directories

# A server of another user, which accepts everything and records what it receives.
IMPOSTOR = """
import os, socket, sys
folder = os.open(sys.argv[1], os.O_RDONLY)
server = socket.socket(socket.AF_UNIX)
server.bind(f"/proc/self/fd/{folder}/" + sys.argv[2])
os.chmod(sys.argv[1] + "/" + sys.argv[2], 0o777)
server.listen()
print("listens", flush=True)
while True:
    client, _ = server.accept()
    stream = client.makefile("rwb")
    for line in stream:
        open(sys.argv[1] + "/received", "ab").write(line)
        stream.write(b'{"answer": {"cluster": 7, "count": 1, "warnings": []}}\\n')
        stream.flush()
"""


@pytest.mark.parametrize("length", [20, 200])
def test_a_client_sends_nothing_to_another_users_server(length: int) -> None:
    """This holds for any length of the log's path: the socket has only one place."""
    with folder_of_all("x" * length) as shared:
        _sends_nothing(shared, shared.path)


def _sends_nothing(shared: SharedFolder, home: Path) -> None:
    shared.call_as(None, "submit", "held.sub")
    with open(home / "pool.db.lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        impostor = forked.start(["-c", IMPOSTOR, str(home), "pool.db.sock"], user=STRANGER)
        assert impostor.stdout is not None
        assert impostor.stdout.readline() == "listens\n"
        for command in ("submit held.sub", "hold 1.0", "reschedule", "rm -all"):
            output = shared.call_as(None, *command.split())
            assert "is served by the user with uid 65534, whom this command does not trust" in output, (
                command,
                output,
            )
        impostor.kill()
        impostor.wait()
    assert not (home / "received").exists()
    assert shared.call("q", "-af", "ClusterId") == "1\n"


def test_a_path_longer_than_a_sockets_address_needs_no_other_place() -> None:
    with folder_of_all("x" * 200) as shared:
        with shared.served():
            assert "submitted to cluster 1" in shared.call("submit", "held.sub")
            assert (shared.path / "pool.db.sock").is_socket()
            assert shared.ask_as_stranger({"kind": "ComeBack"}) == {"refusal": f"{ROOT}"}
        assert not (shared.path / "pool.db.sock").exists()


def test_the_supervisor_takes_orders_from_no_other_user(shared: SharedFolder) -> None:
    with shared.served():
        shared.call("submit", "job.sub")
        shared.wait_for(lambda: shared.call("history", "-af", "ExitCode") == "0\n")
        (shared.path / "pool.db.d").chmod(0o777)
        (shared.path / "pool.db.d" / "socket").chmod(0o777)
        order = {"do": "start", "order": {"key": "x"}}
        code = (
            "import socket, sys; c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]);"
            "c.sendall(sys.argv[2].encode() + b'\\n'); print(c.recv(99))"
        )
        arguments = ["-c", code, str(shared.path / "pool.db.d" / "socket"), json.dumps(order)]
        completed = forked.run(arguments, user=STRANGER)
        assert (
            completed.stdout == "b''\n"
            or "ConnectionResetError" in completed.stderr
            or "BrokenPipeError" in completed.stderr
        )
        assert "x" not in claimed_keys(str(shared.path / "pool.db.d"))
        shared.call("submit", "job.sub")
        shared.wait_for(lambda: shared.call("history", "-af", "ExitCode") == "0\n0\n")  # and its pool was not replaced


def test_a_handle_uses_no_other_users_supervisor(shared: SharedFolder) -> None:
    folder = shared.path / "pool.db.d"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    impostor = forked.start(["-c", IMPOSTOR, str(folder), "socket"], user=STRANGER)
    assert impostor.stdout is not None
    assert impostor.stdout.readline() == "listens\n"
    with Supervisor(folder) as handle, pytest.raises(SupervisorError, match="served by the user with uid 65534"):
        handle.start([])
    impostor.kill()
    impostor.wait()
    assert not (folder / "received").exists()


def test_files_in_a_pools_folder_are_visible_to_no_one_else(shared: SharedFolder) -> None:
    server = forked.start(
        [*POOLBOOK, "serve"], cwd=shared.path, env=environment(), stderr=forked.STDOUT, start_new_session=True, umask=0
    )
    shared.wait_for((shared.path / "pool.db.sock").exists)
    assert stat.S_IMODE((shared.path / "pool.db.d").stat().st_mode) == 0o700
    server.terminate()
    server.wait(PATIENCE)


@pytest.mark.parametrize("kind", ["a folder", "a link", "a file"])
def test_a_folder_of_another_user_is_not_used(shared: SharedFolder, kind: str) -> None:
    folder = shared.path / "pool.db.d"
    if kind == "a link":
        folder.symlink_to("/tmp")
    elif kind == "a file":
        folder.write_text("")
    else:
        folder.mkdir()
        os.chown(folder, STRANGER, STRANGER)
    output = shared.call("serve", code=1)
    assert f"{folder} cannot be used: " in output
    assert "Traceback" not in output
    assert kind != "a folder" or "you must own it; remove it, or use another log" in output


def test_a_socket_that_cannot_be_made_is_reported(shared: SharedFolder) -> None:
    (shared.path / "pool.db.sock").mkdir()
    output = shared.call("serve", code=1)
    assert "pool.db.sock cannot be created: " in output
    assert "Traceback" not in output


def test_the_output_of_another_users_job_cannot_be_printed_and_the_reason_is_reported() -> None:
    with folder_of_all() as shared:
        shared.write(
            "runs.sub", "executable = /bin/sleep\narguments = 1000\nshould_transfer_files = YES\noutput = o\nqueue\n"
        )
        with shared.served():
            shared.call_as(None, "submit", "runs.sub")
            shared.wait_for(lambda: shared.call("q", "-af", "JobStatus") == "2\n")
            shared.wait_for(lambda: any("_condor_stdout" in names for _, _, names in os.walk(shared.path)))
            output = shared.call_as(STRANGER, "condor_tail", "1.0")
            assert output.startswith("Failed to peek at file from starter: Cannot open file "), output
            assert "Permission denied" in output
            shared.call_as(None, "rm", "-all")
