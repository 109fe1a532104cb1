"""Golden: condor_gpu_discovery prints what HTCondor's prints: on a machine with an H100 with all recorded options and
values of CUDA_VISIBLE_DEVICES, and with simulated GPUs."""

from __future__ import annotations

import io
import re
import shlex
import struct
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from poolbook.adapters.cli.gpu_tools import gpu_discovery
from poolbook.adapters.condor_tools.tool_options import ToolEnded, usage_of
from poolbook.adapters.gpus.cuda import CudaByNvml
from poolbook.adapters.gpus.devices import ProgressReport, gpu_id
from poolbook.adapters.gpus.nvml import Nvml

from ..together import together
from .machines import MACHINES
from .recorded import DATA, H100, RecordedCuda, RecordedHip, RecordedNvml, StubOpenCl, error

PROGRAM = "/usr/libexec/condor/condor_gpu_discovery"
H100_UUID = H100["UUID"]


class Recording(NamedTuple):
    argv: list[str]
    output: str
    exit_code: int
    environment: dict[str, str]


def parse_recordings(text: str) -> list[Recording]:
    text = text.replace("USAGE\n", usage_of("gpu_discovery").replace("condor_gpu_discovery", PROGRAM, 1))
    found = re.findall(r"# (.*=.* )?condor_gpu_discovery ?(.*)\n((?s:.*?))# exit (\d+)\n", text)
    return [
        Recording(shlex.split(arguments), output, int(code), dict(each.split("=") for each in shlex.split(variables)))
        for variables, arguments, output, code in found
    ]


def recordings(name: str) -> list[Recording]:
    return parse_recordings((DATA / name).read_bytes().decode())  # one line ends in \r\n


@pytest.fixture
def discovery(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, int]]:
    """Return a function that runs the tool on a machine with these libraries; it returns the output and the exit code.
    Standard error comes first, since a pipe buffers standard output."""
    monkeypatch.setattr("sys.argv", [PROGRAM])

    def discover(
        argv: Sequence[str], nvml: Any, libraries: Mapping[str, Any] | None = None, environment: Any = None
    ) -> tuple[str, int]:
        def open_library(name: str) -> Any:
            if name not in (libraries or {}):
                raise OSError(f"{name}: cannot open shared object file: No such file or directory")
            return (libraries or {})[name]

        try:
            code = gpu_discovery(argv, {} if environment is None else environment, open_library, nvml)
        except ToolEnded as ended:
            return ended.err + ended.out, ended.exit_code
        output, err = capsys.readouterr()
        return err + output, code

    return discover


Discover = Callable[..., tuple[str, int]]
NO_SENSORS = "# Unable to load NVML; will not discover dynamic properties or MIG instances.\n"
NO_NVML = RecordedNvml(init=error(12))


def with_recorded_sensors(output: str) -> dict[str, Any]:
    """Return the H100 with the temperature and the power of a recording: they were not read at the same instant."""
    sensors = dict(re.findall(r"(DieTempC|PowerUsage_mw)=(\d+)", output))
    return {**H100, "Temperature": int(sensors.get("DieTempC", 0)), "PowerUsage": int(sensors.get("PowerUsage_mw", 0))}


# On that machine cuDeviceGet filled half of a pointer; the rest of it was left over from an earlier call.
LEFT_OVER = ("0x7ffe00000000", "(nil)")


@together("recording", recordings("discovery.txt"))
def test_output_equals_the_recording(recording: Recording, discovery: Discover) -> None:
    gpu = with_recorded_sensors(recording.output)
    expected = recording.output.replace(*LEFT_OVER), recording.exit_code
    assert discovery(recording.argv, RecordedNvml(gpu), {"libcuda.so": RecordedCuda(gpu)}) == expected


@together("recording", [each for each in recordings("discovery.txt") if "-diagnostic" not in each.argv])
def test_nvml_describes_the_gpus_as_cuda_does(recording: Recording, discovery: Discover) -> None:
    nvml = RecordedNvml(with_recorded_sensors(recording.output))
    assert discovery(recording.argv, nvml) == (recording.output, recording.exit_code)


@together("recording", recordings("simulated.txt"))
def test_simulated_gpus_equal_htcondors(recording: Recording, discovery: Discover) -> None:
    assert discovery(recording.argv, NO_NVML) == (recording.output, recording.exit_code)


def recordings_of_machines() -> list[tuple[str, Recording]]:
    sections = re.split(r"^=== (.*)\n", (DATA / "machines.txt").read_text(), flags=re.MULTILINE)[1:]
    return [
        (name, each)
        for name, text in zip(sections[::2], sections[1::2], strict=True)
        for each in parse_recordings(text)
    ]


@together(("name", "recording"), recordings_of_machines())
def test_output_for_other_cards_equals_htcondors(name: str, recording: Recording, discovery: Discover) -> None:
    machine = MACHINES[name]
    libraries = {"libcuda.so": RecordedCuda(*machine.cuda)}
    output = discovery(recording.argv, RecordedNvml(*machine.nvml), libraries, recording.environment)
    assert output == (recording.output, recording.exit_code)


def visible_devices() -> list[tuple[str, str, str]]:
    """Return the recorded values of CUDA_VISIBLE_DEVICES, and the output with and without -dirty-environment."""
    pattern = r"# CUDA_VISIBLE_DEVICES='(.*)' -dirty-environment\n((?s:.*?))# without -dirty-environment\n([^#]*)"
    return re.findall(pattern, (DATA / "visible.txt").read_text())


@together(("value", "dirty", "clean"), visible_devices())
def test_visible_devices_are_those_of_the_recording(value: str, dirty: str, clean: str, discovery: Discover) -> None:
    environment = {"CUDA_VISIBLE_DEVICES": value, "OTHER": ""}
    cuda = RecordedCuda(*[H100] * (value in ("0", H100_UUID)), init=0 if value in ("0", H100_UUID) else 100)
    argv = ["-properties", "-dirty-environment"]
    assert discovery(argv, RecordedNvml(H100), None, {**environment}) == (dirty, 0)
    assert discovery(argv, RecordedNvml(H100), {"libcuda.so": cuda}, {**environment}) == (dirty, 0)
    assert discovery(["-properties"], RecordedNvml(H100), None, environment) == (clean, 0)
    assert environment == {"OTHER": ""}


TWO = (H100, {**H100, "UUID": "GPU-6a1c0de0-7b3e-4f21-9c64-0123456789ab"})


@together(
    ("value", "ids"),
    [
        ("1", "GPU-6a1c0de0"),
        ("GPU-6a1c", "GPU-6a1c0de0"),
        ("0,2,1", "GPU-5a1c0de0"),
        (f"1, {H100_UUID} ,x", "GPU-6a1c0de0, GPU-5a1c0de0"),
        ("GPU-", ""),
        ("-1", ""),
    ],
)
def test_nvml_lists_the_devices_that_cuda_would_list(value: str, ids: str) -> None:
    nvml = Nvml(RecordedNvml(*TWO))
    devices = CudaByNvml(nvml, value).devices(ProgressReport(io.StringIO(), io.StringIO()))
    assert ", ".join(gpu_id(device.uuid, is_short=True) for device in devices) == ids


INSTANCE = {
    "Name": "NVIDIA H100 80GB HBM3 MIG 3g.40gb", "PciInfo": H100["PciInfo"], 
    "MemoryInfo": {"total": 42412802048, "free": 42144366592, "used": 268435456}, "ComputeRunningProcesses_v3": [],
   
    "CudaComputeCapability": error(3), "MaxClockSM": error(3), "Attributes_v2": {"multiprocessorCount": 60},
    "EccMode": error(3), "FanSpeed": error(3), "PowerUsage": error(3), "Temperature": 40, "EccSingle": 0,
    "EccDouble": error(3), "MaxMigDeviceCount": error(3),
}  # fmt: skip
"""A MIG instance, of which NVML reports little."""
DIVIDED = {
    **H100, "MaxMigDeviceCount": 7,
    "Instances": [{**INSTANCE, "UUID": f"MIG-{digit}a1c0de0-0000-4f21-9c64-0123456789ab"} for digit in "21"],
}  # fmt: skip


def test_mig_instances_have_their_gpus_properties(discovery: Discover) -> None:
    nvml = RecordedNvml(DIVIDED, TWO[1])
    output, code = discovery(["-extra", "-dynamic"], nvml, {"libcuda.so": RecordedCuda(DIVIDED)})
    first, second = (f"MIG-{digit}a1c0de0-0000-4f21-9c64-0123456789ab" for digit in "12")
    lines = output.splitlines()
    assert code == 0
    assert lines[0] == f'DetectedGPUs="{first}, {second}, GPU-6a1c0de0"'
    assert [line.partition("=")[0] for line in lines[2:]] == [
        "GPU_6a1c0de0", first.replace("-", "_"), second.replace("-", "_")
    ]  # fmt: skip
    for line in lines[-2:]:
        for text in (
            "Capability=9.0; ", "ClockMhz=1980.00; ", "ComputeUnits=60; ", "DieTempC=40; ", "ECCEnabled=true; ",
            "GlobalMemoryMb=40192; ", 'NvidiaDriver="580.159.04"; ', "DriverVersion=13.0; ",
        ):  # fmt: skip
            assert text in line + lines[1]
        assert "EccErrorsDoubleBit" not in line


def test_mig_instances_of_a_selected_gpu_are_selected_by_index_only_if_their_names_contain_its_uuid(
    discovery: Discover,
) -> None:
    old = {**DIVIDED, "Instances": [{**INSTANCE, "UUID": f"MIG-{H100_UUID}/1/0"}]}
    cuda = {"libcuda.so": RecordedCuda(DIVIDED)}
    assert discovery(["-device", "0"], RecordedNvml(old), cuda) == (f'DetectedGPUs="MIG-{H100_UUID}/1/0"\n', 0)
    assert discovery(["-device", "0"], RecordedNvml(DIVIDED), cuda) == ('DetectedGPUs=""\n', 0)


@together(
    ("nvml", "libraries", "output", "code"),
    [
        (NO_NVML, {}, NO_SENSORS + "DetectedGPUs=0\n", 0),
        (RecordedNvml(init=error(9)), {}, "Warning: nvmlInit() failed with error 9; will not discover dynamic "
         "properties or MIG instances.\nDetectedGPUs=0\n", 0),
        (NO_NVML, {"libcuda.so": RecordedCuda(init=999)},
         f"Error: cuInit returned 999\n{NO_SENSORS}DetectedGPUs=0\n", 0),
        (RecordedNvml({**H100, "UUID": error(15)}), {"libcuda.so": RecordedCuda(H100)},
         '# Failed to enumerate MIG devices (15: GPU is lost)\ncondor_gpu_discovery_error = "Failed to enumerate MIG '
         'devices"\n', 1),
        (RecordedNvml(H100), {"libcuda.so": RecordedCuda(H100, count_code=3)}, "DetectedGPUs=0\n", 0),
    ],
)  # fmt: skip
def test_failing_libraries_are_reported(nvml: Any, libraries: Any, output: str, code: int, discovery: Discover) -> None:
    assert discovery(["-dynamic"], nvml, libraries) == (output, code)


def test_opencl_is_preferred_only_without_cuda(discovery: Discover) -> None:
    libraries: dict[str, Any] = {"libOpenCL.so": StubOpenCl()}
    assert discovery(["-extra"], NO_NVML, libraries) == (
        'DetectedGPUs="OCL0"\nCommon=[ ClockMhz=1410; ComputeUnits=108; DeviceName="A100"; ECCEnabled=true; '
        'GlobalMemoryMb=40536; OpenCLVersion=3.0; ]\nOCL0=[ id="OCL0"; ]\n',
        0,
    )
    problem = "Failed to enumerate GPU devices"
    answer = f'# {problem}, aborting.\ncondor_gpu_discovery_error = "{problem}"\n', 1
    assert (
        discovery(["-cuda", "-opencl"], RecordedNvml(H100), {**libraries, "libcuda.so": RecordedCuda(H100)}) == answer
    )


def test_hip_devices_follow_those_of_cuda(discovery: Discover) -> None:
    libraries = {"libcuda.so": RecordedCuda(H100), "libamdhip64.so.6": RecordedHip()}
    output, _ = discovery(["-hip", "-cuda", "-extra"], RecordedNvml(H100), libraries)
    assert output.splitlines()[0] == 'DetectedGPUs="GPU-5a1c0de0, GPU-93939393"'
    assert output.splitlines()[-1] == (
        'GPU_93939393=[ id="GPU-93939393"; AmdDriverVersion="6.3.42131"; Capability=9.4; ClockMhz=2100.00; '
        'ComputeUnits=228; DeviceName="AMD Instinct MI300A"; DevicePciBusId="0000:02:00.0"; '
        'DeviceUuid="93939393-9393-9393-9393-939393939393"; GlobalMemoryMb=131072; Rocm=6; WarpSize=64; xNACK=1; ]'
    )


def test_old_libraries_lack_functions(discovery: Discover) -> None:
    hip = SimpleNamespace(
        hipDriverGetVersion=RecordedHip().hipDriverGetVersion, hipGetDeviceCount=RecordedHip().hipGetDeviceCount
    )
    assert discovery(["-properties"], NO_NVML, {"libamdhip64.so": hip}) == ('DetectedGPUs="GPU0"\n', 0)
    cuda = RecordedCuda(H100)
    absent = ("cuDeviceGetUuid", "cuDeviceGetPCIBusId")
    without_uuid = SimpleNamespace(**{
        name: getattr(cuda, name) for name in dir(cuda) if name.startswith("cu") and name not in absent
    })  # fmt: skip
    output, code = discovery(["-properties"], RecordedNvml(H100), {"libcuda.so": without_uuid})
    assert output.startswith("# Not enumerating NVML devices because a CUDA device has no UUID.")
    assert output.endswith('CUDA0=[ id="CUDA0"; ]\n')
    assert code == 0


class Runtime:
    """The library ``libcudart.so``; before version 10 its structure lacks the 32 bytes of the UUID."""

    def __init__(self, version: int) -> None:
        self.version = version

    def cudaGetDeviceCount(self, count: Any) -> int:
        count._obj.value = 1
        return 0

    def cudaRuntimeGetVersion(self, version: Any) -> int:
        version._obj.value = self.version
        return 0

    cudaDriverGetVersion = cudaRuntimeGetVersion

    def cudaGetDeviceProperties(self, structure: Any, index: int) -> int:
        start = 288 if self.version >= 10000 else 256
        members = (
            (0, "256s", b"Tesla P100"), (start, "Q", 16280 << 20), (start + 60, "i8xii", 1480500, 6, 0),
            (start + 100, "i", 56), (start + 292, "4i", 1, 4, 0, 0),
        )  # fmt: skip
        for offset, layout, *values in members:
            struct.pack_into(layout, structure, offset, *values)
        if start > 256:
            struct.pack_into("16s", structure, 256, b"\xab" * 16)
        return 0


@together(
    ("version", "id", "uuid"),
    [
        (12040, "GPU-abababab", 'DeviceUuid="abababab-abab-abab-abab-abababababab"; '),
        (10000, "GPU-abababab", 'DeviceUuid="abababab-abab-abab-abab-abababababab"; '),
        (9020, "CUDA0", ""),
    ],
)
def test_runtime_of_cuda_describes_the_gpus_without_its_driver(
    version: int, id: str, uuid: str, discovery: Discover
) -> None:
    output, code = discovery(["-extra", "-mixed"], NO_NVML, {"libcudart.so": Runtime(version)})
    assert (output.splitlines()[-1], code) == (
        f'{id.replace("-", "_")}=[ id="{id}"; Capability=6.0; ClockMhz=1480.50; ComputeUnits=56; CoresPerCU=64; '
        f'DeviceName="Tesla P100"; DevicePciBusId="0000:04:00.0"; {uuid}DriverVersion={version // 1000}.'
        f"{version % 100}; ECCEnabled=true; GlobalMemoryMb=16280; MaxSupportedVersion={version}; ]",
        0,
    )
