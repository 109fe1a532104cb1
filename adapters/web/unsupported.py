"""Endpoints of golang-htcondor's HTTP service that this service does not support. Each answers 501 with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from .endpoints import WRITE, Endpoint, NoParameters
from .job_actions import Job
from .pool_access import Call


class _Service(Struct, frozen=True):
    service: Annotated[str, Meta(description="the service of the credential")]


class _Handle(Struct, frozen=True):
    service: Annotated[str, Meta(description="the service of the credential")]
    handle: Annotated[str, Meta(description="which of several credentials for the service")]


_NO_CREDENTIALS: Final = "the pool stores no credentials (condor_store_cred); name files or use jobs' own means"
_REASONS: Final = (
    ("GET", "/jobs/{id}/ssh", Job, WRITE, "a shell is not available over HTTP; run `condor_ssh_to_job` on the machine"),
    ("POST", "/collector/advertise", NoParameters, WRITE, "the pool's ads are views of its log; use `poolbook join`"),
    *(
        (method, path, parameters, WRITE, _NO_CREDENTIALS)
        for path, parameters in (
            ("/creds/user", NoParameters), ("/creds/service", NoParameters), ("/creds/service/{service}", _Service),
            ("/creds/service/{service}/{handle}", _Handle),
        )
        for method in ("GET", "POST", "DELETE")
    ),
)  # fmt: skip


def _handler(method: str, path: str, parameters: Any) -> Callable[..., None]:
    def refuse(call: Call, parameters: NoParameters) -> None:
        """Not supported."""

    refuse.__annotations__ |= {"parameters": parameters}
    refuse.__name__ = "_".join([method.lower(), *(part.strip("{}") for part in path.split("/") if part)])
    return refuse


def _endpoints() -> Iterator[Endpoint]:
    for method, path, parameters, level, reason in _REASONS:
        yield Endpoint(method, path, _handler(method, path, parameters), level, is_live=True, unsupported=reason)


ENDPOINTS: Final = tuple(_endpoints())
