"""Every endpoint, tried as the wrong user; and what protects the service from other sites, proxies and slow clients."""

import http.client
import json
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.https.peers import _uid_of
from poolbook.adapters.security.authority import Authority
from poolbook.adapters.web.endpoints import ADMINISTRATOR, OPEN, READ, WRITE, Endpoint
from poolbook.adapters.web.service import ENDPOINTS

from .. import forked
from ..ports import free_port
from .client import PATIENCE, Answer, Client, http_service, running, served_pool

CONFIGURATION = "NUM_CPUS = 2\nUID_DOMAIN = example.org\nALLOW_WRITE = *\nALLOW_ADMINISTRATOR = *\n"
PLACES = {"id": "1.0", "name": "x", "type": "startd", "position": "1", "service": "x", "handle": "y"}
STRANGER = 65_534
OTHER_SITE = {"Origin": "https://evil.example"}


class Callers(NamedTuple):
    """Clients with tokens of a user, each limited to a level, and without one from behind a proxy."""

    by_level: dict[str, Client]
    expired: Client


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("pool")
    with served_pool(folder, CONFIGURATION) as client:
        client.submit("executable = /bin/true", "requirements = false", "output = o", "queue", folder=str(folder))
        yield client


def _token(pool: Client, capsys: Any, user: str, *options: str) -> str:
    words = ["-identity", f"{user}@example.org", "-log", str(pool.log), *options]
    assert main(["token", "create", "-config", str(pool.log.with_name("condor_config")), *words]) == 0
    return str(capsys.readouterr().out.strip().splitlines()[-1])


@pytest.fixture
def callers(pool: Client, capsys: pytest.CaptureFixture[str]) -> Callers:
    levels = (READ, WRITE, ADMINISTRATOR)
    tokens = {level: _token(pool, capsys, "mallory", "-authz", level) for level in levels}
    expired = Client(pool.url, pool.log, _token(pool, capsys, "root", "-lifetime", "1"))
    while expired.send("GET", "/version").status != 401:
        time.sleep(0.2)
    return Callers({level: Client(pool.url, pool.log, token) for level, token in tokens.items()}, expired)


def _path(endpoint: Endpoint) -> str:
    path = re.sub(r"\{(\w+)(?::\w+)?\}", lambda match: PLACES[match[1]], endpoint.path)
    return path if endpoint.is_at_root else f"/api/v1{path}"


def _try(client: Client, endpoint: Endpoint, **headers: str) -> Answer:
    return client.send(endpoint.method, _path(endpoint), {} if endpoint.changes else None, headers)


def test_every_endpoint_rejects_clients_that_are_not_authenticated(pool: Client) -> None:
    wrong = []
    for endpoint in ENDPOINTS:
        status = _try(pool, endpoint, **{"X-Forwarded-For": "192.0.2.1"}).status
        if (status in (401, 403)) != (endpoint.level not in (OPEN, READ)):
            wrong.append((endpoint.method, endpoint.path, status))
    assert wrong == []


def test_every_endpoint_rejects_an_expired_token(pool: Client, callers: Callers) -> None:
    assert {_try(callers.expired, endpoint).status for endpoint in ENDPOINTS} == {401}


def test_every_endpoint_rejects_tokens_without_its_level(callers: Callers) -> None:
    insufficient = {READ: (), WRITE: (READ,), ADMINISTRATOR: (READ, WRITE), OPEN: ()}
    wrong = []
    for endpoint in ENDPOINTS:
        for level, client in callers.by_level.items():
            answer = _try(client, endpoint)
            is_rejected = answer.status == 403 and answer.body.get("reason") == "level"
            if is_rejected != (level in insufficient[endpoint.level]):
                wrong.append((endpoint.method, endpoint.path, level, answer))
    assert wrong == []


def test_another_user_cannot_change_a_job_or_read_its_files(pool: Client, callers: Callers) -> None:
    before = pool.get("/jobs/1.0")
    mallory = callers.by_level[WRITE]
    for endpoint in ENDPOINTS:
        if endpoint.path.startswith("/jobs/{id}/") and endpoint.level == WRITE and not endpoint.unsupported:
            answer = _try(mallory, endpoint)
            assert answer.status in (400, 403), (endpoint.path, answer)
    for path in ("stdout", "stderr", "output", "files/o", "peek", "log"):
        assert mallory.send("GET", f"/jobs/1.0/{path}").status == 403
    assert mallory.send("DELETE", "/jobs/1.0").status == 403
    assert mallory.send("PATCH", "/jobs/1.0", {"attributes": {"JobPrio": 1}}).status == 403
    bulk = mallory.post("/jobs/hold", {"constraint": "true"})["results"]
    assert bulk["success"] == 0 and bulk["permission_denied"] == bulk["total"] > 0
    administrator = callers.by_level[ADMINISTRATOR]
    body = {"submitter": "root@example.org", "name": "factor", "value": 1000.0}
    assert administrator.send("POST", "/commands/SetSubmitter", body).status == 403
    assert administrator.send("POST", "/commands/ReadConfiguration", {}).status == 409
    assert pool.get("/jobs/1.0") == before


_AS_STRANGER = """
import http.client, json, sys
host, port, requests = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
statuses = []
for method, path in requests:
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.request(method, path, "{}" if method != "GET" else None, {"Content-Type": "application/json"})
    statuses.append(connection.getresponse().status)
print(json.dumps(statuses))
"""


def test_every_endpoint_rejects_another_user_of_this_machine(pool: Client) -> None:
    host, port = pool.url.removeprefix("http://").strip("/").split(":")
    requests = json.dumps([(endpoint.method, _path(endpoint)) for endpoint in ENDPOINTS])
    done = forked.run(["-c", _AS_STRANGER, host, port, requests], cwd="/", user=STRANGER, check=True)
    assert set(json.loads(done.stdout)) == {403}


@pytest.mark.parametrize(
    "method, path, headers, status",
    [
        ("GET", "/jobs", {"Host": "evil.example"}, 421),
        ("GET", "/jobs", {"Host": "127.0.0.1.evil.example"}, 421),
        ("POST", "/jobs/1.0/hold", OTHER_SITE, 403),
        ("POST", "/jobs/1.0/hold", {"Origin": "null"}, 403),
        ("DELETE", "/jobs/1.0", OTHER_SITE, 403),
        ("POST", "/commands/Reschedule", {"Content-Type": "text/plain"}, 415),
        ("POST", "/commands/Reschedule", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ("GET", "/whoami", {"Authorization": "Basic cm9vdDo="}, 401),
        ("GET", "/whoami", {"Authorization": "Bearer a.b.c"}, 401),
        ("POST", "/jobs/1.0/hold", {"Content-Length": "99999999"}, 413),
    ],
)
def test_requests_of_other_sites_are_rejected(
    pool: Client, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    body = b"{}" if status != 413 else b" " * 99_999_999
    answer = pool.send(method, path, body if method != "GET" else None, {"Content-Type": "application/json", **headers})
    assert answer.status == status, answer
    assert "access-control-allow-origin" not in answer.headers
    assert pool.get("/jobs/1.0")["JobStatus"] == 1


def test_only_configured_sites_may_read_responses(pool: Client) -> None:
    with http_service(pool.log, pool.log.parent, options=["-origin", "https://portal.example"]) as service:
        for origin, allowed in (("https://portal.example", "https://portal.example"), ("https://evil.example", None)):
            answer = service.send("GET", "/jobs", headers={"Origin": origin})
            assert answer.headers.get("access-control-allow-origin") == allowed
            asked = {"Origin": origin, "Access-Control-Request-Method": "PATCH"}
            assert service.send("OPTIONS", "/jobs/1.0", headers=asked).status == (200 if allowed else 400)
        changed = {"attributes": {"Note": '"x"'}}
        assert service.send("PATCH", "/jobs/1.0", changed, {"Origin": "https://portal.example"}).status == 200
        assert service.send("PATCH", "/jobs/1.0", changed, OTHER_SITE).status == 403


def test_a_served_pool_lets_configured_sites_read_responses(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    words = ["serve", "-log", "pool.db", "-http", address, "-origin", "https://portal.example"]
    with running(words, tmp_path, "shown at"):
        for origin, allowed in (("https://portal.example", "https://portal.example"), ("https://evil.example", None)):
            answer = httpx.get(f"http://{address}/api/v1/ping", headers={"Origin": origin}, timeout=PATIENCE)
            assert answer.headers.get("access-control-allow-origin") == allowed


def test_a_local_proxy_is_not_taken_for_the_sender(pool: Client) -> None:
    assert pool.get("/whoami")["authenticated"] is True
    for header in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"):
        assert pool.send("GET", "/whoami", headers={header: "192.0.2.1"}).body["authenticated"] is False


def test_a_socket_that_its_process_has_closed_belongs_to_no_user() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, remote = listener.accept()
        with accepted:
            assert _uid_of(remote, accepted.getsockname()) is not None
            client.close()
            assert accepted.recv(1) == b""
            assert _uid_of(remote, accepted.getsockname()) is None


def test_many_invalid_tokens_are_not_verified(pool: Client) -> None:
    with http_service(pool.log, pool.log.parent) as service:
        statuses = [
            service.send("GET", "/whoami", headers={"Authorization": "Bearer x.y.z"}).status for _ in range(400)
        ]
    assert statuses[0] == 401 and statuses[-1] == 429


def test_connections_without_a_complete_request_are_closed(pool: Client) -> None:
    host, port = pool.url.removeprefix("http://").strip("/").split(":")
    with ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE)) for _ in range(3)
        ]
        silent, _, used = connections
        used.sendall(b"GET /api/v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        response = http.client.HTTPResponse(used)
        response.begin()
        response.read()
        for connection in connections:
            if connection is not silent:
                connection.sendall(b"GET /api/v1/version HTTP/1.1\r\nHost: loc")
        assert [connection.recv(1 << 16) for connection in connections] == [b""] * 3


@pytest.mark.parametrize(
    ("job", "method", "path", "status"),
    [("1.0", "PUT", "input", 403), ("9.0", "PUT", "input", 404), ("9.0", "POST", "input/multipart", 404)],
)
def test_a_wrong_upload_is_rejected_before_it_is_sent(
    job: str, method: str, path: str, status: int, pool: Client, callers: Callers
) -> None:
    host, port = pool.url.removeprefix("http://").strip("/").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
    with closing(connection):
        connection.putrequest(method, f"/api/v1/jobs/{job}/{path}")
        connection.putheader("Content-Length", str(1 << 30))
        for name, value in callers.by_level[WRITE].http.headers.items():
            if name.lower() == "authorization":
                connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status == status


def test_the_connections_of_one_user_do_not_keep_others_out(pool: Client) -> None:
    host, port = pool.url.removeprefix("http://").strip("/").split(":")
    text = r"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE)) for _ in range(501)
        ]
        assert connections[-1].recv(1) == b""
        command = f"exec 3<>/dev/tcp/{host}/{port}; printf %b '{text}' >&3; head -1 <&3"
        answer = subprocess.run(["bash", "-c", command], user=STRANGER, capture_output=True, timeout=PATIENCE)
        assert answer.stdout.startswith(b"HTTP/1.1 403")  # it was read: this user may not use the pool


def test_error_pages_do_not_reveal_paths_of_the_service(pool: Client, tmp_path: Path) -> None:
    answer = pool.send("GET", "/absent/../../etc/passwd")
    assert answer.status == 404 and "lists the paths" in answer.body["message"]


def _client_certificate(folder: Path, authority: Path, name: str) -> Path:
    """Return the file of a private key and a client certificate, made as an administrator would with openssl."""
    key, request, signed, both = (folder / f"{name}.{suffix}" for suffix in ("key", "csr", "crt", "pem"))
    new = ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-batch"]
    subject = ["-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request)]
    subprocess.run([*new, *subject], check=True, capture_output=True)
    sign = [
        "openssl",
        "x509",
        "-req",
        "-in",
        str(request),
        "-CA",
        f"{authority}/ca.pem",
        "-CAkey",
        f"{authority}/ca.key",
    ]
    subprocess.run([*sign, "-CAcreateserial", "-days", "1", "-out", str(signed)], check=True, capture_output=True)
    both.write_bytes(key.read_bytes() + signed.read_bytes())
    return both


def test_the_holder_of_a_certificate_of_the_pools_authority_is_its_subject(pool: Client, tmp_path: Path) -> None:
    words = ["view", "-no-browser", "-listen", "0.0.0.0:0", str(pool.log)]
    with running(words, pool.log.parent, "shown at") as line:
        port = int(line.split(" shown at ")[1].split("/")[2].rpartition(":")[2])
        authority = next(pool.log.parent.glob("*.security/ca"))

        def whoami(certificate: Path | None) -> tuple[str, str]:
            context = ssl.create_default_context(cafile=str(authority / "ca.pem"))
            if certificate is not None:
                context.load_cert_chain(certificate)
            with closing(
                http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
            ) as connection:
                connection.request("GET", "/api/v1/ping", headers={"X-Forwarded-For": "10.0.0.1"})
                schedd = json.loads(connection.getresponse().read())["schedd"]
                return schedd["user"], schedd["auth_method"]

        assert whoami(_client_certificate(tmp_path, authority, "alice")) == ("alice@example.org", "SSL")
        assert whoami(_client_certificate(tmp_path, authority, "bob@lab.example")) == ("bob@lab.example", "SSL")
        assert whoami(None) == ("", "")
        others = tmp_path / "ca"
        Authority(others, "other.example", time.time())
        with pytest.raises((ssl.SSLError, ConnectionError)):
            whoami(_client_certificate(tmp_path, others, "root"))
