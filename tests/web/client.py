"""A running pool with its HTTP service, and a client that sends JSON."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from .. import forked
from ..pool.real import POOLBOOK

PATIENCE = 120.0
_AT_ROOT = ("/api/", "/openapi.json", "/metrics", "/healthz", "/readyz")


class Answer(NamedTuple):
    """A response: its status, its body as JSON (or text), and its headers."""

    status: int
    body: Any
    headers: Mapping[str, str]


class Client:
    """A client of the service at a URL, which sends requests to the paths of the API."""

    def __init__(self, url: str, log: Path, token: str = "") -> None:
        self.url, self.log = url, log
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.http = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=PATIENCE)

    def send(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, **parameters: Any
    ) -> Answer:
        content = body if isinstance(body, bytes) else None
        given = {name: value for name, value in parameters.items() if value is not None}
        response = self.http.request(
            method, path if path.startswith(_AT_ROOT) else f"/api/v1{path}",
            params=given or None, json=None if content is not None or body is None else body, content=content,
            headers=dict(headers or {}),
        )  # fmt: skip
        is_json = "json" in response.headers.get("content-type", "")
        return Answer(response.status_code, response.json() if is_json else response.content, response.headers)

    def get(self, path: str, **parameters: Any) -> Any:
        """Return the body of a successful GET."""
        answer = self.send("GET", path, **parameters)
        assert answer.status == 200, answer
        return answer.body

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        """Return the body of a successful POST."""
        answer = self.send("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        assert answer.status in (200, 201), answer
        return answer.body

    def submit(self, *lines: str, folder: str = "", **fields: Any) -> int:
        """Submit jobs and return their cluster."""
        body = {"submit_file": "\n".join(lines), **({"folder": folder} if folder else {}), **fields}
        return int(self.post("/jobs", body)["cluster_id"])

    def wait_for(self, path: str, name: str, *values: Any) -> Any:
        """Return the ad at a path when an attribute has one of the values."""
        until = time.monotonic() + PATIENCE
        while True:
            answer = self.send("GET", path)
            if answer.status == 200 and answer.body.get(name) in values:
                return answer.body
            assert time.monotonic() < until, answer
            time.sleep(0.05)


@contextmanager
def served_pool(
    folder: Path, configuration: str = "NUM_CPUS = 4\n", *options: str, port: int = 0, log: Path | None = None
) -> Iterator[Client]:
    """Serve a pool with its HTTP service meanwhile."""
    log = log or folder / "pool.db"
    settings = folder / "condor_config"
    settings.write_text(configuration)
    words = ["serve", "-log", str(log), "-config", str(settings), *options]
    with running(words, folder, "serving"), http_service(log, folder, settings, port) as client:
        yield client


@contextmanager
def http_service(
    log: Path, folder: Path, settings: Path | None = None, port: int = 0, options: Sequence[str] = ()
) -> Iterator[Client]:
    """Serve a log over HTTP meanwhile."""
    words = ["view", "-no-browser", "-listen", f"127.0.0.1:{port}", *(["-config", str(settings)] if settings else [])]
    with running([*words, *options, str(log)], folder, "shown at") as line:
        url = line.split(" shown at ")[1].split(";")[0]
        yield Client(url, log)


@contextmanager
def running(words: list[str], folder: Path, expected: str) -> Iterator[str]:
    """Run a command in a directory meanwhile; yield the line of its output that contains the expected text."""
    environment = {**os.environ, "HOME": str(folder)}
    process = forked.start([*POOLBOOK, *words], cwd=folder, env=environment, stderr=forked.STDOUT)
    lines: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if expected in line:
                break
        else:
            raise AssertionError("".join(lines))
        yield lines[-1]
    finally:
        process.terminate()
        process.wait(PATIENCE)
