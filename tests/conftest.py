"""For all tests: no example of a property is judged by the clock, since the machines that run them are shared; and a
property that does not say how many examples it wants gets 20, so that the suite stays fast. `make soak` draws more.

Garbage is collected less often than by default: what a worker keeps (modules, parsed sources, recorded pools) is so
much that looking through it again and again took a tenth of all its time."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import settings

settings.register_profile("poolbook", deadline=None, max_examples=20)
settings.load_profile("poolbook")

gc.set_threshold(50_000, 20, 100)


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.fixture
def told_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks of pools in this process wait where they would use a core for a second; tests/slots has them done."""
    from poolbook.adapters.machine.sensors import benchmarks

    waits = ["/bin/sh", "-c", "sleep 1.1; echo 3000 20000"]
    monkeypatch.setattr(benchmarks, "command", lambda: (waits, dict(os.environ)))
