"""Requests to a manager's HTTPS service, from roles and from users on other machines; and how their senders know that
the service belongs to the pool."""

from __future__ import annotations

import http.client
import secrets
import ssl
import time
from contextlib import suppress
from hmac import compare_digest
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ...domain.errors import PoolbookError
from .messages import LARGEST_SKEW_S, PORT, Challenge, ErrorReply, PoolInfo, clock_message, proof

TIMEOUT_S: Final = 15
LARGEST_REPLY: Final = 1 << 20
UNREACHABLE: Final = "unreachable"  #: the code of the error of a manager that does not answer
_JOIN_AGAIN: Final = "if the pool has a new authority, join again with a token"

Reply = TypeVar("Reply", bound=Struct)


class ManagerError(PoolbookError):
    """A manager cannot be reached, is not the pool's, or rejects a request. ``status`` is the status code of its
    answer; 0: it did not answer."""

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code


def checked_url(base: str, url: str) -> str:
    """Return a manager's URL with its port. Raise `ManagerError` if it is invalid."""
    with suppress(ValueError):
        parts = urlsplit(base)
        if parts.scheme == "https" and parts.hostname and parts.path in ("", "/") and not parts.query:
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            return f"https://{host}:{parts.port or PORT}"
    raise ManagerError(f"{url!r} is not the URL of a manager; use https://HOST:PORT, which the manager prints")


def unverified_context() -> ssl.SSLContext:
    """Return the context for requests that contain nothing secret, to a service whose identity is not known yet."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def pool_authority(base: str, token: str, fragment: str) -> str:
    """Return the certificate of the pool's authority, after checking that it is genuine: by its fingerprint in the
    fragment of the manager's URL, or else because the manager knows the token."""
    from ..security.authority import AuthorityError, fingerprint

    if fragment and not fragment.startswith("sha256="):
        raise ManagerError(f"#{fragment[:80]}: the URL must end with #sha256=FINGERPRINT, as the manager prints it")
    nonce = secrets.token_hex(16)
    body = Challenge(token.rpartition(".")[0], nonce)
    # Nothing secret is sent before the service has proved its identity.
    info = call(base, "/v1/pool", PoolInfo, unverified_context(), None if fragment else body)
    try:
        actual = fingerprint(info.ca.encode())
    except AuthorityError as error:
        raise ManagerError(f"{base} sent no valid certificate: {error}") from None
    expected = fragment.removeprefix("sha256=").replace(":", "").lower()
    if fragment and not compare_digest(expected.encode(), actual.encode()):
        raise ManagerError(
            f"{base} uses an authority with the fingerprint {actual}, not the one in your URL: it belongs to another "
            f"pool, or someone intercepts the connection; compare the URL with the one that the manager prints"
        )
    if not fragment and not compare_digest(info.proof.encode(), proof(token, nonce, actual).encode()):
        raise ManagerError(
            f"{base} does not know your token: the token is damaged or belongs to another pool, or someone intercepts "
            f"the connection; the token was not sent"
        )
    skew = time.time() - info.time
    if abs(skew) > LARGEST_SKEW_S:
        raise ManagerError(clock_message(skew))
    return info.ca


def call(
    base: str, path: str, kind: type[Reply], context: ssl.SSLContext, body: Struct | None,
    headers: dict[str, str] | None = None,
) -> Reply:  # fmt: skip
    """Send a request and return the decoded response. Raise `ManagerError`."""
    data = exchange(base, path, context, None if body is None else msgspec.json.encode(body), headers)
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeError):
        raise ManagerError(f"{base} is not a manager: its answer is invalid") from None


def exchange(
    base: str, path: str, context: ssl.SSLContext, body: bytes | None, headers: dict[str, str] | None = None,
    timeout_s: float = TIMEOUT_S, largest: int = LARGEST_REPLY, distrust: str = _JOIN_AGAIN,
) -> bytes:  # fmt: skip
    """Send a request (GET without a body, else POST) and return the body of the response. Raise `ManagerError`;
    ``distrust`` is what to do if the service has another authority."""
    parts = urlsplit(base)
    connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=timeout_s, context=context)
    try:
        connection.request("GET" if body is None else "POST", path, body, headers or {})
        response = connection.getresponse()
        data = response.read(largest + 1)
    except (OSError, http.client.HTTPException) as error:
        message = f"{base} does not answer: {error or type(error).__name__}; {_fix(error, distrust)}"
        unreachable = ManagerError(message, code=UNREACHABLE)
        connection_error = f"CEDAR:6001:Failed to connect to <{parts.netloc}>"
        unreachable.tool = f"Error: communication error\n{connection_error}\n{unreachable}"
        raise unreachable from None
    finally:
        connection.close()
    if len(data) > largest:
        raise ManagerError(f"{base} sent more than {largest} bytes, which is the limit")
    if 200 <= response.status < 300:
        return data
    try:
        reply = msgspec.json.decode(data, type=ErrorReply)
    except (msgspec.MsgspecError, UnicodeError):
        raise ManagerError(f"{base} is not a manager: its answer ({response.status}) is invalid") from None
    raise ManagerError(reply.message, response.status, reply.reason)


def _fix(error: Exception, distrust: str) -> str:
    text = str(error)
    if "Hostname mismatch" in text or "IP address mismatch" in text:
        return "use a host name or address for which the manager listens (-listen HOST:PORT there)"
    if "certificate" in text:
        return distrust
    return "check the URL, that the manager runs, and that no firewall blocks the port"
