"""The configured defaults of requests that a submit description omits (JOB_DEFAULT_REQUEST*)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..pool.real import Folder

SUBMIT = "executable = /bin/true\nqueue\n"


def dry_run_ad(folder: Folder) -> dict[str, str]:
    lines = folder.call("submit", "--dry-run", "job.sub").splitlines()
    return dict(line.split(" = ", 1) for line in lines if " = " in line)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write("job.sub", SUBMIT)
    return folder


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
def test_an_omitted_request_has_the_configured_default(
    folder: Folder, configuration: str | None, name: str, text: str | None
) -> None:
    if configuration is not None:
        folder.write("poolbook.conf", configuration + "\n")
    assert dry_run_ad(folder)[name] == (text or "ifThenElse(BigJob =?= true,4,2)")


def test_an_invalid_configuration_is_reported_with_its_line(folder: Folder) -> None:
    folder.write("poolbook.conf", "A = 1\nSTART = (1\n")
    assert "poolbook.conf:2" in folder.call("submit", "job.sub", code=1)
