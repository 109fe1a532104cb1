"""The web page: one static bundle, and the document that loads it at each of the page's URLs.

The files are served under a path with a digest of the bundle, so browsers keep them until the bundle changes. The page
requests nothing from other sites, and its content security policy forbids that.
"""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from .application import Site, route
from .callers import Caller
from .endpoints import OPEN

_FOLDER: Final = Path(__file__).parent / "page"
_MEDIA_TYPES: Final = {
    ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}  # fmt: skip
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_PLACES: Final = ("pool", "jobs", "shares", "machines", "log")
_THINGS: Final = ("job", "cluster", "slot", "machine", "user", "group", "cycle", "event")
_FOREVER: Final = "public, max-age=31536000, immutable"


class _File(NamedTuple):
    data: bytes
    compressed: bytes
    media_type: str


class _Bundle(NamedTuple):
    digest: str
    files: dict[str, _File]
    shell: _File


@cache
def _bundle() -> _Bundle:
    """Read the bundle, once."""
    contents = {
        path.relative_to(_FOLDER).as_posix(): path.read_bytes()
        for path in sorted(_FOLDER.rglob("*"))
        if path.is_file() and path.suffix in _MEDIA_TYPES
    }
    summary = blake2b(digest_size=8)
    for name, data in contents.items():
        summary.update(f"{name} {len(data)} ".encode() + data)
    digest = summary.hexdigest()
    shell = contents.pop("index.html").replace(b"{base}", f"/page/{digest}".encode())
    files = {name: _file(name, data) for name, data in contents.items()}
    return _Bundle(digest, files, _file("index.html", shell))


def _file(name: str, data: bytes) -> _File:
    return _File(data, gzip.compress(data, 6, mtime=0), _MEDIA_TYPES[Path(name).suffix])


def _respond(request: Request, file: _File, tag: str, caching: str) -> Response:
    headers = {**_HEADERS, "ETag": f'"{tag}"', "Cache-Control": caching, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == f'"{tag}"':
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, headers={**headers, "Content-Encoding": "gzip"}, media_type=file.media_type)
    return Response(file.data, headers=headers, media_type=file.media_type)


async def _shell(request: Request, caller: Caller) -> Response:
    bundle = await run_in_threadpool(_bundle)
    return _respond(request, bundle.shell, bundle.digest, "no-cache")


async def _static(request: Request, caller: Caller) -> Response:
    bundle, name = await run_in_threadpool(_bundle), request.path_params["name"]
    if request.path_params["digest"] != bundle.digest or name not in bundle.files:
        raise HTTPException(404, "the page has no such file; reload the page")
    return _respond(request, bundle.files[name], bundle.digest, _FOREVER)


def page_routes(site: Site) -> list[BaseRoute]:
    """Return the routes of the page."""
    shells = ["/", *(f"/{place}" for place in _PLACES), *(f"/{kind}/{{name}}" for kind in _THINGS)]
    return [
        *(route(site, path, ["GET"], _shell, OPEN) for path in shells),
        route(site, "/page/{digest}/{name:path}", ["GET"], _static, OPEN),
    ]
