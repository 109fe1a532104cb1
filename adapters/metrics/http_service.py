"""Serve the metrics at ``/metrics`` over HTTP, as condor_metricd does at PROMETHEUS_HTTP_PORT."""

from __future__ import annotations

import base64
import binascii
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Final

from ...domain.config import ConfigError
from .exposition import OPEN_METRICS, TEXT, Family, open_metrics_format, text_format

_REQUEST_S: Final = 10


class MetricsService:
    """Serves the families that were published last.

    :param passwords: an Apache htpasswd file with the users that may read the metrics; None: everybody may
    :raises ConfigError: if the port cannot be used
    """

    def __init__(self, host: str, port: int, passwords: Path | None = None) -> None:
        self.families: list[Family] | None = None
        service = self

        class Handler(BaseHTTPRequestHandler):
            timeout = _REQUEST_S
            server_version, sys_version = "poolbook", ""

            def do_GET(self) -> None:
                status, headers, body = service.answer(
                    self.path, self.headers.get("Accept", ""), self.headers.get("Authorization", "")
                )
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Write no line for each request."""

        if passwords is not None and find_spec("passlib") is None:
            raise ConfigError("PROMETHEUS_HTTP_AUTH_FILE needs libpass: pip install 'poolbook[metrics]'")
        self._passwords = passwords
        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise ConfigError(f"PROMETHEUS_HTTP_PORT = {port}: cannot listen: {error.strerror}") from None
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, path: str, accept: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
        """Return the status, the headers and the body of the answer to a request."""
        if path.partition("?")[0] != "/metrics":
            return HTTPStatus.NOT_FOUND, {}, b""
        if self._passwords is not None and not is_allowed(self._passwords, authorization):
            return HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": 'Basic realm="metrics"'}, b""
        if self.families is None:  # the first update is not complete
            return HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "1"}, b""
        is_open = "application/openmetrics-text" in accept
        text = open_metrics_format(self.families) if is_open else text_format(self.families)
        return HTTPStatus.OK, {"Content-Type": OPEN_METRICS if is_open else TEXT}, text.encode()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def is_allowed(passwords: Path, authorization: str) -> bool:
    """Check the name and password of an Authorization header (Basic). The file is read again for each request."""
    from passlib.apache import HtpasswdFile

    scheme, _, encoded = authorization.partition(" ")
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        known = HtpasswdFile(str(passwords))
    except (binascii.Error, UnicodeDecodeError, ValueError, OSError):
        return False
    return scheme.lower() == "basic" and bool(colon) and known.check_password(name, password) is True
