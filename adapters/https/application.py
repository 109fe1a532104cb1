"""The manager's HTTPS service as an application: its routes and limits, some of which a view server's also has."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ..files.relay import Relay
from .commands import SENDER, RoleCommands
from .enrolment import Enrolment
from .messages import AccessPoints, Challenge, MemberProof, PoolInfo, Sender
from .requests import (
    RateLimit,
    Record,
    Rejected,
    Rejection,
    address_of,
    authorization_of,
    body_as,
    error_response,
    json_response,
    recording_application,
)
from .token_checks import TokenChecks

_BURST: Final = 20  #: requests of an address that may be rejected at once ...
_PER_MINUTE: Final = 60  #: ... and in each minute; then no more are read
_COMMANDS_PER_MINUTE: Final = 600  #: commands of an identity that are accepted in each minute

Handler = Callable[[Request], Awaitable[Response]]


class Gate:
    """Authenticates the senders of requests to a service, and limits them. ``record`` is called with each rejection."""

    def __init__(self, info: PoolInfo, tokens: TokenChecks, record: Record) -> None:
        self._info, self._tokens, self._record = info, tokens, record
        self._rejections = RateLimit(_BURST, _PER_MINUTE)
        self._accepted = RateLimit(_COMMANDS_PER_MINUTE // 3, _COMMANDS_PER_MINUTE)

    def application(self, commands: RoleCommands, routes: Sequence[BaseRoute]) -> Starlette:
        """Return the application that proves which pool it belongs to, answers commands, and has further routes."""

        async def answer(request: Request) -> Response:
            return await commands.answer(request, await self.sender_of(request))

        own_routes = [
            Route("/v1/pool", self._show_pool, methods=["GET"]),
            Route("/v1/pool", self.limited(self._prove), methods=["POST"]),
            Route("/v1/commands", self.limited(answer), methods=["POST"]),
        ]
        return recording_application([*own_routes, *routes], self._count_rejection)

    async def _show_pool(self, request: Request) -> Response:
        return json_response(msgspec.structs.replace(self._info, time=time.time()))

    async def _prove(self, request: Request) -> Response:
        challenge = await body_as(Challenge, request)
        proof = await run_in_threadpool(self._tokens.prove, challenge)
        return json_response(msgspec.structs.replace(self._info, time=time.time(), proof=proof))

    async def sender_of(self, request: Request) -> Sender:
        """Authenticate the sender of a command, and count it."""
        token, address = token_of(request), address_of(request)
        sender = Sender(None, None, address)
        if token:
            identity = await run_in_threadpool(self._tokens.identity_of, token)
            sender = Sender(identity.name, None if identity.scopes is None else sorted(identity.scopes), address)
        key = sender.name or address
        if not self._accepted.allows(key, time.monotonic()):
            message = f"{key} has sent too many commands; the limit is {_COMMANDS_PER_MINUTE} per minute"
            raise Rejected(429, "rate", message, sender.identity)
        self._accepted.count(key)
        return sender

    def limited(self, handle: Handler) -> Handler:
        async def handle_limited(request: Request) -> Response:
            address = address_of(request)
            if not self._rejections.allows(address, time.monotonic()):
                message = f"too many requests from {address} were rejected; the limit is {_PER_MINUTE} per minute"
                raise Rejected(429, "rate", message)
            return await handle(request)

        return handle_limited

    def _count_rejection(self, rejection: Rejection) -> None:
        if rejection.reason != "rate":
            self._rejections.count(rejection.address)
        self._record(rejection)


def application(
    info: PoolInfo, enrolment: Enrolment, relay: Relay, commands: RoleCommands, record: Record,
    routes: Sequence[BaseRoute] = (),
) -> Starlette:  # fmt: skip
    """Return the application with the routes for joining, for commands from other machines, and further `routes`."""
    gate = Gate(info, enrolment, record)

    async def join(request: Request) -> Response:
        body = await body_as(MemberProof, request)
        host = request.url.hostname or ""
        return json_response(
            await run_in_threadpool(enrolment.join, body, token_of(request), address_of(request), host)
        )

    async def list_access_points(request: Request) -> Response:
        await gate.sender_of(request)
        return json_response(AccessPoints(relay.names()))

    async def forward(request: Request) -> Response:
        sender, name = await gate.sender_of(request), request.path_params["name"]
        if not relay.knows(name):
            known = ", ".join(relay.names()) or "none"
            message = f"the pool has no access point {name[:80]!r}; the connected access points are: {known}"
            raise Rejected(404, "name", message, sender.identity)
        headers = {SENDER: msgspec.json.encode(sender).decode()}
        response = await relay.forward(request, name, "/commands/", headers)
        if response.status_code in (503, 504):
            message = f"the access point {name} does not answer; check that it runs and is connected to the manager"
            return error_response(503, message, "silent")
        return response

    own_routes = [
        Route("/v1/join", gate.limited(join), methods=["POST"]),
        Route("/v1/access-points", gate.limited(list_access_points), methods=["GET"]),
        Route("/v1/access-points/{name}/commands", gate.limited(forward), methods=["POST"]),
    ]
    return gate.application(commands, [*own_routes, *routes])


def token_of(request: Request) -> str:
    """Return the bearer token of a request; empty if there is none."""
    scheme, _, token = authorization_of(request).partition(" ")
    if scheme and (scheme.lower() != "bearer" or not token):
        raise Rejected(401, "malformed", "the header Authorization must be `Bearer TOKEN`")
    return token.strip()
