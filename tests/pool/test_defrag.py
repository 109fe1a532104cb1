"""Golden: a served pool drains its own machine so that a large job can run, and continues this after it was killed."""

from __future__ import annotations

import signal
from itertools import pairwise
from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.machine.host import host_name
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import DefragPolled, DrainBegan

from .real import Folder

CONFIG = """\
DAEMON_LIST = $(DAEMON_LIST) DEFRAG
NUM_CPUS = 2
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1 = 100%
SLOT_TYPE_1_PARTITIONABLE = true
RUNBENCHMARKS = false
POLLING_INTERVAL = 1
UPDATE_INTERVAL = 1
MachineMaxVacateTime = 5
CLAIM_WORKLIFE = 0
DEFRAG_INTERVAL = 1
DEFRAG_DRAINING_MACHINES_PER_HOUR = 3600
DEFRAG_REQUIREMENTS = Cpus == 1
"""
SMALL = """\
executable = /bin/sleep
arguments = 300
request_memory = 16
request_disk = 1 MB
queue
"""
LARGE = """\
executable = /bin/sh
arguments = "-c 'echo done >> done.txt'"
request_cpus = 2
request_memory = 16
request_disk = 1 MB
priority = 5
queue
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    test_folder = Folder(tmp_path)
    test_folder.write("poolbook.conf", CONFIG)
    test_folder.write("small.sub", SMALL)
    test_folder.write("large.sub", LARGE)
    return test_folder


def events(folder: Folder, kind: type) -> list[object]:
    log = open_log(str(folder.path / "pool.db"), create=False, read_only=True)
    try:
        return [event for _, event in log.read() if isinstance(event, kind)]
    finally:
        log.close()


def test_a_large_job_gets_the_machine_from_a_small_one_even_if_the_pool_is_killed(folder: Folder) -> None:
    path = folder.path / "done.txt"
    try:
        with folder.served() as server:
            folder.call("submit", "small.sub")
            folder.wait_for(lambda: events(folder, DrainBegan))
            server.send_signal(signal.SIGKILL)
            server.wait()
        folder.call("submit", "large.sub")
        with folder.served():
            folder.wait_for(path.exists)
            assert host_name() in folder.call("status", "-defrag")
            assert folder.call("status", "-defrag", "-af", "DrainFailures") == "0\n"
        assert "The defragmentation drained its machine" in folder.call("why", f"slot1@{host_name()}", "-v")
        assert "polls of the defragmentation were repeated" in folder.call("verify", "-decisions")
        at = [poll.at for poll in events(folder, DefragPolled)]  # type: ignore[attr-defined]
        assert all(later - earlier >= 1_000_000 for earlier, later in pairwise(at))
    finally:
        folder.kill_everything()


def test_the_pool_of_a_program_drains_its_machines() -> None:
    with Pool.open("memory:", config=CONFIG) as pool:
        pool.add_machine("m1", cpus=2, memory=1024)
        pool.submit("executable = /bin/sleep\narguments = 3000\nqueue")
        pool.advance(3)
        reasons = [slot["DrainReason"] for slot in pool.slots() if "DrainReason" in slot]
        assert reasons[0].startswith("Defrag DEFRAG")
