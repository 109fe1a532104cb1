"""Credentials for the broker: the keys of the pool's NATS operator and account, and the tokens of its roles.

The broker trusts the operator; the operator vouches for the account; the account issues each role a token (a user JWT)
that says on which subjects the role may send and receive. The token names the role's own key, with which it answers the
broker's challenge: the private key never leaves the role's machine. See https://docs.nats.io, "JWTs".
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import nkeys

from ..security.private_files import make_private_folder, read_private, write_private
from .subjects import check_peer, subjects_from, subjects_to

LIFETIME_S = 24 * 3600  #: seconds for which a token is valid, unless the caller names another time
_MOST_KEYS = 200  #: keys of a role with valid tokens: each must be remembered, so that it can be revoked
_MOST_REVOKED = 5000  #: revoked keys with which new keys get tokens: the server's configuration names each
_PUBLIC_KEY = re.compile(r"U[A-Z2-7]{55}")
_CREDENTIALS = re.compile(r"-+BEGIN NATS USER JWT-+\s+(\S+)\s+-+END.*?-+BEGIN USER NKEY SEED-+\s+(\S+)\s+-+END", re.S)


class UserKey(NamedTuple):
    """The key pair of a role. ``seed`` is its private part."""

    seed: str
    public: str

    @classmethod
    def create(cls) -> UserKey:
        pair = _create_key(nkeys.PREFIX_BYTE_USER)
        return cls(pair.seed.decode(), pair.public_key.decode())


class Credentials(NamedTuple):
    """What a role shows the broker: its token and its key. The file has the format of NATS's tools."""

    token: str
    seed: str

    @classmethod
    def read(cls, path: Path) -> Credentials:
        """Read the file of a role's credentials.

        :raises PrivateFileError: the file cannot be read, or other users have access to it
        :raises ValueError: the file has no credentials
        """
        match = _CREDENTIALS.search(read_private(path).decode(errors="replace"))
        if match is None:
            raise ValueError(f"{path} contains no NATS credentials; create it again by joining the pool")
        return cls(match[1], match[2])

    def write(self, path: Path) -> None:
        """Write the credentials to a file that no other user can read. Raise `OSError` if that fails."""
        blocks = [("NATS USER JWT", self.token), ("USER NKEY SEED", self.seed)]
        text = "".join(f"-----BEGIN {name}-----\n{value}\n------END {name}------\n" for name, value in blocks)
        write_private(path, text.encode())

    def sign(self, challenge: str) -> str:
        """Return the answer to a challenge of the broker."""
        return base64.b64encode(nkeys.from_seed(self.seed.encode()).sign(challenge.encode())).decode()

    @property
    def renewal_time(self) -> float:
        """Return when the role should obtain another token: after half of this one's lifetime."""
        claims = _claims(self.token)
        return float(claims["iat"] + claims["exp"]) / 2


class BrokerKeys:
    """Issues and revokes the tokens of a pool's roles, with keys that are created once in a private directory.

    For an account of another NATS operator, put the seed of one of the account's signing keys into ``account.seed`` in
    the directory, and name the account. Tokens can then be revoked only by that operator.
    """

    def __init__(self, folder: Path, account: str = "") -> None:
        """Load the keys, or create them.

        :raises PrivateFileError: other users have access to the directory or to a key
        :raises ValueError: the file of a key is damaged
        """
        make_private_folder(folder)
        self._lock = Lock()  # threads may issue tokens at once, and none of their keys may be forgotten
        self._users, self._revocations_path = folder / "users", folder / "revocations.json"
        make_private_folder(self._users)
        self._operator = _load_key(folder / "operator.seed", nkeys.PREFIX_BYTE_OPERATOR)
        self._account = _load_key(folder / "account.seed", nkeys.PREFIX_BYTE_ACCOUNT)
        self._system = _load_key(folder / "system.seed", nkeys.PREFIX_BYTE_ACCOUNT)
        self._account_id = account or _public(self._account)

    def issue(self, peer: str, public_key: str, now: float, lifetime: int = LIFETIME_S) -> str:
        """Return a token for the role called `peer`, valid for `lifetime` seconds. It permits the role to receive its
        own datagrams, and to send in its own name to the roles that it works with.

        :raises ValueError: `peer` is not the name of a role; `public_key` is not the public key of a user; or the role
            has had too many other keys within the lifetime of their tokens
        """
        check_peer(peer)
        _check_public_key(public_key)
        expires = int(now) + lifetime
        with self._lock:
            keys = self._keys_of(peer, now)
            if public_key not in keys and len(keys) >= _MOST_KEYS:
                raise ValueError(f"{peer} has {_MOST_KEYS} keys with valid tokens; use one of them, or revoke them")
            if public_key not in keys and len(self._revocations(now)) >= _MOST_REVOKED:
                raise ValueError(f"{_MOST_REVOKED} keys are revoked; use a known key, or try again when they expire")
            keys[public_key] = expires
            write_private(self._user_path(peer), json.dumps(keys).encode())  # before the token can be used
        permissions = {
            "type": "user",
            "version": 2,
            "issuer_account": self._account_id,
            "pub": {"allow": subjects_from(peer)},
            "sub": {"allow": [subjects_to(peer)]},
            "subs": 4,  # the server needs one, and closes the connection when a reload finds it at its limit
            "data": -1,
            "payload": -1,
            "allowed_connection_types": ["STANDARD"],
        }
        if self._account_id == _public(self._account):
            del permissions["issuer_account"]  # it is for tokens that a signing key has signed
        return _token(self._account, public_key, peer, permissions, now, expires)

    def revoke(self, peer: str, now: float) -> None:
        """Revoke all tokens that a role has received until now. This has effect once the broker has loaded its new
        configuration (`Broker.ensure_running`). The role may receive another token later."""
        with self._lock:
            revoked = {key: [int(now), end] for key, end in self._keys_of(peer, now).items()}
            write_private(self._revocations_path, json.dumps(self._revocations(now) | revoked).encode())
            self._user_path(peer).unlink(missing_ok=True)

    def broker_settings(self, now: float) -> dict[str, Any]:
        """Return the settings with which a NATS server trusts the tokens, and no revoked ones."""
        revoked = {key: at for key, (at, _) in self._revocations(now).items()}
        limits = {"subs": -1, "data": -1, "payload": -1, "conn": -1, "wildcards": True, "leaf": 0}
        account = {"type": "account", "version": 2, "limits": limits | {"imports": 0, "exports": 0}}
        operator_id, account_id, system_id = (_public(pair) for pair in (self._operator, self._account, self._system))
        # Without times, so that the same keys and revocations result in the same settings.
        return {
            "operator": _token(self._operator, operator_id, "poolbook", {"type": "operator", "version": 2}),
            "resolver": "MEMORY",
            "resolver_preload": {
                account_id: _token(self._operator, account_id, "roles", account | {"revocations": revoked}),
                system_id: _token(self._operator, system_id, "system", account),
            },
            "system_account": system_id,  # has no users
        }

    def _user_path(self, peer: str) -> Path:
        return self._users / hashlib.sha256(peer.encode()).hexdigest()

    def _keys_of(self, peer: str, now: float) -> dict[str, int]:
        """Return the public keys in a role's tokens, each with the time when its last token expires."""
        path = self._user_path(peer)
        keys: dict[str, int] = json.loads(read_private(path)) if path.exists() else {}
        return {key: end for key, end in keys.items() if end > now}

    def _revocations(self, now: float) -> dict[str, list[int]]:
        """Return the keys whose tokens are revoked: public key -> [when, when the last of its tokens expires]."""
        path = self._revocations_path
        keys: dict[str, list[int]] = json.loads(read_private(path)) if path.exists() else {}
        return {key: times for key, times in keys.items() if times[1] > now}


def _create_key(kind: int) -> nkeys.KeyPair:
    return nkeys.from_seed(nkeys.encode_seed(os.urandom(32), kind))


def _load_key(path: Path, kind: int) -> nkeys.KeyPair:
    if not path.exists():
        write_private(path, _create_key(kind).seed, replace=False)
    seed = read_private(path).strip()
    try:
        actual_kind, raw = nkeys.decode_seed(seed)
        if actual_kind != kind or nkeys.encode_seed(raw[:32], kind) != seed:  # compares the checksum, too
            raise ValueError("it is another kind of key, or its checksum is wrong")
        return nkeys.from_seed(seed)
    except (nkeys.NkeysError, IndexError, ValueError) as error:
        message = f"{path} is damaged ({error}): restore it from a copy, or remove it, so that all roles get new tokens"
        raise ValueError(message) from None


def _public(pair: nkeys.KeyPair) -> str:
    return str(pair.public_key.decode())


def _check_public_key(public_key: str) -> None:
    if not _PUBLIC_KEY.fullmatch(public_key):
        raise ValueError(f"{public_key[:80]!r} is not the public key of a NATS user; send UserKey.public")
    raw = base64.b32decode(public_key)
    if nkeys.crc16_checksum(raw[:-2]) != raw[-2:]:
        raise ValueError(f"{public_key} is damaged: its checksum is wrong; send it again")


def _token(
    issuer: nkeys.KeyPair, subject: str, name: str, nats: dict[str, Any], now: float = 0, expires: int = 0
) -> str:
    """Return a signed token; without `expires`, it never expires."""
    claims = {"iss": _public(issuer), "sub": subject, "name": name, "iat": int(now), "nats": nats}
    if expires:
        claims["exp"] = expires
    claims["jti"] = base64.b32encode(hashlib.sha256(_json(claims)).digest()).decode().rstrip("=")
    text = f"{_encode(_json({'typ': 'JWT', 'alg': 'ed25519-nkey'}))}.{_encode(_json(claims))}"
    return f"{text}.{_encode(issuer.sign(text.encode()))}"


def _claims(token: str) -> dict[str, Any]:
    claims = token.split(".")[1]
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    return decoded


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
