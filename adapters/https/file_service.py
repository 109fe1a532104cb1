"""Serve the files of an access point's running jobs to execution points: from this machine, and through the manager's
relay for those that cannot reach it."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.routing import Mount

from ..fabric.file_access import FileAccess
from ..files.app import files_app
from ..files.offers import Offers
from ..files.relay import RelayClient
from ..machine.execution.activation import LaunchRequest
from ..machine.host import host_addresses
from ..security.authority import Authority
from .service import Address, HttpsService

_PATH = "/files"


class FileService:
    """The file service of an access point.

    :param folder: a private directory
    :param request_of: returns the request that would start a run on this machine, by the run's key; None: it has ended
    :param manager: the manager's URL
    :param authority: the file (PEM) of the pool's authority, which certifies the manager
    :param proof: returns the headers that prove to the manager which access point this is
    :param commands: returns what answers the commands that the manager forwards, at the path /commands
    """

    def __init__(
        self, folder: Path, name: str, request_of: Callable[[str], LaunchRequest | None], manager: str,
        authority: Path, proof: Callable[[], Mapping[str, str]],
        commands: Callable[[FileService], Starlette],
    ) -> None:  # fmt: skip
        self._offers = Offers(folder)
        self._request_of = request_of
        own_authority = Authority(folder, name, time.time())
        addresses = [*host_addresses()]
        self._service = HttpsService(Address("0.0.0.0", 0))
        self._service.start(
            Starlette(routes=[Mount(_PATH, files_app(self._offers))]),
            own_authority.certificate_for([*addresses, "127.0.0.1"], time.time()),
        )
        relay = f"{manager}/v1/relay"
        context = ssl.create_default_context(cafile=str(authority))
        application = Starlette(routes=[Mount("/commands", commands(self)), Mount("/", files_app(self._offers))])
        self._relay = RelayClient(application, relay, name, context, proof)
        port = self._service.address.port
        self._urls = (
            *(f"https://{Address(each, port)}{_PATH}" for each in addresses),
            f"{relay}/to/{quote(name, safe='')}",
        )
        self._ca = own_authority.certificate_path.read_text() + authority.read_text()

    def access(self, runs: Iterable[str]) -> FileAccess | None:
        """Return how an execution point accesses the files of these runs; None if none of them transfers files."""
        keys = {}
        for run in runs:
            request = self._request_of(run)
            if request is not None and request.transfer is not None:
                keys[run] = request.key, self._offers.offer(request, int(run))
        return FileAccess(self._urls, self._ca, keys) if keys else None

    def offer(self, request: LaunchRequest) -> str:
        """Offer files outside of runs; return the transfer key."""
        return self._offers.offer(request, 0)

    def withdraw(self, names: Iterable[str]) -> None:
        """Stop offering the files of these runs (``LaunchRequest.key``), which have ended."""
        self._offers.withdraw(names)

    def retain(self, names: Iterable[str]) -> None:
        """Withdraw the files of all runs except these, after a restart."""
        self._offers.retain(names)

    def close(self) -> None:
        self._relay.close()
        self._service.close()
        self._offers.close()
