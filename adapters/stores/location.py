"""Parse a log's URL: the kind of store, and the place. Imports little, for commands that must be quick."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

URL_FORMS = "memory:, a file's path, sqlite:///file.db, or postgresql://user@host/database?schema=name"
DEFAULT_SCHEMA = "poolbook"
EXTRA = "postgres"  #: the package's extra that installs PostgreSQL's libraries:
_OF_EXTRA = ("psycopg", "psycopg_pool")


class Location(NamedTuple):
    """The place of a log. ``kind``: memory, sqlite or postgresql. ``place``: the name of a log in memory, the file, or
    the server's URL without Poolbook's own parameters. ``schema``: PostgreSQL's schema of the log."""

    kind: str
    place: str
    schema: str = ""


def locate(url: str) -> Location:
    """Parse a log's URL. Raise `LogError` if the URL is invalid, or if the libraries of its store are not installed."""
    scheme, colon, rest = url.partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        return _file(url, url)
    if scheme == "memory":
        return Location("memory", rest)
    if scheme == "sqlite":
        if not rest.startswith("///"):
            _refuse(url, "it needs three slashes and a path: sqlite:///file.db, or sqlite:////folder/file.db")
        return _file(url, rest[3:])
    if scheme in ("postgresql", "postgres"):
        return _server(url)
    _refuse(url, f"use {URL_FORMS}; for a file of this name, write ./{url}")


def _file(url: str, path: str) -> Location:
    if not path or "\0" in path:
        _refuse(url, f"it names no file; use {URL_FORMS}")
    if path == ":memory:":
        _refuse(url, "a log in memory is written memory:")
    return Location("sqlite", path)


def _server(url: str) -> Location:
    place, _, query = url.partition("?")
    options = [option for option in query.split("&") if option]
    schemas = [option.removeprefix("schema=") for option in options if option.startswith("schema=")]
    if len(schemas) > 1 or (schemas and not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schemas[0])):
        _refuse(url, "schema= needs one name of lower-case letters, digits and _, at most 63 characters")
    _require_extra()
    others = "&".join(option for option in options if not option.startswith("schema="))
    return Location("postgresql", f"{place}?{others}" if others else place, *schemas or [DEFAULT_SCHEMA])


def _require_extra() -> None:
    from importlib.util import find_spec

    from ...domain.ports.log import LogError

    missing = [library for library in _OF_EXTRA if find_spec(library) is None]
    if missing:
        raise LogError(
            f"a log in PostgreSQL needs {' and '.join(missing)}; install it with "
            f"pip install 'poolbook[{EXTRA}]' (with pipx: pipx inject poolbook 'psycopg[binary,pool]')"
        )


def _refuse(url: str, why: str) -> NoReturn:
    from ...domain.ports.log import LogError

    raise LogError(f"{safe_url(url)!r} is not a valid log URL: {why}")


def safe_url(url: str) -> str:
    """Return a log's URL without its password."""
    return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1:***@", url)
