"""An access point and an execution point that have no common directory."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import evolve
from starlette.applications import Starlette
from starlette.routing import Mount

from poolbook.adapters.files.app import Exchange, files_app
from poolbook.adapters.files.offers import Offers
from poolbook.adapters.https.service import Address, HttpsService
from poolbook.adapters.machine.execution.activation import AccessPoint, FileTransfer, LaunchRequest
from poolbook.adapters.security.authority import Authority

from ..execution.bench import Bench

ACTIVATION = "7"  #: the access point's name for the activation, which has the key 1 at the execution point
PATIENCE_S = 100


def authority_in(folder: Path) -> Authority:
    return Authority(folder / "ca", "pool.example", time.time())


def serve_files(folder: Path, exchange: Exchange = lambda peer, datagrams: []) -> tuple[Offers, HttpsService]:
    """Serve an access point's files."""
    offers = Offers(folder / "files")
    service = HttpsService(Address("127.0.0.1", 0))
    application = Starlette(routes=[Mount("/files", files_app(offers, exchange))])
    service.start(application, authority_in(folder).certificate_for(["127.0.0.1"], time.time()))
    return offers, service


class Site:
    """The access point is ``home``/access with its job's directory ``iwd``; ``bench`` is the execution point."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "access"
        self.iwd = self.folder / "iwd"
        self.iwd.mkdir(parents=True)
        self.bench = Bench(home / "execution")
        self.bench.home.mkdir()
        self.ca = authority_in(self.folder).certificate_path
        self.offers, self.service = serve_files(self.folder)
        self.url = f"https://{self.service.address}/files"

    def close(self) -> None:
        self.bench.__exit__()
        self.service.close()
        self.offers.close()

    def request(self, script: str, activation: str = ACTIVATION, **fields: Any) -> LaunchRequest:
        """Return the request that would start a shell script on the access point; ``transfer`` has the fields of
        `FileTransfer`."""
        transfer = FileTransfer(**{"executable": False, "brought": ("stdout",), **fields.pop("transfer", {})})
        command = ("/bin/sh", "-c", script)
        fields = {"iwd": str(self.iwd), "stdout": "out", **fields}
        return self.bench.activation(activation, *command, transfer=transfer, **fields)

    def start(self, script: str, key: str = "1", **fields: Any) -> None:
        """Start a shell script as a job at the execution point."""
        request = self.request(script, **fields)
        self.start_with(request, self.offers.offer(request, run=1), key)

    def start_with(
        self, request: LaunchRequest, transfer_key: str, key: str = "1", urls: Sequence[str] = (), **fields: Any
    ) -> None:
        """Start a job with a transfer key; ``fields`` are the fields of `AccessPoint`."""
        urls = tuple(urls) or (self.url,)
        fields = {"ca": self.ca.read_text(), "patience_s": PATIENCE_S, **fields}
        point = AccessPoint(urls=urls, activation=request.key, key=transfer_key, **fields)
        self.bench.supervisor.start([evolve(request, key=key, access_point=point)])


def tree(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """Return mode and content of all files and directories below a directory; a directory has no content."""
    result = {}
    for path in sorted(folder.rglob("*")):
        mode = os.stat(path).st_mode & 0o777
        result[str(path.relative_to(folder))] = (mode, path.read_bytes() if path.is_file() else None)
    return result
