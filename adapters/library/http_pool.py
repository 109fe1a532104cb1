"""A pool that is reached over HTTP, by the API of `poolbook serve -http`."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from threading import Event as Signal
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import quote

from ...domain.classad import ClassAd, ClassAdSyntaxError, parse
from ...domain.decide import Refusal
from ...domain.errors import PoolbookError
from ...domain.events import Event
from ...domain.negotiator.accounting import Standing
from ...domain.ports.log import LogClosed, LogError, LogUnavailable
from ...domain.submit import SubmitError
from ...replay.narration.sentences import UnknownThingError
from ..runtime.accounting_records import standing_of
from ..runtime.pool_client import PATIENCE
from ..runtime.queries import LogBeginsLater
from ..runtime.requests import Request
from ..stores.codec import CODEC
from .log_base import CallLock, GrowingLog, JobId, job_name, stream_name
from .python_values import instant_of, values

if TYPE_CHECKING:
    import httpx

_BASE: Final = "/api/v1"
_ANSWER_S: Final = 90  #: the longest wait for a part of an answer; an event stream sends something every 15 s
_PAUSE_S: Final = 0.5  #: seconds before a request is repeated
_PAGE: Final = 10_000
_ERRORS: Final[Mapping[str, type[PoolbookError]]] = {
    "UnknownThingError": UnknownThingError, "NotFound": UnknownThingError, "SubmitError": SubmitError,
    "ClassAdSyntaxError": ClassAdSyntaxError, "LogError": LogError,
}  # fmt: skip
"""The error for the reason in an answer."""


class HttpPool(GrowingLog):
    """The requests of a client over HTTP. `Client` describes the methods."""

    def __init__(self, url: str, token: str, ca: str) -> None:
        try:
            import httpx
        except ModuleNotFoundError:
            raise LogError("a client over HTTP needs httpx; install 'poolbook[client]'") from None
        import ssl

        self.url, self._httpx = url.rstrip("/"), httpx
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        verify = ssl.create_default_context(cafile=ca) if ca else True
        self._http = httpx.Client(base_url=self.url, headers=headers, verify=verify, timeout=_ANSWER_S)
        self._calls = CallLock()

    def close(self) -> None:
        self._http.close()

    def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request, repeatedly while the service does not answer. Raise the error that the answer describes."""
        until = time.monotonic() + PATIENCE
        while True:
            if self._http.is_closed:
                raise LogClosed("the client was closed: `Client` connects again")
            try:
                response = self._http.request(method, _BASE + path, **more)
            except self._httpx.TransportError as error:
                if time.monotonic() > until:
                    raise LogUnavailable(f"{self.url} does not answer: {error or type(error).__name__}") from None
                time.sleep(_PAUSE_S)
            else:
                if response.is_error:
                    self._raise(response)
                return response

    def _raise(self, response: httpx.Response) -> NoReturn:
        """Raise the error that a response describes."""
        try:
            problem = response.json()
            message, reason = str(problem["message"]), str(problem.get("reason", ""))
        except (ValueError, KeyError, TypeError):
            message, reason = f"{self.url} is not the API of a pool: status {response.status_code}", "LogError"
        if reason == "LogBeginsLater":
            raise LogBeginsLater(next(self.events())[1].at)
        if reason in _ERRORS:
            raise _ERRORS[reason](message)
        if response.status_code == 400 and not reason:
            raise ValueError(message)
        raise LogUnavailable(message) if response.status_code >= 500 else Refusal(message, reason)

    def _get(self, path: str, at: float | None = None, **parameters: Any) -> Any:
        if at is not None:
            parameters["at"] = datetime.fromtimestamp(instant_of(at, "at") / 1_000_000, UTC).isoformat()
        return self._send("GET", path, params=parameters).json()

    def ask(self, request: Request) -> Any:
        """Execute a request, and return the answer. Raise `Refusal` or `LogError`."""
        if "on_behalf" in request:
            raise Refusal(f"over HTTP, a client acts only as {self.user}; omit user, or use the pool's socket")
        body = {name: value for name, value in request.items() if name not in ("kind", "id")}
        key = {"Idempotency-Key": request["id"]} if "id" in request else {}
        return self._send("POST", f"/commands/{request['kind']}", json=body, headers=key).json()

    @cached_property
    def user(self) -> str:
        return str(self._get("/whoami")["owner"])

    @property
    def id(self) -> str:
        return str(self._get("/log/head")["id"])

    @property
    def position(self) -> int:
        return int(self._get("/log/head")["position"])

    def jobs(self, constraint: str = "", *, at: float | None = None) -> list[dict[str, Any]]:
        return self._ads("/jobs", "jobs", constraint, at, owned_by_me=False)

    def slots(self, constraint: str = "", *, at: float | None = None) -> list[dict[str, Any]]:
        return self._ads("/slots", "ads", constraint, at)

    def history(self, constraint: str = "", *, at: float | None = None) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        while len(records) % _PAGE == 0:  # the order of jobs that have left does not change
            page = self._get(
                "/jobs/archive", at, constraint=_checked(constraint), limit=_PAGE, scan_limit="*", backwards=False,
                skip=len(records),
            )["records"]  # fmt: skip
            if not page:
                break
            records += page
        return [_plain(ad) for ad in reversed(records)]

    def _ads(self, path: str, name: str, constraint: str, at: float | None, **parameters: Any) -> list[dict[str, Any]]:
        """Return the ads of all pages."""
        ads: list[dict[str, Any]] = []
        token = ""
        while True:
            page = self._get(path, at, constraint=_checked(constraint), limit="*", page_token=token, **parameters)
            ads += map(_plain, page[name])
            if not page["has_more"]:
                return ads
            token = page["next_page_token"]

    def standings(self, negotiator: str, at: float | None) -> list[Standing]:
        return [standing_of(record) for record in self._get("/users", at, negotiator=negotiator)["records"]]

    def usage_of_claims(self) -> dict[str, float]:
        return dict(self._get("/usage")["usage"])

    def why(self, thing: JobId, at: float | None = None, *, verbose: bool = False) -> list[str]:
        answer = self._get(f"/why/{quote(job_name(thing), safe='')}", at, utc=True)
        return [line["text"] for line in answer["answer"]] + [line["full"] for line in answer["life"] if verbose]

    def output(self, job: tuple[int, int], stream: str) -> bytes:
        return self._send("GET", f"/jobs/{job[0]}.{job[1]}/{stream}").content

    def events(self, after: int = 0, stream: str = "") -> Iterator[tuple[int, Event]]:
        name, end = stream_name(stream), self.position

        def until_end() -> Iterator[tuple[int, Event]]:
            if after >= end:
                return
            for position, event in self._stream(after):
                if name in ("", event.stream):
                    yield position, event
                if position >= end:
                    return

        return until_end()

    def _new_events(self, reached: int, times: Iterator[None]) -> Iterator[tuple[int, Event]]:
        next(times)
        for position, event in self.events(reached):
            reached = position
            yield position, event
        arrived: deque[tuple[int, Event] | Exception] = deque()
        ended, reader = Signal(), None
        try:
            for _ in times:
                if reader is None:
                    reader = Thread(target=self._read_stream, args=(reached, arrived, ended), daemon=True)
                    reader.start()
                while arrived:
                    item = arrived.popleft()
                    if isinstance(item, Exception):
                        raise item
                    yield item
        finally:
            ended.set()

    def _read_stream(self, reached: int, arrived: deque[tuple[int, Event] | Exception], ended: Signal) -> None:
        """Collect new events until the end, and connect again when the connection is lost."""
        try:
            while not ended.is_set():
                try:
                    for position, event in self._stream(reached, ended):
                        arrived.append((position, event))
                        reached = position
                except LogUnavailable:
                    ended.wait(_PAUSE_S)
        except Exception as error:
            arrived.append(error)

    def _stream(self, after: int, ended: Signal | None = None) -> Iterator[tuple[int, Event]]:
        """Yield the events of the service's stream after a position. Raise `LogUnavailable` if the connection is
        lost."""
        try:
            with self._http.stream("GET", f"{_BASE}/events", params={"after": after}) as response:
                if response.is_error:
                    response.read()
                    self._raise(response)
                fields: dict[str, str] = {}
                for line in response.iter_lines():
                    if ended is not None and ended.is_set():
                        return
                    name, _, value = line.partition(": ")
                    fields[name] = value
                    if not line and "data" in fields:
                        position = int(fields["id"].partition("-")[0])
                        (event,) = CODEC.decode([(position, "", 0, fields["event"], fields["data"].encode())], self.url)
                        yield position, event
                    if not line:
                        fields = {}
        except self._httpx.TransportError as error:
            raise LogUnavailable(f"{self.url} does not answer: {error or type(error).__name__}") from None


def _checked(constraint: str) -> str:
    """Return a constraint. Raise `ClassAdSyntaxError` if it is not a valid expression."""
    if constraint:
        parse(constraint)
    return constraint


def _plain(ad: Mapping[str, Any]) -> dict[str, Any]:
    """Return an ad in HTCondor's JSON form as plain values."""
    return dict(values(ClassAd.from_json(json.dumps(ad))))
