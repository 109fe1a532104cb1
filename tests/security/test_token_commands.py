"""golden: the condor_token tools print what HTCondor 25.14.1's printed (htcondor_token_tools.json; USAGE stands
for the help). Specification: ``poolbook token`` creates, lists and revokes tokens, and approves requests for them."""

import io
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from poolbook import Pool
from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_tools.tool_options import usage_of
from poolbook.adapters.machine.host import user_name
from poolbook.adapters.runtime.configuration import load
from poolbook.adapters.security.pool_security import PoolSecurity, pool_security
from poolbook.adapters.security.tokens import TokenRejected, claims_of

RECORDED = json.loads(Path(__file__).with_name("htcondor_token_tools.json").read_text())
DOMAIN = "poola.example"


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Answer]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "m.db"
    Pool.open(path, uid_domain=DOMAIN).close()
    monkeypatch.setenv("POOLBOOK_LOG", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return path


@pytest.fixture
def run(log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*arguments: str, typed: str = "") -> Answer:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        return Answer(main(arguments), *capsys.readouterr())

    return call


def security_of(log: Path) -> PoolSecurity:
    return pool_security(log, DOMAIN, load(text=""))


def test_the_tools_answer_as_those_of_htcondor(run: Run, log: Path) -> None:
    assert run("condor_token_create", "-identity", "a").code == 0  # creates the key
    failures = []
    for recorded in RECORDED:
        usage = usage_of(f"token_{recorded['tool']}")
        keys = str(log.parent / "m.db.security" / "passwords.d")
        out, err = (
            recorded[stream].replace("USAGE", usage).replace("/etc/condor/passwords.d", keys)
            for stream in ("out", "err")
        )
        answer = run(f"condor_token_{recorded['tool']}", *recorded["arguments"])
        if answer != (recorded["exit_code"], out, err):
            failures.append((recorded, answer))
    assert failures == []


def test_a_created_token_is_valid(run: Run, log: Path) -> None:
    levels = ("-authz", "READ", "-authz", "ADVERTISE_STARTD")
    for command in (("condor_token_create",), ("token", "create")):
        code, out, err = run(*command, "-identity", "ep1@poola.example", *levels, "-lifetime", "60")
        assert (code, err, out.count("\n")) == (0, "", 1)
        now = time.time()
        identity = security_of(log).verify(out.strip(), now)
        assert (identity.name, identity.key) == ("ep1@poola.example", "POOL")
        assert identity.scopes == frozenset({"READ", "ADVERTISE_STARTD"})
        assert identity.expires is not None and 0 < identity.expires - now <= 60
    assert json.loads(run("token", "create", "-identity", "x", "-json").out).keys() == {"token"}


def test_a_token_is_written_to_a_private_file_and_listed(run: Run, log: Path, tmp_path: Path) -> None:
    assert run("condor_token_create", "-identity", "alice@poola.example", "-authz", "READ", "-token", "short.tok") == (
        0, "", "",
    )  # fmt: skip
    answer = run("token", "create", "-identity", "bob", "-file", "bob.tok")
    assert answer == (0, "", "The token was written to bob.tok\n")
    folder = tmp_path / ".condor" / "tokens.d"
    for path in (folder / "short.tok", tmp_path / "bob.tok"):
        assert oct(path.stat().st_mode & 0o777) == "0o600"
    text = (folder / "short.tok").read_text().strip()
    (folder / "other.tok").write_text(f"# a comment\n\nno token\n{text}\n")
    (folder / ".hidden").write_text(text)
    code, out, err = run("condor_token_list")
    iat, id = (claims_of(text)[1][name] for name in ("iat", "jti"))
    header = 'Header: {"alg":"HS256","kid":"POOL"}'
    payload = (
        f'Payload: {{"iat":{iat},"iss":"poola.example","jti":"{id}","scope":"condor:\\/READ",'
        '"sub":"alice@poola.example"}'
    )
    lines = [f"{header} {payload} File: {folder / name}" for name in ("other.tok", "short.tok")]
    assert (code, out.splitlines(), err) == (0, lines, "")
    assert run("condor_token_list", "-file", "bob.tok").out.startswith(header)
    assert text.rpartition(".")[2] not in out


def test_revoked_and_expired_tokens_are_shown(run: Run, log: Path) -> None:
    tokens = [run("token", "create", "-identity", name, *more).out.strip() for name, *more in (
        ("alice",), ("bob", "-lifetime", "0"), ("carol", "-authz", "READ"))]  # fmt: skip
    id = claims_of(tokens[2])[1]["jti"]
    other = "The token x is revoked; this pool has no record that it created it.\n"
    assert run("token", "revoke", id, "x") == (0, f"The token {id} is revoked.\n{other}", "")
    with pytest.raises(TokenRejected, match="is revoked"):
        security_of(log).verify(tokens[2], time.time())
    states = {
        each["identity"]: (each["levels"], each["state"]) for each in json.loads(run("token", "list", "-json").out)
    }
    assert states["alice"] == ("", "valid")
    assert states["carol"] == ("READ", "revoked")
    assert states["bob"][1] in ("valid", "expired")  # in the second of its creation it is valid
    table = run("token", "list").out.splitlines()
    assert table[0].split() == ["ID", "IDENTITY", "LEVELS", "KEY", "CREATED", "EXPIRES", "STATE"]
    assert sorted(line.split()[1] for line in table[1:]) == ["alice", "bob", "carol"]
    assert not any(token.rpartition(".")[2] in "".join(table) for token in tokens)


REQUEST_AD = """\
ClientId = "ep2-179"
RequestId = "{id}"
PeerLocation = "10.77.0.22"
RequestedIdentity = "condor@poola.example"
LimitAuthorization = "ADVERTISE_STARTD,ADVERTISE_MASTER"
AuthenticatedIdentity = "unauthenticated@unmapped"
"""


def requested(log: Path, *levels: str) -> tuple[str, str]:
    new, secret = security_of(log).request(
        "ep2-179", "", "unauthenticated@unmapped", "10.77.0.22", levels, None, time.time()
    )
    return new.id, secret


def test_requests_are_listed_and_approved_as_recorded(run: Run, log: Path) -> None:
    id, secret = requested(log, "ADVERTISE_STARTD", "ADVERTISE_MASTER")
    listed = "\n".join(sorted(REQUEST_AD.format(id=id).splitlines(), key=str.lower))
    assert run("condor_token_request_list") == (0, f"{listed}\n\n", "")
    as_json = ",\n".join("  " + '"' + line.replace(" = ", '": ') for line in listed.splitlines())
    assert run("condor_token_request_list", "-json", "-reqid", id) == (0, f"[\n{{\n{as_json}\n}}\n]\n", "")
    contents = f"Request contents:\n{REQUEST_AD.format(id=id)}\nTo approve, please type 'yes'\n"
    assert run("condor_token_request_approve", "-reqid", id, typed="no\n") == (
        1, contents, "Request was NOT approved.\n",
    )  # fmt: skip
    assert run("condor_token_request_approve", "-reqid", id, typed="yes\n") == (
        0, f"{contents}Request {id} approved successfully.\n", "",
    )  # fmt: skip
    assert run("condor_token_request_list").err == "Remote daemon reports no requests pending.\n"
    assert claims_of(security_of(log).collect(id, "ep2-179", secret, time.time()))[1]["sub"] == "condor@poola.example"


def test_poolbook_token_approves_requests(run: Run, log: Path) -> None:
    id, _ = requested(log, "READ")
    table = run("token", "requests").out
    assert all(text in table for text in (id, "condor@poola.example", "READ", "10.77.0.22", "ep2-179"))
    assert json.loads(run("token", "requests", "-json").out)[0]["id"] == id
    assert run("token", "approve", id) == (0, f"Request {id} approved: condor@poola.example, READ.\n", "")
    code, _, err = run("token", "approve", id)
    assert (code, f"no request {id} waits for approval; see `poolbook token requests`" in " ".join(err.split())) == (
        1,
        True,
    )
    assert run("token", "approve", "-netblock", "10.77.0.0/24", "-lifetime", "60").code == 0
    requested(log, "ADVERTISE_STARTD")
    assert run("token", "requests").out.count("\n") == 1
    assert run("token", "approve", "-netblock", "nonsense") == (
        1, "", "poolbook: Auto-approval rule netblock invalid.\n",
    )  # fmt: skip


def test_requests_that_no_rule_approves_remain(run: Run, log: Path) -> None:
    id, _ = requested(log, "READ")
    code, out, err = run("condor_token_request_auto_approve", "-netblock", "10.77.0.0/24")
    head, _, foot = out.partition("The following requests remain after auto-approval rule was installed:\n")
    assert (code, err, f'RequestId = "{id}"' in foot) == (0, "", True)
    assert head == ("Successfully installed auto-approval rule for netblock 10.77.0.0/24 with lifetime of 1.00 hours\n")


@pytest.mark.parametrize("command", [("condor_token_request",), ("token", "request")])
def test_a_requester_gets_its_token_when_it_is_approved(
    run: Run, log: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr("poolbook.adapters.cli.token_commands.POLL", 0.02)
    security = security_of(log)

    def approve() -> None:
        while not (pending := security.store.pending(time.time())):
            time.sleep(0.01)
        security.store.approve(pending[0].id, pending[0].client, "root", time.time())

    security.create_first_key()
    thread = threading.Thread(target=approve)
    thread.start()
    code, out, err = run(*command, "-identity", "alice@poola.example", "-authz", "READ")
    thread.join()
    line, token = out.splitlines()
    assert (code, err) == (0, "")
    assert line.startswith("Token request enqueued.  Ask an administrator to please approve request ")
    assert security.verify(token, time.time()).name == "alice@poola.example"


def test_a_daemon_in_an_approved_network_gets_its_token_immediately(run: Run, log: Path) -> None:
    run("condor_token_request_auto_approve", "-netblock", "127.0.0.0/8")
    code, out, _ = run("condor_token_request", "-authz", "ADVERTISE_STARTD")
    assert (code, out.count("\n")) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "specify one of create, list, revoke, request, requests, approve, not ''"),
        (("destroy",), "not 'destroy'"),
        (("list", "x"), "remove 'x'"),
        (("create",), "a token needs a holder; specify it with -identity"),
        (("create", "-identity", "a b"), "'a b' is not an identity; use a name such as alice@example.org"),
        (("create", "-identity", "a", "-authz", "SUPER"), "'SUPER' is not an authorization level; use one of"),
        (("create", "-identity", "a", "-lifetime", "x"), "-lifetime must be a whole number"),
        (("revoke",), "specify the ids of tokens"),
        (("revoke", "x\udcff"), "is not the id of a token"),
        (("revoke", "x\x1b"), "is not the id of a token"),
        (("approve",), "specify either the ids of requests, or a network"),
        (("approve", "1", "-netblock", "*"), "specify either the ids of requests, or a network"),
    ],
)
def test_invalid_usage_is_rejected_with_a_fix(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run("token", *arguments)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())


def test_a_token_with_a_missing_key_is_an_error(run: Run, log: Path) -> None:
    code, out, err = run("token", "create", "-identity", "a", "-key", "NOSUCH")
    assert (code, out, "the signing key NOSUCH cannot be used" in err) == (1, "", True)
    (log.parent / "m.db.security" / "passwords.d" / "POOL").unlink()
    code, out, err = run("condor_token_create", "-identity", "a")
    assert (code, out, err.splitlines()[0]) == (2, "", "Failed to generate a token.")


def test_a_request_beyond_the_pools_limits_is_rejected(run: Run, tmp_path: Path) -> None:
    (tmp_path / "poolbook.conf").write_text("SEC_TOKEN_REQUEST_LIMITS = READ\n")
    message = "All requested authorizations were eliminated by the SEC_TOKEN_REQUEST_LIMITS setting"
    assert run("condor_token_request", "-authz", "WRITE") == (1, "", f"Failed to request a new token: {message}\n")
    assert run("token", "request", "-authz", "WRITE") == (1, "", f"poolbook: {message}\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to change a file's owner")
def test_only_the_owner_of_the_log_creates_tokens(run: Run, log: Path) -> None:
    os.chown(log, 12345, -1)
    code, out, err = run("token", "create", "-identity", "a")
    assert (code, out, "run this command as that user" in err) == (1, "", True)
    assert not (log.parent / "m.db.security").exists()


def test_another_pool_is_not_served(run: Run) -> None:
    assert run("condor_token_request_list", "-name", "cm2") == (1, "", "ERROR: couldn't locate daemon cm2!\n")
    assert run("condor_token_request_list", "-pool", "cm2") == (1, "", "ERROR: unknown host cm2\n")


def test_condor_token_fetch_prints_a_token_of_the_user(run: Run, log: Path) -> None:
    fetched = run("condor_token_fetch", "-authz", "READ", "-lifetime", "60")
    (row,) = json.loads(run("token", "list", "-json").out)
    assert (row["identity"], row["levels"], row["expires"] - row["at"]) == (
        f"{user_name()}@{security_of(log).trust_domain}",
        "READ",
        60,
    )
    assert fetched.out.count(".") == 2
    assert run("condor_token_fetch", "-key", "x").err.endswith("Server will not sign with requested key.\n")
    assert run("condor_token_fetch", "-remote", "-type", "master").err.endswith("only valid with the schedd.\n")
