"""property: users on other machines, who have only a token, use a pool through its manager as on the access point."""

from __future__ import annotations

import json
import os
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.condor_tools.options import UsageError, command_table
from poolbook.adapters.https.messages import Query
from poolbook.adapters.https.remote_query import check_query, file_options
from poolbook.adapters.machine.host import host_name, user_name
from poolbook.adapters.security.user_tokens import tokens_in

from .. import forked
from ..pool.real import environment
from ..ports import free_port
from .roles import PATIENCE, Roles, role_processes

PROGRAM = "import sys; sys.argv[0] = sys.argv.pop(1); from poolbook.adapters.cli.main import entry; entry()"
QUERIES = ("history", "log", "q", "status", "usage", "userprio", "why")
JOB = """executable = job.sh
transfer_input_files = input, folder
output = printed/out.$(Process)
error = err
log = job.log
queue 2
"""


class User:
    """A user on another machine: a home directory with a token, and a directory for jobs."""

    def __init__(self, roles: Roles, name: str, token: str) -> None:
        self.roles, self.home, self.folder = roles, roles.path / name, roles.path / name / "jobs"
        self.folder.mkdir(parents=True)
        if token:
            self.store(token)

    def store(self, token: str) -> None:
        tokens = self.home / ".condor" / "tokens.d"
        tokens.mkdir(0o700, parents=True, exist_ok=True)
        tokens.joinpath("pool").write_text(f"{token}\n")

    def run(self, program: str, *words: str, pool: str = "") -> CompletedProcess[str]:
        values = {**environment(), "HOME": str(self.home), "POOLBOOK_LOG": "none.db"}
        command = ["-c", PROGRAM, program, *words, "-pool", pool or self.roles.url]
        return forked.run(command, cwd=self.folder, env=values, timeout=PATIENCE)

    def start(self, program: str, *words: str, at: str = "") -> forked.Process:
        values = {**environment(), "HOME": str(self.home), "POOLBOOK_LOG": "none.db"}
        command = ["-c", PROGRAM, program, *words, "-pool", f"{self.roles.url}#{at}"]
        return forked.start(command, cwd=self.folder, env=values, stderr=forked.STDOUT)

    def call(self, program: str, *words: str) -> str:
        completed = self.run(program, *words)
        assert completed.returncode == 0, (words, completed)
        return completed.stdout

    def fail(self, program: str, *words: str) -> str:
        """Return the error message of a command that fails, in one line."""
        completed = self.run(program, *words)
        assert completed.returncode in (1, 2), (words, completed)
        return " ".join(completed.stderr.split())

    def poolbook(self, *words: str) -> str:
        return self.call("poolbook", *words)


@pytest.fixture(scope="module")
def roles() -> Iterator[Roles]:
    with TemporaryDirectory() as path, role_processes(Path(path)) as roles:
        os.chmod(path, 0o711)  # other users' jobs run there, too
        roles.start_manager()
        token = roles.token()
        roles.start("a.db", "join", roles.url, token, "-role", "access-point", "-name", "ap")
        roles.start("e.db", "join", roles.url, token, "-role", "execution-point", "-cpus", "2", "-memory", "512")
        yield roles


def identity(name: str = "") -> str:
    return f"{name or user_name()}@{host_name()}"


def token_for(roles: Roles, *options: str, name: str = "") -> str:
    return roles.call("token", "create", "-identity", identity(name), *options, "-log", "m.db").strip()


@pytest.fixture(scope="module")
def owner(roles: Roles) -> User:
    return User(roles, "owner", token_for(roles))


def test_jobs_are_submitted_from_a_machine_that_has_no_pool_and_their_outputs_are_fetched(owner: User) -> None:
    folder = owner.folder
    folder.joinpath("job.sh").write_text("#!/bin/sh\ncat input folder/b; echo made > made; echo error >&2\n")
    folder.joinpath("input").write_text("first\n")
    folder.joinpath("folder").mkdir()
    folder.joinpath("folder", "b").write_text("second\n")
    folder.joinpath("printed").mkdir()
    folder.joinpath("job.sub").write_text(JOB)
    submitted = owner.run("condor_submit", "job.sub")
    assert "2 job(s) submitted to cluster 1.\n" in submitted.stdout, submitted
    assert "WARNING: log is ignored: the access point is another machine" in submitted.stderr
    statuses = ("q", "-af", "ProcId", "JobStatus", "Owner")
    done = f"0 4 {user_name()}\n1 4 {user_name()}\n"
    owner.roles.wait_for(lambda: owner.poolbook(*statuses) == done)
    assert not folder.joinpath("made").exists()
    assert owner.call("condor_transfer_data", "1") == "Fetching data files...\n"
    assert folder.joinpath("printed", "out.1").read_text() == "first\nsecond\n"
    assert [folder.joinpath(name).read_text() for name in ("made", "err")] == ["made\n", "error\n"]
    assert folder.joinpath("input").read_text() == "first\n"
    owner.roles.wait_for(lambda: owner.poolbook("q", "-af", "ProcId") == "")
    assert owner.poolbook("history", "-af", "ClusterId", "ProcId") in ("1 1\n1 0\n", "1 0\n1 1\n")
    assert "history -pool" not in owner.poolbook("why", "1.0")


def test_a_job_runs_as_the_unix_user_of_its_submitter(roles: Roles, owner: User) -> None:
    other = User(roles, "nobody", token_for(roles, name="nobody"))
    other.folder.joinpath("job.sh").write_text("#!/bin/sh\nid -un\n")
    other.folder.joinpath("job.sub").write_text("executable = job.sh\noutput = out\nqueue\n")
    if os.geteuid():  # only a pool that root serves has several users
        assert "accepts no other user's jobs" in other.fail("poolbook", "submit", "job.sub")
        return
    other.poolbook("submit", "job.sub")
    roles.wait_for(lambda: other.poolbook("q", "-af", "JobStatus") == "4\n")
    other.call("condor_transfer_data", "-all")
    assert other.folder.joinpath("out").read_text() == "nobody\n"


@pytest.fixture(scope="module")
def held(owner: User) -> str:
    """The number of a cluster with a held job."""
    text = "executable = /bin/true\ntransfer_executable = false\nrequirements = false\nqueue\n"
    owner.folder.joinpath("held.sub").write_text(text)
    cluster = owner.poolbook("submit", "held.sub", "-terse").partition(".")[0]
    assert owner.call("condor_hold", f"{cluster}.0") == f"Job {cluster}.0 held\n"
    return cluster


def test_jobs_are_changed_and_shown_as_on_the_access_point(owner: User, held: str) -> None:
    assert owner.call("condor_release", held) == f"All jobs in cluster {held} have been released\n"
    assert owner.call("condor_hold", held) == f"All jobs in cluster {held} have been held\n"
    owner.poolbook("prio", "-p", "5", held)
    owner.poolbook("qedit", held, "Color", '"red"')
    assert (
        owner.poolbook("q", held, "-af", "JobPrio", "Color", "HoldReason")
        == f"5 red via condor_hold (by user {user_name()})\n"
    )
    owner.folder.joinpath("form").write_text("SELECT\n  ClusterId AS NUMBER WIDTH 6\nSUMMARY NONE\n")
    assert owner.poolbook("q", held, "-print-format", "form").endswith(f"\nNUMBER\n{held:>6}\n")
    table = owner.poolbook("q", held, "-nobatch")
    assert "condor_q" not in table
    assert f"\n {held:>3}.0   {user_name()}" in table
    assert user_name() in owner.poolbook("why", f"{held}.0")


def test_the_manager_answers_about_slots_and_users(owner: User) -> None:
    assert f"slot1@{host_name()}" in owner.poolbook("status", "-af", "Name")
    assert "Number of users: " in owner.call("condor_userprio", "-all")
    owner.poolbook("userprio", "-setfactor", identity(), "20")
    assert f"{identity()} 20.0\n" in owner.poolbook("userprio", "-all", "-af", "Name", "PriorityFactor")


def test_a_command_without_permission_names_the_rule(roles: Roles, owner: User, held: str) -> None:
    reader = User(roles, "reader", token_for(roles, "-authz", "READ"))
    assert reader.poolbook("q", "-all", "-af", "ClusterId") == f"{held}\n"
    text = "The WRITE permission is not included in the authentication bounding set (scope: READ)"
    assert text in reader.fail("poolbook", "hold", held)
    denied = f'SECMAN:2010:Received "DENIED" from server for user {identity()} using method IDTOKENS.'
    assert reader.fail("condor_hold", held).startswith(denied)
    other = User(roles, "other", token_for(roles, name="nobody"))
    assert "Permission denied" in other.fail("condor_rm", f"{held}.0")
    assert other.poolbook("q", "-af", "ClusterId") == ""
    assert "ADMINISTRATOR" in other.fail("poolbook", "userprio", "-setfactor", f"bob@{host_name()}", "30")
    stranger = User(roles, "stranger", "")
    message = f"{roles.url} is not known yet, and you have no token for it; store a token in "
    assert message in stranger.fail("poolbook", "status")


def test_a_token_that_is_not_valid_is_explained(roles: Roles, owner: User) -> None:
    expired = User(roles, "expired", token_for(roles, "-lifetime", "0"))
    roles.wait_for(lambda: " s ago; get another one" in expired.run("poolbook", "q").stderr)
    token = token_for(roles)
    revoked = User(roles, "revoked", token)
    revoked.poolbook("q")
    id = tokens_in(revoked.home / ".condor" / "tokens.d" / "pool")[0].id
    roles.call("token", "revoke", id, "-log", "m.db")
    assert f"the token {id} of {identity()} is revoked" in revoked.fail("poolbook", "q")
    revoked.store(f"{token.rpartition('.')[0]}.{'A' * 43}")
    assert "the signature was not made with this pool's key POOL" in revoked.fail("poolbook", "q")


def test_a_manager_that_is_not_the_known_one_receives_no_token(roles: Roles) -> None:
    user = User(roles, "careful", token_for(roles))
    user.poolbook("q")
    known_hosts = user.home / ".condor" / "known_hosts"
    (line,) = known_hosts.read_text().splitlines()
    other_authority = roles.path / "a.db.security" / "files" / "ca.pem"
    certificate = "".join(other_authority.read_text().splitlines()[1:-1])
    known_hosts.write_text(f"{line.rpartition(' ')[0]} {certificate}\n")
    assert f"remove the line of 127.0.0.1:{roles.port} from {known_hosts}" in user.fail("poolbook", "q")


def test_tools_report_an_unreachable_manager_like_htcondors(owner: User) -> None:
    url = f"https://127.0.0.1:{free_port()}"
    error = owner.run("condor_status", pool=url).stderr
    connection_error = f"CEDAR:6001:Failed to connect to <{url.removeprefix('https://')}>"
    assert error.startswith(f"Error: communication error\n{connection_error}\n{url} does not answer: "), error


def test_one_of_several_access_points_must_be_named(roles: Roles, owner: User) -> None:
    message = "the pool has no access point 'unknown'; the connected access points are: ap"
    assert message in owner.fail("poolbook", "q", "-name", "unknown")
    assert owner.fail("condor_q", "-name", "unknown").startswith("Error: Collector has no record of schedd/submitter")
    roles.start("b.db", "join", roles.url, roles.token(), "-role", "access-point", "-name", "second")
    roles.wait_for(lambda: owner.run("poolbook", "q", "-name", "second").returncode == 0)
    assert "name one of them with -name: ap, second" in owner.fail("poolbook", "q")
    assert owner.poolbook("q", "-name", "second", "-all", "-af", "ClusterId") == ""
    assert roles.stop("b.db") == 0


def test_tokens_are_requested_approved_and_fetched_through_the_manager(roles: Roles, owner: User) -> None:
    fingerprint = roles.output("m.db").partition(f"{roles.url}#")[2].partition(";")[0]
    newcomer = User(roles, "newcomer", "")
    request = newcomer.start("condor_token_request", "-identity", identity("daemon"), "-token", "pool", at=fingerprint)
    roles.wait_for(lambda: "RequestId" in owner.call("condor_token_request_list"))
    (id,) = re.findall(r'RequestId = "(\d+)"', owner.call("condor_token_request_list"))
    listed = owner.call("condor_token_request_list", "-reqid", id)
    assert 'AuthenticatedIdentity = "unauthenticated@unmapped"' in listed
    assert 'PeerLocation = "127.0.0.1"' in listed
    other = User(roles, "colleague", token_for(roles, name="nobody"))
    assert other.run("condor_token_request_list").stderr == "Remote daemon reports no requests pending.\n"
    assert f"no request {id} waits for approval" in other.fail("poolbook", "token", "approve", id)
    owner.poolbook("token", "approve", id)
    out, _ = request.communicate(PATIENCE)
    assert f"Ask an administrator to please approve request {id}." in out
    assert identity("daemon") in newcomer.call("condor_token_list")
    text = newcomer.call("condor_token_fetch", "-authz", "READ", "-lifetime", "600").strip()
    reader = User(roles, "fetched", text)
    assert reader.poolbook("q", "-name", "ap", "-af", "Owner") == ""
    assert "WRITE" in reader.fail("poolbook", "hold", "-name", "ap", "1.0")
    refused = "Failed to request a session token: Session doesn't allow requested authorization levels.\n"
    assert reader.run("condor_token_fetch", "-authz", "WRITE").stderr == refused
    refused = "Failed to create new auto-approval rule: DAEMON:2:Insufficient privilege to approve request.\n"
    assert reader.run("condor_token_request_auto_approve", "-netblock", "127.0.0.0/8").stderr == refused
    approved = owner.call("condor_token_request_auto_approve", "-netblock", "127.0.0.0/8", "-lifetime", "600")
    assert approved.startswith("Successfully installed auto-approval rule for netblock 127.0.0.0/8 with lifetime of")
    machine = ("-identity", identity("condor"), "-authz", "ADVERTISE_STARTD")
    assert newcomer.call("condor_token_request", *machine).count(".") == 2
    assert "run it on that machine" in owner.fail("poolbook", "token", "create", "-identity", "a@b")


def test_clients_cannot_name_their_own_identity(roles: Roles, owner: User, held: str) -> None:
    ca = ssl.create_default_context(cafile=roles.path / "m.db.security" / "ca" / "ca.pem")

    def post(path: str, body: object, headers: dict[str, str]) -> httpx.Response:
        url = roles.url + path
        return httpx.post(url, json=body, headers=headers, verify=ca, trust_env=False, timeout=PATIENCE)

    sender = json.dumps({"name": identity(), "scopes": None, "address": "127.0.0.1"})
    request = {"kind": "Hold", "id": "forged", "reason": "x", "selection": {"clusters": [int(held)]}}
    for path in ("/v1/relay/to/ap/commands/", "/v1/access-points/ap/commands"):
        headers = {"Poolbook-Sender": sender}
        answer = httpx.post(
            roles.url + path, json=request, headers=headers, verify=ca, trust_env=False, timeout=PATIENCE
        )
        assert answer.status_code in (401, 403), (path, answer.text)
    on_behalf = {**request, "on_behalf": "root"}
    reader = token_for(roles, name="nobody")
    headers = {"Authorization": f"Bearer {reader}"}
    url = f"{roles.url}/v1/access-points/ap/commands"
    answer = httpx.post(url, json=on_behalf, headers=headers, verify=ca, trust_env=False, timeout=PATIENCE)
    assert "denied" in answer.text.lower()


@given(data=st.data())
def test_a_query_reads_no_file_of_the_other_machine(data: st.DataObject) -> None:
    command = data.draw(st.sampled_from(QUERIES))
    table = command_table(command)
    options = [each for each in table.options if each.name in file_options(table) or each.name in ("log", "with")]
    option = data.draw(st.sampled_from(options))
    words = [f"-{option.name}", "/etc/passwd"]
    at = data.draw(st.integers(0, 1))
    other = ["-json"] if any(each.name == "json" for each in table.options) else []
    with pytest.raises(UsageError, match="does not work with a pool on another machine"):
        check_query(Query("poolbook", command, [*other, *words] if at else [*words, *other]))


@pytest.mark.parametrize("command", ["sql", "serve", "verify", "import", "submit", "token", "chirp", "../q"])
def test_other_commands_do_not_run_on_the_other_machine(command: str) -> None:
    with pytest.raises(UsageError, match="this command does not work with a pool on another machine"):
        check_query(Query("poolbook", command, []))
