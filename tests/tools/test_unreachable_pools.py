"""Golden: condor_status reports a collector that does not listen as in HTCondor; -pool may name several managers."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.cli.common import first_reachable
from poolbook.adapters.cli.main import main
from poolbook.adapters.machine.host import host_name

from .captures import capture


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("pool") / "pool.db")
    with Pool.open(path, user="alice") as pool:
        pool.add_machine(host_name(), cpus=1, memory=1024)
    return path


@pytest.fixture
def status(log: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("POOLBOOK_LOG", log)
    monkeypatch.setattr("sys.argv", ["condor_status"])
    monkeypatch.chdir(tmp_path)
    return "condor_status"


def test_a_collector_that_does_not_listen_is_reported_as_in_htcondor(
    status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = capture("status_badpool")
    assert main([status, *expected.argv]) == expected.exit_code
    output = capsys.readouterr()
    assert (output.out, output.err) == (expected.out, expected.err)


def test_a_port_of_this_host_at_which_a_collector_listens_names_this_pool(
    status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        pool = f"127.0.0.1:{server.getsockname()[1]}"
        assert main([status, "-pool", pool, "-af", "Cpus"]) == 0
        assert main([status, "-pool", f"127.0.0.1:1, {pool}", "-af", "Cpus"]) == 0
    assert capsys.readouterr().out == "1\n1\n"


def test_a_machine_is_queried_directly_and_an_unknown_one_is_reported_as_in_htcondor(
    status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = capture("status_direct")
    assert main([status, *expected.argv, "-af", "Cpus"]) == 0
    assert capsys.readouterr().out == "1\n"
    assert main([status, "-direct", "nosuch"]) == expected.exit_code
    assert capsys.readouterr().err == expected.err.replace("localhost", "nosuch")


def test_the_first_manager_of_a_list_that_listens_is_used() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        listening = f"https://127.0.0.1:{server.getsockname()[1]}#sha256=aa"
        assert first_reachable(f"https://127.0.0.1:1, {listening},127.0.0.1:2") == listening
    assert first_reachable("127.0.0.1:1,127.0.0.1:2") == "127.0.0.1:2"
    assert first_reachable("cm") == "cm"
