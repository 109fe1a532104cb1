"""What a configuration says of requests that a submit description leaves out (JOB_DEFAULT_REQUEST*)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..pool.real import Folder

SUBMIT = "executable = /bin/true\nqueue\n"


def made(folder: Folder) -> dict[str, str]:
    lines = folder.call("submit", "--dry-run", "job.sub").splitlines()
    return dict(line.split(" = ", 1) for line in lines if " = " in line)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = Folder(tmp_path)
    found.write("job.sub", SUBMIT)
    return found


@pytest.mark.parametrize(
    "configuration, name, text",
    [
        (None, "RequestMemory", "128"),
        ("JOB_DEFAULT_REQUESTMEMORY = 300", "RequestMemory", "300"),
        ("JOB_DEFAULT_REQUESTMEMORY = 2G", "RequestMemory", "2048"),
        ("JOB_DEFAULT_REQUESTCPUS = ifThenElse(BigJob is true, 4, 2)", "RequestCpus", None),
        ("START = false", "RequestMemory", "128"),
    ],
)
def test_a_request_that_is_left_out_is_the_configurations(
    folder: Folder, configuration: str | None, name: str, text: str | None
) -> None:
    if configuration is not None:
        folder.write("poolbook.conf", configuration + "\n")
    found = made(folder)[name]
    assert found == (text or "ifThenElse(BigJob =?= true,4,2)")


def test_a_configuration_that_cannot_be_read_is_said_with_its_line(folder: Folder) -> None:
    folder.write("poolbook.conf", "A = 1\nSTART = (1\n")
    assert "poolbook.conf:2" in folder.call("submit", "job.sub", code=1)
