"""Golden: the startd's monitor of GPUs charges each process for its use of a card, as recorded when three programs
shared one. It reports GPUs that fail."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from poolbook.adapters.gpus.monitor import GpuMonitor, ProcessMeter, ancestors
from poolbook.adapters.gpus.nvml import Nvml
from poolbook.adapters.gpus.utilization import UsageMeter
from poolbook.domain.classad import ClassAd

from .recorded import DATA, H100, NVMLError, RecordedNvml

ROWS: list[tuple[int, int, list[tuple[int, int]], list[tuple[int, int, int]]]] = json.loads(
    (DATA / "shared_card.json").read_text()
)
"""Per second: the time, the card's utilization, the processes with their memory, and their utilization samples."""
MIB = 1 << 20
LIGHT, HEAVY, KILLED = 494, 505, 519
"""The programs' pids: 30 % of the card for 30 s; 60 % for the middle 20 s; 80 % for 5 s, then killed."""


class SharedCard(RecordedNvml):
    """NVML of the recorded card at a second of the recording."""

    def __init__(self) -> None:
        super().__init__(H100)
        self.row = 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, gpu: Mapping[str, Any]) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in ROWS[self.row][2]]

    def nvmlDeviceGetProcessUtilization(self, gpu: Mapping[str, Any], since_us: int) -> list[SimpleNamespace]:
        samples = [SimpleNamespace(pid=pid, timeStamp=at, smUtil=percent) for pid, at, percent in ROWS[self.row][3]]
        if not samples:
            raise NVMLError(6)
        return samples


def test_each_process_is_charged_for_its_own_use_even_if_an_answer_lacks_it() -> None:
    card = SharedCard()
    meter = ProcessMeter(Nvml(card), H100, ROWS[0][0])
    busy_us: dict[int, float] = {}
    memory: dict[int, int] = {}
    for row, (at, utilization, *_) in enumerate(ROWS[1:], 1):
        card.row = row
        meter.update(at, utilization / 100)
        if row % 10 == 0 or row == len(ROWS) - 1:
            for pid, use in meter.take().items():
                busy_us[pid] = busy_us.get(pid, 0) + use.busy_us
                memory[pid] = max(memory.get(pid, 0), use.memory)
    assert memory == {LIGHT: 2518 * MIB, HEAVY: 6518 * MIB, KILLED: 4518 * MIB}
    assert 0.3 * 30 * 0.8 < busy_us[LIGHT] / 1e6 < 0.3 * 30 * 1.1
    assert 0.6 * 20 * 0.85 < busy_us[HEAVY] / 1e6 < 0.6 * 20 * 1.1
    missing = sum(1 for row in ROWS if LIGHT in dict(row[2]) and LIGHT not in {pid for pid, *_ in row[3]})
    assert missing > 10, "NVML did not report the light process for a third of its life"


def test_a_process_that_only_holds_memory_uses_nothing() -> None:
    card = SharedCard()
    card.row = next(number for number, row in enumerate(ROWS) if row[3])
    meter = ProcessMeter(Nvml(card), H100, 0)
    meter.update(1_000_000, 0.24)
    busy = meter.take()[LIGHT].busy_us
    card.nvmlDeviceGetProcessUtilization = lambda gpu, since_us: []  # type: ignore[method-assign]
    meter.update(2_000_000, 0.0)
    assert busy == 240_000 and meter.take()[LIGHT].busy_us == 0


class FailingCard(SharedCard):
    """A card whose driver reports errors: NVML's code for its samples, and Xids."""

    def __init__(self, code: int = 0, *xids: int) -> None:
        super().__init__()
        self.code, self.xids = code, list(xids)

    def nvmlDeviceGetSamples(self, gpu: Mapping[str, Any], kind: int, since_us: int) -> Any:
        raise NVMLError(self.code or 6)

    def nvmlDeviceGetMemoryInfo(self, gpu: Mapping[str, Any], version: int | None = None) -> SimpleNamespace:
        return SimpleNamespace(used=MIB)

    def nvmlEventSetCreate(self) -> object:
        return self

    def nvmlDeviceRegisterEvents(self, gpu: Mapping[str, Any], kind: int, events: object) -> None:
        assert kind == 8 and events is self

    def nvmlEventSetWait_v2(self, events: object, timeout_ms: int) -> SimpleNamespace:
        if not self.xids:
            raise NVMLError(10)
        return SimpleNamespace(device=H100, eventData=self.xids.pop(0))


def monitor_of(card: FailingCard) -> GpuMonitor:
    code, card.code = card.code, 0
    key = 0, H100["UUID"].removeprefix("GPU-")
    monitor = GpuMonitor(Nvml(card), {key: UsageMeter(Nvml(card), H100)}, 0)
    card.code = code
    return monitor


def failure(monitor: GpuMonitor) -> tuple[str, str]:
    (record,) = monitor.update(1_000_000)
    ad = ClassAd.from_old(record.rpartition("- ")[0])
    assert ad.eval("SlotMergeConstraint", ClassAd({"AssignedGPUs": H100["UUID"][:12]}))
    return ad.eval("FailedGPUs"), ad.eval("FailedGPUsReason")


NAMES = f"CUDA0,{H100['UUID'][:12]},{H100['UUID']}"


def test_a_gpu_that_is_lost_is_reported_once_and_not_measured_any_more() -> None:
    monitor = monitor_of(FailingCard(15))
    assert failure(monitor) == (NAMES, "GPU is lost")
    assert [*monitor.update(2_000_000), *monitor.records()] == []


def test_a_gpu_with_a_fatal_error_is_reported_and_an_error_of_a_program_is_not() -> None:
    assert failure(monitor_of(FailingCard(0, 31, 79))) == (NAMES, "Xid 79")
    monitor = monitor_of(FailingCard(0, 13, 31, 43))
    assert list(monitor.update(1_000_000)) == []


def test_a_record_has_the_use_of_the_card_and_of_each_process() -> None:
    card = FailingCard()
    monitor = monitor_of(card)
    card.row = next(number for number, row in enumerate(ROWS) if len(row[3]) == 2)
    assert list(monitor.update(1_000_000)) == []
    (record,) = monitor.records()
    ad = ClassAd.from_old(record.rpartition("- ")[0])
    processes = {process.eval("Pid"): process for process in ad.eval("GPUsProcesses")}
    assert processes.keys() == {LIGHT, HEAVY}
    assert (processes[HEAVY].eval("Seconds"), processes[HEAVY].eval("MemoryMb")) == (0.47, 6518)
    assert ad.eval("UptimeGPUsMemoryPeakUsage") == 1 and record.endswith("- GPUsSlot0\n")


def test_the_ancestors_of_a_process_lead_to_the_first_one() -> None:
    own = ancestors(os.getpid())
    assert own[0] == os.getppid() and own[-2:] == (os.getpgid(0), os.getsid(0))
    assert ancestors(2**30) == ()
