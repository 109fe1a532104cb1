"""Property: wherever a transfer is interrupted, it continues there, and no file is visible before it is complete."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from poolbook.adapters.files.app import files_app
from poolbook.adapters.files.offers import StaleRequest
from poolbook.adapters.machine.execution.supervisor.file_pieces import FILE, PIECE, Entry, Layout, describe, read_pieces
from poolbook.adapters.machine.execution.supervisor.processes import children
from poolbook.adapters.machine.execution.supervisor.remote_files import UNREACHABLE

from .. import children as forks
from ..execution.bench import wait
from ..pool.test_full_disks import disk
from ..ports import free_port
from .site import ACTIVATION, Site, serve_files
from .tcp_proxy import TcpProxy

SIZE = 6 * PIECE + 12345
UNREAD = 1 << 19  #: more bytes than the server's connection stores before the application reads them
OVERHEAD = 1 << 18  #: more bytes than all handshakes, headers and digests of a transfer have
UNREADABLE = "/sys/kernel/uevent_seqnum"  #: it has fewer bytes than its size


@pytest.fixture
def proxy(site: Site) -> Iterator[TcpProxy]:
    """Return a proxy of the access point."""
    with TcpProxy(site.service.address.port) as proxy:
        yield proxy


def start(site: Site, proxy: TcpProxy, script: str, **fields: Any) -> None:
    """Start a job whose files go through the proxy."""
    request = site.request(script, **fields)
    site.start_with(request, site.offers.offer(request, run=1), urls=(proxy.url,))


def data_of(seed: int) -> bytes:
    return random.Random(seed).randbytes(SIZE)


def mover_of(site: Site) -> int:
    """Return the process that transfers files."""
    pids = children(site.bench.pid()) or []
    assert len(pids) == 1
    return pids[0]


@pytest.mark.parametrize("seed", range(2))
def test_a_transfer_that_is_cut_at_random_points_continues_there(site: Site, proxy: TcpProxy, seed: int) -> None:
    generator = random.Random(seed)
    cuts = [generator.randrange(1, 4096), *(generator.randrange(PIECE // 8, 3 * PIECE) for _ in range(7))]
    proxy.cuts.extend(cuts)
    (site.iwd / "large").write_bytes(data_of(seed))
    for number in range(20):
        (site.iwd / f"small{number}").write_text(f"{number}")
    inputs = ("large", *(f"small{number}" for number in range(20)))
    transfer = {"inputs": inputs, "outputs": ("copy", "copies")}
    start(site, proxy, "cp large copy; mkdir copies; cp small* copies", transfer=transfer)
    end = site.bench.end("1")
    assert (end.code, end.undelivered, end.failure) == (0, False, None)
    assert (site.iwd / "copy").read_bytes() == data_of(seed)
    assert [(site.iwd / f"copies/small{number}").read_text() for number in range(20)] == list(map(str, range(20)))
    assert not proxy.cuts and proxy.connections > 8
    lost_bytes = sum(min(cut, PIECE + UNREAD) for cut in cuts)
    assert proxy.received + proxy.sent < 2 * SIZE + OVERHEAD + lost_bytes < 2 * SIZE + sum(cuts)


def test_a_transfer_without_progress_is_given_up_and_the_job_tried_again(site: Site) -> None:
    request = site.request("true")
    url = f"https://127.0.0.1:{free_port()}/files"
    site.start_with(request, site.offers.offer(request, run=1), urls=(url,), patience_s=1)
    end = site.bench.end("1")
    assert (end.failure.code, end.failure.errno, end.failure.end) == (13, UNREACHABLE, "receiving")


def test_the_end_of_the_lease_ends_a_transfer(site: Site) -> None:
    deadline = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000 + 1_000_000
    request = site.request("true", deadline=deadline)
    site.start_with(request, site.offers.offer(request, run=1), urls=(f"https://127.0.0.1:{free_port()}/files",))
    end = site.bench.end("1")
    assert (end.violated, end.undelivered, end.moves[0].ended) == ("lease", True, 0)


def test_a_second_url_is_used_if_the_first_is_unreachable(site: Site) -> None:
    (site.iwd / "a").write_text("alpha\n")
    request = site.request("cat a", transfer={"inputs": ("a",)})
    urls = (f"https://127.0.0.1:{free_port()}/files", site.url)
    site.start_with(request, site.offers.offer(request, run=1), urls=urls)
    assert site.bench.end("1").undelivered is False
    assert (site.iwd / "out").read_text() == "alpha\n"


def test_outputs_are_visible_only_when_all_are_complete_even_if_the_mover_is_killed(
    site: Site, proxy: TcpProxy
) -> None:
    (site.iwd / "first").write_text("old\n")
    proxy.cuts.extend([PIECE, 3 * PIECE])  # the first connection is for the inputs
    proxy.stays_down = True
    script = f"echo new > first; head -c {SIZE} /dev/urandom > large"
    start(site, proxy, script, transfer={"outputs": ("first", "large")})
    wait(lambda: proxy.is_down)
    received = site.iwd / f".poolbook-{ACTIVATION}/received"
    wait(lambda: sorted(os.listdir(received)) == ["0", "1"])
    assert (received / "1").stat().st_size < SIZE
    assert (site.iwd / "first").read_text() == "old\n"
    os.kill(mover_of(site), signal.SIGKILL)
    assert site.bench.end("1").undelivered is True
    assert sorted(os.listdir(site.iwd)) == [f".poolbook-{ACTIVATION}", "first"]
    site.offers.withdraw([ACTIVATION])
    wait(lambda: os.listdir(site.iwd) == ["first"])
    assert (site.iwd / "first").read_text() == "old\n"


@pytest.mark.parametrize("way", ["input", "output"])
def test_a_transfer_continues_after_the_server_was_killed(tmp_path: Path, site: Site, way: str) -> None:
    """The server is a separate process; it is killed with SIGKILL in the middle of the transfer."""
    (site.iwd / "large").write_bytes(data_of(0))
    transfer = {"inputs": ("large",), "outputs": ("copy",)} if way == "input" else {"outputs": ("copy",)}
    script = "cp large copy" if way == "input" else f"cp {site.iwd}/large copy"
    request = site.request(script, transfer=transfer)
    transfer_key = site.offers.offer(request, run=1)

    def serve(tell: int) -> None:
        offers, service = serve_files(site.folder)
        offers.offer(request, run=1)
        os.write(tell, b"%d" % service.address.port)
        signal.pause()

    cuts = [3 * PIECE] if way == "input" else [PIECE, 3 * PIECE]  # the first connection is for the inputs
    with forks.child(serve) as first, forks.child(serve) as second, ExitStack() as stack:
        ports = int(first.read()), int(second.read())
        proxy = stack.enter_context(TcpProxy(ports[0], cuts, stays_down=True))
        site.start_with(request, transfer_key, urls=(proxy.url,))
        wait(lambda: proxy.is_down)
        if way == "output":
            received = site.iwd / f".poolbook-{ACTIVATION}/received/0"
            wait(lambda: received.stat().st_size == 2 * PIECE)  # of the third piece, some bytes are missing
        first.kill()
        first.wait()
        proxy.target, proxy.is_down = ports[1], False
        end = site.bench.end("1")
    assert (end.undelivered, end.failure) == (False, None)
    assert (site.iwd / "copy").read_bytes() == data_of(0)
    assert sorted(os.listdir(site.iwd)) == ["copy", "large", "out"]
    listed_bytes = 2 * SIZE if way == "input" else SIZE
    assert proxy.received + proxy.sent < listed_bytes + PIECE + OVERHEAD  # only the incomplete piece is sent twice


def test_what_arrived_before_a_connection_broke_is_kept(site: Site) -> None:
    key = site.offers.offer(site.request("true", transfer={"outputs": ("large",)}), run=1)
    (site.iwd / "large").write_bytes(data_of(0))
    layout = Layout([describe(FILE, "large", str(site.iwd / "large"))])
    stream = b"".join(read_pieces(layout, 0, layout.length))

    async def cut_stream() -> AsyncIterator[bytes]:
        yield stream[:PIECE]
        yield stream[PIECE : PIECE + 100]
        raise ConnectionError

    async def send() -> int:
        headers = {"Authorization": f"Bearer {key}"}
        transport = httpx.ASGITransport(files_app(site.offers), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, headers=headers, base_url="https://access-point/7") as http:
            body = json.dumps({"id": "1", "kind": "output", "entries": layout.entries})
            http.headers["If-Match"] = (await http.post("/outputs", content=body)).headers["ETag"]
            content_range = {"Content-Range": f"bytes 0-{layout.length - 1}/{layout.length}"}
            await http.put("/outputs/data", content=cut_stream(), headers=content_range)
            return int((await http.get("/outputs")).json()["position"])

    assert asyncio.run(send()) == layout.position_of(0, PIECE)


def test_an_earlier_request_sends_no_more_when_the_position_was_requested(site: Site) -> None:
    site.offers.offer(site.request("true", transfer={"outputs": ("large",)}), run=1)
    offer = site.offers.find(ACTIVATION)
    assert offer is not None
    entry = Entry(FILE, "large", SIZE, 0o644, "large")
    tag, position = offer.begin_outputs(json.dumps({"id": "1", "kind": "output", "entries": [entry]}).encode())
    sender = offer.start_sending(tag, position)
    assert offer.resume(tag) == position
    with pytest.raises(StaleRequest):
        offer.receive(sender, b"more")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_at_the_access_point_holds_the_job_and_leaves_no_part_of_the_file(site: Site) -> None:
    with disk(site.folder / "small", "size=4m") as place:
        script = "head -c 6000000 /dev/zero > large; echo small > made"
        site.start(script, iwd=str(place), transfer={"outputs": ("large", "made")})
        end = site.bench.end("1")
        assert end.undelivered is True
        assert (end.failure.code, end.failure.errno, end.failure.end) == (12, errno.ENOSPC, "receiving")
        assert end.failure.words == f"writing to file {place}/large: (errno 28) No space left on device"
        assert sorted(os.listdir(place)) == ["made", "out"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_at_the_execution_point_holds_the_job(site: Site) -> None:
    (site.iwd / "large").write_bytes(bytes(6_000_000))
    with disk(site.folder / "small", "size=4m") as place:
        site.start("true", execute=str(place), transfer={"inputs": ("large",)})
        end = site.bench.end("1")
        assert (end.failure.code, end.failure.errno, end.failure.end) == (13, errno.ENOSPC, "receiving")
        assert end.failure.words == f"writing to file {place}/dir_1/scratch/large: (errno 28) No space left on device"
        assert not (place / "dir_1/scratch/large").exists()


def test_of_a_growing_input_the_listed_bytes_are_transferred(site: Site) -> None:
    (site.iwd / "large").write_bytes(data_of(1))
    request = site.request("wc -c < large", transfer={"inputs": ("large",)})
    transfer_key = site.offers.offer(request, run=1)
    offer = site.offers.find(ACTIVATION)
    assert offer is not None
    listing = offer.list_files("inputs")
    with open(site.iwd / "large", "ab") as file:
        file.write(b"more")
    site.start_with(request, transfer_key)
    assert site.bench.end("1").failure is None
    assert (site.iwd / "out").read_text() == f"{listing.layout.entries[0].size}\n"


def test_inputs_are_listed_again_if_a_listed_file_has_become_shorter(site: Site) -> None:
    (site.iwd / "large").write_bytes(data_of(1))
    (site.iwd / "other").write_text("other\n")
    request = site.request("cat large other > both", transfer={"inputs": ("large", "other")})
    transfer_key = site.offers.offer(request, run=1)
    offer = site.offers.find(ACTIVATION)
    assert offer is not None
    offer.list_files("inputs")
    os.truncate(site.iwd / "large", PIECE + 5)
    site.start_with(request, transfer_key)
    assert site.bench.end("1").failure is None
    assert (site.iwd / "both").read_bytes() == data_of(1)[: PIECE + 5] + b"other\n"


def test_a_file_that_cannot_be_read_to_its_end_holds_the_job_after_the_others_are_sent(site: Site) -> None:
    (site.iwd / "first").write_bytes(data_of(1))
    (site.iwd / "last").write_text("last\n")
    transfer = {"inputs": ("first", UNREADABLE, "last")}
    site.start("true", transfer=transfer)
    end = site.bench.end("1")
    assert (end.failure.code, end.failure.errno, end.failure.end) == (13, errno.EIO, "sending")
    reason = f"1 total failures: first failure: reading from file {UNREADABLE}: (errno 5) Input/output error"
    assert end.failure.words == reason
    assert (end.moves[0].files, end.moves[0].size) == (3, SIZE + len("last\n"))
