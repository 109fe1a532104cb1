"""The files that set up an index: a template, a policy for its life cycle, and the first index, with instructions."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .destinations import index_settings
from .fields import fields_of

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
_README = """Send these files to the search engine, in this order:

  curl -X PUT -H "Content-Type: application/json" URL/_ilm/policy/{index}-ilm -d @{index}-ilm.json
  curl -X PUT -H "Content-Type: application/json" URL/_index_template/{index}-template -d @{index}-template.json
  curl -X PUT -H "Content-Type: application/json" URL/{index}-000001 -d @{index}-000001.json

Then use the name {index}: it is an alias of the index that is written.
"""


def index_files(index: str, kind: str) -> Iterator[tuple[str, str]]:
    """Yield the names and the texts of the files for an alias and a kind of ads."""
    fields = fields_of(kind)
    lifecycle = {"index.lifecycle.name": f"{index}-ilm", "index.lifecycle.rollover_alias": index}
    template = {
        "index_patterns": [f"{index}-*"],
        "template": {"settings": {**index_settings(fields), **lifecycle}, "mappings": fields.mappings()},
    }
    yield f"{index}-ilm.json", json.dumps(_POLICY, indent=2)
    yield f"{index}-template.json", json.dumps(template, indent=2)
    yield f"{index}-000001.json", json.dumps({"aliases": {index: {"is_write_index": True}}}, indent=2)
    yield "README", _README.format(index=index)
