"""Property: whatever a client sends, the response is one that the API's description allows; no request is a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.transport.serialization import Binary

from ..sampling import soak_examples
from .client import PATIENCE, served_pool

WITHOUT_END = ("/events", "/jobs/watch", "/collector/watch")
CHECKED = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@schemathesis.serializer("application/x-tar")
def as_bytes(context: object, value: object) -> bytes:
    return value.data if isinstance(value, Binary) else str(value).encode()


def check_operations(folder: Path, examples: int) -> None:
    """Send about so many random requests to a new pool: the same number to each operation."""
    with served_pool(folder, "NUM_CPUS = 2\n") as pool:
        pool.submit("executable = /bin/true", "requirements = false", "queue 3", folder=str(folder))
        document = pool.get("/openapi.json")
        paths = {
            path: item for path, item in document["paths"].items() if "servers" not in item and path not in WITHOUT_END
        }
        schema = schemathesis.openapi.from_dict({**document, "paths": paths})
        schema.config.update(base_url=f"{pool.url}api/v1")
        operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
        supported = [each for each in operations if "501" not in each.definition.raw["responses"]]
        for operation in supported:

            @settings(
                max_examples=max(1, examples // len(supported)), deadline=None, database=None,
                suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink],
            )  # fmt: skip
            @given(case=operation.as_strategy())
            def check(case: schemathesis.Case[Any]) -> None:
                case.call_and_validate(checks=CHECKED, timeout=PATIENCE)

            check()


def test_responses_are_those_of_the_description(tmp_path: Path) -> None:
    check_operations(tmp_path, 200)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_responses_to_many_requests_are_those_of_the_description(tmp_path: Path) -> None:
    check_operations(tmp_path, soak_examples(2))
