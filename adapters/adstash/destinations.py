"""Where documents go: a search engine, or files.

Source: condor_adstash's requests and files (adstash/interfaces/); the bulk API of Elasticsearch and OpenSearch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from attrs import define, frozen

from ...domain.errors import PoolbookError
from ..replaced_files import replace_file
from .documents import Document
from .fields import Fields

Identified = tuple[str, Document]
_SETTINGS: Final = {
    "index.mapping.ignore_malformed": True, "index.refresh_interval": "60s",
    "index.write.wait_for_active_shards": "all",
}  # fmt: skip
_LIMIT: Final = "index.mapping.total_fields.limit"
_BULK: Final = "_bulk?filter_path=errors,took,items.*.index.error.**,items.*.index.status"


class StashError(PoolbookError):
    """Raised if documents could not be stored; they are sent again in the next run."""


class Destination(Protocol):
    def prepare(self, fields: Fields) -> None:
        """Get ready for documents with these fields. Raise `StashError` if that fails."""

    def send(self, documents: Sequence[Identified]) -> None:
        """Store documents, each with its id; storing one again is harmless. Raise `StashError` if one fails."""


def index_settings(fields: Fields) -> dict[str, Any]:
    """Return the settings of an index. The limit on fields is twice the number of known ones."""
    properties = fields.mappings()["properties"].values()
    return {**_SETTINGS, **fields.settings, _LIMIT: 2 * sum(1 + len(each.get("fields", ())) for each in properties)}


@frozen
class Nowhere:
    """Reads the documents, but stores none."""

    def prepare(self, fields: Fields) -> None:
        pass

    def send(self, documents: Sequence[Identified]) -> None:
        pass


@frozen
class JsonFiles:
    """A JSON file per run, named by the time, with sorted keys, and the mappings and settings of an index."""

    folder: Path

    def prepare(self, fields: Fields) -> None:
        self._write("condor_adstash_jsonfile_last_mappings.json", fields.mappings())
        self._write("condor_adstash_jsonfile_last_settings.json", index_settings(fields))

    def send(self, documents: Sequence[Identified]) -> None:
        contents = [{**document, "_id": name} for name, document in documents]
        self._write(f"{time.time()}.json", contents, sort_keys=True)

    def _write(self, name: str, contents: object, sort_keys: bool = False) -> None:
        try:
            replace_file(self.folder / name, json.dumps(contents, indent=2, sort_keys=sort_keys))
        except OSError as error:
            raise StashError(f"{self.folder / name} cannot be written: {error.strerror}") from None


@frozen
class JsonLines:
    """A file to which each document is appended as a line; its ``_id`` identifies repeated ones."""

    path: Path

    def prepare(self, fields: Fields) -> None:
        pass

    def send(self, documents: Sequence[Identified]) -> None:
        lines = [json.dumps({"_id": name, **document}, sort_keys=True) + "\n" for name, document in documents]
        try:
            with self.path.open("a") as file:
                file.write("".join(lines))
        except OSError as error:
            raise StashError(f"{self.path} cannot be written: {error.strerror}") from None


@frozen
class ParquetFiles:
    """A Parquet file per run, with a column per field."""

    folder: Path

    def prepare(self, fields: Fields) -> None:
        pass

    def send(self, documents: Sequence[Identified]) -> None:
        import pyarrow
        from pyarrow import parquet

        rows = [{"_id": name, **{k: _plain(v) for k, v in document.items()}} for name, document in documents]
        columns = {name: [row.get(name) for row in rows] for name in sorted({name for row in rows for name in row})}
        path = self.folder / f"{time.time()}.parquet"
        try:
            parquet.write_table(pyarrow.table(columns), path)
        except OSError as error:
            raise StashError(f"{path} cannot be written: {error.strerror}") from None


def _plain(value: Any) -> Any:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else value


@define
class SearchEngine:
    """An index or alias of Elasticsearch or OpenSearch.

    ``url`` may contain a prefix of the path. ``bunch``: the most documents in a request. ``log_folder``: where the
    mappings and settings that were sent are written; None: nowhere.
    """

    url: str
    index: str
    user: tuple[str, str] | None = None
    ca_certs: str | None = None
    timeout_s: int = 240
    bunch: int = 250
    log_folder: Path | None = None

    def prepare(self, fields: Fields) -> None:
        self._request("GET", "_cluster/health")
        aliases = self._request("GET", f"_alias/{self.index}", missing={})
        indexes = [name for name, value in aliases.items() if self._is_written(value)] or [self.index]
        mapping = self._request("GET", f"{indexes[0]}/_mapping", missing={})
        if not mapping:
            self._request("PUT", indexes[0], {})
        known = mapping.get(indexes[0], {}).get("mappings", {}).get("properties", {})
        settings = self._request("GET", f"{indexes[0]}/_settings", missing={})
        limit = settings.get(indexes[0], {}).get("settings", {}).get("index", {}).get("mapping", {})
        limit = int(limit.get("total_fields", {}).get("limit", 0))
        limits = {**fields.settings, _LIMIT: max(limit, index_settings(fields)[_LIMIT])}
        wanted = fields.mappings()
        wanted["properties"] = {name: each for name, each in wanted["properties"].items() if name not in known}
        self._request("PUT", f"{indexes[0]}/_settings", limits)
        self._request("PUT", f"{indexes[0]}/_mapping", wanted)
        if self.log_folder is not None:
            JsonFiles(self.log_folder).prepare(fields)

    def _is_written(self, value: Mapping[str, Any]) -> bool:
        alias = value.get("aliases", {}).get(self.index, {})
        return bool(alias.get("is_write_index", False))

    def send(self, documents: Sequence[Identified]) -> None:
        for first in range(0, len(documents), self.bunch):
            lines = [
                json.dumps(part, sort_keys=True)
                for name, document in documents[first : first + self.bunch]
                for part in ({"index": {"_id": name}}, document)
            ]
            answer = self._request("PUT", f"{self.index}/{_BULK}", content="\n".join(lines) + "\n")
            if answer.get("errors"):
                errors = [item["index"]["error"] for item in answer.get("items", ()) if "error" in item["index"]]
                raise StashError(f"{self.url} rejected {len(errors)} documents, the first because of {errors[:1]}")

    def _request(
        self, method: str, path: str, body: object = None, *, content: str | None = None,
        missing: dict[str, Any] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Send a request, and return the answer. ``missing``: the answer if the index does not exist."""
        import httpx

        kind = "application/x-ndjson" if content is not None else "application/json"
        if body is not None:
            content = json.dumps(body)
        try:
            response = httpx.request(
                method, f"{self.url}/{path}", content=content, headers={"Content-Type": kind}, auth=self.user,
                timeout=self.timeout_s, verify=self.ca_certs or True,
            )  # fmt: skip
        except (httpx.HTTPError, OSError) as error:
            raise StashError(f"{self.url} cannot be reached: {error}") from None
        if response.status_code == 404 and missing is not None:
            return missing
        if not response.is_success:
            raise StashError(f"{self.url} answered {response.status_code} to {method} {path}: {response.text[:300]}")
        answer: dict[str, Any] = response.json() if response.content else {}
        return answer
