"""Errors as responses: the members of HTCondor (`error`, `message`, `code`) and of RFC 9457."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from ...domain.classad import ClassAdSyntaxError
from ...domain.decide import Refusal
from ...domain.errors import PoolbookError
from ...domain.ports.log import LogError
from ...domain.submit import SubmitError
from ...replay.forensics.daemon_tables import NotKnown
from ...replay.narration.sentences import UnknownThingError
from ..condor_tools.options import UsageError
from ..https.requests import Rejected
from ..runtime.queries import LogBeginsLater, NoNegotiator, NotRecorded
from ..runtime.requests import DENIED, IMMUTABLE, NOT_FOUND, POLICY, SECURE, RequestRefused
from ..runtime.spooled_files import SpoolError

MEDIA_TYPE: Final = "application/problem+json"


class Problem(Struct, frozen=True):
    """A request that failed."""

    error: Annotated[str, Meta(description="the meaning of the status code")]
    message: Annotated[str, Meta(description="what is wrong, the rule and the fix")]
    code: Annotated[int, Meta(description="the status code")]
    type: Annotated[str, Meta(description="always about:blank: the status code gives the kind of problem (RFC 9457)")]
    title: str
    status: int
    detail: str
    reason: Annotated[str, Meta(description="the kind of problem, for programs")] = ""


class NotFound(PoolbookError):
    """The pool does not contain this job, slot, machine or user."""


_STATUSES: Final[Mapping[type[Exception], int]] = {
    NotFound: 404, UnknownThingError: 404, NotKnown: 404, NotRecorded: 404, NoNegotiator: 404, LogBeginsLater: 404,
    UsageError: 400, ClassAdSyntaxError: 400, SubmitError: 400, Refusal: 409, LogError: 503,
    msgspec.MsgspecError: 400, ValueError: 400, OverflowError: 400, SpoolError: 409,
    FileNotFoundError: 404, PermissionError: 403, OSError: 503,
}  # fmt: skip
"""The status of a response for each kind of error; the first that matches counts."""
_REFUSALS: Final = {NOT_FOUND: 404, DENIED: 403, IMMUTABLE: 403, SECURE: 403, POLICY: 403}
"""The status for codes of `RequestRefused`; for others it is 409 (the pool's state does not allow the request)."""


def problem(status: int, message: str, reason: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """Return the response for a request that failed."""
    title = HTTPStatus(status).phrase
    body = Problem(title, message, status, "about:blank", title, status, message, reason)
    return Response(msgspec.json.encode(body), status, dict(headers or {}), media_type=MEDIA_TYPE)


def is_of_request(error: BaseException | None) -> bool:
    """Return True if the request caused the error, rather than the log or this program."""
    response = problem_of(error) if isinstance(error, Exception) else None
    return response is not None and response.status_code < 500


def problem_of(error: Exception) -> Response | None:
    """Return the response for an error, or None for a fault of this program."""
    if isinstance(error, Rejected):
        headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
        return problem(error.status, str(error), error.reason, headers)
    if isinstance(error, RequestRefused):
        return problem(_REFUSALS.get(error.code, 409), str(error), error.code)
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    for kind, status in _STATUSES.items():
        if isinstance(error, kind):
            return problem(status, message, kind.__name__ if issubclass(kind, PoolbookError) else "")
    return None
