"""The sensors of this machine, with real files in place of its devices."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest

from poolbook.adapters.machine import benchmarks
from poolbook.adapters.machine.detection import equipment, processor_ad, volume
from poolbook.adapters.machine.sensors import CondorLoad, Idle, Sensors, logged_in
from poolbook.domain.config import read
from poolbook.domain.startd.provisioning import machine_offer
from poolbook.domain.startd.slot_types import SlotTypeError

from ..together import together

SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND


class Disk:
    """A root directory with devices that were used some seconds ago, and a utmp that says who is logged in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "dev/pts").mkdir(parents=True)
        (root / "dev/input").mkdir()
        (root / "var/run").mkdir(parents=True)

    def used(self, device: str, seconds_ago: float) -> None:
        path = self.root / "dev" / device
        path.touch()
        os.utime(path, ns=((NOW - round(seconds_ago * SECOND)) * 1000,) * 2)

    def logged_in(self, *lines: str) -> None:
        def record(kind: int, line: str) -> bytes:
            return struct.pack("=hxxi32s4s32s256s52x", kind, 1, line.encode(), b"", b"user", b"")

        boot = record(2, "~")
        data = boot + b"".join(record(7, line) for line in lines) + record(8, "pts/9")
        (self.root / "var/run/utmp").write_bytes(data)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def ago(instant: int | None) -> float | None:
    return None if instant is None else (NOW - instant) / SECOND


def test_who_is_logged_in_where_utmp_says(disk: Disk) -> None:
    assert logged_in(disk.root / "var/run/utmp") is None
    disk.logged_in("pts/0", "tty1")
    assert logged_in(disk.root / "var/run/utmp") == ["pts/0", "tty1"]


def test_the_terminals_of_those_who_are_logged_in_tell_when_a_key_was_pressed(disk: Disk) -> None:
    for device, seconds in {"pts/0": 30, "tty1": 20, "pts/7": 5}.items():
        disk.used(device, seconds)
    disk.logged_in("pts/0", "tty1")
    last, console = Idle(root=disk.root).read(NOW)
    assert (ago(last), ago(console)) == (20, None)


@pytest.mark.parametrize("bad", [False, True], ids=["no utmp", "a utmp that is not to be believed"])
def test_without_a_utmp_every_terminal_counts(disk: Disk, bad: bool) -> None:
    disk.used("pts/7", 5)
    disk.used("pts/0", 30)
    if bad:
        disk.logged_in("pts/0")
    last, _ = Idle(bad_utmp=bad, root=disk.root).read(NOW)
    assert ago(last) == 5


def test_the_console_is_its_devices_and_counts_as_a_terminal(disk: Disk) -> None:
    disk.logged_in()
    disk.used("mouse", 40)
    disk.used("console", 50)
    last, console = Idle(["mouse", "console", "no-such-device"], root=disk.root).read(NOW)
    assert (ago(last), ago(console)) == (40, 40)


def test_what_comes_from_a_keyboard_counts_when_it_comes(disk: Disk) -> None:
    disk.logged_in()
    os.mkfifo(disk.root / "dev/input/event0")
    idle = Idle(root=disk.root)
    assert idle.read(NOW) == (None, None)
    keyboard = os.open(disk.root / "dev/input/event0", os.O_WRONLY)
    os.write(keyboard, b"key")
    assert idle.read(NOW + SECOND) == (NOW + SECOND, NOW + SECOND)
    assert idle.read(NOW + 9 * SECOND) == (NOW + SECOND, NOW + SECOND)
    os.close(keyboard)
    (disk.root / "dev/input/event0").unlink()
    assert idle.read(NOW + 10 * SECOND) == (NOW + SECOND, NOW + SECOND)
    idle.close()


def test_a_session_that_ended_is_remembered_and_the_future_is_now(disk: Disk) -> None:
    disk.used("pts/0", 30)
    disk.logged_in("pts/0")
    idle = Idle(root=disk.root)
    assert ago(idle.read(NOW)[0]) == 30
    disk.logged_in()
    assert ago(idle.read(NOW)[0]) == 30
    disk.used("tty1", -100)
    disk.logged_in("tty1")
    assert ago(idle.read(NOW)[0]) == 0


def test_the_readings_of_this_machine_are_whole() -> None:
    sensors = Sensors.configured(read("CONSOLE_DEVICES = /dev/mouse, console"))
    found = sensors.read(NOW, {"slot1@h": 0.5})
    sensors.close()
    assert found.load == pytest.approx(os.getloadavg()[0], abs=5)
    assert found.condor_load == {"slot1@h": 0.5}
    assert found.last_input is None or found.last_input <= NOW


@together(
    "measured, at, load",
    [
        # a core for the whole minute; half of one; for half of the minute
        ([(60, 60)], 60, 1.0),
        ([(60, 30)], 60, 0.5),
        ([(30, 30)], 30, 0.5),
        # what was before the last minute is forgotten
        ([(60, 60), (120, 60), (180, 60)], 180, 0.0),
        ([(60, 0), (120, 60)], 120, 1.0),
        # four cores, on a machine whose load is 3
        ([(60, 240)], 60, 3.0),
        ([], 60, 0.0),
    ],
)
def test_the_load_of_a_job_is_the_mean_of_the_cores_that_it_kept_busy(
    measured: list[tuple[int, int]], at: int, load: float
) -> None:
    jobs = CondorLoad()
    jobs.began("1", "slot1@h", 0)
    for when, used in measured:
        jobs.measured("1", when * SECOND, used * SECOND)
    assert jobs.loads(at * SECOND, 3.0) == {"slot1@h": pytest.approx(load)}
    jobs.ended("1")
    jobs.measured("1", at * SECOND, 0)
    assert jobs.loads(at * SECOND, 3.0) == {}


def test_benchmarks_do_work_and_a_faster_repetition_counts() -> None:
    assert benchmarks.measure(benchmarks.integers, 0.0) > 0
    assert benchmarks.measure(benchmarks.reals, 0.0) > 0
    slow_then_fast = iter([1, 1_000_000])
    assert benchmarks.measure(lambda: next(slow_then_fast, 0), 0.001) > benchmarks.measure(lambda: 1, 0.0)


def test_benchmarks_run_in_a_process_of_their_own() -> None:
    words, environment = benchmarks.command()
    printed = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
    mips, kflops = benchmarks.result(printed)
    assert mips > 0 and kflops > 0


@pytest.mark.parametrize("printed", ["", "12", "a b", "1 2 3"])
def test_benchmarks_that_did_not_end_have_no_result(printed: str) -> None:
    assert benchmarks.result(printed) == (0, 0)


def test_a_machine_has_what_was_detected_and_what_its_inventories_print(tmp_path: Path) -> None:
    there = tmp_path / "not/yet/there"
    wanted = read(f"MACHINE_RESOURCE_INVENTORY_Fans = /bin/echo DetectedFans = 3\nSLOT2_EXECUTE = {tmp_path}")
    found = equipment(wanted, there, {})
    assert found.cpus == len(os.sched_getaffinity(0)) and found.memory > 0 and found.swap >= found.memory * 1024
    assert set(found.volumes) == {"", str(tmp_path)}, "where no directory is named, jobs run beside the log"
    assert found.volumes[""].id == volume(tmp_path).id
    assert found.inventories == {"Fans": "DetectedFans = 3\n"}


def test_an_inventory_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(SlotTypeError, match="MACHINE_RESOURCE_INVENTORY_Fans: /no/such/thing"):
        equipment(read("MACHINE_RESOURCE_INVENTORY_Fans = /no/such/thing"), tmp_path, {})


def test_where_htcondors_gpu_discovery_is_not_installed_there_are_no_gpus(tmp_path: Path) -> None:
    wanted = read(f"use FEATURE : GPUs\nLIBEXEC = {tmp_path}")
    found = machine_offer("joins", "h", wanted, equipment(wanted, tmp_path, {}))
    assert (found.ad["DetectedGPUs"], found.slots[0].ad["GPUs"]) == ("0", "0")
    discovery = tmp_path / "condor_gpu_discovery"
    discovery.write_text("#!/bin/sh\necho 'DetectedGPUs=\"GPU-1, GPU-2\"'\n")
    discovery.chmod(0o755)
    found = machine_offer("joins", "h", wanted, equipment(wanted, tmp_path, {}))
    assert (found.slots[0].ad["GPUs"], found.slots[0].ad["AssignedGPUs"]) == ("2", '"GPU-1,GPU-2"')


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
    "flags, level, has",
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
def test_the_processor_is_told_as_machine_ads_have_it(flags: str, level: str | None, has: set[str]) -> None:
    found = processor_ad(CPUINFO.format(flags=flags))
    assert [found[name] for name in ("CpuFamily", "CpuModelNumber", "CpuCacheSize")] == ["6", "167", "16384"]
    assert found.get("Microarch") == (level and f'"{level}"')
    assert {name.removeprefix("has_") for name in found if name.startswith("has_")} == has


def test_a_processor_of_which_nothing_is_told_has_no_attributes() -> None:
    assert processor_ad("Hardware : something else\n") == {}
