"""A role's side of joining: verifies the manager, joins, and renews the membership."""

from __future__ import annotations

import random
import secrets
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from hmac import compare_digest
from threading import Event, Thread
from typing import Final, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec
from msgspec import Struct

from ...domain.errors import PoolbookError
from ..fabric.credentials import Credentials, UserKey
from ..fabric.nats_carrier import NatsCarrier
from ..security.authority import AuthorityError, fingerprint
from .membership import JoinError, MemberFiles, Membership
from .messages import (
    LARGEST_SKEW_S,
    PORT,
    Challenge,
    ErrorReply,
    JoinReply,
    JoinRequest,
    PoolInfo,
    clock_message,
    proof,
)

_TIMEOUT_S: Final = 15
_LARGEST_REPLY: Final = 1 << 20
_CHECK_S, _LONGEST_PAUSE_S, _RENEW_IF_CUT_S = 10.0, 300.0, 60.0

Reply = TypeVar("Reply", bound=Struct)


def join(url: str, token: str, role: str, name: str, files: MemberFiles) -> Membership:
    """Join the pool of the manager at ``url`` and store the membership. The fragment of the URL may be the fingerprint
    of the pool's authority (``#sha256=...``); without it, the manager must prove that it knows the token. A role that
    has joined before keeps its key.

    :raises JoinError: the manager cannot be reached, is not the token's, or rejects the role
    """
    base, _, fragment = url.partition("#")
    base = _checked_url(base, url)
    authority = _authority(base, token, fragment)
    if not files.exist():
        key = UserKey.create()
        return _request_membership(Membership(base, role, name, key.public), key.seed, authority, token, files)
    stored = files.read()
    is_other_pool = files.authority.read_text() != authority and stored.url != base  # a manager may be set up again
    if stored.peer != f"{role}/{name}" or is_other_pool:
        raise JoinError(
            f"{files.log} is the log of {stored.peer} in the pool {stored.terms.pool}, whose manager is {stored.url}; "
            f"name another log for this one (-log)"
        )
    seed = Credentials.read(files.credentials).seed
    return _request_membership(Membership(base, role, name, stored.key), seed, authority, token, files)


def renew(files: MemberFiles) -> Membership:
    """Renew a membership with the role's key. Raise `JoinError` if the manager cannot be reached or rejects it."""
    seed = Credentials.read(files.credentials).seed
    return _request_membership(files.read(), seed, files.authority.read_text(), "", files)


def _checked_url(base: str, url: str) -> str:
    with suppress(ValueError):
        parts = urlsplit(base)
        if parts.scheme == "https" and parts.hostname and parts.path in ("", "/") and not parts.query:
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            return f"https://{host}:{parts.port or PORT}"
    raise JoinError(f"{url!r} is not the URL of a manager; use https://HOST:PORT, which the manager prints")


def _authority(base: str, token: str, fragment: str) -> str:
    """Return the certificate of the pool's authority, after checking that it is genuine."""
    if fragment and not fragment.startswith("sha256="):
        raise JoinError(f"#{fragment[:80]}: the URL's fragment must be #sha256=FINGERPRINT, which the manager prints")
    nonce = secrets.token_hex(16)
    body = Challenge(token.rpartition(".")[0], nonce)
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    # Nothing secret is sent before the service has proved its identity.
    info = _call(base, "/v1/pool", PoolInfo, unverified, None if fragment else body)
    try:
        actual = fingerprint(info.ca.encode())
    except AuthorityError as error:
        raise JoinError(f"{base} sent no valid certificate: {error}") from None
    expected = fragment.removeprefix("sha256=").replace(":", "").lower()
    if fragment and not compare_digest(expected.encode(), actual.encode()):
        raise JoinError(
            f"{base} uses an authority with the fingerprint {actual}, not the one in your URL: it belongs to another "
            f"pool, or someone intercepts the connection; compare the URL with the one that the manager prints"
        )
    if not fragment and not compare_digest(info.proof.encode(), proof(token, nonce, actual).encode()):
        raise JoinError(
            f"{base} does not know your token: the token is damaged or belongs to another pool, or someone intercepts "
            f"the connection; the token was not sent"
        )
    skew = time.time() - info.time
    if abs(skew) > LARGEST_SKEW_S:
        raise JoinError(clock_message(skew))
    return info.ca


def _request_membership(
    membership: Membership, seed: str, authority: str, token: str, files: MemberFiles
) -> Membership:
    """Send a request to join, with or without a token, and store the reply."""
    request = JoinRequest(membership.role, membership.name, membership.key, time.time())
    signature = Credentials("", seed).sign(request.signed_text(fingerprint(authority.encode())))
    request = msgspec.structs.replace(request, signature=signature)
    context = ssl.create_default_context(cadata=authority)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    reply = _call(membership.url, "/v1/join", JoinReply, context, request, headers)
    updated = msgspec.structs.replace(membership, reply=reply)
    files.write(updated, seed, authority)
    return updated


def _call(
    base: str,
    path: str,
    kind: type[Reply],
    context: ssl.SSLContext,
    body: Struct | None,
    headers: dict[str, str] | None = None,
) -> Reply:
    """Send a request and return the decoded response. Raise `JoinError`."""
    content = None if body is None else msgspec.json.encode(body)
    data = bytearray()
    try:
        with (
            httpx.Client(verify=context, timeout=_TIMEOUT_S, trust_env=False) as client,
            client.stream("POST" if content else "GET", base + path, content=content, headers=headers) as response,
        ):
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > _LARGEST_REPLY:
                    raise JoinError(f"{base} sent more than {_LARGEST_REPLY} bytes; name the URL of a manager")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise JoinError(f"{base} does not answer: {error or type(error).__name__}; {_fix(error)}") from None
    try:
        if response.is_success:
            return msgspec.json.decode(data, type=kind)
        message = msgspec.json.decode(data, type=ErrorReply).message
    except (msgspec.MsgspecError, UnicodeError):
        raise JoinError(f"{base} is not a manager: its answer ({response.status_code}) is invalid") from None
    raise JoinError(message, response.status_code)


def _fix(error: Exception) -> str:
    text = str(error)
    if "Hostname mismatch" in text or "IP address mismatch" in text:
        return "use a host name or address for which the manager listens (-listen HOST:PORT there)"
    if "certificate" in text:
        return "if the pool has a new authority, join again with a token"
    return "check the URL, that the manager runs, and that no firewall blocks the port"


class Renewal:
    """Renews a role's membership in a thread: after half of its lifetime, and when the broker rejects it or cannot be
    reached. ``warn`` is called in the thread."""

    def __init__(self, files: MemberFiles, carrier: NatsCarrier, warn: Callable[[str], None]) -> None:
        self._files, self._carrier, self._warn = files, carrier, warn
        self._urls = files.read().terms.urls
        self._stop = Event()
        self._problem = ""
        self._thread = Thread(target=self._run, name="renewal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(_TIMEOUT_S)

    def _run(self) -> None:
        connected, pause, retry = time.monotonic(), _CHECK_S, 0.0
        while not self._stop.wait(_CHECK_S):
            now = time.monotonic()
            if self._carrier.is_connected:
                connected = now
            is_cut = now - connected > _RENEW_IF_CUT_S
            if not (is_cut or self._is_due()) or now < retry:
                continue
            succeeded = self._renew()
            pause = _RENEW_IF_CUT_S if succeeded else min(2 * pause, _LONGEST_PAUSE_S)
            retry = now + pause * random.uniform(0.5, 1)

    def _is_due(self) -> bool:
        with suppress(PoolbookError, ValueError, LookupError):  # they are damaged
            return Credentials.read(self._files.credentials).renewal_time < time.time()
        return True

    def _renew(self) -> bool:
        try:
            membership = renew(self._files)
        except Exception as error:  # whatever fails, it may succeed later
            if str(error) != self._problem:
                self._problem = str(error)
                self._warn(f"the membership in the pool cannot be renewed, and is tried again: {error}")
            return False
        if membership.terms.urls != self._urls:
            self._urls = membership.terms.urls
            self._warn("the broker has another address; restart this role to use it")
        self._problem = ""
        return True
