"""The HTTP service of one log: listens, and serves the API, the event stream and the page."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from ...domain.state.pool_settings import UID_DOMAIN
from ..https.service import Address, HttpsService
from ..machine.host import VERSION, host_addresses, host_name
from ..runtime.queries import Queries
from ..stores.log_paths import log_paths
from . import (
    commands,
    explanations,
    job_files,
    job_input,
    jobs,
    overview,
    pool,
    pool_queries,
    submission,
    unsupported,
)
from .ad_watches import AdWatch, collector_ads
from .ad_watches import jobs as watched_jobs
from .application import BASE, Site, application, route
from .callers import Caller, Callers
from .endpoints import OPEN, READ, Endpoint
from .event_stream import EventStream
from .live_views import LiveViews
from .metrics_page import MetricsPage
from .openapi import document
from .page import page_routes
from .reference_page import reference_page

if TYPE_CHECKING:
    from ...domain.config import Configuration
    from ..security.pool_security import PoolSecurity

_MODULES: Final = (
    pool, unsupported, explanations, pool_queries, submission, jobs, job_files, job_input, commands, overview,
)  # fmt: skip
ENDPOINTS: Final[Sequence[Endpoint]] = [endpoint for module in _MODULES for endpoint in module.ENDPOINTS]


class WebService:
    """Serves one log at an address until it is closed.

    :param load: reads the configuration
    :param origins: other origins whose pages may use the API
    :raises ServiceError: the address cannot be used
    """

    def __init__(
        self, url: str, address: Address, load: Callable[[], Configuration], origins: Sequence[str] = ()
    ) -> None:
        self._url, self._load, self._origins = url, load, origins
        self._service = HttpsService(address)
        self._is_local = is_loopback(address.host)

    @property
    def address(self) -> str:
        """Return the URL of the page."""
        host = "127.0.0.1" if self._is_local else host_name()
        return f"{'http' if self._is_local else 'https'}://{Address(host, self._service.address.port)}/"

    def start(self) -> None:
        with Queries(self._url) as queries:
            uid_domain = queries.views.pool().settings.get(UID_DOMAIN, "")
        has_tokens = find_spec("jwt") is not None
        security = partial(self._security, uid_domain) if has_tokens else None
        callers = Callers(self._url, uid_domain, security)
        hosts = [] if self._is_local else [host_name(), socket.getfqdn(), *host_addresses()]
        site = Site(self._url, callers, hosts, self._origins)
        certificate, authority = (None, None) if self._is_local else self._certificate(uid_domain, hosts)
        self._service.start(application(site, ENDPOINTS, routes(site, self._load)), certificate, authority)

    def _security(self, uid_domain: str) -> PoolSecurity:
        from ..security.pool_security import pool_security

        return pool_security(log_paths(self._url).base, uid_domain, self._load())

    def _certificate(self, uid_domain: str, hosts: Sequence[str]) -> tuple[Path, Path]:
        """Return the files of the service's certificate, and of the authority of client certificates."""
        authority = self._security(uid_domain).authority(time.time())
        return authority.certificate_for(hosts, time.time()), authority.certificate_path

    def close(self) -> None:
        self._service.close()


def routes(site: Site, load: Callable[[], Configuration]) -> list[BaseRoute]:
    """Return the routes that are not endpoints."""
    description = document(ENDPOINTS, VERSION)
    text, page = msgspec.json.encode(description), reference_page(description)

    async def openapi(request: Request, caller: Caller) -> Response:
        return Response(text, media_type="application/json")

    async def reference(request: Request, caller: Caller) -> Response:
        return Response(page.body, headers=page.headers)

    return [
        route(site, f"{BASE}/docs", ["GET"], reference, OPEN),
        route(site, "/metrics", ["GET"], MetricsPage(site.url, load).answer, READ),
        route(site, f"{BASE}/events", ["GET"], EventStream(site.url).answer, READ),
        route(site, f"{BASE}/jobs/watch", ["GET"], AdWatch(site.present, watched_jobs).answer, READ),
        route(site, f"{BASE}/collector/watch", ["GET"], AdWatch(site.present, collector_ads).answer, READ),
        route(site, f"{BASE}/overview/live", ["GET"], LiveViews(site.present, overview.VIEWS).answer, READ),
        route(site, "/openapi.json", ["GET"], openapi, OPEN),
        *page_routes(site),
    ]


def is_loopback(host: str) -> bool:
    """Return True if only processes of this machine reach the address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
