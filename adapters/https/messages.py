"""The bodies of requests to the manager's HTTPS service, and of its responses (JSON)."""

from __future__ import annotations

import base64
import hmac
import re

import msgspec
from msgspec import Struct

PORT = 9618  #: the port of a manager's service, unless another one is named
LARGEST_BODY = 64 << 10  #: bytes of a request
LARGEST_SKEW_S = 600  #: the largest difference between the clocks of two machines of a pool
MEMBER = "Poolbook-Member"  #: the scheme of a `MemberProof`
LEVELS = {"execution-point": "ADVERTISE_STARTD", "access-point": "ADVERTISE_SCHEDD", "manager": "DAEMON"}
"""The roles that can join, with the authorization level that each needs."""
ROLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,254}", re.ASCII)


class PoolInfo(Struct, frozen=True):
    """The public facts about a pool (``GET /v1/pool``)."""

    pool: str  #: its name
    ca: str  #: the certificate of its authority (PEM)
    fingerprint: str  #: its SHA-256, in hexadecimal
    time: float  #: the manager's clock
    trust_domain: str = ""  #: the issuer of its tokens
    proof: str = ""  #: the answer to a `Challenge`


class Challenge(Struct, frozen=True):
    """A request to prove that the service belongs to the pool of a token (``POST /v1/pool``).

    ``claims`` is the token without its signature, which only its holder and the pool know. So the token is sent only to
    a service that has proved that it knows the token, as in HTCondor's protocol IDTOKENS.
    """

    claims: str
    nonce: str


class MemberProof(Struct, frozen=True):
    """A proof that its author has a role's private key. It is valid for `LARGEST_SKEW_S`.

    It is the body of a request to become a member, or to renew the credentials of one (``POST /v1/join``); a new member
    also sends a token (``Authorization: Bearer``). In other requests of a member, it is the header Authorization.
    """

    peer: str
    key: str  #: the role's public key, as NATS writes the keys of users
    at: float  #: the sender's clock
    signature: str = ""  #: of `signed_text`

    @property
    def role(self) -> str:
        return self.peer.partition("/")[0]

    @property
    def name(self) -> str:
        return self.peer.partition("/")[2]

    def signed_text(self, fingerprint: str) -> str:
        return f"member {fingerprint} {self.peer} {self.key} {self.at}"

    def __str__(self) -> str:
        return f"{MEMBER} {base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()}"

    @classmethod
    def parse(cls, header: str) -> MemberProof:
        """Raise `ValueError` if the text is not such a header."""
        scheme, _, text = header.partition(" ")
        if scheme != MEMBER:
            raise ValueError(f"the scheme of the header Authorization must be {MEMBER}")
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=cls)


class JoinReply(Struct, frozen=True):
    """What a member needs: its credentials for the broker, and the settings that all roles of the pool share."""

    token: str  #: the role's token for the broker
    urls: tuple[str, ...]  #: of the broker
    pool: str
    dialect: str
    uid_domain: str
    settings: dict[str, str]
    own_broker: bool = True  #: whether the pool's authority issued the broker's certificate


class ErrorReply(Struct, frozen=True):
    """A rejected request, in the same form as HTCondor's HTTP service uses."""

    error: str  #: the meaning of the status code
    message: str
    code: int  #: the HTTP status code
    reason: str = ""  #: for programs


def proof(token: str, nonce: str, fingerprint: str) -> str:
    """Return the proof that its author knows the token and uses the authority with this fingerprint."""
    text = f"authority {nonce} {fingerprint}"
    return base64.b64encode(hmac.digest(token.encode(), text.encode(), "sha256")).decode()


def clock_message(skew: float) -> str:
    """Return the message about a role's clock that differs from the manager's by ``skew`` seconds."""
    direction = "ahead of" if skew > 0 else "behind"
    return (
        f"the role's clock is {abs(skew):.0f} s {direction} the manager's, and at most {LARGEST_SKEW_S} s are allowed; "
        f"synchronize both clocks (for example with chrony)"
    )


class Sender(Struct, frozen=True):
    """Who sent a command, as the manager has authenticated them. Only the manager adds it to a forwarded request."""

    name: str | None  #: user@domain; None: not authenticated
    scopes: list[str] | None  #: the authorization levels to which the token is limited; None: not limited
    address: str

    @property
    def identity(self) -> str:
        return self.name or "unauthenticated user"


class Query(Struct, frozen=True):
    """A command that only reads, which runs where the log is."""

    tool: str  #: the name of the program: poolbook, or an HTCondor tool
    command: str
    words: list[str]  #: its arguments
    text: str = ""  #: its standard input
    width: int = 0  #: columns of the user's terminal; 0: no terminal
    zone: str = ""  #: the user's time zone


class QueryReply(Struct, frozen=True):
    """What a query has printed."""

    out: str
    err: str
    code: int


class Advertise(Struct, frozen=True, tag_field="kind", tag="Advertise"):
    """Ads of one type that a pool forwards to a view server, which holds the ads of the last round.

    HTCondor's collector sends an update for each ad, and an invalidation. Here the last request of a round ends the
    ads that were in no request of the round.
    """

    log: str  #: the id of the pool's log
    pool: str  #: the name of the pool
    type: str  #: MyType of all ads
    round: float  #: the sender's clock when the round began
    ads: list[str]  #: in the form of condor_status -long
    is_last: bool = True  #: whether this is the last request of the round


class AccessPoints(Struct, frozen=True):
    """The access points that are connected to the manager (``GET /v1/access-points``)."""

    names: list[str]
