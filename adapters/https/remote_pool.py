"""A pool as a user on another machine reaches it: through its manager, with a token (IDTOKEN).

The token is in the user's directory of tokens. The file ~/.condor/known_hosts has the pool's authority after the first
command; before, the manager must prove that it knows the token, or -pool contains the authority's fingerprint.
"""

from __future__ import annotations

import base64
import hashlib
import ssl
import time
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import msgspec

from ..runtime.configuration import load
from ..security.user_tokens import UserToken, token_files, tokens_folder, tokens_in
from .client import ManagerError, call, checked_url, exchange, pool_authority, unverified_context
from .messages import AccessPoints, PoolInfo, Query, QueryReply

_LARGEST_ANSWER: Final = 256 << 20
_PATIENCE_S: Final = 300  #: seconds without progress after which a transfer of files fails
_ANSWER_S: Final = 90  #: seconds that a command waits for its answer
_METHOD: Final = "SSL"  #: in known_hosts, as HTCondor writes it


class RemotePool:
    """A role of a pool: its manager, or an access point that is reached through it. The URL is one of ``elsewhere``."""

    def __init__(self, url: str) -> None:
        """Raise `ManagerError` if the URL is invalid, or the manager is not the one that the user knows."""
        configuration = load()
        parts = urlsplit(url)
        self._base = checked_url(f"https://{parts.netloc}", url)
        self._name = unquote(parts.path[1:]) if parts.path else None
        self._tokens_folder = tokens_folder(configuration)
        files = token_files(self._tokens_folder, configuration)
        self._token = self._choose_token([token for file in files for token in tokens_in(file)])
        self._certificate = self._verified_certificate(parts.fragment)
        self._context = ssl.create_default_context(cadata=self._certificate)

    def send(self, request: bytes) -> bytes:
        """Send a command, and return the answer of the role's server. Raise `ManagerError` if it is rejected."""
        path = "/v1/commands"
        if self._name is not None:
            path = f"/v1/access-points/{quote(self._access_point_name(), safe='')}/commands"
        return self._exchange(path, request)

    def query(self, query: Query) -> QueryReply:
        """Run a query where the log is. Raise `ManagerError` if it is rejected."""
        body = {"kind": "Query", **msgspec.structs.asdict(query)}
        return msgspec.json.decode(self.send(msgspec.json.encode(body)), type=QueryReply)

    def access_point(self, activation: str, key: str) -> dict[str, Any]:
        """Return how to transfer files that an access point offers (the fields of ``AccessPoint``)."""
        url = f"{self._base}/v1/relay/to/{quote(self._access_point_name(), safe='')}"
        authority = ssl.DER_cert_to_PEM_cert(self._certificate)
        return {"urls": [url], "activation": activation, "key": key, "ca": authority, "patience_s": _PATIENCE_S}

    def _exchange(self, path: str, body: bytes | None) -> bytes:
        headers = {"Authorization": f"Bearer {self._token.text}"} if self._token else {}
        trust = f"if the pool has a new authority, remove the line of {self._host} from {known_hosts()}"
        try:
            return exchange(self._base, path, self._context, body, headers, _ANSWER_S, _LARGEST_ANSWER, trust)
        except ManagerError as error:
            error.tool = error.tool or f"{self._tool_message(error)}\n{error}"
            raise

    def _tool_message(self, error: ManagerError) -> str:
        """Return what HTCondor's tools print about an error."""
        if error.code == "name":
            return "Error: Collector has no record of schedd/submitter"
        user = self._token.subject if self._token else "unauthenticated@unmapped"
        return {
            401: "AUTHENTICATE:1003:Failed to authenticate with any method\n"
            "AUTHENTICATE:1004:Failed to authenticate using IDTOKENS",
            403: f'SECMAN:2010:Received "DENIED" from server for user {user} using method IDTOKENS.',
        }.get(error.status, "Error: communication error")

    def _access_point_name(self) -> str:
        if not self._name:
            self._name = self._only_access_point()
        return self._name

    def _only_access_point(self) -> str:
        names = msgspec.json.decode(self._exchange("/v1/access-points", None), type=AccessPoints).names
        if len(names) == 1:
            return names[0]
        if not names:
            raise ManagerError(f"no access point is connected to {self._base}; start one with `poolbook join`")
        raise ManagerError(f"the pool has several access points; name one of them with -name: {', '.join(names)}")

    @property
    def _host(self) -> str:
        return self._base.removeprefix("https://")

    def _choose_token(self, tokens: list[UserToken]) -> UserToken | None:
        """Return the user's token for this pool. If there are tokens of several pools, the manager says which is its
        own."""
        if len({token.issuer for token in tokens}) > 1:
            issuer = call(self._base, "/v1/pool", PoolInfo, unverified_context(), None).trust_domain
            tokens = [token for token in tokens if token.issuer == issuer]
        now = time.time()
        valid_tokens = [token for token in tokens if token.expires is None or token.expires >= now]
        if tokens and not valid_tokens:
            raise ManagerError(
                f"the token in {tokens[0].path} expired {now - (tokens[0].expires or 0):.0f} s ago; get another one "
                f"from an administrator (`poolbook token create`), or with condor_token_request"
            )
        return valid_tokens[0] if valid_tokens else None

    def _verified_certificate(self, fragment: str) -> bytes:
        """Return the certificate of the pool's authority, and remember it."""
        expected = fragment.removeprefix("sha256=").replace(":", "").lower()
        certificate = _known_certificate(self._host)
        if certificate is None or (fragment and hashlib.sha256(certificate).hexdigest() != expected):
            if not (fragment or self._token):
                raise ManagerError(
                    f"{self._base} is not known yet, and you have no token for it; store a token in "
                    f"{self._tokens_folder}, or add the fingerprint that the manager prints: -pool "
                    f"'{self._base}#sha256=...'"
                )
            token = self._token.text if self._token else ""
            certificate = ssl.PEM_cert_to_DER_cert(pool_authority(self._base, token, fragment))
            _remember(self._host, certificate)
        return certificate


@cache
def remote_pool(url: str) -> RemotePool:
    """Return the pool at a URL, which remains the same for all requests of a command."""
    return RemotePool(url)


def known_hosts() -> Path:
    return Path.home() / ".condor" / "known_hosts"


def _known_certificate(host: str) -> bytes | None:
    """Return the certificate of a pool's authority, of the last line about its manager."""
    path = known_hosts()
    certificate = None
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        fields = line.split()
        if fields[:2] == [host, _METHOD] and len(fields) == 3:
            certificate = base64.b64decode(fields[2])
    return certificate


def _remember(host: str, certificate: bytes) -> None:
    path = known_hosts()
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    with open(path, "a") as file:
        file.write(f"{host} {_METHOD} {base64.b64encode(certificate).decode()}\n")
