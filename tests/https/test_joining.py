"""property: over real HTTPS, only the holder of a valid token joins a pool, and only under a name that is its own."""

from __future__ import annotations

import shutil
import stat
import time
from pathlib import Path

import pytest

from poolbook.adapters.fabric.credentials import Credentials, UserKey
from poolbook.adapters.fabric.nats_carrier import NatsCarrier
from poolbook.adapters.https.client import ManagerError
from poolbook.adapters.https.joining import Renewal, join, renew
from poolbook.adapters.https.membership import MemberFiles
from poolbook.adapters.https.messages import MemberProof

from ..fabric.pool import receive
from .pool import PATIENCE, JoinablePool, joinable_pool


@pytest.mark.parametrize("with_fingerprint", [True, False])
def test_a_role_that_joins_exchanges_datagrams_with_the_manager(
    shared_pool: JoinablePool, with_fingerprint: bool
) -> None:
    peer = f"execution-point/with-{with_fingerprint}"
    url = f"{shared_pool.url}#{shared_pool.fingerprint}" if with_fingerprint else shared_pool.url
    membership = shared_pool.join(f"{with_fingerprint}.db", peer, url=url)
    assert (membership.peer, membership.url) == (peer, shared_pool.url)
    terms = membership.terms
    assert (terms.pool, terms.dialect, terms.uid_domain) == ("pool", "manual", "pool.example")
    assert terms.settings == {"CLAIM_WORKLIFE": "77"}
    carrier = shared_pool.files(f"{with_fingerprint}.db").carrier()
    carrier.wait_ready(PATIENCE)
    carrier.send("manager", b"hello")
    assert receive(shared_pool.carrier) == [(peer, b"hello")]
    carrier.close()


def test_only_the_user_can_read_the_stored_membership(shared_pool: JoinablePool) -> None:
    shared_pool.join("private.db", "execution-point/private")
    folder = shared_pool.folder / "private.db.security"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]}
    assert modes == {folder.name: 0o700, "membership.json": 0o600, "role.creds": 0o600, "pool-ca.pem": 0o600}


def test_a_member_renews_its_credentials_without_a_token_even_if_they_have_expired(shared_pool: JoinablePool) -> None:
    membership = shared_pool.join("renewed.db", "access-point/renewed")
    files = shared_pool.files("renewed.db")
    Credentials("expired", Credentials.read(files.credentials).seed).write(files.credentials)
    renewed = renew(files)
    assert (renewed.key, renewed.peer) == (membership.key, membership.peer)
    carrier = files.carrier()
    carrier.wait_ready(PATIENCE)
    carrier.close()


def test_a_member_whose_credentials_are_due_renews_them_in_the_background(
    shared_pool: JoinablePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poolbook.adapters.https.joining._CHECK_S", 0.01)
    shared_pool.join("due.db", "execution-point/due")
    files = shared_pool.files("due.db")
    Credentials("invalid", Credentials.read(files.credentials).seed).write(files.credentials)
    carrier = files.carrier()
    warnings: list[str] = []
    renewal = Renewal(files, carrier, warnings.append)
    carrier.wait_ready(PATIENCE)
    renewal.close()
    carrier.close()
    assert warnings == []


@pytest.mark.parametrize(
    ("peer", "token", "status", "message"),
    [
        ("execution-point/e", {"user": "alice"}, 403, "alice@pool.example may not join as execution-point"),
        ("execution-point/e", {"levels": ["READ", "ADVERTISE_SCHEDD"]}, 403, "needs the level ADVERTISE_STARTD"),
        ("access-point/a", {"levels": ["ADVERTISE_STARTD"]}, 403, "needs the level ADVERTISE_SCHEDD"),
        ("execution-point/e", {"lifetime": 1, "age": 100}, 401, r"expired \d+ s ago; create another"),
        ("startd/m", {}, 400, "'startd' is not a role that can join; use execution-point or access-point or manager"),
        ("manager/m", {"levels": ["ADVERTISE_STARTD"]}, 403, "needs the level DAEMON"),
        ("execution-point/a b", {}, 400, "'a b' is not a name for a role; use letters"),
        ("execution-point/" + "a" * 256, {}, 400, "is not a name for a role"),
    ],
)
def test_a_role_with_an_unsuitable_token_or_name_is_rejected(
    shared_pool: JoinablePool, peer: str, token: dict[str, object], status: int, message: str
) -> None:
    with pytest.raises(ManagerError, match=message) as error:
        shared_pool.join("rejected.db", peer, shared_pool.token(**token))  # type: ignore[arg-type]
    assert error.value.status == status
    assert shared_pool.rejections[-1].message == str(error.value)
    assert not shared_pool.files("rejected.db").exist()


def test_a_token_with_the_level_of_a_role_suffices(shared_pool: JoinablePool) -> None:
    shared_pool.join("limited.db", "access-point/limited", shared_pool.token(levels=["ADVERTISE_SCHEDD"]))


def test_a_token_is_only_sent_to_a_manager_that_knows_it(shared_pool: JoinablePool, tmp_path: Path) -> None:
    with joinable_pool(tmp_path) as other_pool:
        for url in (other_pool.url, f"{other_pool.url}#{shared_pool.fingerprint}"):
            with pytest.raises(ManagerError, match=r"it belongs to another pool|the token was not sent"):
                shared_pool.join("other.db", url=url, token=shared_pool.token())
        paths = [rejection.path for rejection in other_pool.rejections]
        assert set(paths) <= {"/v1/pool"}


def test_a_token_of_another_pool_is_rejected(shared_pool: JoinablePool, tmp_path: Path) -> None:
    with joinable_pool(tmp_path) as other_pool:
        token = other_pool.token()
    with pytest.raises(ManagerError, match="not made with this pool's key POOL; use a token that `poolbook token"):
        shared_pool.join("other.db", url=f"{shared_pool.url}#{shared_pool.fingerprint}", token=token)


def test_a_revoked_token_ends_the_membership(shared_pool: JoinablePool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolbook.adapters.https.manager._MAINTENANCE_S", 0.05)
    shared_pool.restart()  # to check each 0.05 s
    token = shared_pool.token()
    shared_pool.join("revoked.db", "execution-point/revoked", token)
    carrier = shared_pool.files("revoked.db").carrier()
    carrier.wait_ready(PATIENCE)
    security = shared_pool.security()
    security.store.revoke(security.verify(token, time.time()).id, time.time())
    with pytest.raises(ManagerError, match="execution-point/revoked joined is revoked; join again with another token"):
        renew(shared_pool.files("revoked.db"))
    _wait_until_cut(carrier)
    shared_pool.join("revoked.db", "execution-point/revoked")
    carrier = shared_pool.files("revoked.db").carrier()
    carrier.wait_ready(PATIENCE)
    carrier.close()


def test_a_name_belongs_to_the_identity_that_first_joined_with_it(shared_pool: JoinablePool) -> None:
    shared_pool.join("owned.db", "execution-point/owned")
    with pytest.raises(ManagerError, match=r"has joined as condor@pool.example, and your token is for condor@pool"):
        other = shared_pool.security().issue("condor@pool.example.org", time.time())
        shared_pool.join("thief.db", "execution-point/owned", other)


def test_the_newest_log_has_the_name_and_the_credentials_of_the_former_are_revoked(shared_pool: JoinablePool) -> None:
    shared_pool.join("old.db", "execution-point/moved")
    files = shared_pool.files("old.db")
    carrier = files.carrier()
    carrier.wait_ready(PATIENCE)
    shared_pool.join("new.db", "execution-point/moved")
    _wait_until_cut(carrier)
    with pytest.raises(ManagerError, match=r"another log joined as execution-point/moved at .*; use another -name"):
        renew(files)
    renew(shared_pool.files("new.db"))


def _wait_until_cut(carrier: NatsCarrier) -> None:
    end = time.monotonic() + PATIENCE
    while carrier.is_connected:
        assert time.monotonic() < end, "the broker still accepts the role"
        time.sleep(0.02)
    carrier.close()


def test_a_log_belongs_to_one_role_of_one_pool(shared_pool: JoinablePool) -> None:
    shared_pool.join("one.db", "execution-point/one")
    with pytest.raises(ManagerError, match=r"one.db is the log of execution-point/one in the pool pool.* another log"):
        shared_pool.join("one.db", "access-point/one")


def test_a_log_cannot_change_to_another_pool_but_to_a_manager_that_was_set_up_again(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with joinable_pool(tmp_path / "first") as pool:
        pool.join("e.db")
        log = tmp_path / "first" / "e.db"
        with (
            joinable_pool(tmp_path / "second") as other,
            pytest.raises(ManagerError, match="name another log"),
        ):
            join(other.url, other.token(), "execution-point", "ep1", MemberFiles(log))
        assert pool.services.broker is not None
        pool.services.broker.stop()
        shutil.rmtree(tmp_path / "first" / "m.db.security")
        pool.restart()
        with pytest.raises(ManagerError, match=r"if the pool has a new authority, join again with a token"):
            renew(pool.files("e.db"))
        pool.join("e.db")
        renew(pool.files("e.db"))


def test_a_request_needs_the_private_key_and_a_correct_clock(shared_pool: JoinablePool) -> None:
    key = UserKey.create()
    fingerprint = shared_pool.fingerprint.removeprefix("sha256=")
    for at, sign, reason in [(time.time(), False, "signature"), (time.time() - 3600, True, "clock")]:
        request = MemberProof("execution-point/e", key.public, at)
        signature = Credentials("", key.seed).sign(request.signed_text(fingerprint)) if sign else "AAAA"
        body = {"peer": "execution-point/e", "key": key.public, "at": at, "signature": signature}
        headers = {"Authorization": f"Bearer {shared_pool.token()}"}
        reply = shared_pool.post("/v1/join", json=body, headers=headers).json()
        assert reply["reason"] == reason, reply


def test_a_restarted_manager_keeps_its_members_and_its_broker(tmp_path: Path) -> None:
    with joinable_pool(tmp_path) as pool:
        pool.join("e.db")
        carrier = pool.files("e.db").carrier()
        carrier.wait_ready(PATIENCE)
        broker = (tmp_path / "m.db.security" / "broker" / "nats-server.pid").read_text()
        pool.restart()
        assert (tmp_path / "m.db.security" / "broker" / "nats-server.pid").read_text() == broker
        assert carrier.is_connected
        pool.carrier.wait_ready(PATIENCE)
        carrier.send("manager", b"still here")
        assert receive(pool.carrier) == [("execution-point/ep1", b"still here")]
        renew(pool.files("e.db"))
        carrier.close()
