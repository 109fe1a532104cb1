"""Golden: condor_gpu_utilization prints what HTCondor's prints on a machine with an H100."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from poolbook.adapters.cli import gpu_tools
from poolbook.adapters.gpus.cuda import DriverCuda
from poolbook.adapters.gpus.devices import ProgressReport
from poolbook.adapters.gpus.nvml import Nvml
from poolbook.adapters.gpus.utilization import MonitorFailed, UsageMeter, print_utilization, start_meters

from ..together import together
from .recorded import DATA, H100, NVMLError, RecordedCuda, RecordedNvml

MIB = 1 << 20
START_US = 1795717686819178
Samples = Sequence[tuple[int, int]]


class BusyNvml(RecordedNvml):
    """NVML of an H100 that is used: its samples and its used memory at each poll, the first before the monitor runs."""

    def __init__(self, *polls: tuple[Samples | NVMLError, int]) -> None:
        super().__init__(H100)
        self.polls = list(polls)
        self.requested_since: list[int] = []

    def nvmlDeviceGetSamples(self, gpu: Any, kind: int, since_us: int) -> Any:
        self.requested_since.append(since_us)
        samples = self.polls[0][0]
        if isinstance(samples, NVMLError):
            raise samples
        if not samples:
            raise NVMLError(6)
        return 1, [
            SimpleNamespace(timeStamp=time_us, sampleValue=SimpleNamespace(uiVal=percent))
            for time_us, percent in samples
        ]

    def nvmlDeviceGetMemoryInfo(self, gpu: Any, version: int | None = None) -> Any:
        return SimpleNamespace(used=self.polls[0][1])


class Stopped(Exception):
    """The test stops the monitor, which runs until it is killed."""


def monitor_output(nvml: BusyNvml, seconds_per_poll: float) -> str:
    """Return what the monitor prints until NVML has no more answers."""
    now, out = 1795717686.0, io.StringIO()

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds_per_poll
        del nvml.polls[0]
        if not nvml.polls:
            raise Stopped

    report = ProgressReport(io.StringIO(), io.StringIO())
    with pytest.raises(Stopped):
        print_utilization(start_meters(DriverCuda(RecordedCuda(H100)), Nvml(nvml), report), out, sleep, lambda: now)
    return out.getvalue()


def test_output_equals_the_recording() -> None:
    busy_us, idle_us = 4_735_510, 128_649  # of the two recorded intervals
    nvml = BusyNvml(
        ([(START_US - 1000, 99), (START_US, 99)], 0),  # from before the monitor ran
        ([(START_US + busy_us, 100)], 3054 * MIB + 1),
        ([], 484 * MIB),
        ([], 484 * MIB),
        ([(START_US + busy_us + 2 * idle_us, 50)], 480 * MIB),
    )
    assert monitor_output(nvml, 5.0) == (DATA / "utilization.txt").read_text()
    assert nvml.requested_since == [0, START_US, *[START_US + busy_us] * 3]


def test_the_busy_time_is_that_of_recorded_samples_in_any_order() -> None:
    samples = [tuple(sample) for sample in json.loads((DATA / "busy_samples.json").read_text())]
    expected = sum(int((later - earlier) * percent / 100) for (earlier, _), (later, percent) in pairwise(samples))
    nvml = BusyNvml(([samples[0]], 0), ([*samples[:0:-1]], 0))
    meter = UsageMeter(Nvml(nvml), H100)
    del nvml.polls[0]
    meter.update()
    assert expected > 1_000_000
    assert meter.take().busy_us == expected
    assert meter.take() == (0, 0)


def test_the_monitor_polls_three_times_before_nvml_discards_a_sample() -> None:
    nvml = BusyNvml(([(START_US + 200_000 * number, 0) for number in range(72)], 0))
    assert UsageMeter(Nvml(nvml), H100).poll_interval == 4.0


def test_a_lost_gpu_ends_the_monitor() -> None:
    nvml = BusyNvml(([(START_US, 0)], 0), (NVMLError(15), 0))
    with pytest.raises(MonitorFailed, match=r"getElapsedTimeForDevice\(0\) failed \(15: GPU is lost\)"):
        monitor_output(nvml, 5.0)


@together(
    ("cuda", "nvml", "message"),
    [
        (None, None, "# Unable to load a CUDA library (libcuda.so or libcudart.so).\n"),
        (None, RecordedNvml(H100), "cuInit(0) failed, aborting.\n"),
        (RecordedCuda(H100), None, ""),
        (RecordedCuda(), RecordedNvml(), "Found 0 or fewer devices, aborting.\n"),
        (RecordedCuda(H100), RecordedNvml(H100, H100),
         "nvmlDeviceGetCount() disagrees with CUDA device count, aborting.\n"),
        (RecordedCuda(H100), RecordedNvml({**H100, "UUID": "GPU-0"}),
         "findNVMLDeviceHandle() for device 0 failed (6: Not Found), aborting.\n"),
        (RecordedCuda(H100), RecordedNvml({**H100, "Samples": {"error": "Not Supported"}}),
         "nvmlDeviceGetSamples(0) failed while querying for the max sample count (3: Not Supported), aborting.\n"),
    ],
)  # fmt: skip
def test_monitor_does_not_start(cuda: RecordedCuda | None, nvml: RecordedNvml | None, message: str) -> None:
    report = ProgressReport(io.StringIO(), io.StringIO())
    with pytest.raises(MonitorFailed) as failure:
        start_meters(None if cuda is None else DriverCuda(cuda), None if nvml is None else Nvml(nvml), report)
    assert str(failure.value) == message


def test_gpus_without_permission_are_not_monitored() -> None:
    gpu = {**H100, "Samples": {"error": "Insufficient Permissions"}}
    report = ProgressReport(io.StringIO(), io.StringIO())
    assert start_meters(DriverCuda(RecordedCuda(gpu)), Nvml(RecordedNvml(gpu)), report) == {}


def test_the_tool_does_not_end_without_gpus(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def sleep(seconds: float) -> None:
        raise Stopped

    monkeypatch.setattr(gpu_tools, "load_nvidia", lambda *arguments: (None, None))
    monkeypatch.setattr("time.sleep", sleep)
    with pytest.raises(Stopped):
        gpu_tools.gpu_utilization(["-help"])
    assert capsys.readouterr() == (
        "",
        "# Unable to load a CUDA library (libcuda.so or libcudart.so).\nHanging to prevent process churn.\n",
    )
