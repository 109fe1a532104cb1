"""A role's membership in a pool, stored in the private directory next to the role's log: the role starts again without
a token, and even if the manager is not running."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ...domain.state.peers import MANAGER
from ..security.private_files import make_private_folder, read_private, security_folder, write_private
from .client import ManagerError
from .messages import JoinReply, MemberProof

if TYPE_CHECKING:
    from ..fabric.nats_carrier import NatsCarrier


class Membership(Struct, frozen=True):
    """A role of a pool, and what the manager last replied to it."""

    url: str  #: the manager's, without the fingerprint
    role: str
    name: str
    key: str  #: the role's public key
    reply: JoinReply | None = None
    flocks: bool = False  #: whether the pool is another one, to which the access point flocks

    @property
    def peer(self) -> str:
        return f"{self.role}/{self.name}"

    @property
    def terms(self) -> JoinReply:
        """Return the manager's reply."""
        assert self.reply is not None, "only a role that has joined has a reply"
        return self.reply

    def proof(self, seed: str, authority: bytes) -> MemberProof:
        """Return the proof that the role has its private key, for the pool with this authority (PEM)."""
        from ..fabric.credentials import Credentials
        from ..security.authority import fingerprint

        proof = MemberProof(self.peer, self.key, time.time())
        signature = Credentials("", seed).sign(proof.signed_text(fingerprint(authority)))
        return msgspec.structs.replace(proof, signature=signature)


class MemberFiles:
    """The files of a role's membership, next to its log."""

    def __init__(self, log: Path, name: str = "") -> None:
        """
        :param log: where the names of the files next to the log begin (`LogPaths.base`)
        :param name: the name of a further manager; empty: the membership that the role obtained first
        """
        self.log = log
        self.manager = f"{MANAGER}/{name}" if name else MANAGER  #: as a peer of the role
        self.folder = security_folder(log) / "managers" / name if name else security_folder(log)
        self._membership = self.folder / "membership.json"
        self.credentials = self.folder / "role.creds"
        self.authority = self.folder / "pool-ca.pem"

    def exist(self) -> bool:
        return self._membership.exists()

    def read(self) -> Membership:
        """Return the stored membership. Raise `PrivateFileError` or `ManagerError` if it cannot be used."""
        try:
            return msgspec.json.decode(read_private(self._membership), type=Membership)
        except msgspec.MsgspecError as error:
            message = f"{self._membership} is damaged ({error}); join again with a token: `poolbook join URL TOKEN`"
            raise ManagerError(message) from None

    def write(self, membership: Membership, seed: str, authority: str) -> None:
        """Store a membership; it counts once all of it is stored. Raise `OSError` if that fails."""
        from ..fabric.credentials import Credentials

        make_private_folder(self.folder)
        Credentials(membership.terms.token, seed).write(self.credentials)
        write_private(self.authority, authority.encode())
        write_private(self._membership, msgspec.json.encode(membership))

    def proof(self) -> dict[str, str]:
        """Return the headers that authenticate the role in a request to the manager."""
        from ..fabric.credentials import Credentials

        seed = Credentials.read(self.credentials).seed
        return {"Authorization": str(self.read().proof(seed, self.authority.read_bytes()))}

    def carrier(self) -> NatsCarrier:
        """Return the carrier of the role; it connects as soon as the broker can be reached."""
        from ..fabric.nats_carrier import NatsCarrier

        membership = self.read()
        ca = self.authority if membership.terms.own_broker else None
        return NatsCarrier(membership.terms.urls, membership.peer, self.credentials, ca)
