"""property: each job of a log reaches a search engine or a file once, whatever fails in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pyarrow import parquet

from poolbook.adapters.adstash.stash import ads_of_events
from poolbook.adapters.machine.host import host_name
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import Event
from poolbook.replay.runs.epochs import EPOCHS, ads_with_positions

from ..pool.real import Folder
from .test_documents import DATA


class Engine(ThreadingHTTPServer):
    """A stand-in for the API of Elasticsearch: it stores documents by id. ``failures``: requests that it rejects."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.documents: dict[str, dict[str, object]] = {}
        self.requests: list[str] = []
        self.mapping: dict[str, object] = {}
        self.failures = 0


class Handler(BaseHTTPRequestHandler):
    server: Engine

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        path = self.path.partition("?")[0]
        self.server.requests.append(f"{self.command} {path}")
        status, result = 200, "{}"
        if self.server.failures and path.endswith("_bulk"):
            self.server.failures -= 1
            status = 503
        elif path.endswith("_bulk"):
            lines = [json.loads(line) for line in body.splitlines()]
            for action, document in zip(lines[::2], lines[1::2], strict=True):
                self.server.documents[action["index"]["_id"]] = document
            result = json.dumps({"errors": False, "items": []})
        elif path == "/_alias/htcondor":
            result = json.dumps({"htcondor-000001": {"aliases": {"htcondor": {"is_write_index": True}}}})
        elif self.command == "PUT" and path.endswith("_mapping"):
            self.server.mapping = json.loads(body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(result)))
        self.end_headers()
        self.wfile.write(result.encode())

    do_GET = do_PUT = do_HEAD = answer

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as engine:
        threading.Thread(target=engine.serve_forever, daemon=True).start()
        yield engine
        engine.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write("job.sub", "executable = /bin/true\nqueue 3\n")
    with folder.served():
        folder.call("submit", "job.sub")
        wait_for_history(folder, 3)
    return folder


def wait_for_history(folder: Folder, count: int) -> None:
    while folder.call("history", "-af", "ClusterId").count("\n") < count:
        pass


STASH = (
    "condor_adstash",
    "--standalone",
    "--schedd_history",
    "--schedd_job_epoch_history",
    "--checkpoint_file",
    "check",
)


def test_a_search_engine_receives_each_job_and_each_run_once_although_it_fails(folder: Folder, engine: Engine) -> None:
    host = ("--se_host", f"127.0.0.1:{engine.server_address[1]}")
    engine.failures = 1
    output = folder.call(*STASH, *host, code=1)
    assert "answered 503 to PUT htcondor/_bulk" in output
    folder.call(*STASH, *host)
    first = dict(engine.documents)
    assert len(first) == 6
    assert sorted(str(document["ProcId"]) for document in first.values()) == ["0", "0", "1", "1", "2", "2"]
    assert engine.requests[:4] == [
        "GET /_cluster/health", "GET /_alias/htcondor", "GET /htcondor-000001/_mapping", "PUT /htcondor-000001",
    ]  # fmt: skip
    assert engine.mapping["dynamic_templates"]
    assert "0 new documents" in folder.call(*STASH, *host)
    (folder.path / "check").unlink()  # all are sent again, with the same ids
    folder.call(*STASH, *host)
    assert engine.documents.keys() == first.keys()


def test_files_of_json_lines_and_parquet_contain_the_documents(folder: Folder) -> None:
    folder.call(*STASH, "--interface", "jsonlines", "--json_dir", ".")
    lines = [json.loads(line) for line in (folder.path / "htcondor.jsonl").read_text().splitlines()]
    assert len({line["_id"] for line in lines}) == len(lines) == 6
    folder.call(*STASH[:3], "--checkpoint_file", "other", "--interface", "parquet", "--json_dir", ".")
    (file,) = folder.path.glob("*.parquet")
    table = parquet.read_table(file)
    assert table.column("Status").to_pylist() == ["Completed"] * 3
    assert {each["_id"] for each in lines} >= set(table.column("_id").to_pylist())
    folder.write("fields.json", '{"Owner": {"type": "long"}}')
    folder.call(
        *STASH[:3], "--checkpoint_file", "third", "--interface", "jsonlines", "--json_dir", ".", "--se_index_name",
        "few", "--schedd_history_projection", "Cmd, Owner,Iwd", "--custom_ignore_attrs", "Iwd",
        "--custom_field_properties", "fields.json",
    )  # fmt: skip
    few = [json.loads(line) for line in (folder.path / "few.jsonl").read_text().splitlines()]
    names = {"Cmd", "Owner", "Iwd", "JobPrio"}
    assert [names.intersection(each) for each in few] == [{"Cmd"}] * 3, "the owner is not a number"


def test_a_limit_skips_no_job_of_an_event_that_ends_several(folder: Folder) -> None:
    with folder.served():
        folder.call("submit", "job.sub", "-append", "hold = true")
        folder.call("rm", "2")  # one event removes the three jobs of the cluster
        wait_for_history(folder, 6)
    stash = (*STASH[:3], *STASH[4:], "--interface", "jsonlines", "--json_dir", ".", "--schedd_history_max_ads", "2")
    for _ in range(4):
        folder.call(*stash)
    lines = [json.loads(line) for line in (folder.path / "htcondor.jsonl").read_text().splitlines()]
    jobs = sorted(line["GlobalJobId"].split("#")[1] for line in lines)
    assert jobs == ["1.0", "1.1", "1.2", "2.0", "2.1", "2.2"]


def documents_of(folder: Folder, *sources: str, interface: str = "jsonlines") -> list[dict[str, object]]:
    folder.call("condor_adstash", "--standalone", *sources, "--interface", interface, "--json_dir", ".",
                "--checkpoint_file", "check", "--se_index_name", "it")  # fmt: skip
    return [json.loads(line) for line in (folder.path / "it.jsonl").read_text().splitlines()]


def test_transfers_and_the_history_of_the_startd_are_documents(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("in", "12345")
    folder.write(
        "job.sub",
        "executable = /bin/sh\narguments = \"-c 'cat in > out'\"\ntransfer_input_files = in\n"
        "transfer_executable = false\n"
        "should_transfer_files = YES\nqueue\n",
    )
    with folder.served():
        folder.call("submit", "job.sub")
        wait_for_history(folder, 1)
    transfers = documents_of(folder, "--schedd_transfer_epoch_history")
    shown = ("TransferClass", "TransferType", "TransferProtocol", "TransferTotalBytes", "TransferSuccess", "ProcId")
    assert [[each[name] for name in shown] for each in transfers] == [
        ["INPUT", "download", "cedar", 5, True, 0], ["OUTPUT", "upload", "cedar", 5, True, 0],
    ]  # fmt: skip
    assert all(str(each["StartdSlot"]).startswith("slot1") and each["GlobalJobId"] for each in transfers)
    assert documents_of(folder, "--schedd_transfer_epoch_history") == transfers
    *_, epoch, of_startd = documents_of(folder, "--startd_history", "--schedd_job_epoch_history")
    assert (epoch["EpochAdType"], epoch["Status"], epoch["ScheddName"]) == ("EPOCH", "Running", host_name())
    assert (of_startd["JobState"], of_startd["Status"], of_startd["_id"]) == (
        "Exited", "Completed", f"{epoch['_id']}#startd",
    )  # fmt: skip
    assert "EpochAdType" not in of_startd


def test_a_run_reads_only_new_events_and_the_streams_of_their_clusters(folder: Folder) -> None:
    url = str(folder.path / "pool.db")
    with closing(open_log(url, create=False, read_only=True)) as log:
        everything = list(ads_with_positions(log.read(), EPOCHS))
        assert len(everything) == 3
        reads: list[tuple[str, int]] = []

        class CountedLog:
            def read(self, after: int = 0) -> Iterator[tuple[int, Event]]:
                reads.extend(("log", position) for position, _ in log.read(after))
                return log.read(after)

            def read_stream(self, stream: str) -> Iterator[tuple[int, Event]]:
                reads.append((stream, 0))
                return log.read_stream(stream)

        for after in (0, *(position for position, _ in everything)):
            for most in (1, 2, 10):
                reads.clear()
                ads, read_to = ads_of_events(CountedLog(), EPOCHS, after, most)  # type: ignore[arg-type]
                found = [(position, ad.eval("ProcId")) for position, ad in ads]
                expected = [(at, int(ad["ProcId"])) for at, ad in everything if at > after][:most]
                assert found == expected
                assert read_to == (expected[-1][0] if len(expected) == most else log.head.position)
                assert min(position for kind, position in reads if kind == "log") == after + 1
                assert {kind for kind, _ in reads} - {"log"} == ({"cluster/1"} if expected else set())


def test_a_history_file_of_htcondor_is_converted(folder: Folder) -> None:
    import gzip

    (folder.path / "history").write_bytes(gzip.decompress((DATA / "history.gz").read_bytes()))
    folder.call("condor_adstash", "--ad_file", "history", "--interface", "jsonfile", "--json_dir", ".")
    (file,) = (path for path in folder.path.glob("*.json") if path.name[0].isdigit())
    documents = json.loads(file.read_text())
    assert len(documents) == 19
    assert documents[-1]["_id"] == f"{documents[-1]['GlobalJobId']}#{documents[-1]['RecordTime']}"


def test_a_served_pool_runs_adstash_if_daemon_list_names_it(folder: Folder, engine: Engine) -> None:
    folder.write(
        "poolbook.conf",
        f"use feature:ADSTASH\nADSTASH_SE_HOST = 127.0.0.1:{engine.server_address[1]}\n"
        f"ADSTASH_CHECKPOINT_FILE = {folder.path}/served\nADSTASH_SAMPLE_INTERVAL = 1\n",
    )
    with folder.served():
        folder.call("submit", "job.sub")
        wait_for_history(folder, 6)
        while len(engine.documents) < 6:
            pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--startds", "a"], "--startds is not supported: a log is one pool"),
        (
            ["--standalone", "--interface", "null"],
            "choose what to read: --schedd_history or --schedd_job_epoch_history or --schedd_transfer_epoch_history or "
            "--startd_history",
        ),
        (["--schedd_history", "--custom_index_settings", "job.sub"], "--custom_index_settings job.sub is not JSON"),
        (["--init_index", "--no_alias"], "a policy for the life cycle of indexes needs an alias; add --no_ilm"),
        (["--schedd_history", "--se_timeout", "x"], "--se_timeout must be a number, not x"),
        (["--schedd_history", "--se_host", "127.0.0.1:1"], "http://127.0.0.1:1 cannot be reached"),
    ],
)
def test_an_error_names_the_problem(folder: Folder, arguments: list[str], message: str) -> None:
    assert message in folder.call("condor_adstash", *arguments, code=1)
