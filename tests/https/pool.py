"""A manager's services in the test's process, with a broker; and roles that join."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from poolbook.adapters.https.joining import join
from poolbook.adapters.https.manager import ManagerServices, OtherBroker
from poolbook.adapters.https.membership import MemberFiles, Membership
from poolbook.adapters.https.requests import Rejection
from poolbook.adapters.https.service import Address, HttpsService
from poolbook.adapters.runtime.configuration import load
from poolbook.adapters.security.pool_security import PoolSecurity, pool_security
from poolbook.domain.state.state import State

from ..ports import free_port

DOMAIN = "pool.example"
PATIENCE = 150.0


class JoinablePool:
    """A pool's manager in a directory. ``text`` is its configuration."""

    def __init__(
        self, folder: Path, text: str = "", broker: OtherBroker | int | None = None, name: str = "pool",
        domain: str = DOMAIN,
    ) -> None:  # fmt: skip
        self.domain = domain
        self.folder, self._text = folder, text
        self.rejections: list[Rejection] = []
        self.warnings: list[str] = []
        settings = {"UID_DOMAIN": domain, "CLAIM_WORKLIFE": "77"}
        self._state = State(name=name, settings=settings)
        self._broker = broker or free_port()
        self.address = Address("127.0.0.1", free_port())
        self._open()

    def _open(self) -> None:
        service = HttpsService(self.address)
        self.address = service.address
        self.services = ManagerServices(
            service,
            lambda: self._state,
            self.security,
            self._broker,
            self.rejections.append,
            self.warnings.append,
            str(self.folder / "m.db"),
        )
        self.carrier = self.services.start()

    def security(self) -> PoolSecurity:
        return pool_security(self.folder / "m.db", self.domain, load(text=self._text))

    @property
    def url(self) -> str:
        return f"https://{self.address}"

    @property
    def fingerprint(self) -> str:
        return self.services.url.partition("#")[2]

    def token(self, user: str = "condor", levels: Sequence[str] = (), lifetime: int | None = None, age: int = 0) -> str:
        return self.security().issue(f"{user}@{self.domain}", time.time() - age, levels, lifetime)

    def files(self, log: str) -> MemberFiles:
        return MemberFiles(self.folder / log)

    def join(self, log: str, peer: str = "execution-point/ep1", token: str = "", url: str = "") -> Membership:
        role, _, name = peer.partition("/")
        return join(url or self.url, token or self.token(), role, name, self.files(log))

    def post(self, path: str, **options: Any) -> httpx.Response:
        ca = ssl.create_default_context(cafile=self.folder / "m.db.security" / "ca" / "ca.pem")
        return httpx.post(self.url + path, verify=ca, trust_env=False, timeout=PATIENCE, **options)

    def restart(self) -> None:
        """Restart the manager; its broker continues."""
        self.close()
        self._open()

    def close(self) -> None:
        self.carrier.close()
        self.services.close()


@contextmanager
def joinable_pool(
    folder: Path, text: str = "", broker: OtherBroker | None = None, name: str = "pool", domain: str = DOMAIN
) -> Iterator[JoinablePool]:
    folder.mkdir(exist_ok=True)
    pool = JoinablePool(folder, text, broker, name, domain)
    try:
        yield pool
    finally:
        pool.close()
        if pool.services.broker is not None:
            pool.services.broker.stop()
