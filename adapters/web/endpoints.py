"""Endpoints: the rows of the API's tables. The types of a handler's parameters and result define what its endpoint
accepts and returns; decoding, checks and the OpenAPI document are derived from them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import IO, Annotated, Any, Final, NamedTuple, get_type_hints

import msgspec
from attrs import frozen
from msgspec import Meta, Struct

from .validation import describe

READ: Final = "READ"
WRITE: Final = "WRITE"
ADMINISTRATOR: Final = "ADMINISTRATOR"
OPEN: Final = "ALLOW"  #: a level that everyone has

_AT: Final = "the time of the answer: a date and time (2027-01-15T08:00Z), or how long ago (10 min); empty: now"

Ad = msgspec.Raw
"""A ClassAd in HTCondor's JSON form: expressions are texts such as ``/Expr(...)/``."""


class NoParameters(Struct, frozen=True):
    """The parameters of an endpoint without any."""


class AtTime(Struct, frozen=True, kw_only=True):
    """The parameters of a view."""

    at: Annotated[str, Meta(description=_AT)] = ""


class Content(NamedTuple):
    """A response that is not JSON: bytes, or an open file, which is closed afterwards."""

    data: bytes | IO[bytes]
    media_type: str = "application/octet-stream"
    file_name: str = ""


class Upload(NamedTuple):
    """A body that is not JSON, in a temporary file."""

    file: IO[bytes]
    media_type: str


@frozen(slots=False)
class Endpoint:
    """One method of one path. ``handle(call)``, ``handle(call, parameters)`` or ``handle(call, parameters, body)``
    runs in a thread; parameters and JSON bodies are structs, and other bodies are `Upload`. A body with a default may
    be missing. The handler's docstring describes the endpoint.

    :param level: the authorization level that the caller needs
    :param is_quick: the handler takes less than a millisecond, so it runs in the event loop
    :param is_live: the result depends on more than the log and the parameters, so it has no ETag
    :param largest_body: the largest body, in bytes
    :param is_compressed: the result is compressed for a client that accepts that
    :param media_type: the type of the body
    :param is_at_root: the path is not below the API's base
    :param check: ``check(call, parameters)`` raises the error of a request before its body is read
    :param unsupported: why the endpoint always answers 501; empty: it is supported
    """

    method: str
    path: str
    handle: Callable[..., Any]
    level: str = READ
    status: int = 200
    is_quick: bool = False
    is_live: bool = False
    largest_body: int = 1 << 20
    is_compressed: bool = False
    media_type: str = "application/json"
    unsupported: str = ""
    is_at_root: bool = False
    check: Callable[[Any, Any], object] | None = None

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        return get_type_hints(self.handle, include_extras=True)

    @cached_property
    def _arguments(self) -> list[str]:
        return list(inspect.signature(self.handle).parameters)

    @cached_property
    def parameters(self) -> type[Struct]:
        """The struct of path and query parameters."""
        names = self._arguments
        return self._hints[names[1]] if len(names) > 1 else NoParameters

    @cached_property
    def body(self) -> Any:
        """The type of the body, or None if the endpoint takes none."""
        names = self._arguments
        return self._hints[names[2]] if len(names) > 2 else None

    @cached_property
    def default_body(self) -> Any:
        """The body of a request without one; None if the body is required."""
        default = list(inspect.signature(self.handle).parameters.values())[2:]
        return default[0].default if default and default[0].default is not inspect.Parameter.empty else None

    @cached_property
    def result(self) -> Any:
        return self._hints["return"]

    @cached_property
    def in_path(self) -> frozenset[str]:
        """The names of the parameters in the path."""
        return frozenset(re.findall(r"\{(\w+)(?::\w+)?\}", self.path))

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(field.encode_name for field in msgspec.structs.fields(self.parameters))

    @property
    def changes(self) -> bool:
        """True if the endpoint changes the pool."""
        return self.method not in ("GET", "HEAD")

    def call(self, call: object, parameters: Struct, body: Any) -> Any:
        return self.handle(*(call, parameters, body)[: len(self._arguments)])

    def convert(self, values: Mapping[str, str]) -> Struct:
        """Return the parameters. Raise `ValueError` if a name is unknown, or a value invalid."""
        if unknown := sorted(values.keys() - self._names):
            names = ", ".join(sorted(self._names)) or "none"
            raise ValueError(f"{unknown[0][:80]!r} is not a parameter of {self.path}; its parameters are: {names}")
        try:
            converted: Struct = msgspec.convert(values, self.parameters, strict=False)
        except msgspec.ValidationError as error:
            raise ValueError(describe(error, self.parameters, values)) from None
        return converted
