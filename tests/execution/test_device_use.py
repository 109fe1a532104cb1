"""The use of devices by jobs, as the records of their monitors show it."""

from __future__ import annotations

from poolbook.adapters.machine.cron import DeviceSample
from poolbook.adapters.machine.device_use import DeviceUse
from poolbook.domain.classad import ClassAd
from poolbook.domain.ports.sensor_readings import SlotRecord

SECOND = 1_000_000
ON_CARD = SlotRecord({}, "SlotMergeConstraint", 'StringListMember("GPU-one", AssignedGPUs)')
CARD = {"AssignedGPUs": '"GPU-one"'}


def sample(at: float, seconds: float, memory: float, processes: str = "", source: str = "GPUsSlot0") -> DeviceSample:
    printed = ClassAd.from_old(f"GPUsProcesses = {processes}" if processes else "X = 1")
    record = ON_CARD if source == "GPUsSlot0" else SlotRecord({}, "SlotID", "7")
    return DeviceSample(
        ("GPUs_MONITOR", source), record, round(at * SECOND), {"GPUs": seconds}, {"GPUsMemory": memory}, printed
    )


def test_a_job_s_average_starts_with_its_first_complete_interval() -> None:
    """The numbers of the first two jobs of a recorded HTCondor pool."""
    use = DeviceUse()
    use.add_run("1", "slot1_1@h", CARD)
    assert use.usage("1") == {}
    use.take_sample(sample(5, 0.602, 4007))
    assert use.usage("1") == {"GPUsMemoryUsage": "4007.0"}, "nothing is known of the time before its start"
    use.take_sample(sample(17, 7.04, 484))
    use.take_sample(sample(29, 7.040888, 4007))
    assert use.usage("1") == {"GPUsAverageUsage": "0.586704", "GPUsMemoryUsage": "4007.0"}
    assert use.of_slots() == {"slot1_1@h": use.usage("1")}
    use.remove_run("1")
    assert use.usage("1") == {}


def test_the_averages_of_a_job_s_devices_add_up() -> None:
    use = DeviceUse()
    use.add_run("1", "slot1_1@h", {**CARD, "SlotID": "7"})
    for at in (0, 10):
        use.take_sample(sample(at, 5, 100))
        use.take_sample(sample(at, 2.5, 300, source="GPUsSlot1"))
    assert use.usage("1") == {"GPUsAverageUsage": "0.75", "GPUsMemoryUsage": "300.0"}


def test_jobs_that_share_a_device_are_charged_for_their_own_processes() -> None:
    use = DeviceUse()
    for key, pid in (("1", 100), ("2", 200), ("3", 300)):
        use.add_run(key, f"slot1_{key}@h", CARD)
        use.set_pid(key, pid)
    processes = (
        "{ [ Pid = 494; Ancestors = { 100, 1 }; Seconds = 3.0; MemoryMb = 2518 ],"
        " [ Pid = 495; Ancestors = { 494, 100, 1 }; Seconds = 1.0; MemoryMb = 100 ],"
        " [ Pid = 200; Ancestors = { 1 }; Seconds = 6.0; MemoryMb = 6518 ] }"
    )
    for at in (0, 10):
        use.take_sample(sample(at, 9.2, 9665, processes))
    assert use.usage("1") == {"GPUsAverageUsage": "0.4", "GPUsMemoryUsage": "2618.0"}
    assert use.usage("2") == {"GPUsAverageUsage": "0.6", "GPUsMemoryUsage": "6518.0"}
    assert use.usage("3") == {"GPUsAverageUsage": "0.0", "GPUsMemoryUsage": "0.0"}
