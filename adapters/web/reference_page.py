"""The API's reference as a page, generated from the OpenAPI document. It requests nothing, and contains no script."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from typing import Any, Final

from starlette.responses import HTMLResponse, Response

_STYLE: Final = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}code{background:#f0f0f0;padding:.1em .3em;overflow-wrap:anywhere}h2{border-top:1px solid #ccc;"
    "padding-top:1rem;font-size:1.1rem}table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #ddd;"
    "padding:.3rem .5rem;text-align:left;vertical-align:top}@media(prefers-color-scheme:dark){body{color:#eee;"
    "background:#1a1a1a}code{background:#333}a{color:#8bf}}"
)
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def reference_page(document: Mapping[str, Any]) -> Response:
    """Return the page for an OpenAPI document."""
    operations = [
        (method, path if item.get("servers") else document["servers"][0]["url"] + path, item[method])
        for path, item in document["paths"].items()
        for method in item
        if method != "servers"
    ]
    links = "".join(
        f'<li><a href="#{_anchor(method, path)}"><code>{method.upper()} {escape(path)}</code></a> '
        f"{escape(operation['summary'])}</li>"
        for method, path, operation in operations
    )
    sections = "".join(part for operation in operations for part in _section(document, *operation))
    title = escape(f"{document['info']['title']} {document['info']['version']}: HTTP API")
    text = escape(document["info"]["description"])
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body><main><h1>{title}</h1>'
        f'<p>{text} The same as a document for programs: <a href="/openapi.json">openapi.json</a>.</p>'
        f"<ul>{links}</ul>{sections}</main></body></html>",
        headers={"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"},
    )


def _anchor(method: str, path: str) -> str:
    return escape(f"{method}{path}".replace("/", "-").replace("{", "").replace("}", ""), quote=True)


def _section(document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f'<h2 id="{_anchor(method, path)}"><code>{method.upper()} {escape(path)}</code></h2>'
    for paragraph in (operation["summary"], *operation.get("description", "").split("\n\n")):
        yield f"<p>{escape(paragraph)}</p>"
    rows = [
        (each["name"], each["schema"], each["required"], each["description"])
        for each in operation.get("parameters", ())
    ]
    yield _table(document, "Parameters", rows)
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        yield _table(document, f"Body ({media_type})", _members(document, content["schema"]))
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            for media_type, content in response.get("content", {}).items():
                yield _table(
                    document, f"Response {status} ({media_type})", _members(document, content.get("schema", {}))
                )
    others = [f"<code>{status}</code> {escape(each['description'])}" for status, each in operation["responses"].items()]
    yield f"<p>Status codes: {'; '.join(others)}.</p>"


_Row = tuple[str, Mapping[str, Any], bool, str]


def _members(document: Mapping[str, Any], schema: Mapping[str, Any]) -> list[_Row]:
    items = schema.get("items")
    schema = _resolved(document, items if isinstance(items, dict) else schema)
    required = schema.get("required", ())
    return [
        (name, value, name in required, value.get("description") or _resolved(document, value).get("description", ""))
        for name, value in schema.get("properties", {}).items()
    ]


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    resolved: Mapping[str, Any] = document["components"]["schemas"][name] if name else schema
    return resolved


def _table(document: Mapping[str, Any], title: str, rows: list[_Row]) -> str:
    if not rows:
        return ""
    cells = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(_kind(document, schema))}</td>"
        f"<td>{'required' if required else _default(schema)}</td><td>{escape(text)}</td></tr>"
        for name, schema, required, text in rows
    )
    head = f"<tr><th>{escape(title)}</th><th>type</th><th>default</th><th>meaning</th></tr>"
    return f"<table>{head}{cells}</table>"


def _kind(document: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind(document, each) for each in schema["anyOf"])
    if isinstance(schema.get("items"), dict):
        return f"list of {_kind(document, schema['items'])}"
    return str(schema.get("type") or schema.get("$ref", "any").rpartition("/")[2])


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    return "" if value in (None, "") else f"<code>{escape(str(value))}</code>"
