"""Table: sizes are powers of 1024, to the byte, wherever a user, a setting or the system says one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.machine import detection
from poolbook.adapters.machine.execution import Activation, FileTransfer, client
from poolbook.adapters.machine.execution.supervisor import transfer
from poolbook.domain.submit.resources import amount

from ..submit.world import submit, values
from ..together import together

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
def test_a_job_moves_so_many_mebibytes_and_no_byte_more(
    tmp_path: Path, way: str, sizes: tuple[int, ...], limit: int | None, too_large: bool
) -> None:
    iwd, scratch = tmp_path / "iwd", tmp_path / "dir_1/scratch"
    iwd.mkdir()
    scratch.mkdir(parents=True)
    names = tuple(f"f{number}" for number in range(len(sizes)))
    for name, size in zip(names, sizes, strict=True):
        with open((iwd if way == "input" else scratch) / name, "wb") as file:
            file.truncate(size)
    files: dict[str, Any] = {"inputs": names, "outputs": ()} if way == "input" else {"outputs": names}
    how = FileTransfer(executable=False, max_input_mb=limit, max_output_mb=limit, **files)
    order = client._start(Activation(key="1", job="1.0", slot="s", executable="/bin/true", iwd=str(iwd), transfer=how))[
        "order"
    ]
    result = transfer.bring(order, str(scratch)) if way == "input" else transfer.take_back(order, str(scratch), False)
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
    assert amount(text, unit) == expected


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
def test_what_a_submission_asks_for_is_in_the_units_of_its_attribute(
    command: str, attribute: str, expected: str
) -> None:
    assert values(submit(f"{command}\nqueue"), attribute) == [expected]


def test_the_machines_memory_is_in_mebibytes() -> None:
    total_kb = next(
        int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line
    )
    assert detection.detected(Path("/"))["Memory"] == total_kb // 1024
