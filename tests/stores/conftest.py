"""The places in which the stores' tests keep their logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .places import DURABLE, KINDS, Place, place_of


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A place of each kind of store."""
    with place_of(request.param, tmp_path) as new_place:
        yield new_place


@pytest.fixture(params=DURABLE)
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A place of each kind of store that outlives a process."""
    with place_of(request.param, tmp_path) as new_place:
        yield new_place


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Place]:
    with place_of("sqlite", tmp_path) as new_place:
        yield new_place
