"""Who sends a request to the HTTP service, and what they may do.

- A process on this machine that connects over loopback is its Unix user, as on the pool's socket. It may do what the
  user may do there: the pool decides. A user who may not use the socket may not use the service.
- Any other client shows a token (``Authorization: Bearer``) or a certificate of the pool's authority. Authorization
  levels decide, as for commands from other machines (`adapters.security.authorization`). Without either, a client
  may read if the configuration allows that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..https.peers import Peer
from ..https.requests import Rejected
from ..machine.host import user_name
from ..stores.log_paths import log_paths
from .endpoints import OPEN, READ

if TYPE_CHECKING:
    from ..security.pool_security import PoolSecurity


class Caller(NamedTuple):
    """The sender of a request."""

    user: str  #: the name in commands: users of other domains have their domain; empty: not authenticated
    name: str | None  #: ``user@domain``; None: not authenticated
    address: str
    is_local: bool = False  #: whether this is a user of this machine
    scopes: frozenset[str] | None = None  #: the authorization levels to which a token is limited
    method: str = ""  #: HTCondor's name of the authentication method: FS, SSL or IDTOKENS

    @property
    def identity(self) -> str:
        """Return the name for messages."""
        return self.name or "an unauthenticated client"


class Callers:
    """Authenticates and authorizes the callers of one pool's service.

    :param security: returns the pool's security by the present configuration; None: the service accepts only users of
        this machine
    """

    def __init__(self, url: str, uid_domain: str, security: Callable[[], PoolSecurity] | None) -> None:
        self._url, self._uid_domain, self._security = url, uid_domain, security

    def caller(self, peer: Peer, authorization: str) -> Caller:
        """Return the sender of a request. Raise `Rejected` if its credentials are invalid."""
        if authorization:
            return self._token_holder(peer, authorization)
        if peer.certificate:
            name = peer.certificate if "@" in peer.certificate else f"{peer.certificate}@{self._uid_domain}"
            return Caller(self._user(name), name, peer.address, method="SSL")
        if peer.uid is not None:
            return self._local_user(peer, peer.uid)
        return Caller("", None, peer.address)

    def _local_user(self, peer: Peer, uid: int) -> Caller:
        user = user_name(uid)
        if not may_use_socket(self._url, uid):
            rule = "only users who may use the pool's socket may use its HTTP service on this machine"
            message = f"{user} has no access to this pool; {rule}. Serve the pool with -users or -group to change this"
            raise Rejected(403, "user", message, user)
        return Caller(user, f"{user}@{self._uid_domain}", peer.address, is_local=True, method="FS")

    def _token_holder(self, peer: Peer, authorization: str) -> Caller:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Rejected(401, "malformed", "the header Authorization must be `Bearer TOKEN`")
        if self._security is None:
            raise Rejected(401, "token", "this service accepts no tokens; install 'poolbook[cluster]' to use them")
        from ..security.tokens import TokenRejected

        try:
            identity = self._security().verify(token.strip(), time.time())
        except TokenRejected as error:
            message = f"the token is not accepted: {error.code}; `poolbook token list` shows the pool's tokens"
            raise Rejected(401, error.code, message) from None
        return Caller(self._user(identity.name), identity.name, peer.address, False, identity.scopes, "IDTOKENS")

    def _user(self, name: str) -> str:
        user, _, domain = name.partition("@")
        return user if domain.lower() == self._uid_domain.lower() else name

    def authorize(self, caller: Caller, level: str) -> None:
        """Raise `Rejected` if the caller may not do what needs ``level``."""
        if caller.is_local or level == OPEN:
            return
        if self._security is None:
            raise Rejected(401, "user", "authenticate with a token: `Authorization: Bearer TOKEN`", caller.identity)
        from ..security.authorization import is_authorized

        settings: Mapping[str, str] = self._security().settings
        verdict = is_authorized(settings, caller.name, caller.address, level, caller.scopes, "SCHEDD")
        if not verdict.allowed or (caller.name is None and level != READ):
            raise Rejected(
                403 if caller.name else 401, "level", f"{caller.identity} from {caller.address} may not do that, which "
                f"needs the level {level}: {verdict.reason} ({verdict.rule}); use a token with that level, or allow it "
                f"in the configuration", caller.identity,
            )  # fmt: skip


def may_use_socket(url: str, uid: int) -> bool:
    """Return True if a user may connect to the socket of the log's pool or, if the pool is not running, read and write
    the log's file."""
    if uid in (0, os.geteuid()):
        return True
    paths = log_paths(url)
    for path in (paths.socket_path, paths.base):
        with suppress(OSError):
            return _may_write(path, uid)
    return False


def _may_write(path: Path, uid: int) -> bool:
    import pwd

    info = path.stat()
    if info.st_uid == uid:
        return bool(info.st_mode & 0o200)
    with suppress(KeyError):
        user = pwd.getpwuid(uid)
        if info.st_gid in os.getgrouplist(user.pw_name, user.pw_gid):
            return bool(info.st_mode & 0o020)
    return bool(info.st_mode & 0o002)
