"""The service's own pages: health, metrics, the API's description and its page; also idempotency keys and messages."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.web.ads import encode_cursor

from .client import Client, http_service, served_pool

JOB = {"submit_file": "executable = /bin/true\nrequirements = false\nqueue"}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    settings = "NUM_CPUS = 4\nGANGLIA_WANT_RESET_METRICS = false\n"
    with served_pool(tmp_path_factory.mktemp("pool"), settings) as client:
        yield client


def test_a_repeated_request_with_a_key_has_its_effect_once_also_after_a_restart(pool: Client, tmp_path: Path) -> None:
    body = {**JOB, "folder": str(tmp_path)}
    first = pool.post("/jobs", body, Idempotency_Key="a")
    assert pool.post("/jobs", body, Idempotency_Key="a") == first
    with http_service(pool.log, tmp_path) as restarted:
        assert restarted.post("/jobs", body, Idempotency_Key="a") == first
        other = restarted.send("POST", "/jobs", {**body, "count": 2}, {"Idempotency-Key": "a"})
        assert other.status == 422 and "use a new key" in other.body["message"]
    job = first["job_ids"][0]
    held = [pool.post(f"/jobs/{job}/hold", None, Idempotency_Key="b") for _ in range(2)]
    assert held[0] == held[1]
    assert pool.send("POST", f"/jobs/{job}/hold", None, {"Idempotency-Key": "c"}).status == 400
    assert pool.send("POST", f"/jobs/{job}/hold", None, {"Idempotency-Key": "x" * 300}).status == 400


def test_an_unchanged_view_is_not_sent_again(pool: Client, tmp_path: Path) -> None:
    job = pool.post("/jobs", {**JOB, "folder": str(tmp_path)})["job_ids"][0]
    for path in (f"/jobs/{job}", "/jobs", "/cycles"):
        tag = pool.send("GET", path).headers["etag"]
        assert pool.send("GET", path, headers={"If-None-Match": tag}).status == 304
        pool.send("PATCH", f"/jobs/{job}", {"attributes": {"Changed": f'"{path}"'}})
        assert pool.send("GET", path, headers={"If-None-Match": tag}).status == 200


def test_health_and_readiness(pool: Client, tmp_path: Path) -> None:
    assert pool.get("/healthz") == {"status": "ok"}
    ready = pool.get("/readyz")
    assert (ready["status"], ready["pool_running"]) == ("ready", True) and ready["position"] > 0
    with served_pool(tmp_path) as other:
        log = other.log
    with http_service(log, tmp_path) as service:
        assert service.get("/readyz")["pool_running"] is False
        log.unlink()
        assert service.send("GET", "/readyz").status == 503


def test_metrics_are_those_of_the_command(pool: Client, capsys: pytest.CaptureFixture[str]) -> None:
    families = set(re.findall(r"^# TYPE (\S+)", pool.get("/metrics").decode(), re.MULTILINE))
    assert main(["metrics", "-once", "-config", str(pool.log.with_name("condor_config")), "-log", str(pool.log)]) == 0
    assert families == set(re.findall(r"^# TYPE (\S+)", capsys.readouterr().out, re.MULTILINE))
    assert len(families) > 20


def test_the_caller_is_known(pool: Client) -> None:
    whoami, ping = pool.get("/whoami"), pool.get("/ping")
    assert whoami["authenticated"] and whoami["may_change"]
    assert ping["schedd"]["auth_method"] == "FS" and ping["schedd"]["user"] == whoami["user"]
    assert pool.get("/schedd/ping") == ping["schedd"] and pool.get("/collector/ping") == ping["collector"]


def test_every_type_in_the_description_is_described(pool: Client) -> None:
    document = pool.get("/openapi.json")
    assert document["openapi"].startswith("3.1")
    operations = [each for item in document["paths"].values() for name, each in item.items() if name != "servers"]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names)) > 80
    for operation in operations:
        assert operation["summary"].endswith("."), operation
        assert any(status.startswith(("2", "501")) for status in operation["responses"])
    for path, item in document["paths"].items():
        for operation in item.values() if "overview" not in path and "servers" not in item else ():
            parameters = operation.get("parameters", ())
            assert all(each["description"] for each in parameters), (path, parameters)
    text = str(document)
    for name in document["components"]["schemas"]:
        assert f"#/components/schemas/{name}" in text


class _Links(HTMLParser):
    """Collects the ids, the links and the tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.ids, self.links, self.tags = set[str](), set[str](), set[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids |= {value or "" for name, value in attrs if name == "id"}
        self.links |= {value or "" for name, value in attrs if name in ("href", "src")}


def test_the_reference_lists_every_operation_and_loads_nothing(pool: Client) -> None:
    answer = pool.send("GET", "/docs")
    page = _Links()
    page.feed(answer.body.decode())
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert page.links == {"/openapi.json", *(f"#{name}" for name in page.ids)}
    assert page.tags.isdisjoint({"script", "link", "img", "iframe"})
    paths = pool.get("/openapi.json")["paths"]
    assert len(page.ids) == sum(len(item.keys() - {"servers"}) for item in paths.values())


@pytest.mark.parametrize(
    "method, path, body, message",
    [
        ("GET", "/jobs/12", None, "id: '12' is not valid; use cluster.proc, such as 12.3"),
        ("GET", "/jobs?limit=0", None, "limit: '0' is not valid"),
        ("GET", "/jobs?limits=0", None, "'limits' is not a parameter of /jobs; its parameters are: at, constraint"),
        ("GET", "/jobs?limit=1&limit=2", None, "the parameter 'limit' is repeated; name it once"),
        ("GET", "/jobs?constraint=a%20b", None, "constraint: "),
        ("GET", "/jobs?projection=a-b", None, "projection: 'a-b' is not the name of an attribute"),
        ("GET", "/jobs?page_token=x", None, "page_token: this is not a token of this API"),
        ("GET", f"/jobs?page_token={encode_cursor(10**30, 0)}", None, "page_token: this is not a token of this API"),
        ("GET", "/jobs/1.0/peek?stdout_offset=99999999999999999999", None, "stdout_offset: '9999"),
        ("GET", "/jobs?at=never", None, "never"),
        ("GET", "/cycles/0", None, "position: '0' is not valid: it must be at least 1"),
        ("POST", "/jobs", {}, "submit_file is missing; use the text of a submit file"),
        ("POST", "/jobs", {"submit_file": 1}, "submit_file: '1' is not valid: it must be a text"),
        ("POST", "/jobs", {"submit_file": "x", "queue": 1}, "'queue' is not a member of the body; the members are"),
        ("POST", "/jobs", {"submit_file": "x", "count": 0}, "count: '0' is not valid: it must be at least 1"),
        ("POST", "/jobs", {"submit_file": "x", "itemdata": [{"a": 1}]}, "itemdata[0]"),
        ("POST", "/jobs", b"{", "the body is not valid JSON"),
        ("POST", "/jobs", {"submit_file": "queue x y z"}, "queue"),
        ("POST", "/jobs/hold", {"constraint": ""}, "constraint: '' is not valid: its length must be at least 1"),
        ("POST", "/commands/Hold", {"selection": {"jobs": [[1, "x"]]}}, "selection.jobs[0][1]: 'x' is not valid"),
    ],
)  # fmt: skip
def test_a_message_names_the_value_the_rule_and_the_fix(
    pool: Client, method: str, path: str, body: Any, message: str
) -> None:
    headers = {"Content-Type": "application/json"} if isinstance(body, bytes) else None
    answer = pool.send(method, path, body, headers)
    assert answer.status == 400 and message in answer.body["message"], answer
    assert answer.body["code"] == answer.body["status"] == 400
    assert answer.body["error"] == answer.body["title"] == "Bad Request"
    assert answer.headers["content-type"] == "application/problem+json"
