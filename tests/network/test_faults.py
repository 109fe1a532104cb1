"""Property: whatever fails, each job of a pool of seven machines ends once, with all of its files, and the logs agree.
POOLBOOK_NETWORK_SEED chooses another story (default: a new one each time; CI always tells the same)."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from .fault_story import FaultStory
from .machines import Network, missing_requirements
from .roles import RolePool, wait_until

pytestmark = pytest.mark.skipif(bool(missing_requirements()), reason=missing_requirements())

SECONDS = float(os.environ.get("POOLBOOK_NETWORK_SECONDS", "3600"))


def tell(folder: Path, seed: int, seconds: float) -> None:
    with Network(folder) as network:
        FaultStory(network, seed, seconds).run()


def test_nothing_is_lost_while_machines_fail_for_a_moment(tmp_path: Path) -> None:
    tell(tmp_path, seed=1, seconds=25)


@pytest.mark.network
def test_nothing_is_lost_while_machines_fail_for_an_hour(tmp_path: Path) -> None:
    tell(tmp_path, int(os.environ.get("POOLBOOK_NETWORK_SEED", random.randrange(1_000_000))), SECONDS)


@pytest.mark.network
def test_an_access_point_continues_if_the_user_of_a_job_is_unknown_for_a_while(tmp_path: Path) -> None:
    with Network(tmp_path) as network:
        pool = RolePool(network, {})
        for name in ("cm1", "ap1"):
            pool.start(pool.add_machine(name))
        ap1 = network.machines["ap1"]
        pool.wait_until_serving(ap1)
        job = "executable = /bin/true\ntransfer_executable = false\nshould_transfer_files = YES\nqueue\n"
        (ap1.home("alice") / "job.sub").write_text(job)
        pool.run(ap1, "submit", "job.sub", user="alice")
        accounts = ap1.folder / "system/etc/passwd"
        text = accounts.read_text()
        accounts.write_text(text.replace("alice:", "other:"))
        pool.start(pool.add_machine("ep1"))
        wait_until(lambda: "this machine has no user alice" in pool.daemons["ap1"].text(), pool.texts)
        accounts.write_text(text)
        pool.wait_for_empty_queue(ap1)
