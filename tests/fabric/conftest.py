"""A broker for the tests of a module, which may not stop it, and one for a single test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .pool import BrokerPool, running_pool


@pytest.fixture(scope="module")
def shared_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPool]:
    with running_pool(tmp_path_factory.mktemp("pool")) as pool:
        yield pool


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[BrokerPool]:
    with running_pool(tmp_path) as pool:
        yield pool
