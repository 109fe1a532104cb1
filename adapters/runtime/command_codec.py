"""Requests as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ...domain.decide import Refusal
from ...domain.ports import stimuli as s
from .requests import SubmitDescription

T = TypeVar("T")
COMMANDS: dict[str, type[s.Command]] = {
    kind.__name__: kind
    for kind in (
        s.Submit, s.Act, s.RunNow, s.Edit, s.VacateSlot, s.SuspendClaim, s.ContinueClaim, s.Drain, s.CancelDrain,
        s.ShutDown, s.SetSubmitter, s.ResetUsage, s.DeleteSubmitter,
    )
}  # fmt: skip
"""The commands that a client may send, by the name in its request."""


def stimulus_of(request: Mapping[str, Any]) -> s.Command:
    """Return the command in a request. Raise `Refusal` if it is none."""
    kind = COMMANDS.get(str(request.get("kind")))
    if kind is None:
        raise Refusal(f"{request.get('kind')!r} is no request; there are {', '.join(COMMANDS)}")
    body = {name: value for name, value in request.items() if name != "kind"}
    if kind is not s.Submit:  # an ad keeps what is no text, as bytes that are none; what is asked is text
        try:
            msgspec.json.encode(body)
        except UnicodeEncodeError as error:
            what = error.object[error.start : error.end]
            raise Refusal(f"a request is text, and {what!a} in it is none; ask by numbers or a constraint") from None
    return _converted(str(request["kind"]), body, kind)


def description_of(request: Mapping[str, Any]) -> SubmitDescription:
    """Return the submit file in a request. Raise `Refusal` if it is malformed."""
    fields = [request.get(name) for name in SubmitDescription._fields]  # how msgspec has named tuples
    return _converted("SubmitDescription", fields, SubmitDescription)


def _converted(name: str, body: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise Refusal(f"a malformed {name}: {error}") from None
