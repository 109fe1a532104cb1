"""property: the broker, not the roles, enforces who sends to whom; tokens expire, and can be renewed and revoked."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Thread

import nats
import nats.errors
import nkeys
import pytest

from poolbook.adapters.fabric import credentials as credentials_module
from poolbook.adapters.fabric.credentials import LIFETIME_S, BrokerKeys, Credentials, UserKey
from poolbook.adapters.fabric.nats_carrier import NatsCarrier
from poolbook.adapters.fabric.subjects import subject, subjects_to
from poolbook.adapters.security.private_files import PrivateFileError

from .pool import PATIENCE, BrokerPool, receive, running_pool
from .test_broker import exchange, wait_until

EP1, EP2, AP1, AP2 = "execution-point/ep1", "execution-point/ep2", "access-point/ap1", "access-point/ap2"
CM2, CM3 = "manager/cm2.example.org", "manager/cm3"


async def violations(pool: BrokerPool, peer: str, sends: list[str], receives: list[str]) -> list[str]:
    """Return the subjects on which the server does not let a role send, and receive, with another client."""
    errors: list[Exception] = []

    async def collect(error: Exception) -> None:
        errors.append(error)

    context = ssl.create_default_context(cafile=pool.authority.certificate_path)
    client = await nats.connect(pool.url, tls=context, user_credentials=pool.credentials(peer), error_cb=collect)
    for name in receives:
        await client.subscribe(name)
    for name in sends:
        await client.publish(name, b"forged")
    for _ in range(2):  # the first PING may overtake what is sent before it
        await client.flush()
    await client.close()
    texts = [str(error) for error in errors if "permissions violation" in str(error)]
    return [text.partition(" to ")[2].strip('"') for text in texts]


@pytest.mark.parametrize(
    ("sender", "receiver", "is_allowed"),
    [
        (EP1, "manager", True),
        (EP1, AP1, True),
        (EP1, EP2, False),
        (AP1, "manager", True),
        (AP1, EP2, True),
        (AP1, AP2, False),
        (AP1, CM2, False),
        ("manager", AP1, True),
        ("manager", EP1, True),
        ("manager", CM2, True),
        (CM2, "manager", True),
        (CM2, AP1, False),
        (CM2, EP1, False),
        (CM2, CM3, False),
    ],
)
def test_roles_may_send_to_the_roles_that_they_work_with(
    shared_pool: BrokerPool, sender: str, receiver: str, is_allowed: bool
) -> None:
    name = subject(receiver, sender)
    assert asyncio.run(violations(shared_pool, sender, [name], [])) == ([] if is_allowed else [name.lower()])


@pytest.mark.parametrize("peer", [EP1, AP1, "manager", CM2])
def test_no_role_can_send_as_another(shared_pool: BrokerPool, peer: str) -> None:
    others = [other for other in (EP1, EP2, AP1, AP2, CM2, "manager") if other != peer]
    names = [subject(receiver, sender) for sender in others for receiver in ("manager", AP2, EP2)]
    names += ["anything", "$SYS.REQ.SERVER.PING", f"{subject('manager', peer)}.x"]
    witness = shared_pool.join("manager")
    assert asyncio.run(violations(shared_pool, peer, names, [])) == [name.lower() for name in names]
    assert witness.receive() == []


@pytest.mark.parametrize("peer", [EP1, AP1, "manager", CM2])
def test_no_role_can_receive_for_another(shared_pool: BrokerPool, peer: str) -> None:
    names = [subjects_to(other) for other in (EP1, EP2, AP1, AP2, CM2, "manager") if other != peer]
    names += [">", "to.>", "to.*.*.from.*.*", "$SYS.>", "_INBOX.>"]
    for name in names:
        assert asyncio.run(violations(shared_pool, peer, [], [name])) == [name.lower()]
    assert asyncio.run(violations(shared_pool, peer, [], [subjects_to(peer)])) == []


def refusal(pool: BrokerPool, peer: str, path: Path) -> str:
    """Return why a carrier cannot connect to the broker."""
    carrier = NatsCarrier([pool.url], peer, path, pool.authority.certificate_path)
    try:
        wait_until(lambda: carrier.problem != "")
        assert not carrier.is_connected
        with pytest.raises(TimeoutError, match=re.escape(carrier.problem)):
            carrier.wait_ready(0)
        return carrier.problem
    finally:
        carrier.close()


def test_invalid_credentials_are_refused(shared_pool: BrokerPool, tmp_path: Path) -> None:
    path, now, key = tmp_path / "role.creds", time.time(), UserKey.create()
    foreign = BrokerKeys(tmp_path / "keys").issue("manager", key.public, now)
    mine = shared_pool.keys.issue("manager", key.public, now)
    head, claims, signature = mine.split(".")
    expired = shared_pool.keys.issue("manager", key.public, now - 100, lifetime=10)
    cases = [
        ("of another pool", foreign, key.seed),
        ("expired", expired, key.seed),
        ("changed", f"{head}.{foreign.split('.')[1]}.{signature}", key.seed),
        ("not signed", f"{head}.{claims}.", key.seed),
        ("with the wrong key", mine, UserKey.create().seed),
    ]
    for name, token, seed in cases:
        Credentials(token, seed).write(path)
        assert "Authorization Violation" in refusal(shared_pool, "manager", path), name
    Credentials(mine, key.seed).write(path)
    assert "Permissions Violation for Subscription" in refusal(shared_pool, EP1, path)
    path.chmod(0o644)
    assert "other users have access" in refusal(shared_pool, "manager", path)
    path.chmod(0o600)
    path.write_text("nothing")
    assert "contains no NATS credentials" in refusal(shared_pool, "manager", path)


def test_a_server_without_a_certificate_of_the_pool_is_refused(shared_pool: BrokerPool, tmp_path: Path) -> None:
    with running_pool(tmp_path) as other:
        other.authority = shared_pool.authority
        assert "CERTIFICATE_VERIFY_FAILED" in refusal(other, "manager", shared_pool.credentials("manager"))


@pytest.mark.parametrize(
    ("greeting", "problem"),
    [
        (b'INFO {"nonce":"x","tls_required":false}\r\nPONG\r\n', "WRONG_VERSION_NUMBER|Connection"),
        (b"HTTP/1.1 400 Bad Request\r\n", "it does not greet as a NATS server does"),
    ],
)
def test_credentials_are_never_sent_without_tls(shared_pool: BrokerPool, greeting: bytes, problem: str) -> None:
    received = bytearray()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(greeting)
            connection.settimeout(PATIENCE)
            received.extend(connection.recv(1 << 16))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"tls://127.0.0.1:{listener.getsockname()[1]}"
        thread = Thread(target=serve)
        thread.start()
        files = shared_pool.credentials("manager"), shared_pool.authority.certificate_path
        carrier = NatsCarrier([url], "manager", *files)
        thread.join()
        wait_until(lambda: re.search(problem, carrier.problem) is not None)
        carrier.close()
    assert b"CONNECT" not in received
    assert not received or received[:2] == b"\x16\x03"  # TLS: a handshake


def test_a_revoked_role_is_disconnected_and_others_are_not(pool: BrokerPool) -> None:
    manager, revoked, other = pool.join("manager"), pool.join(EP1), pool.join(EP2)
    pool.keys.revoke(EP1, time.time())
    pool.broker.ensure_running(PATIENCE)
    wait_until(lambda: not revoked.is_connected)
    assert manager.is_connected and other.is_connected
    wait_until(lambda: "Authorization Violation" in revoked.problem)
    key = UserKey.create()
    Credentials(pool.keys.issue(EP1, key.public, time.time()), key.seed).write(pool.credentials(EP1))
    revoked.wait_ready(PATIENCE)
    exchange(manager, revoked, EP1)


def test_a_revocation_survives_a_restart_of_the_broker(pool: BrokerPool) -> None:
    point = pool.join(EP1)
    pool.keys.revoke(EP1, time.time())
    pool.broker.stop()
    pool.broker.ensure_running(PATIENCE)
    wait_until(lambda: "Authorization Violation" in point.problem)
    assert not point.is_connected


def test_a_renewed_token_is_used_when_the_former_one_expires(pool: BrokerPool) -> None:
    for lifetime in (3, 30):
        path = pool.credentials(EP1, lifetime)
        carrier = pool.start(EP1)
        with suppress(TimeoutError):
            carrier.wait_ready(lifetime)
            break
        path.unlink()
    before = Credentials.read(path)
    assert before.renewal_time == pytest.approx(time.time(), abs=30)
    public = nkeys.from_seed(before.seed.encode()).public_key.decode()
    Credentials(pool.keys.issue(EP1, public, time.time()), before.seed).write(path)
    wait_until(lambda: not carrier.is_connected)
    carrier.wait_ready(PATIENCE)
    exchange(pool.join("manager"), carrier, EP1)


def test_roles_of_an_account_of_another_operator_use_its_signing_key(tmp_path: Path) -> None:
    """The operator of the server knows the account's signing key; the pool knows only that key and the account."""
    with running_pool(tmp_path) as pool:
        account, token = next(iter(pool.keys.broker_settings(time.time())["resolver_preload"].items()))
        guest = BrokerKeys(tmp_path / "guest", account)
        claims = credentials_module._claims(token)
        signing_key = nkeys.from_seed((tmp_path / "guest/account.seed").read_bytes()).public_key.decode()
        settings = pool.keys.broker_settings(time.time())
        changed = claims["nats"] | {"signing_keys": [signing_key]}
        operator = pool.keys._operator
        settings["resolver_preload"] = {account: credentials_module._token(operator, account, "roles", changed)}
        pool.keys.broker_settings = lambda now: settings  # type: ignore[method-assign]
        pool.broker.ensure_running(PATIENCE)
        pool.keys = guest
        manager, point = pool.join("manager"), pool.join(EP1)
        point.send("manager", b"hello")
        assert receive(manager) == [(EP1, b"hello")]
        assert asyncio.run(violations(pool, EP1, [subject(EP2, EP1)], [">"])) == [">", subject(EP2, EP1)]


@pytest.mark.parametrize(
    "peer", ["", "manager/", "manager/a\nb", "access-point", "execution-point/", "execution-point/a\nb", "startd/x"]
)
def test_names_that_are_no_peers_get_no_token(tmp_path: Path, peer: str) -> None:
    with pytest.raises(ValueError, match="is not a peer"):
        BrokerKeys(tmp_path / "keys").issue(peer, UserKey.create().public, 0)


def test_a_damaged_public_key_gets_no_token(tmp_path: Path) -> None:
    keys, public = BrokerKeys(tmp_path / "keys"), UserKey.create().public
    damaged = public[:20] + ("A" if public[20] != "A" else "B") + public[21:]
    with pytest.raises(ValueError, match="checksum is wrong"):
        keys.issue("manager", damaged, 0)
    with pytest.raises(ValueError, match="is not the public key of a NATS user"):
        keys.issue("manager", "A" + public[1:], 0)


def test_a_role_has_a_limited_number_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials_module, "_MOST_KEYS", 3)
    keys = BrokerKeys(tmp_path / "keys")
    users = [UserKey.create().public for _ in range(4)]
    for user in (*users[:-1], users[0]):
        keys.issue(EP1, user, now=1000, lifetime=100)
    with pytest.raises(ValueError, match="has 3 keys with valid tokens"):
        keys.issue(EP1, users[-1], now=1099)
    keys.issue(EP2, users[-1], now=1099)
    keys.issue(EP1, users[-1], now=1100)


def test_many_revocations_delay_only_new_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials_module, "_MOST_REVOKED", 3)
    keys, users = BrokerKeys(tmp_path / "keys"), [UserKey.create().public for _ in range(5)]
    keys.issue(EP2, users[4], now=1000, lifetime=100)
    for user in users[:3]:
        keys.issue(EP1, user, now=1000, lifetime=100)
        keys.revoke(EP1, 1000)
    with pytest.raises(ValueError, match="3 keys are revoked"):
        keys.issue(EP1, users[3], now=1050)
    keys.issue(EP2, users[4], now=1050)
    keys.revoke(EP2, 1050)
    keys.issue(EP1, users[3], now=2000 + LIFETIME_S)


def test_keys_that_threads_register_at_once_are_all_revoked(tmp_path: Path) -> None:
    keys, users = BrokerKeys(tmp_path / "keys"), [UserKey.create().public for _ in range(20)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda user: keys.issue(EP1, user, 1000), users))
    keys.revoke(EP1, 1000)
    settings = keys.broker_settings(1000)
    claims = [credentials_module._claims(token) for token in settings["resolver_preload"].values()]
    assert sorted(claims[0]["nats"]["revocations"]) == sorted(users)


def test_revocations_are_forgotten_after_the_last_token_has_expired(tmp_path: Path) -> None:
    keys = BrokerKeys(tmp_path / "keys")
    before = keys.broker_settings(1000)
    keys.issue(EP1, UserKey.create().public, now=1000, lifetime=100)
    assert keys.broker_settings(1000) == before
    keys.revoke(EP1, 1050)
    keys.revoke(EP2, 1050)  # has no tokens
    assert BrokerKeys(tmp_path / "keys").broker_settings(1099) != before
    assert keys.broker_settings(1100) == before


def test_headers_and_reply_subjects_of_other_clients_do_not_disturb(shared_pool: BrokerPool) -> None:
    manager = shared_pool.join("manager")

    async def send() -> None:
        context = ssl.create_default_context(cafile=shared_pool.authority.certificate_path)
        client = await nats.connect(shared_pool.url, tls=context, user_credentials=shared_pool.credentials(EP1))
        await client.publish(subject("manager", EP1), b"data", reply="x.y", headers={"a": "b"})
        await client.flush()
        await client.close()

    asyncio.run(send())
    assert receive(manager) == [(EP1, b"data")]


def test_keys_are_created_once_and_kept_private(tmp_path: Path) -> None:
    first, second = BrokerKeys(tmp_path / "keys"), BrokerKeys(tmp_path / "keys")
    assert first.broker_settings(0) == second.broker_settings(0)
    assert "seed" not in json.dumps(first.broker_settings(0))
    (tmp_path / "keys/account.seed").chmod(0o644)
    with pytest.raises(PrivateFileError, match="other users have access"):
        BrokerKeys(tmp_path / "keys")


@pytest.mark.parametrize("change", ["", "x", "account", "flip"])
def test_a_damaged_key_is_an_error_that_names_the_fix(tmp_path: Path, change: str) -> None:
    BrokerKeys(tmp_path / "keys")
    path = tmp_path / "keys/operator.seed"
    seed = path.read_text()
    other = (tmp_path / "keys/account.seed").read_text()
    flipped = seed[:30] + ("A" if seed[30] != "A" else "B") + seed[31:]
    path.write_text({"account": other, "flip": flipped}.get(change, change))
    with pytest.raises(ValueError, match=r"operator.seed is damaged .* restore it from a copy, or remove it"):
        BrokerKeys(tmp_path / "keys")
