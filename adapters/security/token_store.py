"""The tokens that a pool issued and revoked, and the requests for tokens, in a private SQLite file next to the log.

The file contains no tokens: a request's token is created when its client collects it. A client that requests a token
is not authenticated, so it must present the secret that it received with the request's id.
"""

from __future__ import annotations

import hmac
import secrets
import sqlite3
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...domain.errors import PoolbookError
from .authorization import in_network
from .private_files import make_private_folder, write_private

MOST_REQUESTS: Final = 1000  #: maximum number of requests in the store, as in HTCondor
REQUEST_LIFETIME: Final = 3600  #: seconds until a request expires (SEC_TOKEN_REQUEST_LIFETIME)
LONGEST_RULE: Final = 3600  #: maximum lifetime of an approval rule (TOKEN_REQUEST_AUTO_APPROVE_MAX_LIFETIME)
_RULE_REACHES_BACK: Final = 60  #: seconds before a rule's creation in which it approves requests
_APPROVED_BY_RULE: Final = frozenset({"ADVERTISE_MASTER", "ADVERTISE_SCHEDD", "ADVERTISE_STARTD"})
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS issued (
    id TEXT PRIMARY KEY, identity TEXT, levels TEXT, key TEXT, at INTEGER, expires INTEGER);
CREATE TABLE IF NOT EXISTS revoked (id TEXT PRIMARY KEY, at INTEGER);
CREATE TABLE IF NOT EXISTS requests (
    id TEXT PRIMARY KEY, client TEXT, identity TEXT, requester TEXT, address TEXT, levels TEXT, lifetime INTEGER,
    at INTEGER, approved_by TEXT, secret TEXT);
CREATE TABLE IF NOT EXISTS rules (netblock TEXT, since INTEGER, until INTEGER, created_by TEXT);
"""


class RequestError(PoolbookError):
    """A request for a token is rejected. The message is HTCondor's."""


class IssuedToken(NamedTuple):
    """A token that the pool issued, without its signature."""

    id: str
    identity: str
    levels: str  #: the authorization levels to which it is limited, separated by commas; empty: not limited
    key: str
    at: int
    expires: int | None
    revoked: int  #: 1 if it is revoked, otherwise 0


class TokenRequest(NamedTuple):
    """A request for a token. ``requester`` is the client as authenticated, ``address`` that of its machine."""

    id: str
    client: str
    identity: str
    requester: str
    address: str
    levels: str
    lifetime: int | None
    at: int
    approved_by: str = ""


class TokenStore(Container[str]):
    """The store in a private directory. As a container, it contains the ids of the revoked tokens."""

    def __init__(self, folder: Path) -> None:
        """Raise `PrivateFileError` if other users have access to the directory."""
        make_private_folder(folder)
        self._path = folder / "tokens.db"

    @contextmanager
    def _open(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        with suppress(FileExistsError):
            if not self._path.exists():
                write_private(self._path, b"", replace=False)  # SQLite keeps the mode
        database = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        try:
            database.execute(begin)
            with database:
                if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'rules'").fetchone():
                    for statement in _SCHEMA.split(";"):
                        database.execute(statement)
                yield database
        finally:
            database.close()

    def record(self, claims: Mapping[str, Any], key: str) -> None:
        """Record a new token by its claims."""
        levels = str(claims.get("scope", "")).replace("condor:/", "").replace(" ", ",")
        row = (claims["jti"], claims["sub"], levels, key, claims["iat"], claims.get("exp"))
        with self._open() as database:
            database.execute("INSERT INTO issued VALUES (?, ?, ?, ?, ?, ?)", row)

    def issued(self) -> list[IssuedToken]:
        with self._open() as database:
            query = "SELECT issued.*, id IN (SELECT id FROM revoked) FROM issued ORDER BY at, id"
            return [IssuedToken(*row) for row in database.execute(query)]

    def revoke(self, id: str, now: float) -> None:
        """Reject the token with this id from now on, also if it was created elsewhere with the pool's key."""
        with self._open() as database:
            database.execute("INSERT OR IGNORE INTO revoked VALUES (?, ?)", (id, int(now)))

    def __contains__(self, id: object) -> bool:
        if not self._path.exists():
            return False
        with self._open("BEGIN") as database:  # does not wait for writers
            return database.execute("SELECT 1 FROM revoked WHERE id = ?", (id,)).fetchone() is not None

    def submit(self, request: TokenRequest, now: float) -> tuple[TokenRequest, str]:
        """Store a request, and approve it if a rule applies. Return it with its id, and the client's secret.

        :raises RequestError: there are too many requests
        """
        secret = secrets.token_urlsafe(32)
        with self._open() as database:
            database.execute("DELETE FROM requests WHERE at < ?", (int(now) - 2 * REQUEST_LIFETIME,))
            if database.execute("SELECT count(*) FROM requests").fetchone()[0] >= MOST_REQUESTS:
                raise RequestError("Too many requests in the system.")
            ids = {row[0] for row in database.execute("SELECT id FROM requests")}
            id = next(id for id in iter(lambda: f"{secrets.randbelow(10_000_000):07}", "") if id not in ids)
            new = request._replace(id=id, at=int(now), approved_by=_approving_rule(database, request, int(now)))
            database.execute(f"INSERT INTO requests VALUES ({', '.join('?' * 10)})", (*new, _digest(secret)))
        return new, secret

    def pending(self, now: float, id: str = "") -> list[TokenRequest]:
        """Return the requests that wait for approval; with `id`, only the request with this id."""
        with self._open() as database:
            return [each for each in _requests(database, now) if not each.approved_by and id in ("", each.id)]

    def approve(self, id: str, client: str, approver: str, now: float) -> None:
        """Approve a pending request. Raise `RequestError` if there is none with this id and client."""
        with self._open() as database:
            if not any((each.id, each.client) == (id, client) for each in _requests(database, now)):
                raise RequestError("Request unknown.")
            condition = "id = ? AND approved_by = ''"
            if not database.execute(f"UPDATE requests SET approved_by = ? WHERE {condition}", (approver, id)).rowcount:
                raise RequestError("Request in incorrect state.")

    def approve_network(self, netblock: str, lifetime: int, creator: str, now: float) -> None:
        """Approve the requests that machines of a network make for daemons until the end of a lifetime in seconds (at
        most an hour), or made in the last minute. Raise `RequestError` if the network or the lifetime is invalid."""
        if lifetime <= 0:
            raise RequestError("Auto-approval rule lifetimes must be greater than zero.")
        if in_network(netblock, "0.0.0.0") is None:
            raise RequestError("Auto-approval rule netblock invalid.")
        start = int(now)
        with self._open() as database:
            database.execute("DELETE FROM rules WHERE until < ?", (start - REQUEST_LIFETIME,))
            rule = (netblock, start, start + min(lifetime, LONGEST_RULE), creator)
            database.execute("INSERT INTO rules VALUES (?, ?, ?, ?)", rule)
            for request in _requests(database, now):
                if not request.approved_by:
                    approver = _approving_rule(database, request, request.at)
                    database.execute("UPDATE requests SET approved_by = ? WHERE id = ?", (approver, request.id))

    def collect(self, id: str, client: str, secret: str, now: float) -> TokenRequest | None:
        """Return an approved request, and remove it: its token is collected only once. Return None if the request waits
        for approval. Raise `RequestError` if it does not exist or has expired, or the client is another."""
        with self._open() as database:
            rows = database.execute("SELECT secret, at FROM requests WHERE id = ?", (id,)).fetchall()
            if not rows or not hmac.compare_digest(rows[0][0], _digest(secret)):
                raise RequestError("Request ID is not known.")
            requests = [each for each in _requests(database, now) if each.id == id]
            if not requests:
                raise RequestError("Request has expired.")
            if requests[0].client != client:
                raise RequestError("Client ID is incorrect.")
            if not requests[0].approved_by:
                return None
            database.execute("DELETE FROM requests WHERE id = ?", (id,))
        return requests[0]


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _requests(database: sqlite3.Connection, now: float) -> list[TokenRequest]:
    """Return the requests that have not expired, latest first."""
    query = "SELECT * FROM requests WHERE at >= ? ORDER BY at DESC, id"
    return [TokenRequest(*row[:-1]) for row in database.execute(query, (int(now) - REQUEST_LIFETIME,))]


def _approving_rule(database: sqlite3.Connection, request: TokenRequest, at: int) -> str:
    """Return the rule that approves a request made at a time, in words; empty if none does. As in HTCondor, rules only
    approve requests of daemons: for the identity condor, limited to advertising."""
    levels = set(request.levels.split(",")) if request.levels else set()
    if not request.identity.startswith("condor@") or not levels or not levels <= _APPROVED_BY_RULE:
        return ""
    for netblock, since, until, creator in database.execute("SELECT * FROM rules"):
        if since - _RULE_REACHES_BACK <= at <= until and in_network(netblock, request.address):
            return f"{creator}, by the rule for {netblock}"
    return ""
