"""Decode requests from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from attrs import frozen

from ...domain.decide import Refusal
from ...domain.ports import stimuli as s
from .requests import SubmitDescription


@frozen
class Reschedule:
    """Start a negotiation cycle. If the pool has more than one negotiator, ``name`` selects one."""

    name: str = ""


@frozen
class ReadConfiguration:
    """Reread the configuration of the server's machine and pool."""


@frozen
class ComeBack:
    """Return the server's machine to the pool."""


@frozen
class ReserveCluster:
    """Return the ``Terms`` of the next submission."""


MACHINE_COMMANDS: Final = (
    "VacateSlot", "SuspendClaim", "ContinueClaim", "Drain", "CancelDrain", "ShutDown", "ReadConfiguration", "ComeBack",
)  # fmt: skip
Served = Reschedule | ReadConfiguration | ComeBack | ReserveCluster | SubmitDescription
"""Requests that a server handles itself, in addition to the pool's commands."""
_COMMANDS: tuple[type[s.Command], ...] = (
    s.Submit, *s.JOB_COMMANDS.values(), s.RunNow, s.Edit, s.VacateSlot, s.SuspendClaim, s.ContinueClaim, s.Drain,
    s.CancelDrain, s.ShutDown, s.SetSubmitter, s.ResetUsage, s.DeleteSubmitter, s.SwitchDaemons,
)  # fmt: skip
COMMANDS = {kind.__name__: kind for kind in _COMMANDS}
"""The commands that a client may send, by the name in the request."""
SERVED: dict[str, type[Served]] = {
    kind.__name__: kind for kind in (Reschedule, ReadConfiguration, ComeBack, ReserveCluster, SubmitDescription)
}

LEVELS: Final[Mapping[str, str]] = {
    **dict.fromkeys((*(kind.__name__ for kind in s.JOB_COMMANDS.values()), "Edit", "RunNow", "Submit"), "WRITE"),
    **dict.fromkeys(("Reschedule", "ReserveCluster"), "WRITE"),
    **dict.fromkeys(("DeleteSubmitter", "ResetUsage", "SetSubmitter", "SwitchDaemons"), "ADMINISTRATOR"),
    **dict.fromkeys(MACHINE_COMMANDS, "ADMINISTRATOR"),
}
"""The authorization level that each command needs from a client that is authenticated by a token or certificate."""


def command_of(request: Mapping[str, Any]) -> s.Command:
    """Return the command in a request. Raise `Refusal` if there is none."""
    command = _convert_request(request, COMMANDS)
    assert isinstance(command, s.Command)
    return command


def request_of(request: Mapping[str, Any]) -> s.Command | Served:
    """Decode a request to a server. Raise `Refusal` if it is malformed."""
    command: s.Command | Served = _convert_request(request, {**COMMANDS, **SERVED})
    return command


def _convert_request(request: Mapping[str, Any], kinds: Mapping[str, type[Any]]) -> Any:
    name = str(request.get("kind"))
    kind = kinds.get(name)
    if kind is None:
        raise Refusal(f"{request.get('kind')!r} is not a valid request; use one of {', '.join(COMMANDS)}")
    body: object = {name: value for name, value in request.items() if name != "kind"}
    if kind is SubmitDescription:
        body = [request.get(name) for name in SubmitDescription._fields]  # how msgspec has named tuples
    elif kind is not s.Submit:  # an ad may keep bytes that are not text; requests must be text
        try:
            msgspec.json.encode(body)
        except UnicodeEncodeError as error:
            invalid_text = error.object[error.start : error.end]
            raise Refusal(f"the request contains invalid text: {invalid_text!a}; use job ids or a constraint") from None
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise Refusal(f"a malformed {name}: {error}") from None
