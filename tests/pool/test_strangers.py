"""Table: who may do what: every command that changes something, typed by the pool's user and by another one, on a log
that is served and on one that lies still, in a folder in which both may write. The other one is a user of the system's.

Golden: whose jobs are run, whom the sockets talk to, and what lies in which folder.
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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.machine.execution import Supervisor, SupervisorError
from poolbook.adapters.machine.host import host_name, user_name
from poolbook.adapters.runtime.requests import SubmitDescription
from poolbook.adapters.sockets import make_private

from .. import forked
from ..stores.places import POSTGRES, place_of
from .real import PATIENCE, POOLBOOK, Folder, environment

STRANGER = 65534
NAME = "nobody"
SUBMIT = "executable = /bin/true\ntransfer_executable = false\nrequest_memory = 16\nrequest_disk = 1 MB\n{}queue\n"


class Shared(Folder):
    """A folder in which everybody may write, and what the system would keep them from is not in the way."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        path.chmod(0o777)
        self._sessions: dict[int | None, forked.Session] = {}

    def open_up(self) -> None:
        for entry in self.path.iterdir():
            if not stat.S_ISDIR(entry.stat().st_mode):
                entry.chmod(0o666)

    def call_as(self, user: int | None, *words: str) -> str:
        """Run a command as this user (None: the pool's), and return what it says."""
        self.open_up()
        env = {**environment(), "HOME": str(self.path), "XDG_STATE_HOME": str(self.path / f"state-{user}")}
        said = self.said_to(user, *words, cwd=self.path, env=env)
        self.open_up()
        return said

    def said_to(self, user: int | None, *words: str, cwd: Path, env: dict[str, str]) -> str:
        """Run a command as this user, somewhere, and return what it says."""
        session = self._sessions.setdefault(user, forked.Session(user))
        done = session.run([*POOLBOOK, *words], cwd=cwd, env=env, timeout=PATIENCE)
        assert "Traceback" not in done.stderr, f"{words}: {done.stderr}"
        return done.stdout + done.stderr

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
        done = forked.run(["-c", code, json.dumps(request)], cwd=self.path, user=STRANGER, check=True)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


@contextmanager
def folder_of_all(*below: str) -> Iterator[Shared]:
    """A folder, or one of that name in it; whichever session of pytest begins closes pytest's own to other users."""
    home = Path(tempfile.mkdtemp())
    home.chmod(0o755)
    path = home.joinpath("shared", *below)
    path.mkdir(parents=True)
    found = Shared(path)
    found.write("job.sub", SUBMIT.format(""))
    found.write("held.sub", SUBMIT.format("hold = true\n"))
    yield found
    found.kill_everything()
    shutil.rmtree(home)


@pytest.fixture
def shared() -> Iterator[Shared]:
    with folder_of_all() as found:
        yield found


HOST = host_name()
DENIED = "Permission denied to "
ADMIN = "only the pool's owner may do that (condor, root)"
ROOT = "only root, who runs this pool, may do that"
STILL = "the pool is not running. Start it with"
SENT = "Sent "

# What is typed; what it says to another user, on a served log and on one that lies still; then, to the pool's.
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
"""``rm -all`` is about the jobs of whoever types it: the other user has one, too."""

# The same as requests, as a client that lies would send them: each claims to be the pool's user, or nobody.
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


def jobs(pool: Shared) -> str:
    return pool.call("q", "-constraint", 'Owner == "root"', "-af", "ClusterId", "JobStatus", "JobPrio", "Cmd")


def tried(pool: Shared, served: bool) -> None:
    """Everything in the table, typed by the stranger, changes nothing of the user's; typed by the user, it works."""
    before = jobs(pool)
    for command, *says in TABLE:
        assert says[0 if served else 1] in (said := pool.call_as(STRANGER, *command.split())), (command, said)
    assert jobs(pool) == before
    for command, *says in TABLE:
        assert says[2 if served else 3] in (said := pool.call_as(None, *command.split())), (command, said)
    assert jobs(pool) == ""
    assert "sound" in pool.call("verify")


def test_on_a_log_that_lies_still_another_user_submits_and_changes_only_what_is_theirs(shared: Shared) -> None:
    for _ in range(2):
        shared.call_as(None, "submit", "held.sub")
    tried(shared, served=False)


def test_on_a_served_log_another_user_changes_nothing(shared: Shared) -> None:
    for _ in range(2):
        shared.call_as(None, "submit", "held.sub")
    with shared.served():
        tried(shared, served=True)


def refused(answer: dict[str, Any]) -> str:
    """What was refused: as a whole, or for each job."""
    if "refusal" in answer:
        return str(answer["refusal"]).replace("permission denied", "denied")
    return " ".join({str(one.get("result")) for one in answer["answer"]})


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o710, 0o701, 0o700])
def test_a_folder_of_ours_that_others_could_enter_is_closed_to_them(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "pool.db.d"
    folder.mkdir()
    folder.chmod(mode)
    make_private(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("claimed", ["root", "condor", ""])
def test_a_server_asks_the_system_who_asks_and_not_the_request(shared: Shared, claimed: str) -> None:
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


def test_a_server_reads_a_submit_file_for_its_own_user_and_none_for_another(shared: Shared) -> None:
    """What the file names would be read with the server's rights: another user's own process reads it, with that
    user's. The other one claims to see the disk as the server does, with its groups and umask."""
    shared.write("secret", "of-the-pools-user\n")
    text = f"{SUBMIT.format('hold = true' + chr(10))[:-1]} arguments from secret\n"
    with shared.served():
        (shared.path / "secret").chmod(0o600)

        def ask(number: int, as_stranger: bool) -> dict[str, Any]:
            folder = str(shared.path)
            given = SubmitDescription(f"description-{number}", text, "job.sub", folder, {}, (), None, {})
            request = {**given.as_request(), "user": ""}
            if as_stranger:
                code = (
                    "import socket, sys; c = socket.socket(socket.AF_UNIX); c.connect('pool.db.sock');"
                    "c.sendall(sys.argv[1].encode() + b'\\n'); print(c.makefile().readline())"
                )
                done = forked.run(["-c", code, json.dumps(request)], cwd=shared.path, user=STRANGER, check=True)
                return dict(json.loads(done.stdout))
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(shared.path / "pool.db.sock"))
                client.sendall(json.dumps(request).encode() + b"\n")
                return dict(json.loads(client.makefile().readline()))

        (shared.path / "pool.db.sock").chmod(0o666)
        own, other = ask(1, as_stranger=False), ask(2, as_stranger=True)
        assert own["answer"]["cluster"] == 1, own
        assert other["answer"].keys() == {"terms"}, other
        assert shared.call("q", "-allusers", "-af", "Owner", "Args") == f"{user_name()} of-the-pools-user\n"


# A writer of a log that lies still, which claims to be somebody.
WRITER = """
import json, sys
from poolbook.adapters.runtime.pool_client import ask
from poolbook.adapters.runtime.requests import RequestRefused
try:
    print(json.dumps({"answer": ask("pool.db", json.loads(sys.argv[1]))}))
except RequestRefused as refused:
    print(json.dumps({"refusal": str(refused)}))
"""


def test_so_does_whoever_writes_a_log_that_lies_still(shared: Shared) -> None:
    with shared.served():  # from now on the log knows the machine
        shared.call_as(None, "submit", "held.sub")
    before = jobs(shared)
    for number, (request, then) in enumerate(LIES):
        shared.open_up()
        lie = json.dumps({"id": f"lie-{number}", "user": "root", **request})
        answer = json.loads(forked.run(["-c", WRITER, lie], cwd=shared.path, user=STRANGER, check=True).stdout)
        assert then in refused(answer), (request, answer)
    assert jobs(shared) == before


SCRIPT = "executable = /bin/sh\ntransfer_executable = false\narguments = \"-c 'id -u >> ran.{}'\"\nqueue\n"


def both_submit(shared: Shared) -> None:
    """A job of each user's lies in the log, and a held one."""
    for name in ("theirs", "ours"):
        shared.write(f"{name}.sub", SCRIPT.format(name))
    shared.call_as(None, "submit", "held.sub")
    shared.call_as(STRANGER, "submit", "theirs.sub")
    shared.call_as(None, "submit", "ours.sub")


def test_where_root_serves_a_job_that_lies_in_the_log_runs_with_its_owners_rights(shared: Shared) -> None:
    both_submit(shared)
    shared.path.parent.chmod(0o755)
    with shared.served():
        shared.wait_for(lambda: shared.call("q", "-allusers", "2", "3", "-af", "ClusterId") == "")
    assert (shared.path / "ran.ours").read_text() == "0\n"
    assert (shared.path / "ran.theirs").read_text() == f"{STRANGER}\n"
    assert "sound" in shared.call("verify")


@contextmanager
def served_by_another(shared: Shared) -> Iterator[None]:
    """The other user serves the pool."""
    shared.open_up()
    for path in [shared.path, *shared.path.iterdir()]:
        os.chown(path, STRANGER, STRANGER)
    env = {**environment(), "HOME": str(shared.path), "XDG_STATE_HOME": str(shared.path / "state")}
    words = [*POOLBOOK, "serve", "-cpus", "2"]
    server = forked.start(words, cwd=shared.path, env=env, stderr=forked.STDOUT, user=STRANGER)
    try:
        shared.wait_for((shared.path / "pool.db.sock").exists)
        yield
    finally:
        server.terminate()
        server.wait(PATIENCE)


def test_where_another_user_serves_a_job_of_ours_is_held_and_not_run_with_their_rights(shared: Shared) -> None:
    both_submit(shared)
    with served_by_another(shared):
        for _ in range(2):
            shared.wait_for(lambda: shared.call("q", "3", "-af", "JobStatus", "HoldReasonCode") == "5 23\n")
            said = shared.call("why", "3.0")
            assert f"this pool runs its jobs as {NAME}, and this is a job of root" in said, said
            assert "Job 3.0 released" in shared.call_as(None, "release", "3.0")
        assert f"runs its jobs as {NAME}, and takes jobs of no other user" in shared.call_as(None, "submit", "held.sub")
    assert not (shared.path / "ran.ours").exists()


@pytest.mark.parametrize("request_", SUBMISSIONS, ids=lambda one: one["kind"])
def test_a_users_pool_takes_no_jobs_over_its_socket(shared: Shared, request_: dict[str, Any]) -> None:
    with served_by_another(shared), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(shared.path / "pool.db.sock"))
        client.sendall(json.dumps({"id": "lie", "user": NAME, **request_}).encode() + b"\n")
        answer = json.loads(client.makefile().readline())
    assert "no other user" in refused(answer)


@pytest.mark.skipif(not POSTGRES, reason="POOLBOOK_TEST_POSTGRES has no URL")
def test_a_job_of_another_user_in_a_shared_schema_runs_with_its_owners_rights(tmp_path: Path, shared: Shared) -> None:
    """Both submit to one schema of a server of PostgreSQL, and one of them goes on with it."""
    for name in ("theirs", "ours"):
        shared.write(f"{name}.sub", SCRIPT.format(name))

    def says(user: int | None, *words: str) -> str:
        return shared.call_as(user, *words, "-log", place.url)

    def job(number: int) -> str:
        return says(None, "q", "-allusers", str(number), "-af", "JobStatus", "HoldReasonCode").strip()

    with place_of("postgresql", tmp_path) as place:
        assert "submitted to cluster 1" in says(None, "submit", "ours.sub")
        assert "submitted to cluster 2" in says(STRANGER, "submit", "theirs.sub")
        assert f"{DENIED}hold" in says(STRANGER, "hold", "1.0")
        shared.write("pool.conf", f"EXECUTE = {shared.path}\n")  # a place to which both may go
        says(None, "resume", "-config", "pool.conf")
        assert (job(1), job(2)) == ("", "")
        assert (shared.path / "ran.ours").read_text() == "0\n"
        assert (shared.path / "ran.theirs").read_text() == f"{STRANGER}\n"
        assert "sound" in says(None, "verify")


def test_a_job_cannot_say_whose_it_is(shared: Shared) -> None:
    shared.write("a.sub", 'executable = /bin/true\nhold = true\n+owner = "root"\n+User = "root@x"\nqueue\n')
    shared.write("b.sub", 'executable = /bin/true\nhold = true\nMY.OWNER = "$(x)"\nqueue x in (root toor)\n')
    shared.call_as(None, "submit", "held.sub")
    assert "submitted to cluster 2" in shared.call_as(STRANGER, "submit", "a.sub")
    assert f"it is {NAME}, who submits them; leave it out" in shared.call_as(STRANGER, "submit", "b.sub")
    owner, user = shared.call("q", "-allusers", "2", "-af", "Owner", "User").split()
    assert (owner, user.partition("@")[0]) == (NAME, NAME)


# Sockets and folders

# A server of somebody else's, which says yes to everything, and notes what it was told.
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
        open(sys.argv[1] + "/told", "ab").write(line)
        stream.write(b'{"answer": {"cluster": 7, "count": 1, "warnings": []}}\\n')
        stream.flush()
"""


@pytest.mark.parametrize("length", [20, 200])
def test_a_client_tells_nothing_to_a_server_of_somebody_else(length: int) -> None:
    """Whatever the length of the log's path: there is no other place for the socket."""
    with folder_of_all("x" * length) as shared:
        _tells_nothing(shared, shared.path)


def _tells_nothing(shared: Shared, home: Path) -> None:
    shared.call_as(None, "submit", "held.sub")
    with open(home / "pool.db.lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        impostor = forked.start(["-c", IMPOSTOR, str(home), "pool.db.sock"], user=STRANGER)
        assert impostor.stdout is not None
        assert impostor.stdout.readline() == "listens\n"
        for command in ("submit held.sub", "hold 1.0", "reschedule", "rm -all"):
            said = shared.call_as(None, *command.split())
            assert "is served by the user with number 65534, who is not to be trusted with it" in said, (command, said)
        impostor.kill()
        impostor.wait()
    assert not (home / "told").exists()
    assert shared.call("q", "-af", "ClusterId") == "1\n"


def test_a_path_longer_than_a_sockets_address_needs_no_other_place() -> None:
    with folder_of_all("x" * 200) as shared:
        with shared.served():
            assert "submitted to cluster 1" in shared.call("submit", "held.sub")
            assert (shared.path / "pool.db.sock").is_socket()
            assert shared.ask_as_stranger({"kind": "ComeBack"}) == {"refusal": f"{ROOT}"}
        assert not (shared.path / "pool.db.sock").exists()


def test_the_supervisor_takes_orders_of_no_other_user(shared: Shared) -> None:
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
        words = ["-c", code, str(shared.path / "pool.db.d" / "socket"), json.dumps(order)]
        done = forked.run(words, user=STRANGER)
        assert done.stdout == "b''\n" or "ConnectionResetError" in done.stderr or "BrokenPipeError" in done.stderr
        assert not (shared.path / "pool.db.d" / "claims" / "x").exists()
        shared.call("submit", "job.sub")
        shared.wait_for(lambda: shared.call("history", "-af", "ExitCode") == "0\n0\n")  # and its pool was not replaced


def test_a_handle_takes_nobody_elses_supervisor(shared: Shared) -> None:
    folder = shared.path / "pool.db.d"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    impostor = forked.start(["-c", IMPOSTOR, str(folder), "socket"], user=STRANGER)
    assert impostor.stdout is not None
    assert impostor.stdout.readline() == "listens\n"
    with Supervisor(folder) as handle, pytest.raises(SupervisorError, match="served by the user with number 65534"):
        handle.start([])
    impostor.kill()
    impostor.wait()
    assert not (folder / "told").exists()


def test_what_a_pool_puts_into_its_folder_nobody_else_may_see(shared: Shared) -> None:
    server = forked.start(
        [*POOLBOOK, "serve"], cwd=shared.path, env=environment(), stderr=forked.STDOUT, start_new_session=True, umask=0
    )
    shared.wait_for((shared.path / "pool.db.sock").exists)
    assert stat.S_IMODE((shared.path / "pool.db.d").stat().st_mode) == 0o700
    server.terminate()
    server.wait(PATIENCE)


@pytest.mark.parametrize("kind", ["a folder", "a link", "a file"])
def test_a_folder_that_is_not_ours_is_not_used(shared: Shared, kind: str) -> None:
    folder = shared.path / "pool.db.d"
    if kind == "a link":
        folder.symlink_to("/tmp")
    elif kind == "a file":
        folder.write_text("")
    else:
        folder.mkdir()
        os.chown(folder, STRANGER, STRANGER)
    said = shared.call("serve", code=1)
    assert f"{folder} cannot be used: " in said
    assert "Traceback" not in said
    assert kind != "a folder" or "it must be your own; take it away, or use another log" in said


def test_a_socket_that_cannot_be_made_is_said_in_words(shared: Shared) -> None:
    (shared.path / "pool.db.sock").mkdir()
    said = shared.call("serve", code=1)
    assert "pool.db.sock cannot be listened at: " in said
    assert "Traceback" not in said


def test_the_output_of_another_users_job_cannot_be_printed_and_the_reason_is_reported() -> None:
    with folder_of_all() as shared:
        shared.write(
            "runs.sub", "executable = /bin/sleep\narguments = 60\nshould_transfer_files = YES\noutput = o\nqueue\n"
        )
        with shared.served():
            shared.call_as(None, "submit", "runs.sub")
            shared.wait_for(lambda: shared.call("q", "-af", "JobStatus") == "2\n")
            shared.wait_for(lambda: list(shared.path.rglob("_condor_stdout")))
            said = shared.call_as(STRANGER, "condor_tail", "1.0")
            assert said.startswith("Failed to peek at file from starter: Cannot open file "), said
            assert "Permission denied" in said
            shared.call_as(None, "rm", "-all")
