"""A manager for the tests of a module."""

from collections.abc import Iterator

import pytest

from .pool import JoinablePool, joinable_pool


@pytest.fixture(scope="module")
def shared_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JoinablePool]:
    with joinable_pool(tmp_path_factory.mktemp("pool")) as pool:
        yield pool
