"""Requests for tokens and revocations, compared with the rules of HTCondor (daemon_core_main.cpp)."""

import sqlite3
import threading
from pathlib import Path

import pytest

from poolbook.adapters.runtime.configuration import load
from poolbook.adapters.security.pool_security import PoolSecurity, pool_security
from poolbook.adapters.security.token_store import RequestError, TokenRequest, TokenStore
from poolbook.adapters.security.tokens import TokenRejected, claims_of, create
from poolbook.domain.errors import PoolbookError

NOW = 1_800_000_000.0
DOMAIN = "poola.example"


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "m.db.security")


def security_of(folder: Path, text: str = "") -> PoolSecurity:
    security = pool_security(folder / "m.db", DOMAIN, load(text=text))
    security.create_first_key()
    return security


def request(
    levels: str = "ADVERTISE_STARTD", identity: str = f"condor@{DOMAIN}", address: str = "10.77.0.22"
) -> TokenRequest:
    return TokenRequest("", "STARTD-ep2-20799", identity, "unauthenticated@unmapped", address, levels, None, 0)


def test_a_request_waits_until_an_administrator_approves_it(store: TokenStore) -> None:
    new, secret = store.submit(request(), NOW)
    assert (len(new.id), new.id.isdigit(), new.at) == (7, True, NOW)
    assert store.pending(NOW) == store.pending(NOW, new.id) == [new]
    assert store.pending(NOW, "x") == []
    assert store.collect(new.id, new.client, secret, NOW) is None
    store.approve(new.id, new.client, "root", NOW)
    assert store.pending(NOW) == []
    assert store.collect(new.id, new.client, secret, NOW) == new._replace(approved_by="root")
    with pytest.raises(RequestError, match="not known"):
        store.collect(new.id, new.client, secret, NOW)


def test_only_the_client_that_made_a_request_collects_its_token(store: TokenStore) -> None:
    new, secret = store.submit(request(), NOW)
    store.approve(new.id, new.client, "root", NOW)
    for id, client, guess in ((new.id, new.client, "guess"), (new.id, "ep3", secret), ("0", new.client, secret)):
        with pytest.raises(RequestError):
            store.collect(id, client, guess, NOW)
    assert store.collect(new.id, new.client, secret, NOW)


def test_an_unknown_or_approved_request_cannot_be_approved(store: TokenStore) -> None:
    new, _ = store.submit(request(), NOW)
    for id, client in (("99999999", new.client), (new.id, "ep3")):
        with pytest.raises(RequestError, match="Request unknown"):
            store.approve(id, client, "root", NOW)
    store.approve(new.id, new.client, "root", NOW)
    with pytest.raises(RequestError, match="incorrect state"):
        store.approve(new.id, new.client, "root", NOW)


def test_requests_expire(store: TokenStore) -> None:
    new, secret = store.submit(request(), NOW)
    assert store.pending(NOW + 3600) == [new]
    assert store.pending(NOW + 3601) == []
    with pytest.raises(RequestError, match="unknown"):
        store.approve(new.id, new.client, "root", NOW + 3601)
    with pytest.raises(RequestError, match="has expired"):
        store.collect(new.id, new.client, secret, NOW + 3601)
    store.submit(request(), NOW + 7201)
    with pytest.raises(RequestError, match="not known"):
        store.collect(new.id, new.client, secret, NOW + 7201)


def test_the_number_of_requests_is_limited(store: TokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolbook.adapters.security.token_store.MOST_REQUESTS", 2)
    store.submit(request(), NOW)
    store.submit(request(), NOW)
    with pytest.raises(RequestError, match="Too many requests"):
        store.submit(request(), NOW)


@pytest.mark.parametrize(
    ("new", "at", "is_approved"),
    [
        (request(), 0, True),
        (request("ADVERTISE_STARTD,ADVERTISE_MASTER"), 60, True),
        (request(), 61, False),
        (request(address="10.78.0.22"), 0, False),
        (request("READ"), 0, False),
        (request("ADVERTISE_STARTD,ADMINISTRATOR"), 0, False),
        (request(""), 0, False),
        (request(identity=f"alice@{DOMAIN}"), 0, False),
        (request(), -60, True),
        (request(), -61, False),
    ],
)
def test_a_rule_approves_only_daemons_of_a_network(
    store: TokenStore, new: TokenRequest, at: int, is_approved: bool
) -> None:
    if at < 0:
        store.submit(new, NOW + at)
        store.approve_network("10.77.0.0/24", 60, "root", NOW)
    else:
        store.approve_network("10.77.0.0/24", 60, "root", NOW)
        approver = store.submit(new, NOW + at)[0].approved_by
        assert approver == ("root, by the rule for 10.77.0.0/24" if is_approved else "")
    assert bool(store.pending(NOW + 1)) != is_approved


@pytest.mark.parametrize(
    ("netblock", "lifetime"), [("10.77.0.0/24", 0), ("ep2.example", 60), ("", 60), ("10.0.0.0/99", 60)]
)
def test_an_invalid_rule_is_rejected(store: TokenStore, netblock: str, lifetime: int) -> None:
    with pytest.raises(RequestError, match="Auto-approval rule"):
        store.approve_network(netblock, lifetime, "root", NOW)


def test_a_rule_ends_after_an_hour(store: TokenStore) -> None:
    store.approve_network("*", 1_000_000, "root", NOW)
    assert store.submit(request(), NOW + 3600)[0].approved_by
    assert not store.submit(request(), NOW + 3601)[0].approved_by


def test_the_token_of_a_request_is_created_when_it_is_collected(tmp_path: Path) -> None:
    security = security_of(tmp_path)
    new, secret = security.request(
        "ep2-179", "", "unauthenticated@unmapped", "10.77.0.22", ["ADVERTISE_STARTD"], 60, NOW
    )
    assert security.collect(new.id, new.client, secret, NOW) == ""
    security.store.approve(new.id, new.client, "root", NOW)
    token = security.collect(new.id, new.client, secret, NOW + 30)
    identity = security.verify(token, NOW + 30)
    assert (identity.name, identity.expires) == (f"condor@{DOMAIN}", int(NOW) + 90)
    assert identity.scopes == frozenset({"ADVERTISE_STARTD"})
    assert token.rpartition(".")[2].encode() not in b"".join(path.read_bytes() for path in security.folder.glob("*.db"))


def test_settings_limit_requests(tmp_path: Path) -> None:
    limits = "SEC_TOKEN_REQUEST_LIMITS = READ, WRITE\nSEC_ISSUED_TOKEN_EXPIRATION = 100"
    security = security_of(tmp_path, limits)

    def requested(levels: list[str], lifetime: int | None) -> tuple[str, int | None]:
        new, _ = security.request("ep2", "alice", "alice", "10.0.0.1", levels, lifetime, NOW)
        return new.levels, new.lifetime

    assert requested([], None) == ("READ,WRITE", 100)
    assert requested(["WRITE", "DAEMON"], 60) == ("WRITE", 60)
    assert requested(["READ"], 600) == ("READ", 100)
    with pytest.raises(RequestError, match="SEC_TOKEN_REQUEST_LIMITS"):
        requested(["DAEMON"], 60)


@pytest.mark.parametrize(
    ("client", "identity", "level"),
    [
        ("", "alice", "READ"),
        ("a b", "alice", "READ"),
        ("ep2", "a b", "READ"),
        ("ep2", "a\udcff", "READ"),
        ("ep2", "a", "1"),
    ],
)
def test_a_request_with_invalid_names_is_rejected(tmp_path: Path, client: str, identity: str, level: str) -> None:
    security = security_of(tmp_path)
    with pytest.raises(RequestError):
        security.request(client, identity, "unauthenticated@unmapped", "10.0.0.1", [level], None, NOW)
    assert security.store.pending(NOW) == []


def test_a_revoked_token_is_rejected_immediately(tmp_path: Path) -> None:
    security = security_of(tmp_path)
    token, other_token = (security.issue("ep1", NOW) for _ in range(2))
    id = claims_of(token)[1]["jti"]
    assert security.verify(token, NOW).id == id
    security.store.revoke(id, NOW)
    security.store.revoke(id, NOW)
    with pytest.raises(TokenRejected, match="is revoked"):
        security.verify(token, NOW)
    assert security.verify(other_token, NOW)
    assert sorted((each.identity, each.revoked) for each in security.store.issued()) == [("ep1", 0), ("ep1", 1)]


def test_the_configuration_determines_keys_and_rules(tmp_path: Path) -> None:
    text = f"""
        SEC_PASSWORD_DIRECTORY = {tmp_path}/keys
        TRUST_DOMAIN = example
        SEC_TOKEN_MAX_AGE = 60
        SEC_TOKEN_REVOCATION_EXPR = sub == "bob@example"
        ALLOW_ADMINISTRATOR = alice@example
        ALLOW_WRITE =
    """
    security = security_of(tmp_path, text)
    token = security.issue("alice@example", NOW)
    assert (tmp_path / "keys" / "POOL").exists()
    assert security.verify(token, NOW).domain == "example"
    for rejected, now in ((token, NOW + 61), (security.issue("bob@example", NOW), NOW)):
        with pytest.raises(TokenRejected):
            security.verify(rejected, now)
    identity = security.verify(token, NOW)
    levels = ("READ", "WRITE", "ADMINISTRATOR", "DAEMON")
    assert [security.is_authorized(identity, "10.0.0.1", level).allowed for level in levels] == [
        True,
        True,
        True,
        False,
    ]
    limited = security.verify(security.issue("alice@example", NOW, ["READ"]), NOW)
    assert [security.is_authorized(limited, "10.0.0.1", level).allowed for level in levels] == [
        True,
        False,
        False,
        False,
    ]
    assert [security.is_authorized(None, "10.0.0.1", level).allowed for level in levels] == [True, False, False, False]


def test_a_pool_that_issued_no_token_accepts_those_of_its_key(tmp_path: Path) -> None:
    security = security_of(tmp_path)
    token = create(security.keys, DOMAIN, "alice", int(NOW))
    assert security.verify(token, NOW).user == "alice"
    assert not list(security.folder.glob("*.db"))


def test_the_authority_is_in_the_private_directory(tmp_path: Path) -> None:
    security = security_of(tmp_path)
    assert security.authority(NOW).fingerprint == security.authority(NOW + 1).fingerprint
    assert security.authority(NOW).certificate_path == tmp_path / "m.db.security" / "ca" / "ca.pem"


def test_a_removed_key_is_not_replaced(tmp_path: Path) -> None:
    security = security_of(tmp_path)
    security.keys.path("POOL").unlink()
    security_of(tmp_path)
    assert not security.keys.path("POOL").exists()


def test_many_clients_may_request_tokens_at_once(store: TokenStore) -> None:
    threads = [threading.Thread(target=store.submit, args=(request(), NOW)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each.id for each in store.pending(NOW)}) == 8


def test_the_store_is_private(store: TokenStore, tmp_path: Path) -> None:
    store.submit(request(), NOW)
    path = tmp_path / "m.db.security" / "tokens.db"
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert sqlite3.connect(path).execute("SELECT secret FROM requests").fetchone()[0].isalnum()


def test_missing_libraries_are_an_error_with_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolbook.adapters.security.pool_security.find_spec", lambda name: None)
    with pytest.raises(PoolbookError, match=r"cryptography, which is not installed: pip install 'poolbook\[cluster\]'"):
        security_of(tmp_path)
