"""IDTOKENS as HTCondor makes them: JSON Web Tokens (HS256) signed with a key of the pool.

A signing key is a file in the directory SEC_PASSWORD_DIRECTORY; its name is the key's id, which the token's header
contains. The key that signs is derived from the file as in HTCondor (condor_auth_passwd.cpp, store_cred.cpp). So
HTCondor accepts these tokens, and this module accepts HTCondor's, if both have the same file. Only HS256 is accepted,
the only algorithm with which HTCondor creates tokens.

A token is a secret: messages contain its claims, never the token.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...domain.classad import Context, parse
from ...domain.classad.ad import ClassAd
from ...domain.errors import PoolbookError
from .private_files import PrivateFileError, make_private_folder, read_private, write_private

POOL: Final = "POOL"  #: the id of the default signing key
ALGORITHM: Final = "HS256"
SCOPE: Final = "condor:/"  #: the prefix of an authorization level in a token's scope
LONGEST_TOKEN: Final = 16_384  #: maximum number of characters in a token, as in an HTTP header
_KEY_SIZE: Final = 64  #: number of random bytes in a new signing key
_SCRAMBLE: Final = bytes.fromhex("deadbeef")
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,127}", re.ASCII)
_LEVEL: Final = re.compile(r"[A-Za-z_]{1,64}", re.ASCII)
ID: Final = re.compile(r"[!-~]{1,256}", re.ASCII)  #: the id of a token (jti) or of a client
_LONGEST_NAME: Final = 1024  #: maximum number of characters in an identity


class TokenRejected(PoolbookError):
    """A token is not accepted. ``code`` is the reason for programs: malformed, key, signature, issuer, expired, age,
    revoked or claims. ``claims`` are the claims of a token with a valid signature.

    The message is for the pool's log: it may contain paths. As in HTCondor, the client only learns that it was not
    authenticated."""

    def __init__(self, code: str, message: str, claims: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.claims = code, dict(claims or {})


class SigningKeyError(PoolbookError):
    """A signing key cannot be used. ``tool`` is the message that condor_token_create prints."""

    def __init__(self, message: str, tool: str) -> None:
        super().__init__(message)
        self.tool = tool


class Identity(NamedTuple):
    """The holder of a valid token."""

    user: str
    domain: str  #: empty if the token's subject has none
    scopes: frozenset[str] | None  #: the authorization levels to which the token is limited; None: not limited
    key: str  #: the id of the key that signed the token
    id: str  #: the token's id (jti)
    expires: int | None  #: in seconds since the epoch; None: never

    @property
    def name(self) -> str:
        """Return ``user@domain``, as authorization lists contain it; only the user if there is no domain."""
        return f"{self.user}@{self.domain}" if self.domain else self.user


class SigningKeys(NamedTuple):
    """The signing keys in a private directory. ``pool_file``: the file of the key POOL, if it is elsewhere
    (SEC_TOKEN_POOL_SIGNING_KEY_FILE)."""

    folder: Path
    pool_file: Path | None = None

    def path(self, key: str) -> Path:
        """Return the file of a key. Raise `SigningKeyError` if the id is not a plain file name."""
        if not _KEY_ID.fullmatch(key):
            message = f"{key[:128]!r} is not a key id; use letters, digits and the characters _ . @ - in it"
            raise SigningKeyError(message, f"TOKEN:1:Failed to read file {self.folder / 'unknown'} securely.")
        return self.pool_file if key == POOL and self.pool_file is not None else self.folder / key

    def create(self, key: str = POOL) -> None:
        """Create a random key, unless the key exists. Raise `SigningKeyError`, `PrivateFileError` or `OSError`."""
        path = self.path(key)
        make_private_folder(path.parent)
        if not path.exists():
            try:
                write_private(path, secrets.token_bytes(_KEY_SIZE), replace=False)
            except FileExistsError:
                return  # another process created it

    def derived(self, key: str) -> bytes:
        """Return the bytes that sign tokens. Raise `SigningKeyError` if the key's file cannot be used."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        path = self.path(key)
        try:
            content = read_private(path)
        except PrivateFileError as error:
            tool_message = f"TOKEN:1:Failed to read file {path} securely."
            raise SigningKeyError(f"the signing key {key} cannot be used: {error}", tool_message) from None
        master = bytes(byte ^ _SCRAMBLE[at % len(_SCRAMBLE)] for at, byte in enumerate(content))
        if key == POOL:
            master *= 2  # as in HTCondor, where the key may be a pool password
        return HKDF(algorithm=SHA256(), length=32, salt=b"htcondor", info=b"master jwt").derive(master)


class TokenRules(NamedTuple):
    """The rules that a valid token must satisfy."""

    trust_domain: str  #: TRUST_DOMAIN, the issuer of the pool's tokens
    max_age: int | None = None  #: SEC_TOKEN_MAX_AGE, in seconds
    revocation: str = ""  #: SEC_TOKEN_REVOCATION_EXPR, an expression over the claims
    revoked_ids: Container[str] = frozenset()  #: the ids (jti) of revoked tokens


def create(
    keys: SigningKeys, trust_domain: str, identity: str, now: int, *, levels: Iterable[str] = (),
    lifetime: int | None = None, key: str = POOL,
) -> str:  # fmt: skip
    """Return a new token for `identity` (``user@domain``).

    :param levels: the authorization levels to which the token is limited
    :param lifetime: in seconds; None: the token does not expire
    :raises SigningKeyError: the signing key cannot be used
    :raises ValueError: the trust domain, the identity, a level or the lifetime is invalid
    """
    import jwt

    if not trust_domain or re.search(r"[,\s]", trust_domain):
        raise ValueError(f"the trust domain {trust_domain!r} must not be empty or contain blanks or commas")
    names = list(levels)
    check_names(identity, names)
    if lifetime is not None and lifetime < 0:
        raise ValueError(f"the lifetime must be at least 0 seconds, not {lifetime}")
    claims: dict[str, Any] = {"iat": now, "iss": trust_domain, "jti": secrets.token_hex(16), "sub": identity}
    if lifetime is not None:
        claims["exp"] = now + lifetime
    if names:
        claims["scope"] = " ".join(SCOPE + name for name in names)
    payload = json.dumps(claims, sort_keys=True, separators=(",", ":")).replace("/", "\\/")  # as HTCondor writes it
    return jwt.PyJWS([ALGORITHM]).encode(payload.encode(), keys.derived(key), ALGORITHM, {"kid": key, "typ": None})


def check_names(identity: str, levels: Iterable[str]) -> None:
    """Raise `ValueError` if a token cannot contain this identity or one of these levels."""
    if not _is_name(identity):
        raise ValueError(f"{identity[:80]!r} is not an identity; use a name such as alice@example.org")
    for level in levels:
        if not _LEVEL.fullmatch(level):
            raise ValueError(f"{level[:80]!r} is not an authorization level; use a level such as READ")


def _is_name(identity: str) -> bool:
    return 0 < len(identity) <= _LONGEST_NAME and identity.isprintable() and not re.search(r"[\s,/*]", identity)


def verify(token: str, keys: SigningKeys, rules: TokenRules, now: float) -> Identity:
    """Return the identity of a token's holder, or raise `TokenRejected` with the reason.

    As in HTCondor, a token is valid during the second of its expiry, and a clock that is behind does not matter.
    """
    import jwt

    header, claims = claims_of(token)
    key = header["kid"]
    try:
        secret = keys.derived(key)
    except SigningKeyError as error:
        raise TokenRejected("key", f"the token is signed with the key {key}, but {error}") from None
    try:
        jwt.PyJWS([ALGORITHM]).decode(token, secret, [ALGORITHM])  # compares the signatures in constant time
    except jwt.PyJWTError:
        raise TokenRejected("signature", f"the signature was not made with this pool's key {key}") from None
    _check_claims(claims, rules, now)
    user, _, domain = claims["sub"].rpartition("@") if "@" in claims["sub"] else (claims["sub"], "", "")
    return Identity(user, domain, _scopes(claims), key, claims["jti"], claims.get("exp"))


def claims_of(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a token's header and claims without checking its signature, or raise `TokenRejected`."""
    import jwt

    if len(token) > LONGEST_TOKEN:
        raise TokenRejected("malformed", f"the token is longer than {LONGEST_TOKEN} characters, which is the limit")
    try:
        parts = jwt.PyJWS([ALGORITHM]).decode_complete(token, options={"verify_signature": False})
        claims = json.loads(parts["payload"])
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise TokenRejected("malformed", f"the text is not a token: {type(error).__name__}") from None
    header = parts["header"]
    if header.get("alg") != ALGORITHM:
        raise TokenRejected(
            "malformed", f"the token's algorithm must be {ALGORITHM}, not {str(header.get('alg'))[:20]!r}"
        )
    if not isinstance(header.get("kid"), str) or not _KEY_ID.fullmatch(header["kid"]):
        raise TokenRejected("malformed", "the token's header has no valid key id (kid)")
    if not isinstance(claims, dict):
        raise TokenRejected("malformed", "the token's claims are not a JSON object")
    return header, claims


def _check_claims(claims: Mapping[str, Any], rules: TokenRules, now: float) -> None:
    def reject(code: str, message: str) -> None:
        raise TokenRejected(code, message, claims)

    if missing := [name for name in ("iss", "sub", "jti") if name not in claims]:
        reject("claims", f"the token has no claim {missing[0]}")
    if claims["iss"] != rules.trust_domain:
        reject(
            "issuer",
            f"the token is from the trust domain {str(claims['iss'])[:256]!r}, not from {rules.trust_domain!r}",
        )
    if not isinstance(claims["sub"], str) or not _is_name(claims["sub"]) or claims["sub"].startswith("@"):
        reject("claims", "the token's subject is not the name of a user")
    if not isinstance(claims["jti"], str) or not ID.fullmatch(claims["jti"]):
        reject("claims", "the token's id (jti) is not a text of at most 256 ASCII characters without blanks")
    for name in ("iat", "nbf", "exp"):
        if name in claims and (not isinstance(claims[name], int) or isinstance(claims[name], bool)):
            reject("claims", f"the token's claim {name} is not a number of seconds")
    if "exp" in claims and int(now) > claims["exp"]:
        reject("expired", f"the token expired {int(now) - claims['exp']} s ago")
    if "nbf" in claims and int(now) < claims["nbf"]:
        reject("claims", f"the token is not valid for another {claims['nbf'] - int(now)} s")
    if rules.max_age is not None and ("iat" not in claims or now - claims["iat"] > rules.max_age):
        reject("age", f"the token is older than SEC_TOKEN_MAX_AGE ({rules.max_age} s)")
    if claims["jti"] in rules.revoked_ids:
        reject("revoked", f"the token {claims['jti']} of {claims['sub']} is revoked")
    if rules.revocation and _is_revoked(rules.revocation, claims, now):
        reject("revoked", f"SEC_TOKEN_REVOCATION_EXPR revokes the token {claims['jti']} of {claims['sub']}")


def _is_revoked(expression: str, claims: Mapping[str, Any], now: float) -> bool:
    """Evaluate the revocation expression; as in HTCondor, only a false value accepts the token. The claims are
    attributes of the ad, except for lists and objects."""
    ad = ClassAd({name: value for name, value in claims.items() if isinstance(value, bool | int | float | str)})
    try:
        ad["Revocation__"] = parse(expression)
        value = ad.eval("Revocation__", context=Context(now=int(now)))
    except PoolbookError:  # the expression is invalid or has no value
        return True
    return not (isinstance(value, bool | int | float) and not value)


def _scopes(claims: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the levels to which the scope limits a token. A scope without HTCondor's levels permits nothing; HTCondor
    ignores such a scope."""
    if "scope" not in claims:
        return None
    scopes = claims["scope"].split() if isinstance(claims["scope"], str) else []
    return frozenset(scope.removeprefix(SCOPE) for scope in scopes if scope.startswith(SCOPE))
