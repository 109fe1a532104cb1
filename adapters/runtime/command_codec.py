"""Requests as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...domain.decide import Refusal
from ...domain.ports import stimuli as s

COMMANDS: dict[str, type[s.Command]] = {
    kind.__name__: kind
    for kind in (
        s.Submit, s.Act, s.Edit, s.VacateSlot, s.SuspendClaim, s.ContinueClaim, s.Drain, s.CancelDrain,
        s.ShutDown, s.SetSubmitter, s.ResetUsage, s.DeleteSubmitter,
    )
}  # fmt: skip
"""What a client may ask for, by the name that its request bears."""


def stimulus_of(request: Mapping[str, Any]) -> s.Command:
    """The command that a request is. Raises `Refusal` for what is none."""
    kind = COMMANDS.get(str(request.get("kind")))
    if kind is None:
        raise Refusal(f"{request.get('kind')!r} is no request; there are {', '.join(COMMANDS)}")
    body = {name: value for name, value in request.items() if name != "kind"}
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise Refusal(f"a malformed {request['kind']}: {error}") from None
