"""Golden: the endpoints about jobs accept and return what golang-htcondor's HTTP service documents, and pages neither
lose nor repeat a job while others enter and leave the queue."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.runtime.command_codec import COMMANDS, SERVED
from poolbook.adapters.web.jobs import expression_text

from .client import Client, served_pool

SLEEP = ("executable = /bin/sleep", "arguments = 1000", "transfer_executable = false", "requirements = false")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with served_pool(tmp_path_factory.mktemp("pool")) as client:
        yield client


def test_a_submitted_job_runs_and_is_found_in_the_history(pool: Client, tmp_path: Path) -> None:
    answer = pool.send("POST", "/jobs", {"submit_file": "executable = /bin/true\nqueue 2", "folder": str(tmp_path)})
    assert answer.status == 201
    cluster = answer.body["cluster_id"]
    assert answer.body["job_ids"] == [f"{cluster}.0", f"{cluster}.1"]
    ad = pool.wait_for(f"/jobs/{cluster}.1", "JobStatus", 4)
    assert (ad["ClusterId"], ad["ProcId"], ad["ExitCode"]) == (cluster, 1, 0)


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"submit_file": ' + b"[" * 100_000, b"{", b"\xff", b'{"x": "\xff"}']
)
def test_a_body_that_is_not_json_is_rejected(pool: Client, body: bytes) -> None:
    answer = pool.send("POST", "/jobs", body, {"Content-Type": "application/json"})
    assert answer.status == 400 and "the body is not valid JSON" in answer.body["message"], answer


def test_jobs_of_a_client_are_held_until_their_files_have_been_sent(pool: Client) -> None:
    ad = pool.get(f"/jobs/{pool.submit('executable = run.sh', 'queue')}.0")
    assert (ad["JobStatus"], ad["HoldReasonCode"]) == (5, 16)


def test_each_item_gives_jobs_with_its_values(pool: Client, tmp_path: Path) -> None:
    items = [{"name": "a b", "number": "1"}, {"name": "c, d", "number": "2"}]
    lines = (*SLEEP, 'MY.Name = "$(name)"', "MY.Number = $(number)")
    cluster = pool.submit(*lines, folder=str(tmp_path), itemdata=items, count=2)
    jobs = pool.get("/jobs", constraint=f"ClusterId == {cluster}", projection="Name,Number")["jobs"]
    assert [(ad["Name"], ad["Number"]) for ad in jobs] == [("a b", 1), ("a b", 1), ("c, d", 2), ("c, d", 2)]


def test_a_submit_file_reads_no_files_and_runs_no_programs_of_the_service(pool: Client) -> None:
    for queue in ("queue x from /etc/passwd", "queue x from id |", "include : /etc/passwd\nqueue"):
        answer = pool.send("POST", "/jobs", {"submit_file": f"executable = /bin/true\n{queue}"})
        assert answer.status == 400 and "does not read files" in answer.body["message"], answer


def test_actions_on_one_job_return_their_counts(pool: Client, tmp_path: Path) -> None:
    job = f"{pool.submit(*SLEEP, 'queue', folder=str(tmp_path))}.0"
    held = pool.post(f"/jobs/{job}/hold", {"reason": "for a test"})
    assert held["job_id"] == job and held["results"] == {"total": 1, "success": 1}
    assert pool.get(f"/jobs/{job}")["HoldReason"].startswith("for a test")
    assert pool.send("POST", f"/jobs/{job}/hold").status == 400
    pool.post(f"/jobs/{job}/release")
    assert pool.send("DELETE", f"/jobs/{job}").body["results"] == {"total": 1, "success": 1}
    assert pool.send("POST", "/jobs/9999.0/hold").status == 404


def test_actions_on_many_jobs_return_their_counts(pool: Client, tmp_path: Path) -> None:
    cluster = pool.submit(*SLEEP, "queue 3", folder=str(tmp_path))
    pool.post(f"/jobs/{cluster}.0/hold")
    body = {"constraint": f"ClusterId == {cluster}"}
    none = dict.fromkeys(("not_found", "permission_denied", "bad_status", "already_done", "error"), 0)
    answer = pool.post("/jobs/hold", body)
    assert answer["constraint"] == body["constraint"]
    assert answer["results"] == {**none, "total": 3, "success": 2, "already_done": 1}
    assert pool.send("DELETE", "/jobs", body).body["results"] == {**none, "total": 3, "success": 3}
    answer_to_none = pool.send("POST", "/jobs/release", {"constraint": "ClusterId == 9999"})
    assert answer_to_none.status == 404


def test_attributes_are_edited(pool: Client, tmp_path: Path) -> None:
    cluster = pool.submit(*SLEEP, "queue 2", folder=str(tmp_path))
    answer = pool.send("PATCH", f"/jobs/{cluster}.0", {"attributes": {"JobPrio": 7, "Note": '"x"', "Gone": None}})
    assert (answer.status, answer.body["status"], answer.body["job_id"]) == (200, "success", f"{cluster}.0")
    assert pool.get(f"/jobs/{cluster}.0", projection="JobPrio,Note,Gone") == {"JobPrio": 7, "Note": "x", "Gone": None}
    both = {"constraint": f"ClusterId == {cluster}", "attributes": {"JobPrio": 8}}
    assert pool.send("PATCH", "/jobs", both).body["jobs_edited"] == 2
    assert pool.send("PATCH", f"/jobs/{cluster}.0", {"attributes": {"ClusterId": 5}}).status == 403


@pytest.mark.parametrize(
    "value, expected",
    [
        ("RequestCpus * 2", "RequestCpus * 2"), (3, "3"), (2.5, "2.5"), (True, "true"), (None, "undefined"),
        ({"type": "string", "value": 'a "b"'}, '"a \\"b\\""'), ({"type": "integer", "value": " 12 "}, "12"),
        ({"type": "real", "value": "1e3"}, "1000.0"), ({"type": "boolean", "value": "TRUE"}, "true"),
        ({"type": "raw", "value": "Memory"}, "Memory"), ({"type": "integer", "value": "x"}, None),
        ({"type": "other", "value": "x"}, None), ({"type": "string"}, None), ([1], None),
    ],
)  # fmt: skip
def test_values_of_an_edit_become_expressions(value: Any, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="Name: "):
            expression_text("Name", value)
    else:
        assert expression_text("Name", value) == expected


def test_pages_contain_each_job_that_stayed_exactly_once_while_others_change(pool: Client, tmp_path: Path) -> None:
    stays = {pool.submit(*SLEEP, "queue 5", folder=str(tmp_path)) for _ in range(4)}
    leaves = pool.submit(*SLEEP, "queue 5", folder=str(tmp_path))
    expected = [(cluster, proc) for cluster in sorted(stays) for proc in range(5)]
    jobs: list[tuple[int, int]] = []
    token, page = None, 0
    while page == 0 or token:
        answer = pool.get("/jobs", projection="ClusterId,ProcId", limit=3, page_token=token)
        assert answer["total_returned"] == len(answer["jobs"]) <= 3
        assert answer["has_more"] == ("next_page_token" in answer)
        jobs += [(ad["ClusterId"], ad["ProcId"]) for ad in answer["jobs"]]
        token = answer.get("next_page_token")
        page += 1
        if page == 2:
            pool.send("DELETE", f"/jobs/{leaves}.0")
            pool.submit(*SLEEP, "queue 2", folder=str(tmp_path))
            pool.post(f"/jobs/{min(stays)}.1/hold")
    assert jobs == sorted(set(jobs))
    assert [job for job in jobs if job[0] in stays] == expected


def test_every_command_has_an_endpoint(pool: Client) -> None:
    paths = {path for path in pool.get("/openapi.json")["paths"] if path.startswith("/commands/")}
    expected = {f"/commands/{name}" for name in {**COMMANDS, **SERVED} if name != "SubmitDescription"}
    assert paths == expected
    results = pool.post("/commands/Hold", {"selection": {"jobs": [[9999, 0]]}})
    assert results == [{"cluster": 9999, "procs": [[0, 0]], "result": "not found", "changes": {}}]
    assert pool.post("/commands/Reschedule", {}) == {}
