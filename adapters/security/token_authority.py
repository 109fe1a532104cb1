"""Requests for tokens to the pool that issues them, from the commands for tokens and from the manager's service."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from . import tokens
from .pool_security import PoolSecurity
from .token_store import RequestError, TokenRequest


class TokenAuthority(Protocol):
    """What issues tokens: this pool, for one client, or the manager of another one. Each method raises `RequestError`,
    with HTCondor's message, if it rejects the request."""

    def request(self, client: str, identity: str, levels: Sequence[str], lifetime: int | None) -> tuple[str, str, bool]:
        """Request a token. Return the request's id, the client's secret, and whether the request is approved."""

    def collect(self, id: str, client: str, secret: str) -> str:
        """Return the token of an approved request, or an empty text if it waits for approval."""

    def pending(self, id: str = "") -> list[TokenRequest]:
        """Return the requests that wait for approval; with `id`, only the request with this id."""

    def approve(self, id: str, client: str) -> None:
        """Approve a pending request."""

    def approve_network(self, netblock: str, lifetime: int) -> None:
        """Approve the requests that machines of a network make for daemons until the end of a lifetime in seconds."""

    def fetch(self, levels: Sequence[str], lifetime: int | None, key: str) -> str:
        """Return a token of the client's identity."""


class ClientTokens(NamedTuple):
    """This pool as the authority for one client."""

    security: PoolSecurity
    identity: str | None  #: the client as authenticated; None: it has no token
    scopes: Sequence[str] | None  #: the levels to which the client's token is limited; None: not limited
    address: str
    is_administrator: bool  #: otherwise the client sees and approves only requests for its identity

    def request(self, client: str, identity: str, levels: Sequence[str], lifetime: int | None) -> tuple[str, str, bool]:
        requester = self.identity or "unauthenticated@unmapped"
        new, secret = self.security.request(client, identity, requester, self.address, levels, lifetime, time.time())
        return new.id, secret, bool(new.approved_by)

    def collect(self, id: str, client: str, secret: str) -> str:
        return self.security.collect(id, client, secret, time.time())

    def pending(self, id: str = "") -> list[TokenRequest]:
        requests = self.security.store.pending(time.time(), id)
        return [each for each in requests if self.is_administrator or each.identity == self.identity]

    def approve(self, id: str, client: str) -> None:
        if not self.is_administrator:
            requests = self.security.store.pending(time.time(), id)
            if any(each.identity != self.identity or not self._may_give(each) for each in requests):
                raise RequestError("Insufficient privilege to approve request.")
        self.security.store.approve(id, client, self.identity or "", time.time())

    def _may_give(self, request: TokenRequest) -> bool:
        """Return True if the client's own token permits all that the requested one would."""
        return self.scopes is None or (request.levels != "" and set(request.levels.split(",")) <= set(self.scopes))

    def approve_network(self, netblock: str, lifetime: int) -> None:
        if not self.is_administrator:
            raise RequestError("Insufficient privilege to approve request.")
        self.security.store.approve_network(netblock, lifetime, self.identity or "", time.time())

    def fetch(self, levels: Sequence[str], lifetime: int | None, key: str) -> str:
        if self.identity is None:
            raise RequestError("Only an authenticated client can fetch a token.")
        if key not in ("", tokens.POOL, self.security.issuer_key):
            raise RequestError("Server will not sign with requested key.")
        if self.scopes is not None:
            levels = [level for level in levels or self.scopes if level in self.scopes]
            if not levels:
                raise RequestError("Session doesn't allow requested authorization levels.")
        lifetime = self.security.limited(lifetime)
        try:
            return self.security.issue(self.identity, time.time(), levels, lifetime, key)
        except (ValueError, tokens.SigningKeyError) as error:
            raise RequestError(str(error)) from None
