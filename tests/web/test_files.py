"""Files of jobs over HTTP: inputs arrive in the spool, outputs come back, and no other path can be read or written."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .client import Client, served_pool

PROGRAM = b"#!/bin/sh\ncat in.txt sub/deep.txt\necho problem >&2\necho extra > out.dat\nmkdir d\necho inner > d/f\n"
FILES = {"run.sh": PROGRAM, "in.txt": b"input\n", "sub/deep.txt": b"deep\n"}
DESCRIPTION = (
    "executable = run.sh", "output = out.txt", "error = err.txt", "transfer_input_files = in.txt, sub",
    "transfer_output_files = out.dat, d", "queue",
)  # fmt: skip


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with served_pool(tmp_path_factory.mktemp("pool")) as client:
        yield client


def archive(files: dict[str, bytes], *others: tarfile.TarInfo) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
        for info in others:
            tar.addfile(info)
    return data.getvalue()


def names_in(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = {info.name: tar.extractfile(info) for info in tar if info.isfile()}
        return {name: file.read() for name, file in files.items() if file is not None}


@pytest.fixture(scope="module")
def finished(pool: Client) -> str:
    job = f"{pool.submit(*DESCRIPTION)}.0"
    answer = pool.send("PUT", f"/jobs/{job}/input", archive(FILES), {"Content-Type": "application/x-tar"})
    assert answer.status == 200 and answer.body["job_id"] == job
    pool.wait_for(f"/jobs/{job}", "JobStatus", 4)
    return job


def test_a_spooled_job_returns_its_outputs(pool: Client, finished: str) -> None:
    assert pool.get(f"/jobs/{finished}/stdout") == b"input\ndeep\n"
    assert pool.get(f"/jobs/{finished}/stderr") == b"problem\n"
    outputs = names_in(pool.get(f"/jobs/{finished}/output"))
    expected = {"out.dat": b"extra\n", "d/f": b"inner\n", "out.txt": b"input\ndeep\n", "err.txt": b"problem\n"}
    assert outputs == expected
    assert pool.get(f"/jobs/{finished}/files/out.dat") == b"extra\n"
    assert pool.get(f"/jobs/{finished}/files/d/f") == b"inner\n"
    peeked = pool.get(f"/jobs/{finished}/peek", max_bytes=5)
    assert peeked == {"stdout": {"text": "deep\n", "offset": 11}, "stderr": {"text": "blem\n", "offset": 8}}


def test_the_file_transfers_of_a_job_are_listed(pool: Client, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"12345")
    lines = (
        "executable = /bin/cp", "arguments = in.txt out.txt", "transfer_executable = false",
        "transfer_input_files = in.txt", "should_transfer_files = yes", "queue",
    )  # fmt: skip
    cluster = pool.submit(*lines, folder=str(tmp_path))
    pool.wait_for(f"/jobs/{cluster}.0", "JobStatus", 4)
    listed = pool.get("/jobs/transfers", constraint=f"ClusterId == {cluster}")["ads"]
    shown = [(ad["TransferClass"], ad["TransferSuccess"], ad["TransferTotalBytes"]) for ad in listed]
    assert shown == [("OUTPUT", True, 5), ("INPUT", True, 5)]
    inputs = pool.get("/jobs/transfers", constraint=f"ClusterId == {cluster}", transfer_types="input")["records"]
    assert inputs == listed[1:]
    assert pool.send("GET", "/jobs/transfers", transfer_types="OTHER").status == 400


@pytest.mark.parametrize("name", ["run.sh", "../x", "..%2F..%2Fetc%2Fpasswd", "/etc/passwd", "d/../../x", "d", "%00"])
def test_no_other_file_can_be_read(pool: Client, finished: str, name: str) -> None:
    assert pool.send("GET", f"/jobs/{finished}/files/{name}").status in (400, 404)


def test_a_link_does_not_lead_out_of_the_outputs(pool: Client) -> None:
    program = b"#!/bin/sh\nmkdir d\nln -s /etc/passwd d/link\n"
    job = f"{pool.submit('executable = run.sh', 'transfer_output_files = d', 'queue')}.0"
    pool.send("PUT", f"/jobs/{job}/input", archive({"run.sh": program}))
    pool.wait_for(f"/jobs/{job}", "JobStatus", 4)
    assert pool.send("GET", f"/jobs/{job}/files/d/link").status == 404


def test_a_job_in_place_returns_its_outputs(pool: Client, tmp_path: Path) -> None:
    lines = ("executable = /bin/echo", "arguments = hello", "output = o.txt", "log = job.log", "queue")
    job = f"{pool.submit(*lines, folder=str(tmp_path))}.0"
    pool.wait_for(f"/jobs/{job}", "JobStatus", 4)
    assert pool.get(f"/jobs/{job}/stdout") == b"hello\n"
    assert names_in(pool.get(f"/jobs/{job}/output")) == {"o.txt": b"hello\n"}
    assert pool.send("GET", f"/jobs/{job}/stderr").status == 404
    log = pool.get(f"/jobs/{job}/log")
    assert (log["jobId"], log["filename"]) == (job, "job.log")
    assert [entry["event_number"] for entry in log["events"]][:2] == [0, 1]
    assert {entry["cluster_id"] for entry in log["events"]} == {int(job.split(".")[0])}


def test_a_running_job_is_followed(pool: Client, tmp_path: Path) -> None:
    lines = ("executable = /bin/sh", "arguments = \"-c 'echo begins; sleep 1000'\"", "output = o.txt", "queue")
    job = f"{pool.submit(*lines, folder=str(tmp_path))}.0"
    pool.wait_for(f"/jobs/{job}", "JobStatus", 2)
    text, offset = "", 0
    while "begins\n" not in text:
        peeked = pool.get(f"/jobs/{job}/peek", stream="stdout", stdout_offset=offset)
        if "stdout" in peeked:
            text, offset = text + peeked["stdout"]["text"], peeked["stdout"]["offset"]
    assert text == "begins\n"
    pool.send("DELETE", f"/jobs/{job}")


def test_jobs_that_need_no_files_start_at_once(pool: Client) -> None:
    answer = pool.post("/jobs", {"submit_file": "executable = /bin/echo\narguments = hi\noutput = o\nqueue 2"})
    assert answer["needs_input"] is False
    for job in answer["job_ids"]:
        pool.wait_for(f"/jobs/{job}", "JobStatus", 4)
        assert pool.get(f"/jobs/{job}/stdout") == b"hi\n"
        ignored = pool.send("PUT", f"/jobs/{job}/input", archive({"x": b""}))
        assert ignored.status == 200 and "ignored" in ignored.body["message"]


def test_a_form_with_files_starts_the_job(pool: Client) -> None:
    job = f"{pool.submit(*DESCRIPTION)}.0"
    content = b"\r\n--\r\n\r\nx\n"
    files = [
        ("executable", ("run.sh", PROGRAM)), ("file", ("in.txt", content)), ("file", ("sub/deep.txt", b"deep\n")),
        ("file", ("other", b"")),
    ]  # fmt: skip
    answer = pool.http.post(f"/api/v1/jobs/{job}/input/multipart", files=files)
    assert answer.status_code == 200 and "other" in answer.json()["message"], answer.text
    pool.wait_for(f"/jobs/{job}", "JobStatus", 4)
    assert pool.get(f"/jobs/{job}/stdout") == content + b"deep\n"


def _link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def _header(kind: bytes, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo("in.txt")
    info.type, info.size = kind, size
    return info


@pytest.mark.parametrize(
    "data, message",
    [
        (archive({"run.sh": PROGRAM}), "in.txt"),
        (archive({**FILES, "../evil": b""}), "relative names"),
        (archive({**FILES, "/evil": b""}), "relative names"),
        (archive(FILES, _link("in.txt", "/etc/passwd")), "neither a file nor a directory"),
        (archive({}, _header(tarfile.XHDTYPE, 1 << 20)), "an extended header of 1048576 bytes; the limit is 4096"),
        (archive(FILES, _header(tarfile.GNUTYPE_SPARSE, 0)), "is sparse"),
        (b"not an archive" * 100, "not a tar archive"),
        (b"", "was not sent"),
    ],
)
def test_an_invalid_archive_is_rejected_and_the_job_stays_held(pool: Client, data: bytes, message: str) -> None:
    job = f"{pool.submit(*DESCRIPTION)}.0"
    answer = pool.send("PUT", f"/jobs/{job}/input", data)
    assert answer.status == 400 and message in answer.body["message"], answer
    assert pool.get(f"/jobs/{job}")["HoldReasonCode"] == 16
