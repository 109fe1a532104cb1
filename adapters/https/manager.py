"""The services of a pool's manager: the broker, HTTPS, and the members' credentials.

All files are in the private directory next to the manager's log. The broker is a process that survives the manager.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.routing import BaseRoute, Mount

from ...domain.errors import PoolbookError
from ...domain.state.peers import MANAGER
from ...domain.state.pool_settings import SETTINGS
from ...domain.state.state import LogState
from ..fabric.broker import Broker, broker_port
from ..fabric.credentials import BrokerKeys, Credentials, UserKey
from ..fabric.nats_carrier import NatsCarrier
from ..files.relay import Relay
from ..machine.host import host_addresses, host_name
from ..security.pool_security import PoolSecurity
from ..security.private_files import make_private_folder, read_private, write_private
from .application import application
from .commands import RoleCommands
from .enrolment import Enrolment
from .messages import JoinReply, PoolInfo
from .requests import Record, Rejection, address_of, authorization_of
from .service import Address, HttpsService, ServiceError

_MAINTENANCE_S: Final = 60
_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_ACCOUNT: Final = re.compile(r"\bA[A-Z2-7]{55}\b")
_ACCOUNT_SEED: Final = re.compile(r"\bSA[A-Z2-7]{56}\b")


class OtherBroker(NamedTuple):
    """A NATS server that the pool does not run itself. ``credentials`` is a private file with the public key of an
    account, and the seed of one of its signing keys."""

    url: str
    credentials: Path


class ManagerServices:
    """The services, from `start` to `close`; `close` leaves the broker running.

    :param state: returns the manager's state
    :param load_security: reads the configuration, and returns the pool's security
    :param broker: the port of the pool's broker (0: that of its last start, or else a free one), or a broker elsewhere
    :param record: called, in a thread, with each rejected request
    :param warn: called, in a thread, with problems for the administrator
    :param log: the manager's log
    :param routes: further routes of the HTTPS service
    """

    def __init__(
        self, service: HttpsService, state: Callable[[], LogState], load_security: Callable[[], PoolSecurity],
        broker: int | OtherBroker, record: Record, warn: Callable[[str], None], log: str,
        routes: Sequence[BaseRoute] = (),
    ) -> None:  # fmt: skip
        now = time.time()
        self._service, self._state, self._load_security, self._warn = service, state, load_security, warn
        self._security = load_security()
        self._security.create_first_key()
        self._folder = self._security.folder
        self._authority = self._security.authority(now)
        self._certificate = self._authority.certificate_for(self._hosts(), now)
        self._used_certificate = self._certificate.read_bytes()
        self._other = broker if isinstance(broker, OtherBroker) else None
        self._keys = (
            BrokerKeys(self._folder / "broker-keys") if self._other is None else _keys_of(self._folder, self._other)
        )
        self._credentials = self._folder / "manager.creds"
        address = service.address
        self._port = broker if isinstance(broker, int) else 0
        if not broker:
            self._port = broker_port(self._folder / "broker", address.host)
        self.broker = (
            None
            if self._other
            else Broker(
                self._folder / "broker", address.host, self._port, self._certificate, self._certificate, self._keys
            )
        )
        self._wake = Event()
        self._is_closed = False
        self._enrolment = enrolment = Enrolment(
            self._folder / "members",
            lambda: self._security,
            self._keys,
            self._authority.fingerprint,
            self._reply,
            self._wake.set,
        )

        def authorizes(request: Request, name: str) -> bool:
            peer = f"access-point/{name}"
            is_member = enrolment.is_member(peer, authorization_of(request))
            if not is_member:
                message = f"the request does not prove that {peer} sent it"
                record(Rejection(address_of(request), request.url.path, "proof", message, peer))
            return is_member

        relay = Relay(authorizes)
        relay_route = Mount("/v1/relay", relay.application)
        ca = self._authority.certificate_path.read_text()
        info = PoolInfo(state().name, ca, self._authority.fingerprint, now, self._security.trust_domain)
        commands = RoleCommands(log, "COLLECTOR", state().uid_domain, lambda: self._security)
        self._application = application(info, enrolment, relay, commands, record, [relay_route, *routes])
        self._thread = Thread(target=self._maintain_for_ever, name="manager", daemon=True)

    @property
    def url(self) -> str:
        """Return the URL with which roles join: it names the fingerprint of the pool's authority."""
        host = host_name() if self._service.address.host in _WILDCARDS else self._service.address.host
        return f"https://{Address(host, self._service.address.port)}#sha256={self._authority.fingerprint}"

    def start(self) -> NatsCarrier:
        """Start the broker and the HTTPS service; return the manager's carrier. Raise `ServiceError` if the broker does
        not start."""
        try:
            self._maintain()
        except OSError as error:
            fix = "" if isinstance(error, FileNotFoundError) else "; if its port is in use, name another -broker-port"
            raise ServiceError(f"the broker does not start: {error}{fix}") from None
        self._service.start(self._application, self._certificate)
        self._thread.start()
        host = self._service.address.host
        urls = self._urls(_WILDCARDS.get(host, host))
        ca = None if self._other else self._authority.certificate_path
        return NatsCarrier(urls, MANAGER, self._credentials, ca)

    def close(self) -> None:
        self._is_closed = True
        self._wake.set()
        self._service.close()
        if self._thread.is_alive():
            self._thread.join(5)

    def _reply(self, token: str, host: str) -> JoinReply:
        state = self._state()
        settings = {name: state.settings[name] for name in SETTINGS if name in state.settings}
        urls = self._urls(host)
        return JoinReply(
            token, urls, state.name, state.dialect.name, state.uid_domain, settings, own_broker=self._other is None
        )

    def _urls(self, host: str) -> tuple[str, ...]:
        return (f"tls://{Address(host, self._port)}",) if self._other is None else (self._other.url,)

    def _hosts(self) -> list[str]:
        """Return the names and addresses by which roles may reach this machine."""
        host = self._service.address.host
        return [host_name(), "localhost", "127.0.0.1", *(host_addresses() if host in _WILDCARDS else (host,))]

    def _maintain(self) -> None:
        """Read the configuration again, renew the certificate and the manager's own credentials if it is time, and let
        the broker run with its present configuration."""
        now = time.time()
        self._security = self._load_security()
        self._certificate = self._authority.certificate_for(self._hosts(), now)
        certificate = self._certificate.read_bytes()
        if certificate != self._used_certificate:
            self._service.replace_certificate(self._certificate)
            self._used_certificate = certificate
        self._enrolment.end_revoked(now)
        if self.broker is not None:
            self.broker.ensure_running()
        with suppress(PoolbookError, ValueError):  # they do not exist yet
            if Credentials.read(self._credentials).renewal_time > now:
                return
        key = UserKey.create()
        Credentials(self._keys.issue(MANAGER, key.public, now), key.seed).write(self._credentials)

    def _maintain_for_ever(self) -> None:
        while True:
            self._wake.wait(_MAINTENANCE_S)
            self._wake.clear()
            if self._is_closed:
                return
            try:
                self._maintain()
            except (OSError, PoolbookError, ValueError) as error:  # it is retried
                self._warn(f"the manager's services need attention: {error}")


def _keys_of(folder: Path, broker: OtherBroker) -> BrokerKeys:
    """Return the keys that issue credentials in an account of another NATS operator."""
    text = read_private(broker.credentials).decode(errors="replace")
    account, seed = _ACCOUNT.search(text), _ACCOUNT_SEED.search(text)
    if account is None or seed is None:
        raise ServiceError(
            f"{broker.credentials} must contain the public key of a NATS account (A...) and the seed of one of its "
            f"signing keys (SA...); `nsc edit account --sk generate` creates one"
        )
    keys_folder = folder / "other-broker-keys"
    make_private_folder(keys_folder)
    write_private(keys_folder / "account.seed", seed[0].encode())
    return BrokerKeys(keys_folder, account[0])
