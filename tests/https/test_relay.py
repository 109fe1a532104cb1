"""property: the manager forwards requests to an access point that has joined, and to no one who claims its name."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from poolbook.adapters.fabric.credentials import Credentials, UserKey
from poolbook.adapters.files.relay import RelayClient
from poolbook.adapters.https.messages import MemberProof

from .pool import JoinablePool, joinable_pool


async def _answer(request: Request) -> Response:
    return PlainTextResponse(f"{request.method} {request.url.path} {(await request.body()).decode()}")


def test_a_request_reaches_an_access_point_that_does_not_listen(shared_pool: JoinablePool) -> None:
    shared_pool.join("relayed.db", "access-point/relayed")
    files = shared_pool.files("relayed.db")
    application = Starlette(routes=[Route("/{path:path}", _answer, methods=["PUT"])])
    context = ssl.create_default_context(cafile=files.authority)
    relay = RelayClient(application, f"{shared_pool.url}/v1/relay", "relayed", context, files.proof)
    try:
        response = _put(shared_pool)
        end = time.monotonic() + 60
        while response.status_code == 503 and time.monotonic() < end:  # it is not connected yet
            response = _put(shared_pool)
        assert (response.status_code, response.text) == (200, "PUT /a/b data")
    finally:
        relay.close()


def _put(pool: JoinablePool) -> httpx.Response:
    ca = ssl.create_default_context(cafile=pool.folder / "m.db.security" / "ca" / "ca.pem")
    url = f"{pool.url}/v1/relay/to/relayed/a/b"
    return httpx.put(url, content=b"data", verify=ca, trust_env=False, timeout=60)


def test_only_the_access_point_itself_receives_its_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolbook.adapters.https.manager._MAINTENANCE_S", 0.05)
    monkeypatch.setattr("poolbook.adapters.files.relay._POLL_S", 0.01)
    with joinable_pool(tmp_path) as pool:
        token = pool.token()
        pool.join("a.db", "access-point/a", token)
        pool.join("e.db", "execution-point/a")
        own_seed = Credentials.read(pool.files("a.db").credentials).seed
        foreign_seed, now = UserKey.create().seed, time.time()

        key = pool.files("a.db").read().key

        def header(peer: str = "access-point/a", at: float = now, seed: str = own_seed) -> str:
            proof = MemberProof(peer, key, at)
            text = proof.signed_text(pool.fingerprint.removeprefix("sha256="))
            return str(MemberProof(peer, key, at, Credentials("", seed).sign(text)))

        def status(authorization: str) -> int:
            return pool.post("/v1/relay/links/a", headers={"Authorization": authorization}).status_code

        assert status(header()) == 204
        for authorization in [
            "", "Bearer x", "Poolbook-Member x", "Poolbook-Member e30=", header("access-point/b"),
            header("execution-point/a"), header(at=now - 3600), header(seed=foreign_seed),
            pool.files("e.db").proof()["Authorization"],
        ]:  # fmt: skip
            assert status(authorization) == 403, authorization
        security = pool.security()
        security.store.revoke(security.verify(token, now).id, now)
        end = time.monotonic() + 60
        while status(header()) != 403:
            assert time.monotonic() < end, "the manager still accepts the role"
