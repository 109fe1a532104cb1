"""A service's checks of tokens: which identity one has, and the proof that the service belongs to the token's pool."""

from __future__ import annotations

import hmac
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Final

from ..security.pool_security import PoolSecurity
from ..security.tokens import Identity, SigningKeyError, TokenRejected, claims_of
from .messages import Challenge, proof
from .requests import Rejected

_OF_THIS_POOL: Final = "; use a token that `poolbook token create` has printed for this pool"
_FIXES: Final = {
    "expired": "; create another with `poolbook token create`",
    "age": "; create another with `poolbook token create`",
    "key": _OF_THIS_POOL,
    "signature": _OF_THIS_POOL,
    "issuer": _OF_THIS_POOL,
    "malformed": _OF_THIS_POOL,
}


class TokenChecks:
    """Checks tokens of one pool.

    :param security: returns the pool's security, by the present configuration
    """

    def __init__(self, security: Callable[[], PoolSecurity], fingerprint: str) -> None:
        self._security, self._fingerprint = security, fingerprint

    def prove(self, challenge: Challenge) -> str:
        """Return the proof that this pool's key signed a token. Raise `Rejected` if the text is not a token's."""
        try:
            header, _ = claims_of(f"{challenge.claims}.")
            signature = hmac.digest(self._security().keys.derived(header["kid"]), challenge.claims.encode(), "sha256")
        except (TokenRejected, SigningKeyError) as error:
            raise Rejected(401, "key", f"{error}{_OF_THIS_POOL}") from None
        token = f"{challenge.claims}.{urlsafe_b64encode(signature).decode().rstrip('=')}"
        return proof(token, challenge.nonce, self._fingerprint)

    def identity_of(self, token: str, peer: str = "") -> Identity:
        """Return the identity of the holder of a token, who sends it as the role `peer`. Raise `Rejected`."""
        try:
            return self._security().verify(token, time.time())
        except TokenRejected as error:
            subject = " as ".join(filter(None, (str(error.claims.get("sub", "")), peer)))
            raise Rejected(401, error.code, f"{error}{_FIXES.get(error.code, '')}", subject) from None
