"""The OpenAPI 3.1 document, generated from the endpoints' types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, Final

import msgspec

from .application import BASE
from .endpoints import Content, Endpoint, Upload
from .problems import MEDIA_TYPE, Problem

_REFERENCE: Final = "#/components/schemas/{name}"
_PROBLEMS: Final[Mapping[int, str]] = {
    400: "the request is invalid", 401: "the caller is not authenticated", 403: "the caller may not do that",
    404: "the pool does not contain it", 408: "the body did not arrive in time",
    409: "the state of the pool does not allow it", 413: "the body is too long", 415: "the body has another type",
    421: "the service has another host name", 422: "the key was sent with another request",
    429: "too many requests", 503: "the log or the pool does not answer",
}  # fmt: skip
_WITH_BODY: Final = (408, 413, 415)


def document(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """Return the document as JSON values."""
    types = _types(endpoints)
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template=_REFERENCE)
    schema_of = dict(zip([*types, Problem], schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        path = re.sub(r":\w+\}", "}", endpoint.path)
        item = paths.setdefault(path, {"servers": [{"url": "/"}]} if endpoint.is_at_root else {})
        item[endpoint.method.lower()] = _operation(endpoint, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Poolbook", "version": version, "description": "The HTTP API of a Poolbook pool."},
        "servers": [{"url": BASE}],
        "security": [{}, {"token": []}],
        "paths": {**paths, **_streams(schema_of[Problem])},
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "an IDTOKEN of the pool"}},
        },
    }


_WATCH = {
    "constraint": "only ads that satisfy this ClassAd expression",
    "cursor": "the id of the last event received, like the header Last-Event-ID",
}
_TYPE = {"type": "the type of ads, such as Machine (default), Schedd or Negotiator"}


def _optional(texts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return optional parameters with these descriptions."""
    return [
        {"name": name, "in": "query", "required": False, "description": text, "schema": {"type": "string"}}
        for name, text in texts.items()
    ]


def _streams(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return the paths of responses that are not JSON: the stream of events, and the metrics."""
    problems = {
        str(status): {"description": text, "content": {MEDIA_TYPE: {"schema": problem}}}
        for status, text in {**_PROBLEMS, 410: "the log has not sent this position"}.items()
        if status not in _WITH_BODY
    }
    texts = {
        "after": "send the events after this position; without it, new ones (or those after Last-Event-ID)",
        "topic": "only events of these kinds, separated by commas, such as job.exited",
        "stream": "only events about this cluster, slot or machine, or of this stream",
    }
    events: dict[str, Any] = {
        "operationId": "events", "summary": "Send the events of the log as server-sent events, without an end.",
        "description": "A client that connects again with Last-Event-ID misses and repeats nothing.\n\nLevel: READ",
        "parameters": _optional(texts),
        "responses": {"200": {"description": "a stream", "content": {"text/event-stream": {}}}, **problems},
    }  # fmt: skip
    metrics: dict[str, Any] = {
        "operationId": "metrics", "summary": "Return the pool's metrics for Prometheus, as `poolbook metrics` does.",
        "description": "Level: READ",
        "responses": {"200": {"description": "metrics", "content": {"text/plain": {}}}, **problems},
    }  # fmt: skip
    watches = {
        f"/{kind}/watch": {
            "get": {
                "operationId": f"{kind}_watch",
                "summary": f"Send the ads of {things}, and then each change, as server-sent events without an end.",
                "description": "The events are reset, upsert, delete and synced, as in golang-htcondor.\n\nLevel: READ",
                "parameters": _optional(texts),
                "responses": events["responses"],
            }
        }
        for kind, things, texts in (("jobs", "jobs", _WATCH), ("collector", "slots or other things", _WATCH | _TYPE))
    }
    return {"/events": {"get": events}, **watches, "/metrics": {"servers": [{"url": "/"}], "get": metrics}}


def _types(endpoints: Sequence[Endpoint]) -> list[Any]:
    """Return the types of JSON bodies and results, each once."""
    types = [kind for endpoint in endpoints for kind in (endpoint.body, endpoint.result)]
    return list(dict.fromkeys(kind for kind in types if kind not in (None, NoneType, Upload, Content)))


def _operation(endpoint: Endpoint, schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    text = inspect.getdoc(endpoint.handle) or ""
    summary, _, description = text.partition("\n\n")
    operation: dict[str, Any] = {
        "operationId": endpoint.handle.__name__,
        "summary": " ".join(summary.split()),
        "description": f"{description}\n\nLevel: {endpoint.level}".strip(),
        "parameters": list(_parameters(endpoint)),
        "responses": _responses(endpoint, schema_of),
    }
    if endpoint.body is not None:
        content = {
            endpoint.media_type: {"schema": schema_of.get(endpoint.body, {"type": "string", "format": "binary"})}
        }
        operation["requestBody"] = {"required": endpoint.default_body is None, "content": content}
    return operation


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    properties: Mapping[str, Any] = (
        msgspec.json.schema_components([endpoint.parameters])[1]
        .get(endpoint.parameters.__name__, {})
        .get("properties", {})
    )
    return [
        {
            "name": name,
            "in": "path" if name in endpoint.in_path else "query",
            "required": name in endpoint.in_path,
            "description": value.get("description", ""),
            "schema": {key: each for key, each in value.items() if key != "description"},
        }
        for name, value in properties.items()
    ]


def _responses(endpoint: Endpoint, schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    if endpoint.result is Content:
        content: dict[str, Any] = {"*/*": {}}
    else:
        content = {"application/json": {"schema": schema_of.get(endpoint.result, {})}}
    responses: dict[str, Any] = {str(endpoint.status): {"description": "success", "content": content}}
    if endpoint.unsupported:
        responses = {}
    elif not (endpoint.changes or endpoint.is_live):
        responses["304"] = {"description": "unchanged since the ETag in If-None-Match"}
    problems = {**_PROBLEMS, 501: endpoint.unsupported} if endpoint.unsupported else _PROBLEMS
    for status, description in problems.items():
        if status not in _WITH_BODY or endpoint.body is not None:
            schema = schema_of[Problem]
            responses[str(status)] = {"description": description, "content": {MEDIA_TYPE: {"schema": schema}}}
    return responses
