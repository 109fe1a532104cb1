"""Golden: `poolbook status` shows slots that were turned off as absent, if the configuration asks for that."""

from __future__ import annotations

from pathlib import Path

from poolbook.adapters.machine.host import host_name

from .real import Folder

CONFIG = """\
NUM_CPUS = 2
NUM_SLOTS_TYPE_1 = 2
SLOT_TYPE_1 = 50%
SLOT_TYPE_1_PARTITIONABLE = false
RUNBENCHMARKS = false
ABSENT_REQUIREMENTS = SlotID == 1
ABSENT_EXPIRE_ADS_AFTER = 24 * 3600
EXPIRE_INVALIDATED_ADS = True
"""


def test_a_slot_that_was_turned_off_is_absent_until_it_is_back(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("poolbook.conf", CONFIG)
    slots = [f"slot{number}@{host_name()}" for number in (1, 2)]

    def shown(*options: str) -> list[str]:
        return folder.call("status", *options).split()

    with folder.served():
        assert shown("-af", "Name") == slots
        assert shown("-absent") == []
        folder.call("off")
        folder.wait_for(lambda: shown("-af", "Name") == [])
        assert shown("-constraint", "Absent =?= true", "-af", "Name", "ClassAdLifetime") == [slots[0], "86400"]
        assert slots[0] in shown("-absent") and slots[1] not in shown("-absent")
        assert "DaemonMaster" not in shown("-any", "-af", "MyType")
        assert "is kept until" in folder.call("log")
        folder.call("on")
        folder.wait_for(lambda: shown("-af", "Name") == slots)
        assert shown("-absent") == []
    assert "sound" in folder.call("verify")
