"""Table: sizes are powers of 1024, to the byte, wherever a user, a setting or the system gives one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.machine import detection
from poolbook.adapters.machine.execution import client
from poolbook.adapters.machine.execution.activation import Exited, FileTransfer, LaunchRequest, ResourceLimits, Usage
from poolbook.adapters.machine.execution.supervisor import scratch, transfer
from poolbook.domain.submit.resources import parse_amount

from ..submit.fakes import submit, values
from ..together import together
from .bench import Bench

MB = 1 << 20


@pytest.mark.parametrize("way", ["input", "output"])
@pytest.mark.parametrize(
    ("sizes", "limit", "too_large"),
    [
        ((MB,), 1, False),
        ((MB + 1,), 1, True),
        ((MB - 100, 100), 1, False),
        ((MB - 100, 101), 1, True),
        ((2 * MB,), 2, False),
        ((1,), 0, True),
        ((0,), 0, False),
        ((3 * MB,), -1, False),
        ((3 * MB,), None, False),
    ],
)
def test_a_job_may_transfer_exactly_its_limit_in_mebibytes(
    tmp_path: Path, way: str, sizes: tuple[int, ...], limit: int | None, too_large: bool
) -> None:
    iwd, place = tmp_path / "iwd", tmp_path / "dir_1/scratch"
    iwd.mkdir()
    place.mkdir(parents=True)
    names = tuple(f"f{number}" for number in range(len(sizes)))
    for name, size in zip(names, sizes, strict=True):
        with open((iwd if way == "input" else place) / name, "wb") as file:
            file.truncate(size)
    files: dict[str, Any] = {"inputs": names, "outputs": ()} if way == "input" else {"outputs": names}
    file_transfer = FileTransfer(executable=False, max_input_mb=limit, max_output_mb=limit, **files)
    request = LaunchRequest(key="1", job="1.0", slot="s", executable="/bin/true", iwd=str(iwd), transfer=file_transfer)
    order = json.loads(client._line_of(client._start(request, "1")))["order"]
    result = (
        transfer.transfer_inputs(order, str(place))
        if way == "input"
        else transfer.transfer_outputs(order, str(place), False)
    )
    assert ("failure" in result) is too_large
    if too_large:
        assert result["failure"]["code"] == (32 if way == "input" else 33)


@together(
    "text, unit, expected",
    [
        ("1", MB, (1, False)),
        ("1K", MB, (1, True)),
        ("1024K", MB, (1, True)),
        ("1025 KB", MB, (2, True)),
        ("1M", MB, (1, True)),
        ("1 MB", MB, (1, True)),
        ("1.5 GB", MB, (1536, True)),
        ("2g", MB, (2048, True)),
        ("1T", MB, (1 << 20, True)),
        ("1", 1024, (1, False)),
        ("1K", 1024, (1, True)),
        ("1MB", 1024, (1024, True)),
        ("1GB", 1024, (1 << 20, True)),
        ("0.5 TB", 1024, (1 << 29, True)),
        ("1 MiB", MB, None),
        ("1000000000000000000000", MB, None),
    ],
)
def test_an_amount_is_counted_in_powers_of_1024_and_rounded_up(
    text: str, unit: int, expected: tuple[int, bool] | None
) -> None:
    assert parse_amount(text, unit) == expected


@together(
    "command, attribute, expected",
    [
        ("request_memory = 1 GB", "RequestMemory", "1024"),
        ("request_memory = 1025 K", "RequestMemory", "2"),
        ("request_disk = 1 MB", "RequestDisk", "1024"),
        ("request_disk = 1", "RequestDisk", "1"),
        ("request_gpus = 1\ngpus_minimum_memory = 4G", "GPUsMinMemory", "4096"),
        ("image_size = 2 MB", "ImageSize", "2048"),
    ],
)
def test_a_submissions_requests_are_in_the_units_of_their_attributes(
    command: str, attribute: str, expected: str
) -> None:
    assert values(submit(f"{command}\nqueue"), attribute) == [expected]


def test_the_machines_memory_is_in_mebibytes() -> None:
    total_kb = next(
        int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line
    )
    assert detection.detect_resources(Path("/"))["Memory"] == total_kb // 1024


def test_a_directorys_size_is_what_the_system_reports(tmp_path: Path) -> None:
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/large").write_bytes(b"x" * 300_000)
    (tmp_path / "d/small").write_bytes(b"x")
    subprocess.run(
        ["sync", tmp_path / "d/e/large", tmp_path / "d/small"], check=True
    )  # otherwise their blocks still change
    (tmp_path / "link").symlink_to("/usr")
    completed = subprocess.run(["du", "-s", "--block-size=512", tmp_path], capture_output=True, text=True, check=True)
    blocks = os.stat(tmp_path).st_blocks
    steps = scratch.size_kb(str(tmp_path))
    with pytest.raises(StopIteration) as error:
        while True:
            next(steps)
    assert error.value.value == ((int(completed.stdout.split()[0]) - blocks) // 2, 5)
    assert error.value.value[0] >= 300_000 // 1024


def test_a_job_may_use_its_disk_request_and_is_held_beyond_that(bench: Bench) -> None:
    script = "head -c {} /dev/zero > large; sync large; touch ready; while ! [ -e stop ]; do sleep 0.05; done"
    for key, kib in (("1", 3000), ("2", 5000)):
        bench.sh(key, script.format(kib * 1024), limits=ResourceLimits(disk_kb=4000))
    bench.until(lambda: any(usage.disk_kb >= 3000 for usage in bench.of("1", Usage)))
    assert bench.end("2").violated == "disk"
    largest = max(usage.disk_kb for usage in bench.of("1", Usage))
    assert 3000 <= largest < 3100 and not bench.of("1", Exited)
    (bench.folder / "execute/dir_1/scratch/stop").touch()
    assert bench.end("1").violated == ""
