"""property: whatever a client sends, it receives an error in a documented form, and other clients are served."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from poolbook.adapters.https.client import ManagerError
from poolbook.adapters.https.joining import join, renew
from poolbook.adapters.https.membership import MemberFiles
from poolbook.adapters.https.service import Address, HttpsService, ServiceError

from .pool import JoinablePool, joinable_pool

TOKEN = "e30.e30.AAAA"


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        ("/v1/join", b"x" * 70_000, 413, "size"),
        ("/v1/join", b"no json", 400, "malformed"),
        ("/v1/join", b'{"peer": 1}', 400, "malformed"),
        ("/v1/join", b"[" * 50_000, 400, "malformed"),
        ("/v1/join", b'{"peer": "\xff"}', 400, "malformed"),
        ("/v1/pool", b'{"claims": "..", "nonce": ""}', 401, "key"),
        ("/v1/pool", b'{"claims": "e30.e30", "nonce": ""}', 401, "key"),
        ("/v1/none", b"", 404, ""),
        ("/", b"", 404, ""),
    ],
)
def test_invalid_requests_are_answered_with_an_error(
    shared_pool: JoinablePool, path: str, body: bytes, status: int, reason: str
) -> None:
    response = shared_pool.post(path, content=body)
    reply = response.json()
    assert (response.status_code, reply["code"], reply["reason"]) == (status, status, reason)
    assert reply["error"] and reply["message"]


def test_an_address_with_too_many_rejected_requests_must_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolbook.adapters.https.application._PER_MINUTE", 0)
    with joinable_pool(tmp_path) as pool:
        responses = [pool.post("/v1/join", content=b"") for _ in range(25)]
        assert [response.status_code for response in responses] == [400] * 20 + [429] * 5
        assert len(pool.rejections) == 25
        assert responses[-1].json()["message"].startswith("too many requests from 127.0.0.1 were rejected")


def test_an_identity_joins_a_limited_number_of_roles_per_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poolbook.adapters.https.enrolment._JOINS_PER_MINUTE", 2)
    with joinable_pool(tmp_path) as pool:
        pool.join("1.db", "execution-point/one")
        pool.join("2.db", "execution-point/two")
        with pytest.raises(ManagerError, match="has joined too many roles; the limit is 2 per minute"):
            pool.join("3.db", "execution-point/three")
        renew(pool.files("1.db"))


def test_a_connection_without_a_request_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolbook.adapters.https.service._REQUEST_S", 0.1)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        joinable_pool(tmp_path) as pool,
        socket.create_connection(pool.address, timeout=60) as plain,
        context.wrap_socket(plain) as connection,
    ):
        connection.sendall(b"POST /v1/join HTTP/1.1\r\nContent-")
        with pytest.raises(OSError, match=r"reset|EOF"):
            assert connection.recv(1) == b""
            raise ConnectionResetError("reset")
        monkeypatch.undo()
        pool.join("e.db")


def test_an_address_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ServiceError, match=rf"cannot listen on 127.0.0.1:{port}: .* in use; stop the program"):
            HttpsService(Address("127.0.0.1", port))


def test_a_broker_that_does_not_start_is_reported(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(ServiceError, match=r"address already in use.*; if its port is in use, name another -broker"),
    ):
        JoinablePool(tmp_path, broker=listener.getsockname()[1])


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("0.0.0.0:9700", "0.0.0.0", 9700),
        ("cm.example.org", "cm.example.org", 9618),
        (":9700", "0.0.0.0", 9700),
        ("[::1]:9700", "::1", 9700),
        ("[::]", "::", 9618),
        ("::1", "::1", 9618),
    ],
)
def test_addresses_are_parsed(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == (host, port)


@pytest.mark.parametrize("text", ["cm:http", "cm:70000", "cm:-1", "cm:"])
def test_invalid_addresses_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT; use for example"):
        Address.parse(text)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:1", "is not the URL of a manager; use https://HOST:PORT"),
        ("127.0.0.1:1", "is not the URL of a manager"),
        ("https://", "is not the URL of a manager"),
        ("https://127.0.0.1:x", "is not the URL of a manager"),
        ("https://127.0.0.1:1/path", "is not the URL of a manager"),
        ("https://127.0.0.1:1#md5=1", "must end with #sha256=FINGERPRINT"),
        ("https://127.0.0.1:1", "does not answer: .*; check the URL, that the manager runs"),
    ],
)
def test_a_wrong_url_is_explained(tmp_path: Path, url: str, message: str) -> None:
    with pytest.raises(ManagerError, match=message) as error:
        join(url, TOKEN, "execution-point", "e", MemberFiles(tmp_path / "e.db"))
    assert error.value.status == 0
