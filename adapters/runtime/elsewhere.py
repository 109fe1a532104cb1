"""Pools on other machines, which commands reach through their manager: https://HOST:PORT is the manager,
https://HOST:PORT/NAME an access point of its pool, and https://HOST:PORT/ the only one. The fragment #sha256=... may
name the fingerprint of the pool's authority.

This module imports little, because every command loads it.
"""

from __future__ import annotations

ON_BEHALF = "POOLBOOK_ON_BEHALF_OF"  #: the environment variable with the user on another machine who sent a query


class QueryElsewhere(Exception):
    """A query of a log on another machine: the whole command must run there."""

    def __init__(self, url: str) -> None:
        super().__init__(f"{url} is a pool on another machine; open its log there")
        self.url = url


def is_elsewhere(url: str) -> bool:
    return url.startswith("https://")


def address_of(pool: str, name: str | None) -> str:
    """Return the URL of an access point (empty: the only one), or of the manager (None), given the value of -pool."""
    base, hash, fragment = pool.removeprefix("https://").partition("#")
    path = "" if name is None else f"/{name}"
    return f"https://{base.rstrip('/')}{path}{hash}{fragment}"
