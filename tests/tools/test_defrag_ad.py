"""Golden: for a pool that does not defragment, status prints nothing about it, as condor_status does."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e

from .captures import capture


def test_a_pool_that_does_not_defragment_has_no_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = capture("status_defrag")
    url = str(tmp_path / "pool.db")
    log = open_log(url, create=True)
    log.append([e.PoolFounded(1, "founded", "found", "here", "htcondor-25", "example.org", "0.1", {})])
    log.close()
    assert main(["status", *expected.argv[1:], "-log", url]) == expected.exit_code
    assert capsys.readouterr().out == expected.out
