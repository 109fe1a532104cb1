"""The service and its caller: version, health, and the caller's name and rights."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..https.requests import Rejected
from ..machine.host import VERSION
from ..runtime.pool_client import is_served
from ..stores.fast_head import head_of
from .endpoints import OPEN, Endpoint
from .pool_access import Call


class Version(Struct, frozen=True):
    """The version of Poolbook."""

    version: str
    commit: Annotated[str, Meta(description="always empty: a release is known by its version")] = ""


class WhoAmI(Struct, frozen=True):
    """The caller, as the service has authenticated them."""

    authenticated: bool
    user: Annotated[str, Meta(description="user@domain; empty: not authenticated")]
    may_change: Annotated[bool, Meta(description="whether the pool is running, or the caller may write its log")]
    owner: Annotated[str, Meta(description="the Owner of the jobs that the caller submits")] = ""


class Health(Struct, frozen=True):
    """The service answers."""

    status: str


class Readiness(Struct, frozen=True):
    """The log can be read."""

    status: str
    position: Annotated[int, Meta(description="the position of the log's last event")]
    pool_running: Annotated[bool, Meta(description="whether the pool accepts commands")]


class LogHead(Struct, frozen=True):
    """The end of the log."""

    id: Annotated[str, Meta(description="the log's id, the same in every copy of it")]
    position: Annotated[int, Meta(description="the position of its last event")]


class Ping(Struct, frozen=True):
    """How a daemon of the pool authenticates the caller."""

    daemon: Annotated[str, Meta(description="schedd or collector")]
    auth_method: Annotated[str, Meta(description="FS: a user of this machine; IDTOKENS, SSL; empty: none")]
    user: str
    session_id: Annotated[str, Meta(description="always empty: requests are authenticated one by one")]
    valid_commands: Annotated[str, Meta(description="the authorization levels of the token, separated by commas")]
    encryption: bool
    authentication: bool


class Pings(Struct, frozen=True):
    """How the pool's daemons authenticate the caller."""

    schedd: Ping
    collector: Ping


def get_version(call: Call) -> Version:
    """Return the version of the service."""
    return Version(VERSION)


def whoami(call: Call) -> WhoAmI:
    """Return the caller's name."""
    caller = call.caller
    return WhoAmI(caller.name is not None, caller.name or "", call.can_change, caller.user)


def healthz(call: Call) -> Health:
    """Check that the service answers."""
    return Health("ok")


def readyz(call: Call) -> Readiness:
    """Check that the log can be read, and whether the pool is running."""
    head = head_of(call.url)
    if head is None:
        raise Rejected(503, "log", "there is no log yet; start `poolbook serve`")
    return Readiness("ready", head[1], is_served(call.url))


def get_head(call: Call) -> LogHead:
    """Return the log's id and the position of its last event."""
    log = call.queries.log
    return LogHead(log.id, log.head.position)


def ping(call: Call) -> Pings:
    """Return how the pool's daemons authenticate the caller."""
    return Pings(ping_schedd(call), ping_collector(call))


def ping_schedd(call: Call) -> Ping:
    """Return how the schedd authenticates the caller."""
    return _ping(call, "schedd")


def ping_collector(call: Call) -> Ping:
    """Return how the collector authenticates the caller."""
    return _ping(call, "collector")


def _ping(call: Call, daemon: str) -> Ping:
    caller = call.caller
    levels = ",".join(sorted(caller.scopes or ()))
    is_known = caller.name is not None
    return Ping(daemon, caller.method, caller.name or "", "", levels, not caller.is_local, is_known)


ENDPOINTS = (
    Endpoint("GET", "/version", get_version, OPEN, is_live=True, is_quick=True),
    Endpoint("GET", "/whoami", whoami, OPEN, is_live=True),
    Endpoint("GET", "/log/head", get_head, is_live=True),
    Endpoint("GET", "/ping", ping, OPEN, is_live=True),
    Endpoint("GET", "/schedd/ping", ping_schedd, OPEN, is_live=True),
    Endpoint("GET", "/collector/ping", ping_collector, OPEN, is_live=True),
    Endpoint("GET", "/healthz", healthz, OPEN, is_live=True, is_quick=True, is_at_root=True),
    Endpoint("GET", "/readyz", readyz, OPEN, is_live=True, is_at_root=True),
)
