"""The manager's side of joining: checks a request, and issues credentials for the broker.

A name belongs to the identity that first joined with it. The newest key of a name is the valid one: if a machine was
set up again, its old credentials are revoked.
"""

from __future__ import annotations

import hashlib
import time
from base64 import b32decode, b64decode
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec
from msgspec import Struct

from ..fabric.credentials import BrokerKeys
from ..security.pool_security import PoolSecurity
from ..security.private_files import make_private_folder, read_private, write_private
from .messages import LARGEST_SKEW_S, LEVELS, ROLE_NAME, JoinReply, MemberProof, clock_message
from .requests import RateLimit, Rejected
from .token_checks import TokenChecks

_JOINS_PER_MINUTE: Final = 1000  #: roles of an identity that join with a token; renewals need none


class _Member(Struct):
    peer: str
    identity: str
    token_id: str
    key: str
    joined: float


class Enrolment(TokenChecks):
    """The members of a pool, recorded in a private directory.

    :param security: returns the pool's security, by the present configuration
    :param reply: returns the reply to a new member, given its token for the broker and the host name in its request
    :param on_revoked: called after credentials were revoked, which the broker must learn
    """

    def __init__(
        self, folder: Path, security: Callable[[], PoolSecurity], keys: BrokerKeys, fingerprint: str,
        reply: Callable[[str, str], JoinReply], on_revoked: Callable[[], None],
    ) -> None:  # fmt: skip
        make_private_folder(folder)
        super().__init__(security, fingerprint)
        self._folder, self._keys = folder, keys
        self._reply, self._on_revoked = reply, on_revoked
        self._joins = RateLimit(_JOINS_PER_MINUTE, _JOINS_PER_MINUTE)
        self._lock = Lock()
        self._revoked_ids: set[str] = set()  #: the tokens whose members' credentials were revoked
        self._revoked_at = 0  #: when they were last revoked

    def join(self, request: MemberProof, token: str, address: str, host: str) -> JoinReply:
        """Make the sender a member, or renew its credentials. Raise `Rejected`."""
        now = time.time()
        self._check(request, now)
        with self._lock:
            member = self._member(request.peer)
            if token:
                member = self._admit(request, token, address, member, now)
            elif member is None or member.key != request.key:
                raise Rejected(401, "key", _unknown_key(request.peer, member), request.peer)
            elif member.token_id in self._security().store:
                message = f"the token with which {request.peer} joined is revoked; join again with another token"
                raise Rejected(401, "revoked", message, member.identity)
            if int(now) == self._revoked_at:  # credentials of that second would be revoked, too
                time.sleep(1 - now % 1)
                now = time.time()
            try:
                issued = self._keys.issue(request.peer, request.key, now)
            except ValueError as error:
                raise Rejected(409, "key", str(error), request.peer) from None
            write_private(self._path(request.peer), msgspec.json.encode(member))
        return self._reply(issued, host)

    def end_revoked(self, now: float) -> None:
        """End the memberships of the roles whose tokens were revoked since the last call: the broker will reject their
        credentials. A role may join again with another token."""
        store = self._security().store
        revoked_ids = {token.id for token in store.issued() if token.revoked}
        with self._lock:
            if revoked_ids == self._revoked_ids:
                return
            for path in self._folder.iterdir():
                member = msgspec.json.decode(read_private(path), type=_Member)
                if member.token_id in revoked_ids - self._revoked_ids:
                    self._keys.revoke(member.peer, now)
            self._revoked_ids, self._revoked_at = revoked_ids, int(now)

    def is_member(self, peer: str, header: str) -> bool:
        """Return True if the header Authorization of a request proves that its sender is a member."""
        try:
            proof = MemberProof.parse(header)
        except ValueError:
            return False
        member = self._member(peer)
        return (
            member is not None
            and proof.peer == peer
            and abs(proof.at - time.time()) <= LARGEST_SKEW_S
            and _is_signed(member.key, proof.signed_text(self._fingerprint), proof.signature)
            and member.token_id not in self._revoked_ids
        )

    def _check(self, request: MemberProof, now: float) -> None:
        if request.role not in LEVELS:
            message = f"{request.role[:80]!r} is not a role that can join; use {' or '.join(LEVELS)}"
            raise Rejected(400, "role", message)
        if not ROLE_NAME.fullmatch(request.name):
            message = f"{request.name[:80]!r} is not a name for a role; use letters, digits and the characters _ . @ -"
            raise Rejected(400, "name", message)
        skew = request.at - now
        if abs(skew) > LARGEST_SKEW_S:
            raise Rejected(400, "clock", clock_message(skew), request.peer)
        if not _is_signed(request.key, request.signed_text(self._fingerprint), request.signature):
            message = "the signature was not made with the private key of the request's key for this pool"
            raise Rejected(401, "signature", message, request.peer)

    def _admit(self, request: MemberProof, token: str, address: str, member: _Member | None, now: float) -> _Member:
        security, level = self._security(), LEVELS[request.role]
        identity = self.identity_of(token, request.peer)
        if not self._joins.allows(identity.name, time.monotonic()):
            message = f"{identity.name} has joined too many roles; the limit is {_JOINS_PER_MINUTE} per minute"
            raise Rejected(429, "rate", message, identity.name)
        self._joins.count(identity.name)
        verdict = security.is_authorized(identity, address, level)
        if not verdict.allowed:
            message = (
                f"{identity.name} may not join as {request.role}, which needs the level {level}: {verdict.reason} "
                f"({verdict.rule}); use a token with that level, or allow it in the manager's configuration"
            )
            raise Rejected(403, "level", message, f"{identity.name} as {request.peer}")
        if member is not None and member.identity != identity.name:
            raise Rejected(
                409, "name", f"{request.peer} has joined as {member.identity}, and your token is for {identity.name}; "
                f"use a token of that identity, or another -name", identity.name,
            )  # fmt: skip
        if member is not None and member.key != request.key:
            self._keys.revoke(request.peer, now)
            self._on_revoked()
        return _Member(request.peer, identity.name, identity.id, request.key, now)

    def _path(self, peer: str) -> Path:
        return self._folder / hashlib.sha256(peer.encode()).hexdigest()

    def _member(self, peer: str) -> _Member | None:
        path = self._path(peer)
        return msgspec.json.decode(read_private(path), type=_Member) if path.exists() else None


def _unknown_key(peer: str, member: _Member | None) -> str:
    if member is None:
        return f"{peer} has not joined this pool; join with a token: `poolbook join URL TOKEN`"
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(member.joined))
    return f"another log joined as {peer} at {at}; use another -name there or here, and join again with a token"


def _is_signed(key: str, text: str, signature: str) -> bool:
    """Return True if the signature of a text was made with the private key of a public key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(b32decode(key)[1:33]).verify(b64decode(signature), text.encode())
    except (ValueError, InvalidSignature):
        return False
    return True
