"""Golden: an access point that no machine can connect to transfers files through the manager."""

from __future__ import annotations

import random
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from poolbook.adapters.files import relay
from poolbook.adapters.files.app import files_app
from poolbook.adapters.files.relay import Relay, RelayClient
from poolbook.adapters.https.service import Address, HttpsService
from poolbook.adapters.machine.execution.supervisor.file_pieces import PIECE

from ..execution.bench import PATIENCE_S, wait
from .site import Site, authority_in, tree
from .tcp_proxy import TcpProxy
from .test_interrupted_transfers import OVERHEAD, SIZE, UNREAD, data_of
from .test_remote_jobs import make_inputs

NAME, TOKEN = "ap.example", "the access point's token"


@pytest.fixture
def manager(site: Site) -> Iterator[HttpsService]:
    """Return the HTTPS service of a manager with a relay; the access point listens nowhere."""

    def authorizes(request: Request, name: str) -> bool:
        return name == NAME and request.headers.get("Authorization") == f"Bearer {TOKEN}"

    site.service.close()
    service = HttpsService(Address("127.0.0.1", 0))
    application = Starlette(routes=[Mount("/relay", Relay(authorizes).application)])
    service.start(application, authority_in(site.folder).certificate_for(["127.0.0.1"], time.time()))
    site.url = f"https://{service.address}/relay/to/{NAME}"
    yield service
    service.close()


@contextmanager
def connected(site: Site, port: int, token: str = TOKEN, links: int = 4) -> Iterator[None]:
    """Connect the access point with the manager."""
    context = ssl.create_default_context(cafile=site.ca)
    url, headers = f"https://127.0.0.1:{port}/relay", {"Authorization": f"Bearer {token}"}
    client = RelayClient(files_app(site.offers), url, NAME, context, lambda: headers, links)
    try:
        yield
    finally:
        client.close()


def test_files_go_through_the_relay_byte_for_byte(site: Site, manager: HttpsService) -> None:
    make_inputs(site.iwd / "data")
    with connected(site, manager.address.port):
        site.start("cp -r --preserve=mode data copy", transfer={"inputs": ("data",), "outputs": ("copy",)})
        end = site.bench.end("1")
    assert (end.code, end.undelivered, end.failure) == (0, False, None)
    assert tree(site.iwd / "copy") == tree(site.iwd / "data")


@pytest.mark.parametrize("seed", range(2))
def test_a_transfer_continues_when_the_access_points_connections_are_cut(
    site: Site, manager: HttpsService, seed: int
) -> None:
    (site.iwd / "large").write_bytes(data_of(seed))
    generator = random.Random(seed)
    cuts = [generator.randrange(PIECE // 8, 3 * PIECE) for _ in range(5)]
    with TcpProxy(manager.address.port, cuts) as proxy, connected(site, proxy.port, links=1):
        site.start("cp large copy", transfer={"inputs": ("large",), "outputs": ("copy",)})
        end = site.bench.end("1")
    assert (end.undelivered, end.failure) == (False, None)
    assert (site.iwd / "copy").read_bytes() == data_of(seed)
    lost_bytes = sum(min(cut, PIECE + UNREAD) for cut in cuts)
    assert proxy.sent + proxy.received < 2 * SIZE + OVERHEAD + lost_bytes < 2 * SIZE + sum(cuts)


def test_a_job_waits_until_the_access_point_is_connected(site: Site, manager: HttpsService) -> None:
    (site.iwd / "a").write_text("alpha\n")
    site.start("cat a", transfer={"inputs": ("a",)})
    with httpx.Client(verify=ssl.create_default_context(cafile=site.ca)) as http:
        wait(lambda: http.get(f"{site.url}/7/inputs").status_code == 503)
    with connected(site, manager.address.port):
        assert site.bench.end("1").undelivered is False
    assert (site.iwd / "out").read_text() == "alpha\n"


def test_another_access_point_cannot_take_the_requests(site: Site, manager: HttpsService) -> None:
    with connected(site, manager.address.port, token="another"), httpx.Client(verify=False) as http:
        assert http.post(f"https://{manager.address}/relay/links/{NAME}").status_code == 403
        assert http.post(f"https://{manager.address}/relay/links/{NAME}/1").status_code == 403
        assert http.get(f"{site.url}/7/inputs").status_code == 503


def test_requests_are_answered_at_the_same_time_and_need_the_transfer_key(
    site: Site, manager: HttpsService, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = site.offers.offer(site.request("true"), run=1)
    statuses = []

    def ask(text: str) -> None:
        with httpx.Client(verify=ssl.create_default_context(cafile=site.ca)) as http:
            for _ in range(3):
                headers = {"Authorization": f"Bearer {text}"}
                statuses.append(http.get(f"{site.url}/7/inputs", headers=headers).status_code)

    with connected(site, manager.address.port), httpx.Client(verify=False) as http:
        wait(lambda: http.get(f"{site.url}/7/inputs").status_code == 403)
        monkeypatch.setattr(relay, "_FREE_S", PATIENCE_S)
        threads = [threading.Thread(target=ask, args=(text,)) for text in [key, "wrong"] * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert Counter(statuses) == {200: 12, 403: 12}
