"""Serve the files of an access point's running jobs to execution points: from this machine, and through the managers'
relays for execution points that cannot reach it."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from ..fabric.datagrams import FileAccess
from ..files.app import Exchange, files_app
from ..files.offers import Offers
from ..files.relay import RelayClient
from ..machine.execution.activation import LaunchRequest
from ..machine.host import host_addresses
from ..security.authority import Authority
from .membership import MemberFiles
from .requests import Record, Rejection, address_of
from .service import Address, HttpsService, ServiceError

_PATH = "/files"


class FileService:
    """The file service of an access point.

    :param folder: a private directory
    :param request_of: returns the request that would start a run on this machine, by the run's key; None: it has ended
    :param managers: the memberships at the managers whose relays are used
    :param exchange: receives datagrams of a peer, and returns those for it
    :param commands: returns what answers the commands that the manager forwards, at the path /commands
    :param record: called, in a thread, with each rejected request
    """

    def __init__(
        self, folder: Path, name: str, request_of: Callable[[str], LaunchRequest | None],
        managers: Sequence[MemberFiles], exchange: Exchange, commands: Callable[[FileService], Starlette],
        record: Record,
    ) -> None:  # fmt: skip
        self._offers = Offers(folder)
        self._request_of = request_of
        own_authority = Authority(folder, name, time.time())
        addresses = [*host_addresses()]

        def reject(request: Request) -> None:
            message = "the key is not that of the files or of the execution point"
            record(Rejection(address_of(request), request.url.path, "key", message, ""))

        application = files_app(self._offers, exchange, reject)
        self._service = _listen(folder / "port")
        self._service.start(
            Starlette(routes=[Mount(_PATH, application)]),
            own_authority.certificate_for([*addresses, "127.0.0.1"], time.time()),
        )
        shared = Mount("/", application)
        relayed = Starlette(routes=[Mount("/commands", commands(self)), shared])
        of_other_pools = Starlette(
            routes=[shared]
        )  # their managers cannot say which of this pool's users sends a command
        relays = {f"{files.read().url}/v1/relay": files for files in managers}
        self._relays = [
            RelayClient(
                of_other_pools if files.read().flocks else relayed, url, name,
                ssl.create_default_context(cafile=str(files.authority)), files.proof,
            )
            for url, files in relays.items()
        ]  # fmt: skip
        port = self._service.address.port
        self._urls = (
            *(f"https://{Address(each, port)}{_PATH}" for each in addresses),
            *(f"{url}/to/{quote(name, safe='')}" for url in relays),
        )
        self._ca = "".join(
            path.read_text() for path in (own_authority.certificate_path, *(files.authority for files in managers))
        )

    def access(self, peer: str, runs: Iterable[str]) -> FileAccess:
        """Return how an execution point accesses the files of these runs."""
        return FileAccess(self._urls, self._ca, self.offer(runs), self._offers.datagram_key(peer.partition("/")[2]))

    def offer(self, runs: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Offer the files of those runs that transfer some. Return each run's name here, and its transfer key."""
        keys = {}
        for run in runs:
            request = self._request_of(run)
            if request is not None and request.transfer is not None:
                keys[run] = request.key, self._offers.offer(request, int(run))
        return keys

    def offer_request(self, request: LaunchRequest) -> str:
        """Offer files outside of runs; return the transfer key."""
        return self._offers.offer(request, 0)

    def withdraw(self, names: Iterable[str]) -> None:
        """Stop offering the files of these runs (``LaunchRequest.key``), which have ended."""
        self._offers.withdraw(names)

    def retain(self, names: Iterable[str]) -> None:
        """Withdraw the files of all runs except these, after a restart."""
        self._offers.retain(names)

    def close(self) -> None:
        for relay in self._relays:
            relay.close()
        self._service.close()
        self._offers.close()


def _listen(file: Path) -> HttpsService:
    """Listen on the port that a file contains, so that running jobs reach the service after a restart; if another
    program uses the port now, on any port."""
    port = int(file.read_text()) if file.exists() else 0
    try:
        service = HttpsService(Address("0.0.0.0", port))
    except ServiceError:
        service = HttpsService(Address("0.0.0.0", 0))
    file.write_text(str(service.address.port))
    return service
