"""Golden: condor_gpu_discovery prints what HTCondor's prints on a machine with an H100, for all recorded options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from poolbook.adapters.cli.gpu_tools import print_discovery
from poolbook.adapters.condor_tools.tool_options import ToolEnded
from poolbook.adapters.gpus.cuda import load_nvidia

from ..together import together
from .recorded import DATA, H100, RecordedCuda, RecordedNvml

PROGRAM = "/usr/libexec/condor/condor_gpu_discovery"
NO_LIBRARY = "{0}: cannot open shared object file: No such file or directory"


class Recording(NamedTuple):
    argv: list[str]
    output: str
    exit_code: int


def recordings() -> list[Recording]:
    texts = re.findall(r"# condor_gpu_discovery (.*)\n((?s:.*?))# exit (\d+)\n", (DATA / "discovery.txt").read_text())
    return [Recording(shlex.split(arguments), output, int(code)) for arguments, output, code in texts]


def gpus_without_cuda(options: Any, environment: Any, report: Any, *gpus: Mapping[str, Any]) -> Any:
    return load(options, environment, report, {}, RecordedNvml(*gpus or [H100]))


def gpus_with_cuda(options: Any, environment: Any, report: Any, *gpus: Mapping[str, Any]) -> Any:
    gpus = gpus or (H100,)
    return load(options, environment, report, {"libcuda.so": RecordedCuda(*gpus)}, RecordedNvml(*gpus))


def load(options: Any, environment: Any, report: Any, libraries: Mapping[str, Any], nvml: Any) -> Any:
    def open_library(name: str) -> Any:
        if name not in libraries:
            raise OSError(NO_LIBRARY.format(name))
        return libraries[name]

    return load_nvidia(options, environment, report, open_library, nvml)


def discovery(
    argv: Sequence[str], load: Any, capsys: pytest.CaptureFixture[str], environment: dict[str, str] | None = None
) -> tuple[str, int]:
    """Return what the tool prints, and its exit code; standard error comes first, since a pipe buffers the other."""
    try:
        code = print_discovery(argv, {} if environment is None else environment, load)
        output, err = capsys.readouterr()
    except ToolEnded as ended:
        return ended.err + ended.out, ended.exit_code
    return err + output, code


def with_recorded_sensors(gpu: Mapping[str, Any], output: str) -> dict[str, Any]:
    """Return the GPU with the temperature and the power of a recording: they were not read at the same instant."""
    sensors = dict(re.findall(r"(DieTempC|PowerUsage_mw)=(\d+)", output))
    return {**gpu, "Temperature": int(sensors.get("DieTempC", 0)), "PowerUsage": int(sensors.get("PowerUsage_mw", 0))}


# On that machine cuDeviceGet filled half of a pointer; the rest of it was left over from an earlier call.
LEFT_OVER = ("0x7ffe00000000", "(nil)")


@together("recording", recordings())
def test_output_equals_the_recording(
    recording: Recording, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [PROGRAM])
    gpu = with_recorded_sensors(H100, recording.output)
    for load in (gpus_with_cuda, gpus_without_cuda):
        if load is gpus_with_cuda or "-diagnostic" not in recording.argv:
            answer = discovery(recording.argv, lambda *arguments, load=load: load(*arguments, gpu), capsys)
            assert answer == (recording.output.replace(*LEFT_OVER), recording.exit_code)
