"""Differential: views over HTTP, now and at a time, equal the queries of the log; so do explanations."""

import json
import time
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.condor_tools.formats import json_member_writer, json_text
from poolbook.adapters.runtime.queries import Queries
from poolbook.adapters.web.ads import encode_cursor
from poolbook.domain.classad import ClassAd
from poolbook.replay.listing import members as listing

from .client import Client, http_service, served_pool

SECOND = 1_000_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a pool in which jobs were submitted, ran, were held and were removed."""
    folder = tmp_path_factory.mktemp("pool")
    with served_pool(folder) as pool:
        done = pool.submit("executable = /bin/true", "queue 3", folder=str(folder))
        for proc in range(3):
            pool.wait_for(f"/jobs/{done}.{proc}", "JobStatus", 4)
        waits = pool.submit("executable = /bin/true", "requirements = false", "queue 4", folder=str(folder))
        pool.post(f"/jobs/{waits}.1/hold")
        pool.send("DELETE", f"/jobs/{waits}.2")
        pool.post("/commands/Reschedule", {})
        pool.wait_for(f"/jobs/{waits}.2", "JobStatus", 3)
    return folder / "pool.db"


@pytest.fixture(scope="module")
def service(log: Path) -> Iterator[Client]:
    with http_service(log, log.parent) as client:
        yield client


@pytest.fixture(scope="module")
def instants(log: Path) -> list[int]:
    """Instants in microseconds: the time of every fifth event."""
    with Queries(str(log)) as queries:
        return [event.at for _, event in queries.log.read()][2::5]


def text_of(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at // SECOND)) + f".{at % SECOND:06d}Z"


def as_json(ad: ClassAd) -> Any:
    return json.loads(json_text(ad, None, json_member_writer()))


def test_views_at_a_time_equal_the_queries_at_that_time(service: Client, log: Path, instants: list[int]) -> None:
    assert len(instants) > 5
    for at in instants:
        with Queries(str(log), at=at) as queries:
            now = queries.now(int(time.time()))
            jobs = [as_json(ad) for ad in queries.queue().ads]
            history = [as_json(ad) for ad in queries.history()]
            slots = sorted((as_json(ad) for ad in queries.slots(now, UTC)), key=lambda ad: str(ad["Name"]))
            machines = {name: dict(ad) for name, ad in queries.views.machines().items()}
            cycles = [[row.position, row.at, row.statistics] for row in queries.views.cycles()]
            users = [dict(record) for record in queries.accounting(now).records if not record.get("IsAccountingGroup")]
        view = {"at": text_of(at)}
        assert service.get("/jobs", **view)["jobs"] == jobs
        assert service.get("/jobs/archive", **view)["records"] == history
        assert service.get("/slots", **view)["ads"] == slots
        assert service.get("/collector/ads/startd", **view)["ads"] == slots
        assert [ad["Name"] for ad in service.get("/machines", **view)["ads"]] == sorted(machines)
        assert [list(row.values()) for row in service.get("/cycles", **view)["cycles"]] == cycles
        assert service.get("/users", **view)["records"] == users


def test_one_thing_is_returned_by_its_name(service: Client, log: Path) -> None:
    for path, names in (("slots", "slots"), ("machines", "machines"), ("collector/ads/schedd", "collector/ads/schedd")):
        for ad in service.get(f"/{names}")["ads"]:
            assert service.get(f"/{path}/{ad['Name']}", projection="Name").get("Name") in (ad["Name"], None)
        assert service.send("GET", f"/{path}/absent").status == 404
    for record in service.get("/users")["records"]:
        user = service.get(f"/users/{record['Name']}")
        assert user["record"]["Name"] == record["Name"] and user["claims"] == []
    assert service.send("GET", "/users/absent").status == 404
    assert service.send("GET", "/collector/ads/unknown").status == 400


def test_pages_of_ads_contain_each_ad_once(service: Client) -> None:
    expected = [ad["Name"] for ad in service.get("/collector/ads/all", limit="*")["ads"]]
    names, token = list[str](), None
    while token != "":
        page = service.get("/collector/ads/all", limit=1, page_token=token, projection="Name")
        names += [ad["Name"] for ad in page["ads"]]
        token = page.get("next_page_token", "")
    assert names == expected and len(names) > 5


def test_explanations_equal_those_of_why(service: Client, log: Path, instants: list[int]) -> None:
    for name in ("1.0", "2.0", "2.1", "2", "1"):
        for at in [None, *instants[-2:]]:
            with Queries(str(log), at=at) as queries:
                answer = queries.why(name, at, UTC)
            body = service.get(f"/why/{name}", at=None if at is None else text_of(at))
            assert body["answer"] == [sentence.as_dict() for sentence in answer.lines]
            assert body["life"] == [sentence.as_dict() for sentence in answer.life]
    assert service.send("GET", "/why/99.0").status == 404
    analysis = service.get("/jobs/2.0/match-analysis")
    assert analysis["job_id"] == "2.0" and analysis["requirements"].startswith("(false) && ")


@pytest.mark.parametrize("stream", ["", "1", "1.2", "pool", "negotiator"])
def test_pages_of_the_log_equal_its_listing(service: Client, log: Path, instants: list[int], stream: str) -> None:
    since, until = instants[1], instants[-1]
    with Queries(str(log)) as queries:
        selected = listing.parse_filter(stream) if stream else None
        expected = [{"place": "", **listing.as_dict(member)} for member in queries.entries(selected, since, until)]
    rows, token = list[Any](), None
    while token != "":
        window = {"since": text_of(since), "until": text_of(until)}
        page = service.get("/log", stream=stream, limit=3, page_token=token, **window)
        assert len(page["members"]) <= 3
        rows += page["members"]
        token = page.get("next_page_token", "")
    assert rows == expected


def test_events_of_a_cycle_are_listed(service: Client) -> None:
    (cycle, *_) = service.get("/cycles")["cycles"]
    members = service.get(f"/cycles/{cycle['position']}")["members"]
    assert members and {member["position"] for member in members} == {cycle["position"]}
    assert service.send("GET", "/cycles/1").status == 404


def test_the_archive_stops_at_its_limits(service: Client) -> None:
    ids = [(ad["ClusterId"], ad["ProcId"]) for ad in service.get("/jobs/archive")["records"]]
    assert ids[0] == (2, 2) and sorted(ids[1:]) == [(1, 0), (1, 1), (1, 2)]
    forwards = service.get("/jobs/archive", backwards=False)["records"]
    assert [(ad["ClusterId"], ad["ProcId"]) for ad in forwards] == ids[::-1]
    assert len(service.get("/jobs/archive", limit=2)["records"]) == 2
    assert len(service.get("/jobs/archive", scan_limit=1)["records"]) == 1
    assert len(service.get("/jobs/archive", since="1")["records"]) == 1
    assert len(service.get("/jobs/archive", before_cluster=2, before_proc=0)["records"]) == 3
    assert len(service.get("/jobs/epochs", constraint="ClusterId == 1")["records"]) == 3


@pytest.mark.parametrize(
    "method, path",
    [
        ("GET", "/jobs/1.0/ssh"), ("POST", "/collector/advertise"), ("GET", "/creds/user"),
        ("POST", "/creds/service/x"), ("DELETE", "/creds/service/x/y"),
    ],
)  # fmt: skip
def test_an_unsupported_endpoint_answers_with_its_reason(service: Client, method: str, path: str) -> None:
    answer = service.send(method, path)
    assert answer.status == 501 and len(answer.body["message"]) > 20


def test_times_before_the_log_are_rejected(service: Client) -> None:
    answer = service.send("GET", "/jobs", at="2001-01-01")
    assert answer.status == 404 and "the log begins" in answer.body["message"]


def test_an_invalid_request_is_not_taken_for_a_damaged_log(service: Client) -> None:
    for query in ("constraint=" + "(" * 20_000, "page_token=" + encode_cursor(10**25, 0)):
        answer = service.send("GET", f"/jobs?{query}")
        assert answer.status == 400 and "damaged" not in answer.body["message"], answer
