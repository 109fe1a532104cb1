"""The pool's commands as endpoints, POST /commands/KIND. A body has the command's own fields; the service adds the
id and the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs
import msgspec
from msgspec import Struct, structs

from ...domain.ports.action_results import ActionResult
from ...domain.ports.stimuli import Command, Edit, JobCommand
from ..runtime.command_codec import COMMANDS, LEVELS, SERVED
from ..runtime.requests import SubmitDescription
from .endpoints import Endpoint, NoParameters
from .pool_access import Call

_ADDED: Final = ("id", "user")  #: fields that the service sets
_LARGEST_SUBMISSION: Final = 64 << 20


class JobResult(Struct, frozen=True):
    """The result of a command for some jobs of a cluster."""

    cluster: int
    procs: list[tuple[int, int]]  #: ranges (first, last) of process numbers; empty: the cluster itself
    result: str  #: done, or why the command had no effect: not found, permission denied, or the jobs' status
    changes: dict[str, str] = {}  #: the attributes that an edit has set


def job_results(call: Call, request: Mapping[str, Any]) -> list[ActionResult]:
    """Execute a command about jobs and return its results. Raise the errors of `Call.ask`."""
    return [ActionResult(**fields) for fields in call.ask(request)]


def command_endpoints() -> Iterator[Endpoint]:
    """Yield an endpoint for each command."""
    for name, kind in {**COMMANDS, **SERVED}.items():
        if kind is not SubmitDescription:  # `POST /jobs` submits a submit file
            largest = _LARGEST_SUBMISSION if name == "Submit" else 1 << 20
            handle = _handler(name, kind)
            yield Endpoint("POST", f"/commands/{name}", handle, LEVELS[name], largest_body=largest)


def _handler(name: str, kind: type[Any]) -> Callable[..., Any]:
    """Return a function that sends a command of this kind. Its annotations are the types of the endpoint."""

    def send(call: Call, parameters: NoParameters, body: Any) -> Any:
        fields: Mapping[str, Any] = msgspec.to_builtins(body)
        return call.ask({"kind": name, **fields})

    acts_on_jobs = issubclass(kind, (JobCommand, Edit))
    send.__annotations__ |= {"body": body_of(kind), "return": list[JobResult] if acts_on_jobs else dict[str, Any]}
    send.__name__ = name
    send.__doc__ = _description(kind)
    return send


def _description(kind: type[Any]) -> str:
    return kind.__doc__ or f"{kind.__name__} jobs."


def body_of(kind: type[Any]) -> type[Struct]:
    """Return the type of a command's body."""
    fields: list[Any] = []
    if issubclass(kind, Command):
        for field in structs.fields(kind):
            if field.name not in _ADDED:
                fields.append((field.name, field.type, *_default(field)))
    else:
        hints = attrs.resolve_types(kind)
        fields = [(field.name, field.type, field.default) for field in attrs.fields(hints)]
    return msgspec.defstruct(
        kind.__name__, fields, frozen=True, kw_only=True, forbid_unknown_fields=True,
        namespace={"__doc__": _description(kind)},
    )  # fmt: skip


def _default(field: structs.FieldInfo) -> list[Any]:
    if field.default is not msgspec.NODEFAULT:
        return [field.default]
    if field.default_factory is not msgspec.NODEFAULT:
        return [msgspec.field(default_factory=field.default_factory)]
    return []


ENDPOINTS: Final = tuple(command_endpoints())
