"""Golden: what the access point's file server rejects: other keys, paths outside the job's, invalid requests."""

from __future__ import annotations

import errno
import json
import os
import ssl
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import asdict

from poolbook.adapters.files.incoming import final_path
from poolbook.adapters.files.offers import Offers
from poolbook.adapters.machine.execution.activation import FileTransfer
from poolbook.adapters.machine.execution.supervisor.file_pieces import Entry, Layout, read_pieces
from poolbook.adapters.machine.execution.supervisor.usage_meter import TransferError

from ..together import together
from .site import ACTIVATION, Site


class Client:
    """A client of the file server that sends whatever a test wants."""

    def __init__(self, site: Site, key: str, activation: str = ACTIVATION) -> None:
        context = ssl.create_default_context(cafile=site.ca)
        headers = {"Authorization": f"Bearer {key}"}
        self.http = httpx.Client(base_url=f"{site.url}/{activation}", headers=headers, verify=context)

    def begin(self, *entries: Entry, kind: str = "output", number: int = 1) -> httpx.Response:
        return self.http.post("/outputs", content=json.dumps({"id": f"{number}", "kind": kind, "entries": entries}))

    def send(self, tag: str, entries: list[Entry], begin: int = 0, data: bytes | None = None) -> httpx.Response:
        layout = Layout(entries)
        data = b"".join(read_pieces(layout, begin, layout.length)) if data is None else data
        headers = {"If-Match": tag, "Content-Range": f"bytes {begin}-{begin + len(data) - 1}/{layout.length}"}
        return self.http.put("/outputs/data", content=data, headers=headers)

    def place(self, tag: str) -> httpx.Response:
        return self.http.post("/outputs/place", headers={"If-Match": tag})


Connect = Callable[..., Client]


@pytest.fixture
def connect(site: Site) -> Iterator[Connect]:
    """Return a function that returns a client with the key of an activation; its arguments are the fields of the
    transfer."""
    with ExitStack() as stack:

        def connect(**transfer: Any) -> Client:
            client = Client(site, site.offers.offer(site.request("true", transfer=transfer), run=1))
            stack.enter_context(client.http)
            return client

        yield connect


@pytest.fixture
def client(connect: Connect) -> Client:
    """Return a client with the key of an activation that may send back the file ``made`` and its output."""
    return connect(outputs=("made",))


def entry(name: str, kind: str = "file", size: int = 0, source: str = "/dev/null") -> Entry:
    return Entry(kind, name, size, 0o644, source)


def failures(client: Client, *entries: Entry) -> list[Any]:
    """Send empty files; return the failures in the result."""
    tag = client.begin(*entries).headers["ETag"]
    result = client.place(tag).json()
    return [failure[2] for failure in result["failures"]]


@pytest.mark.parametrize("path", ["/inputs", "/kept", "/inputs/data", "/outputs"])
def test_each_request_needs_the_key_of_its_activation(site: Site, client: Client, path: str) -> None:
    other_key = site.offers.offer(site.request("true", activation="8"), run=1)
    earlier_run = site.offers.key(ACTIVATION, 0)
    for text in (f"Bearer {other_key}", f"Bearer {earlier_run}", "Bearer", "Bearer wrong", "Bearer \xe9", ""):
        headers = {b"Authorization": text.encode("latin-1")}
        assert client.http.get(path, headers=headers).status_code == 403
    assert client.http.get(f"{site.url}/9{path}").status_code == 404


def test_a_job_with_a_wrong_key_is_held(site: Site) -> None:
    request = site.request("true")
    site.offers.offer(request, run=1)
    site.start_with(request, site.offers.key("8", 1))
    end = site.bench.end("1")
    reason = f"{site.url}: (errno 13) the access point rejects the transfer key"
    assert (end.failure.code, end.failure.errno, end.failure.words) == (13, errno.EACCES, reason)


@together(
    "name, is_accepted",
    [
        ("made", True),
        ("made/x", True),
        ("other", False),
        ("../made", False),
        ("made/../../x", False),
        ("/etc/passwd", False),
        ("", False),
        (".", False),
        ("made/", False),
        ("made/./x", False),
        ("made\0", False),
        ("core.1.0", True),
        ("core.2.0", False),
    ],
)
def test_only_the_jobs_outputs_are_accepted(name: str, is_accepted: bool) -> None:
    transfer = asdict(FileTransfer(outputs=("made",)))
    order = {"job": "1.0", "iwd": "/home/alice", "transfer": transfer}
    if is_accepted:
        assert final_path(order, "output", entry(name)) == f"/home/alice/{name}"
    else:
        with pytest.raises(TransferError, match="Attempt to write to illegal sandbox path"):
            final_path(order, "output", entry(name))


@pytest.mark.parametrize("fields", [{"outputs": None}, {"outputs": ("d/",)}, {"outputs": ("a/b",), "preserve": True}])
def test_names_of_other_kinds_of_outputs_are_confined_as_well(
    site: Site, connect: Connect, fields: dict[str, Any]
) -> None:
    client = connect(**fields)
    names = ["x", "x/y", "a", "a/b/c", "../x", "/x"]
    refused = {failure.rpartition(" ")[2] for failure in failures(client, *map(entry, names))}
    accepted = {"x", "a"} if fields["outputs"] is None else {"a", "a/b/c"} if "preserve" in fields else set(names[:4])
    assert set(names) - refused == accepted
    assert not (site.folder / "x").exists()


def test_streams_go_only_where_the_job_says(site: Site, client: Client) -> None:
    names = ("_condor_stdout", "_condor_stderr", "out")
    reasons = failures(client, *(entry(name, "stream") for name in names))
    assert [reason.rpartition(" ")[2] for reason in reasons] == ["_condor_stderr", "out"]
    assert os.listdir(site.iwd) == ["out"]


def test_with_a_destination_url_only_streams_are_accepted(connect: Connect) -> None:
    client = connect(outputs=("made",), destination="https://example.org/x")
    assert len(failures(client, entry("made"), entry("_condor_stdout", "stream"))) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"id": "1", "kind": "shell", "entries": []}',
        b'{"id": "1", "kind": "output", "entries": [["file", "made", -1, 420, ""]]}',
        b'{"id": "1", "kind": "output", "entries": [["file", "made", "1", 420, ""]]}',
        b'{"id": "1", "kind": "output", "entries": [["directory", "made", 5, 448, ""]]}',
        b'{"id": "1", "kind": "evict", "entries": []}',
        b'{"id": "1", "kind": "checkpoint", "entries": []}',
    ],
)
def test_invalid_lists_of_outputs_are_rejected(client: Client, body: bytes) -> None:
    assert client.http.post("/outputs", content=body).status_code == 400


def test_outputs_beyond_the_jobs_limit_are_rejected(connect: Connect) -> None:
    client = connect(outputs=("made",), max_output_mb=1)
    assert client.begin(entry("made", size=(1 << 20) + 1)).status_code == 400
    assert client.begin(entry("made", size=1 << 20)).status_code == 200


def test_damaged_or_foreign_parts_of_a_file_are_not_accepted(site: Site, client: Client) -> None:
    source = site.folder / "source"
    source.write_bytes(b"x" * 3_000_000)
    entries = [entry("made", size=3_000_000, source=str(source))]
    tag = client.begin(*entries).headers["ETag"]
    layout = Layout(entries)
    stream = bytearray(b"".join(read_pieces(layout, 0, layout.length)))
    stream[1_500_000] ^= 1
    position = client.send(tag, entries, data=bytes(stream)).json()["position"]
    assert 0 < position < layout.length
    assert client.place(tag).status_code == 400 and not (site.iwd / "made").exists()
    assert client.send(tag, entries, begin=0).json()["position"] == position  # not where it continues
    assert client.send('"other"', entries, begin=position).status_code == 412
    assert client.send(tag, entries, begin=position).json()["position"] == layout.length
    assert client.place(tag).json() == client.place(tag).json() == {"files": 1, "size": 3_000_000, "failures": []}
    assert (site.iwd / "made").read_bytes() == source.read_bytes()


@pytest.mark.parametrize("text", ["", "bytes=0-", "bytes=5-9", "bytes=0-99999999", "bytes=9-3"])
def test_invalid_ranges_are_rejected(site: Site, connect: Connect, text: str) -> None:
    (site.iwd / "a").write_text("alpha\n")
    client = connect(inputs=("a",))
    tag = client.http.get("/inputs").headers["ETag"]
    assert client.http.get("/inputs/data", headers={"If-Match": tag, "Range": text}).status_code == 400


def test_the_secret_is_private_and_lasts(tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        offers = Offers(tmp_path / "files")
        keys.append(offers.key("1", 1))
        offers.close()
    assert keys[0] == keys[1]
    assert stat.S_IMODE((tmp_path / "files/secret").stat().st_mode) == 0o600
