"""What the places of ``poolbook top`` show of a pool, without a terminal."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.overview.effects import effect
from poolbook.adapters.overview.records import ClusterBar, LoadPoint
from poolbook.adapters.runtime.queries import Queries
from poolbook.adapters.stores.opening import open_log
from poolbook.adapters.top.places import PLACES, curve, explanation, job_bar, place_view, time_text
from poolbook.domain import events as e
from poolbook.domain.units import SECOND
from poolbook.replay.forensics.imported_log import IMPORTED

SLEEP = {"executable": "/bin/sleep", "request_memory": 1}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the log of a pool: cluster 1 has two running, one idle and one held job; cluster 2 fits no slot."""
    url = str(tmp_path_factory.mktemp("top") / "pool.db")
    with Pool.open(url, user="alice", settings={"NEGOTIATOR_INTERVAL": 10}) as pool:
        pool.add_machine("host", cpus=2, memory=4096)
        pool.submit({**SLEEP, "arguments": 9000}, count=4)
        pool.submit({**SLEEP, "request_memory": "64 GB"}, count=3)
        pool.advance(60)
        pool.hold("1.3", reason="wrong input")
        pool.advance(3600)
    return url


def test_each_place_begins_with_a_sentence(url: str) -> None:
    with Queries(url) as queries:
        sentences = {place: place_view(place, queries, UTC).lines[0] for place in PLACES}
    assert sentences["Pool"] == "All 2 cores are busy; 4 jobs wait, most of them for memory; 1 job is held."
    assert sentences["Jobs"].startswith("2 clusters. Half of 2 jobs started within ")
    assert sentences["Shares"].startswith("1 user has slots; alice@")
    assert sentences["Machines"] == "1 machine with 3 slots, of which 2 are busy."
    assert sentences["Log"].startswith("The last of ")


def test_rows_are_found_by_their_text(url: str) -> None:
    with Queries(url) as queries:
        jobs, log = (place_view(place, queries, UTC) for place in ("Jobs", "Log"))
    assert [row.key for row in jobs.rows] == ["2", "1"]
    assert [row.key for row in jobs.matching("WRONG input")] == ["1"]
    assert jobs.rows[1].cells[2] == "R" * 12 + "I" * 6 + "H" * 6
    assert "1.3" in [row.key for row in log.matching("hold")]


def test_a_past_time_shows_the_pool_as_it_was(url: str) -> None:
    with Queries(url) as queries:
        began = next(event.at for _, event in queries.log.read() if isinstance(event, e.ClusterSubmitted))
    with Queries(url, at=began) as queries:
        assert "no jobs wait" not in place_view("Pool", queries, UTC).lines[0]
        assert place_view("Jobs", queries, UTC).rows[-1].cells[3] == "2 idle, 2 running"


def test_an_import_without_a_queue_says_so(tmp_path: Path) -> None:
    log = open_log(str(tmp_path / "audit.db"), create=True)
    log.append([e.PoolFounded(1, "founded", "import", "h", "htcondor-25", "h", "0", {IMPORTED: "true"})])
    log.close()
    with Queries(str(tmp_path / "audit.db")) as queries:
        views = {place: place_view(place, queries, UTC) for place in PLACES}
    assert views["Pool"].lines[0] == "The records show neither the queue nor the slots at this time."
    assert views["Jobs"].lines == ["The records do not show this: no imported file shows this."]


def test_sentences_of_why_explain_a_row(url: str) -> None:
    with Queries(url) as queries:
        assert explanation(queries, "1.3", UTC)[0].startswith("Job 1.3 has been held since ")
        assert explanation(queries, "accountant", UTC)[0].startswith("accountant is not a job, cluster or slot")


@pytest.mark.parametrize(
    ("action", "name", "sentence", "command"),
    [
        ("hold", "1", "2 running jobs are evicted; about 2 h 2 min of work is lost. 3 jobs are held until they are "
         "released.", "poolbook hold 1"),
        ("hold", "1.2", "1 job is held until it is released.", "poolbook hold 1.2"),
        ("release", "1", "1 held job is released, and may start when a slot matches.", "poolbook release 1"),
        ("remove", "2", "3 jobs are removed from the queue. This cannot be undone.", "poolbook rm 2"),
        (
            "vacate", "1.0",
            "1 running job is evicted; about 1 h 1 min of work is lost. Evicted jobs become idle, and may run again "
            "immediately.",
            "poolbook vacate 1.0",
        ),
    ],
)  # fmt: skip
def test_a_confirmation_says_what_will_happen(action: str, name: str, sentence: str, command: str, url: str) -> None:
    with Queries(url) as queries:
        planned = effect(queries, action, "job" if "." in name else "cluster", name, "root")
        assert not effect(queries, "vacate", "cluster", "2", "root").allowed
    assert (planned.sentence, planned.command, planned.allowed) == (sentence, command, True)
    assert planned.body["reason"] == f"via {command.rpartition(' ')[0]}"


@pytest.mark.parametrize(
    ("jobs", "bar"),
    [
        ({"completed": 100}, "C" * 24),
        ({"running": 50, "idle": 50}, "R" * 12 + "I" * 12),
        ({"held": 1, "completed": 9999}, "C" * 23 + "H"),
    ],
)
def test_a_bar_has_a_letter_for_each_status(jobs: dict[str, int], bar: str) -> None:
    assert job_bar(ClusterBar(1, "a", "", 0, sum(jobs.values()), jobs, "")) == bar


def test_a_curve_shows_the_share_of_busy_slots() -> None:
    points = [LoadPoint(0, 0, 0, 0, 0, 4), LoadPoint(50, 0, 0, 0, 2, 4), LoadPoint(75, 0, 0, 0, 4, 4)]
    assert curve(points, 0, 100, width=4) == "  ▄█"


@pytest.mark.parametrize(
    ("at", "text"),
    [(None, "now"), (60 * SECOND, "at 1970-01-01 00:01:00, 1 min ago"), (0, "at 1970-01-01 00:00:00, 2 min ago")],
)
def test_the_moment_that_is_shown_has_a_text(at: int | None, text: str) -> None:
    assert time_text(at, 120 * SECOND, UTC) == text
