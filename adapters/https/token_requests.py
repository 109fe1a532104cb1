"""Requests for tokens, from other machines to the manager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, convert

from ..runtime.pool_client import ask
from ..runtime.requests import RequestRefused
from ..security.token_authority import TokenAuthority
from ..security.token_store import RequestError, TokenRequest


class TokenCommand(Struct, frozen=True):
    """A call of a method of `TokenAuthority`."""

    kind: str
    id: str  #: of this command
    arguments: list[Any]


METHODS: Final[dict[str, tuple[str, Any]]] = {
    "ApproveRequest": ("approve", tuple[str, str]),
    "ApproveNetwork": ("approve_network", tuple[str, int]),
    "CollectToken": ("collect", tuple[str, str, str]),
    "FetchToken": ("fetch", tuple[list[str], int | None, str]),
    "ListTokenRequests": ("pending", tuple[str]),
    "RequestToken": ("request", tuple[str, str, list[str], int | None]),
}
"""The kinds of commands, with the methods that they call, and the types of their arguments."""


def call_authority(authority: TokenAuthority, command: TokenCommand) -> Any:
    """Return the result of a command. Raise `RequestRefused` if it is rejected, `ValidationError` if it is invalid."""
    method, types = METHODS[command.kind]
    arguments = convert(command.arguments, types)
    try:
        return getattr(authority, method)(*arguments)
    except RequestError as error:
        raise RequestRefused(str(error)) from None


class RemoteTokens:
    """The manager of a pool on another machine as the authority."""

    def __init__(self, url: str) -> None:
        self._url = url

    def request(self, client: str, identity: str, levels: Sequence[str], lifetime: int | None) -> tuple[str, str, bool]:
        id, secret, is_approved = self._call("RequestToken", client, identity, levels, lifetime)
        return id, secret, is_approved

    def collect(self, id: str, client: str, secret: str) -> str:
        return str(self._call("CollectToken", id, client, secret))

    def pending(self, id: str = "") -> list[TokenRequest]:
        return convert(self._call("ListTokenRequests", id), list[TokenRequest])

    def approve(self, id: str, client: str) -> None:
        self._call("ApproveRequest", id, client)

    def approve_network(self, netblock: str, lifetime: int) -> None:
        self._call("ApproveNetwork", netblock, lifetime)

    def fetch(self, levels: Sequence[str], lifetime: int | None, key: str) -> str:
        return str(self._call("FetchToken", levels, lifetime, key))

    def _call(self, kind: str, *arguments: object) -> Any:
        try:
            return ask(self._url, {"kind": kind, "arguments": arguments})
        except RequestRefused as refused:
            raise RequestError(str(refused)) from None
