"""Property: a client of the event stream receives each event once and in order, also across restarts of the service; a
client of another log is not continued. Filters select topics and streams."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from poolbook.adapters.stores.codec import CODEC
from poolbook.adapters.stores.opening import open_log

from ..ports import free_port
from .client import PATIENCE, Client, http_service, served_pool

JOBS = ("executable = /bin/true", "requirements = false", "queue 3")


class Received(NamedTuple):
    id: str
    topic: str
    data: bytes

    @property
    def position(self) -> int:
        return int(self.id.split("-")[0])


def events_of(client: Client, last: str = "", **parameters: str | int) -> Iterator[Received]:
    headers = {"Last-Event-ID": last} if last else {}
    with httpx.stream(
        "GET", f"{client.url}api/v1/events", params=parameters, headers=headers, timeout=PATIENCE
    ) as response:
        assert response.status_code == 200, response.read()
        fields: dict[str, str] = {}
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            fields[name] = value
            if not line and "id" in fields:
                yield Received(fields["id"], fields["event"], fields["data"].encode())
            if not line:
                fields = {}


def take(events: Iterator[Received], count: int) -> list[Received]:
    return list(islice(events, count))


def log_events(log: Path) -> list[tuple[int, str, bytes]]:
    with closing(open_log(str(log), create=False, read_only=True)) as opened:
        events = list(opened.read())
    topics, states = CODEC.encode([event for _, event in events])
    return list(zip((position for position, _ in events), topics, states, strict=True))


def as_logged(events: list[Received]) -> list[tuple[int, str, bytes]]:
    return [(event.position, event.topic, event.data) for event in events]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Client]:
    with served_pool(tmp_path) as client:
        yield client


def test_all_events_arrive_in_order_and_new_ones_follow(pool: Client) -> None:
    events = events_of(pool, after=0)
    before = log_events(pool.log)
    assert as_logged(take(events, len(before))) == before
    for _ in range(5):
        pool.submit(*JOBS, folder=str(pool.log.parent))
    later = log_events(pool.log)[len(before) :]
    assert later and as_logged(take(events, len(later))) == later


def test_a_client_that_resumes_after_restarts_misses_and_repeats_nothing(pool: Client) -> None:
    folder, port = pool.log.parent, free_port()
    received, last = list[Received](), ""
    for number in range(4):
        with http_service(pool.log, folder, port=port) as service:
            pool.submit(*JOBS, folder=str(folder))
            expected = len(log_events(pool.log))
            events = events_of(service, last) if last else events_of(service, after=0)
            received += take(events, expected - len(received) - (2 if number < 3 else 0))
            last = received[-1].id
        pool.submit(*JOBS, folder=str(folder))
    assert as_logged(received) == log_events(pool.log)[: len(received)]


def test_another_log_does_not_continue_a_stream(pool: Client, tmp_path: Path) -> None:
    pool.submit(*JOBS, folder=str(tmp_path))
    last = take(events_of(pool, after=0), len(log_events(pool.log)))[-1].id
    other = tmp_path / "other"
    other.mkdir()
    with served_pool(other) as another:
        for _ in range(10):
            another.submit(*JOBS, folder=str(other))
        answer = another.send("GET", "/events", headers={"Last-Event-ID": last})
        assert answer.status == 410 and "start again" in answer.body["message"]
    assert pool.send("GET", "/events", headers={"Last-Event-ID": "999999999-00000000"}).status == 410


def test_a_replaced_log_ends_the_streams(tmp_path: Path) -> None:
    with served_pool(tmp_path) as pool:
        pool.submit(*JOBS, folder=str(tmp_path))
    log = tmp_path / "pool.db"
    with http_service(log, tmp_path) as service:
        events = events_of(service, after=0)
        take(events, len(log_events(log)))
        shutil.copyfile(log, tmp_path / "copy.db")
        (tmp_path / "copy.db").replace(log)
        assert list(events) == []


def test_filters_select_topics_and_streams(pool: Client) -> None:
    cluster = pool.submit(*JOBS, folder=str(pool.log.parent))
    pool.submit(*JOBS, folder=str(pool.log.parent))
    (submitted, *_) = take(events_of(pool, after=0, stream=str(cluster)), 1)
    assert f'"cluster":{cluster}' in submitted.data.decode()
    topics = take(events_of(pool, after=0, topic=submitted.topic), 2)
    assert [event.topic for event in topics] == [submitted.topic] * 2
    invalid: list[dict[str, Any]] = [{"topic": "Unknown"}, {"stream": "1.0"}, {"stream": "x"}, {"after": "x"}]
    for parameters in invalid:
        assert pool.send("GET", "/events", **parameters).status == 400
