"""The sensors of a machine, with files instead of devices."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from pathlib import Path

import pytest

from poolbook.adapters.machine import benchmarks
from poolbook.adapters.machine.cron import program_command
from poolbook.adapters.machine.detection import execute_volume, machine_equipment, processor_ad
from poolbook.adapters.machine.sensors import CondorLoad, Idle, Sensors, logged_in
from poolbook.domain.config import read
from poolbook.domain.startd.provisioning import machine_offer
from poolbook.domain.startd.slot_types import SlotTypeError

from ..together import together

SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND


class FakeRoot:
    """A root directory with devices, whose last use can be set, and a utmp file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "dev/pts").mkdir(parents=True)
        (root / "dev/input").mkdir()
        (root / "var/run").mkdir(parents=True)

    def use_device(self, device: str, seconds_ago: float) -> None:
        path = self.root / "dev" / device
        path.touch()
        os.utime(path, ns=((NOW - round(seconds_ago * SECOND)) * 1000,) * 2)

    def log_in(self, *lines: str) -> None:
        def record(kind: int, line: str) -> bytes:
            return struct.pack("=hxxi32s4s32s256s52x", kind, 1, line.encode(), b"", b"user", b"")

        boot = record(2, "~")
        data = boot + b"".join(record(7, line) for line in lines) + record(8, "pts/9")
        (self.root / "var/run/utmp").write_bytes(data)


@pytest.fixture
def fake_root(tmp_path: Path) -> FakeRoot:
    return FakeRoot(tmp_path)


def seconds_ago(instant: int | None) -> float | None:
    return None if instant is None else (NOW - instant) / SECOND


def test_utmp_lists_the_terminals_of_logged_in_users(fake_root: FakeRoot) -> None:
    assert logged_in(fake_root.root / "var/run/utmp") is None
    fake_root.log_in("pts/0", "tty1")
    assert logged_in(fake_root.root / "var/run/utmp") == ["pts/0", "tty1"]


def test_the_last_input_is_the_latest_at_the_terminals_of_logged_in_users(fake_root: FakeRoot) -> None:
    for device, seconds in {"pts/0": 30, "tty1": 20, "pts/7": 5}.items():
        fake_root.use_device(device, seconds)
    fake_root.log_in("pts/0", "tty1")
    last, console = Idle(root=fake_root.root).last_use(NOW)
    assert (seconds_ago(last), seconds_ago(console)) == (20, None)


@pytest.mark.parametrize("bad", [False, True], ids=["no utmp", "an unreliable utmp"])
def test_without_a_utmp_every_terminal_counts(fake_root: FakeRoot, bad: bool) -> None:
    fake_root.use_device("pts/7", 5)
    fake_root.use_device("pts/0", 30)
    if bad:
        fake_root.log_in("pts/0")
    last, _ = Idle(bad_utmp=bad, root=fake_root.root).last_use(NOW)
    assert seconds_ago(last) == 5


def test_console_devices_count_as_console_and_as_terminal(fake_root: FakeRoot) -> None:
    fake_root.log_in()
    fake_root.use_device("mouse", 40)
    fake_root.use_device("console", 50)
    last, console = Idle(["mouse", "console", "no-such-device"], root=fake_root.root).last_use(NOW)
    assert (seconds_ago(last), seconds_ago(console)) == (40, 40)


def test_keyboard_input_counts_when_it_arrives(fake_root: FakeRoot) -> None:
    fake_root.log_in()
    os.mkfifo(fake_root.root / "dev/input/event0")
    idle = Idle(root=fake_root.root)
    assert idle.last_use(NOW) == (None, None)
    keyboard = os.open(fake_root.root / "dev/input/event0", os.O_WRONLY)
    os.write(keyboard, b"key")
    assert idle.last_use(NOW + SECOND) == (NOW + SECOND, NOW + SECOND)
    assert idle.last_use(NOW + 9 * SECOND) == (NOW + SECOND, NOW + SECOND)
    os.close(keyboard)
    (fake_root.root / "dev/input/event0").unlink()
    assert idle.last_use(NOW + 10 * SECOND) == (NOW + SECOND, NOW + SECOND)
    idle.close()


def test_input_of_ended_sessions_is_remembered_and_future_times_count_as_now(fake_root: FakeRoot) -> None:
    fake_root.use_device("pts/0", 30)
    fake_root.log_in("pts/0")
    idle = Idle(root=fake_root.root)
    assert seconds_ago(idle.last_use(NOW)[0]) == 30
    fake_root.log_in()
    assert seconds_ago(idle.last_use(NOW)[0]) == 30
    fake_root.use_device("tty1", -100)
    fake_root.log_in("tty1")
    assert seconds_ago(idle.last_use(NOW)[0]) == 0


def test_the_readings_of_this_machine_are_complete() -> None:
    sensors = Sensors.from_configuration(read("CONSOLE_DEVICES = /dev/mouse, console"))
    readings = sensors.read(NOW, {"slot1@h": 0.5})
    sensors.close()
    assert readings.load == pytest.approx(os.getloadavg()[0], abs=5)
    assert readings.condor_load == {"slot1@h": 0.5}
    assert readings.last_input is None or readings.last_input <= NOW


@together(
    "measured, at, load",
    [
        # a core for the whole minute; half of one; for half of the minute
        ([(60, 60)], 60, 1.0),
        ([(60, 30)], 60, 0.5),
        ([(30, 30)], 30, 0.5),
        # only the last minute counts
        ([(60, 60), (120, 60), (180, 60)], 180, 0.0),
        ([(60, 0), (120, 60)], 120, 1.0),
        # four cores, on a machine whose load is 3
        ([(60, 240)], 60, 3.0),
        ([], 60, 0.0),
    ],
)
def test_the_load_of_a_job_is_its_mean_number_of_busy_cores(
    measured: list[tuple[int, int]], at: int, load: float
) -> None:
    jobs = CondorLoad()
    jobs.add_activation("1", "slot1@h", 0)
    for when, used in measured:
        jobs.record_cpu_time("1", when * SECOND, used * SECOND)
    assert jobs.loads(at * SECOND, 3.0) == {"slot1@h": pytest.approx(load)}
    jobs.remove_activation("1")
    jobs.record_cpu_time("1", at * SECOND, 0)
    assert jobs.loads(at * SECOND, 3.0) == {}


def test_benchmarks_measure_the_fastest_repetition() -> None:
    assert benchmarks.operations_per_second(benchmarks.run_integer_work, 0.0) > 0
    assert benchmarks.operations_per_second(benchmarks.run_real_work, 0.0) > 0
    slow_then_fast = iter([1, 1_000_000])
    assert benchmarks.operations_per_second(lambda: next(slow_then_fast, 0), 0.001) > benchmarks.operations_per_second(
        lambda: 1, 0.0
    )


@pytest.mark.parametrize(("program", "attribute"), [("condor_mips", "Mips"), ("condor_kflops", "KFlops")])
def test_a_benchmark_prints_its_attribute_in_a_separate_process(program: str, attribute: str) -> None:
    output = subprocess.run(program_command([program]), capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(rf"{attribute} = [1-9][0-9]*\n--\n", output)


def test_the_equipment_of_a_machine_is_detected_and_includes_inventories(tmp_path: Path) -> None:
    log_folder = tmp_path / "does/not/exist/yet"
    config = read(f"MACHINE_RESOURCE_INVENTORY_Fans = /bin/echo DetectedFans = 3\nSLOT2_EXECUTE = {tmp_path}")
    detected = machine_equipment(config, log_folder, {})
    assert detected.cpus == len(os.sched_getaffinity(0))
    assert detected.memory > 0 and detected.swap >= detected.memory * 1024
    assert set(detected.volumes) == {"", str(tmp_path)}, "by default, jobs run next to the log"
    assert detected.volumes[""].id == execute_volume(tmp_path).id
    assert detected.inventories == {"Fans": "DetectedFans = 3\n", "GPUs": "DetectedGPUs = 0\n"}


def test_an_inventory_that_cannot_be_run_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SlotTypeError, match="MACHINE_RESOURCE_INVENTORY_Fans: /no/such/thing"):
        machine_equipment(read("MACHINE_RESOURCE_INVENTORY_Fans = /no/such/thing"), tmp_path, {})


def test_gpus_are_discovered_without_htcondor_s_program(tmp_path: Path) -> None:
    config = read("use FEATURE : GPUs\nLIBEXEC = /no\nGPU_DISCOVERY_EXTRA = -simulate:3,2 -extra")
    offer = machine_offer("joins", "h", config, machine_equipment(config, tmp_path, {}))
    slot = offer.slots[0].ad
    assert (slot["GPUs"], slot["GPUs_DeviceName"], slot["GPUs_ComputeUnits"]) == ("2", '"TITAN RTX"', "72")
    assert slot["AvailableGPUs"].count("GPUs_GPU_") == 2


def test_htcondor_s_program_discovers_gpus_if_it_is_installed(tmp_path: Path) -> None:
    config = read(f"use FEATURE : GPUs\nLIBEXEC = {tmp_path}")
    discovery = tmp_path / "condor_gpu_discovery"
    discovery.write_text("#!/bin/sh\necho 'DetectedGPUs=\"GPU-1, GPU-2\"'\n")
    discovery.chmod(0o755)
    offer = machine_offer("joins", "h", config, machine_equipment(config, tmp_path, {}))
    assert (offer.slots[0].ad["GPUs"], offer.slots[0].ad["AssignedGPUs"]) == ("2", '"GPU-1,GPU-2"')


CPUINFO = """\
processor\t: 0
cpu family\t: 6
model\t\t: 167
model name\t: A Processor
cache size\t: 16384 KB
flags\t\t: {flags}

processor\t: 1
model\t\t: 9
"""
V2 = "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"
V3 = f"{V2} abm avx avx2 bmi1 bmi2 f16c fma movbe xsave"


@pytest.mark.parametrize(
    "flags, level, features",
    [
        ("fpu", None, set()),
        (V2, "x86_64-v2", {"sse4_1", "sse4_2", "ssse3"}),
        (V3, "x86_64-v3", {"sse4_1", "sse4_2", "ssse3", "avx", "avx2"}),
        (
            f"{V3} avx512bw avx512cd avx512dq avx512f avx512vl avx512_vnni",
            "x86_64-v4",
            {"sse4_1", "sse4_2", "ssse3", "avx", "avx2", "avx512dq", "avx512f", "avx512_vnni"},
        ),
    ],
)
def test_the_processor_has_the_attributes_of_machine_ads(flags: str, level: str | None, features: set[str]) -> None:
    ad = processor_ad(CPUINFO.format(flags=flags))
    assert [ad[name] for name in ("CpuFamily", "CpuModelNumber", "CpuCacheSize")] == ["6", "167", "16384"]
    assert ad.get("Microarch") == (level and f'"{level}"')
    assert {name.removeprefix("has_") for name in ad if name.startswith("has_")} == features


def test_an_unknown_processor_has_no_attributes() -> None:
    assert processor_ad("Hardware : something else\n") == {}
