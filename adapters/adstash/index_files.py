"""The files that set up an index: a template, a policy for its life cycle, and the first index, with instructions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .destinations import index_settings
from .fields import Fields

_POLICY = {
    "policy": {
        "phases": {
            "hot": {
                "min_age": "0ms",
                "actions": {
                    "rollover": {"max_primary_shard_size": "50gb", "max_age": "120d"},
                    "set_priority": {"priority": 100},
                },
            },
            "warm": {
                "min_age": "120d",
                "actions": {"forcemerge": {"max_num_segments": 1}, "set_priority": {"priority": 50}},
            },
            "cold": {"min_age": "400d", "actions": {"set_priority": {"priority": 0}}},
        }
    }
}
_INTRODUCTION = """Send these files to the search engine, in this order:

"""
_COMMAND = '  curl -X PUT -H "Content-Type: application/json" URL/{place} -d @{file}\n'
_END = """
Then use the name {index}: it is an alias of the index that is written.
"""


def index_files(
    index: str, fields: Fields, has_alias: bool = True, has_policy: bool = True, has_template: bool = True
) -> Iterator[tuple[str, str]]:
    """Yield the names and the texts of the files for an index, or for an alias of one. A policy needs an alias."""
    settings = index_settings(fields)
    if has_policy:
        settings |= {"index.lifecycle.name": f"{index}-ilm", "index.lifecycle.rollover_alias": index}
    definition: dict[str, Any] = {"settings": settings, "mappings": fields.mappings()}
    first: dict[str, Any] = {} if has_template else dict(definition)
    name = index
    if has_alias:
        name = f"{index}-000001"
        first["aliases"] = {index: {"is_write_index": True}}
    files: list[tuple[str, str, Any]] = []
    if has_policy:
        files.append((f"{index}-ilm", f"_ilm/policy/{index}-ilm", _POLICY))
    if has_template:
        template = {"index_patterns": [f"{index}-*"], "template": definition}
        files.append((f"{index}-template", f"_index_template/{index}-template", template))
    files.append((name, name, first))
    for file, _, contents in files:
        yield f"{file}.json", json.dumps(contents, indent=2)
    commands = (_COMMAND.format(place=place, file=f"{file}.json") for file, place, _ in files)
    yield "README", "".join((_INTRODUCTION, *commands, _END.format(index=index) if has_alias else ""))
