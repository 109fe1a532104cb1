"""golden: Poolbook's own plugin moves files from and to servers, and the state of a job if a disk is full at either
end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.machine.execution.activation import Exited, FileTransfer
from poolbook.adapters.machine.transfer_plugins import plugins_by_method
from poolbook.domain.config import read

from ..servers import ftp, web
from .bench import Bench
from .test_refusing_disk import disk

SERVERS = {"http": web, "ftp": ftp}


@pytest.fixture
def served(bench: Bench) -> Path:
    """Return a server's directory."""
    folder = bench.home / "there"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/file").write_text("from there\n")
    (folder / "large").write_bytes(b"x" * (2 << 20))
    return folder


def start(bench: Bench, script: str, execute: str = "", **fields: Any) -> Path:
    """Start a job whose files move by URLs; return its directory."""
    iwd = bench.home / "iwd"
    iwd.mkdir()
    transfer_fields = {
        "executable": False,
        "brought": ("stdout",),
        "plugins": plugins_by_method(read("")),
        "plugin_seconds": 60,
    }
    transfer = FileTransfer(**{**transfer_fields, **fields})
    bench.sh("1", script, iwd=str(iwd), stdout="out", transfer=transfer, execute=execute)
    return iwd


@pytest.mark.parametrize("kind", SERVERS)
def test_files_are_transferred_from_and_to_a_server(bench: Bench, served: Path, kind: str) -> None:
    with SERVERS[kind](served) as address:
        place = f"{kind}://{address}"
        remaps = {"made": f"{place}/deep/taken"}
        iwd = start(
            bench, "cat file; echo new > made", inputs=(f"{place}/deep/file",), outputs=("made",), remaps=remaps
        )
        end = bench.end("1")
    assert (end.failure, (iwd / "out").read_text()) == (None, "from there\n")
    assert (served / "deep/taken").read_text() == "new\n"
    assert [move.urls for move in end.moves] == [((kind, 1, 1, 11),), ((kind, 1, 1, 4),)]


@pytest.mark.parametrize("kind", SERVERS)
def test_a_file_missing_on_the_server_holds_the_job(bench: Bench, served: Path, kind: str) -> None:
    with SERVERS[kind](served) as address:
        start(bench, "true", inputs=(f"{kind}://{address}/deep/none",))
        end = bench.end("1")
    assert (end.failure.code, end.failure.errno, end.failure.protocol) == (13, 1 << 8, kind)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_full_disk_of_the_machine_leaves_no_partial_file_and_holds_the_job(
    bench: Bench, served: Path, kind: str
) -> None:
    with disk(bench.home, "size=1m") as place, SERVERS[kind](served) as address:
        start(bench, "true", inputs=(f"{kind}://{address}/large",), execute=str(place))
        end = bench.end("1")
        assert not list(place.rglob("large"))
    assert (end.failure.code, end.failure.errno, end.failure.protocol) == (13, 1 << 8, kind)
    assert "No space left on device" in end.failure.words


@pytest.mark.parametrize("kind", [*SERVERS, "file"])
def test_a_full_disk_of_the_server_holds_the_job_and_its_other_outputs_come(bench: Bench, kind: str) -> None:
    with disk(bench.home, "size=1m") as place, web(place) as page, ftp(place) as files:
        address = {"http": page, "ftp": files, "file": str(place)}[kind]
        script = "head -c 2097152 /dev/zero > large; echo said; echo small > small"
        iwd = start(bench, script, outputs=("large", "small"), remaps={"large": f"{kind}://{address}/large"})
        end = bench.end("1")
        assert kind == "ftp" or not list(place.iterdir())
    assert isinstance(end, Exited) and end.undelivered
    assert end.failure is not None and (end.failure.code, end.failure.errno) == (12, 1 << 8)
    assert {path.name: path.read_text() for path in iwd.iterdir()} == {"out": "said\n", "small": "small\n"}
