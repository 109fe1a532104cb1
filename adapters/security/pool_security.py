"""The security of one pool: its keys, tokens, certificates and authorization lists, from its configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ...domain.errors import PoolbookError
from . import tokens
from .authorization import DEFAULTS, LEVELS, Verdict, is_authorized
from .private_files import security_folder
from .token_store import RequestError, TokenRequest, TokenStore

if TYPE_CHECKING:
    from ...domain.config import Configuration
    from .authority import Authority

_LISTS: Final = (
    *(f"ALLOW_{level}" for level in (*LEVELS, "DEFAULT")),
    *(f"DENY_{level}" for level in (*LEVELS, "DEFAULT")),
    *(f"SEC_{level}_AUTHENTICATION" for level in (*LEVELS, "DEFAULT")),
)
_DAEMONS: Final = ("COLLECTOR", "NEGOTIATOR", "SCHEDD", "STARTD", "MASTER")


class PoolSecurity(NamedTuple):
    """The security of one pool. ``folder`` is the private directory next to its log."""

    folder: Path
    keys: tokens.SigningKeys
    trust_domain: str  #: TRUST_DOMAIN
    issuer_key: str = tokens.POOL  #: SEC_TOKEN_ISSUER_KEY
    max_age: int | None = None  #: SEC_TOKEN_MAX_AGE
    revocation: str = ""  #: SEC_TOKEN_REVOCATION_EXPR
    longest_lifetime: int | None = None  #: SEC_ISSUED_TOKEN_EXPIRATION, for requested tokens
    request_limits: frozenset[str] = frozenset()  #: SEC_TOKEN_REQUEST_LIMITS
    settings: Mapping[str, str] = DEFAULTS  #: the authorization lists

    @property
    def store(self) -> TokenStore:
        return TokenStore(self.folder)

    def authority(self, now: float) -> Authority:
        """Return the pool's certificate authority; raise as `Authority` does."""
        from .authority import Authority  # the commands for tokens do not need its library

        return Authority(self.folder / "ca", self.trust_domain, now)

    def create_first_key(self) -> None:
        """Create the key POOL if the pool has no keys yet. If an administrator removed the key, it is not replaced:
        tokens signed with another key would be accepted instead."""
        if not self.keys.path(tokens.POOL).parent.exists():
            self.keys.create()

    def issue(
        self, identity: str, now: float, levels: Iterable[str] = (), lifetime: int | None = None, key: str = ""
    ) -> str:
        """Return a new token, and record it without its signature. Raise as `tokens.create` does."""
        key = key or self.issuer_key
        token = tokens.create(
            self.keys, self.trust_domain, identity, int(now), levels=levels, lifetime=lifetime, key=key
        )
        self.store.record(tokens.claims_of(token)[1], key)
        return token

    def verify(self, token: str, now: float) -> tokens.Identity:
        """Return the identity of a token's holder; raise `TokenRejected` with the reason."""
        rules = tokens.TokenRules(self.trust_domain, self.max_age, self.revocation, self.store)
        return tokens.verify(token, self.keys, rules, now)

    def is_authorized(self, identity: tokens.Identity | None, address: str, level: str, daemon: str = "") -> Verdict:
        """Decide whether the holder of a token may do what needs ``level``; None: a client without a token."""
        name, scopes = (None, None) if identity is None else (identity.name, identity.scopes)
        return is_authorized(self.settings, name, address, level, scopes, daemon)

    def limited(self, lifetime: int | None) -> int | None:
        """Return the lifetime of a token that a client requests, within the pool's limit."""
        if self.longest_lifetime is None:
            return lifetime
        return self.longest_lifetime if lifetime is None else min(lifetime, self.longest_lifetime)

    def request(
        self, client: str, identity: str, requester: str, address: str, levels: Iterable[str], lifetime: int | None,
        now: float,
    ) -> tuple[TokenRequest, str]:  # fmt: skip
        """Store a request for a token, within the pool's limits. Return it, and the client's secret.

        :raises RequestError: there are too many requests, the limits leave no level, or a name is invalid
        """
        names = list(levels)
        if self.request_limits:
            names = [name for name in names if name in self.request_limits] if names else sorted(self.request_limits)
            if not names:
                text = "All requested authorizations were eliminated by the SEC_TOKEN_REQUEST_LIMITS setting"
                raise RequestError(text)
        lifetime = self.limited(lifetime)
        identity = identity or f"condor@{self.trust_domain}"
        try:
            tokens.check_names(identity, names)
        except ValueError as error:
            raise RequestError(str(error)) from None
        if not tokens.ID.fullmatch(client):
            raise RequestError("No client ID provided.")
        new = TokenRequest("", client, identity, requester, address, ",".join(names), lifetime, 0)
        return self.store.submit(new, now)

    def collect(self, id: str, client: str, secret: str, now: float) -> str:
        """Return the token of an approved request, or an empty text if it waits for approval. Raise `RequestError` if
        there is no such request."""
        request = self.store.collect(id, client, secret, now)
        if request is None:
            return ""
        return self.issue(request.identity, now, request.levels.split(",") if request.levels else (), request.lifetime)


def pool_security(base: Path, uid_domain: str, configuration: Configuration) -> PoolSecurity:
    """Return the security of the pool whose files start with `base` (``LogPaths.base``).

    :param uid_domain: the pool's UID_DOMAIN, the default of TRUST_DOMAIN
    :raises ConfigError: a setting is invalid
    :raises PoolbookError: the libraries for tokens and certificates are not installed
    """
    if missing := [name for name in ("cryptography", "jwt") if find_spec(name) is None]:
        text = f"tokens and certificates need the Python package {missing[0]}, which is not installed"
        raise PoolbookError(f"{text}: pip install 'poolbook[cluster]'")

    def configured(name: str) -> str:
        """Return a setting's value if the user set it: HTCondor's defaults are directories of the whole machine."""
        return configuration.get(name).strip() if configuration.source(name).kind != "default" else ""

    def seconds(name: str) -> int | None:
        return configuration.seconds(name, 0) or None if configured(name) else None

    folder = security_folder(base)
    keys_folder, pool_file = configured("SEC_PASSWORD_DIRECTORY"), configured("SEC_TOKEN_POOL_SIGNING_KEY_FILE")
    names = (*_LISTS, *(f"{name}_{daemon}" for name in _LISTS for daemon in _DAEMONS))
    return PoolSecurity(
        folder,
        tokens.SigningKeys(Path(keys_folder or folder / "passwords.d"), Path(pool_file) if pool_file else None),
        configured("TRUST_DOMAIN") or uid_domain,
        configured("SEC_TOKEN_ISSUER_KEY") or tokens.POOL,
        seconds("SEC_TOKEN_MAX_AGE"),
        configured("SEC_TOKEN_REVOCATION_EXPR") or configured("SEC_TOKEN_BLACKLIST_EXPR"),
        seconds("SEC_ISSUED_TOKEN_EXPIRATION"),
        frozenset(configured("SEC_TOKEN_REQUEST_LIMITS").replace(",", " ").split()),
        {
            **DEFAULTS,
            **{name: configuration.get(name) for name in names if configuration.source(name).kind != "default"},
        },
    )
