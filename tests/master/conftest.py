from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine without a running master; what still runs at the end is killed."""
    machine = Machine(tmp_path)
    yield machine
    machine.close()
