"""Property: whatever fails, each job of a pool of seven machines ends once, with all of its files, and the logs agree.
POOLBOOK_NETWORK_SEED chooses another story (default: a new one each time; CI always tells the same)."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from .fault_story import FaultStory
from .machines import Network, missing_requirements

pytestmark = pytest.mark.skipif(bool(missing_requirements()), reason=missing_requirements())

SECONDS = float(os.environ.get("POOLBOOK_NETWORK_SECONDS", "3600"))


def tell(folder: Path, seed: int, seconds: float) -> None:
    with Network(folder) as network:
        FaultStory(network, seed, seconds).run()


def test_nothing_is_lost_while_machines_fail_for_a_moment(tmp_path: Path) -> None:
    tell(tmp_path, seed=1, seconds=20)


@pytest.mark.network
def test_nothing_is_lost_while_machines_fail_for_an_hour(tmp_path: Path) -> None:
    tell(tmp_path, int(os.environ.get("POOLBOOK_NETWORK_SEED", random.randrange(1_000_000))), SECONDS)
