"""A role's side of joining: joins, and renews the membership."""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

import msgspec

from ...domain.errors import PoolbookError
from ..fabric.credentials import Credentials, UserKey
from ..fabric.nats_carrier import NatsCarrier
from .client import TIMEOUT_S, ManagerError, call, checked_url, pool_authority
from .membership import MemberFiles, Membership
from .messages import JoinReply

_CHECK_S, _LONGEST_PAUSE_S, _RENEW_IF_CUT_S = 10.0, 300.0, 60.0


def join(
    url: str, token: str, role: str, name: str, files: MemberFiles, flocks: bool = False, domain: str = ""
) -> Membership:
    """Join the pool of the manager at ``url`` and store the membership. The fragment of the URL may be the fingerprint
    of the pool's authority (``#sha256=...``); without it, the manager must prove that it knows the token. A role that
    has joined before keeps its key.

    :param flocks: whether this is another pool than the role's own
    :param domain: the UID_DOMAIN that the manager must have (empty: any)
    :raises ManagerError: the manager cannot be reached, is not the token's, or rejects the role
    """
    base, _, fragment = url.partition("#")
    base = checked_url(base, url)
    authority = pool_authority(base, token, fragment)
    if not files.exist():
        key = UserKey.create()
        member = Membership(base, role, name, key.public, flocks=flocks)
        return _request_membership(member, key.seed, authority, token, files, domain)
    stored = files.read()
    is_other_pool = files.authority.read_text() != authority and stored.url != base  # a manager may be set up again
    if stored.peer != f"{role}/{name}" or is_other_pool:
        raise ManagerError(
            f"{files.log} is the log of {stored.peer} in the pool {stored.terms.pool}, whose manager is {stored.url}; "
            f"name another log for this one (-log), list all managers of one pool, or let an access point -flock"
        )
    seed = Credentials.read(files.credentials).seed
    member = Membership(base, role, name, stored.key, flocks=stored.flocks or flocks)
    return _request_membership(member, seed, authority, token, files, domain)


def renew(files: MemberFiles) -> Membership:
    """Renew a membership with the role's key. Raise `ManagerError` if the manager cannot be reached or rejects it."""
    seed = Credentials.read(files.credentials).seed
    return _request_membership(files.read(), seed, files.authority.read_text(), "", files)


def _request_membership(
    membership: Membership, seed: str, authority: str, token: str, files: MemberFiles, domain: str = ""
) -> Membership:
    """Send a request to join, with or without a token, and store the reply."""
    request = membership.proof(seed, authority.encode())
    context = ssl.create_default_context(cadata=authority)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    reply = call(membership.url, "/v1/join", JoinReply, context, request, headers)
    if domain and reply.uid_domain != domain and not membership.flocks:
        raise ManagerError(
            f"{membership.url} is a manager of another pool: its UID_DOMAIN is {reply.uid_domain}, not {domain}; "
            f"correct the setting, or use -flock to let an access point use both pools"
        )
    updated = msgspec.structs.replace(membership, reply=reply)
    files.write(updated, seed, authority)
    return updated


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
        self._thread.join(TIMEOUT_S)

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
