"""golden: configurations of HTCondor machines, and the processes that a master runs for them."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from poolbook.adapters.cli.master import MASTER, _load, _options
from poolbook.adapters.condor_tools.options import parse
from poolbook.adapters.master.daemon_commands import CannotStart
from poolbook.adapters.master.service import MachineConfiguration
from poolbook.domain.config import ConfigError
from poolbook.domain.master.master_settings import BackOff


def machine_of(folder: Path, text: str, *options: str) -> MachineConfiguration:
    (folder / "machine.conf").write_text(text)
    arguments = parse(MASTER, ["-config", str(folder / "machine.conf"), "-log", str(folder / "pool.db"), *options])
    return _load(_options(arguments, str(folder / "pool.db")), arguments)


def summary(machine: MachineConfiguration) -> list[str]:
    return [f"{daemon.name} ({daemon.kind}): {' '.join(daemon.parts)}" for daemon in machine.listed.daemons]


@pytest.mark.parametrize(
    ("text", "options", "processes"),
    [
        ("", (), ["POOL (POOL): COLLECTOR NEGOTIATOR SCHEDD STARTD"]),
        ("use ROLE: Personal", (), ["POOL (POOL): COLLECTOR NEGOTIATOR STARTD SCHEDD"]),
        ("DAEMON_LIST = MASTER STARTD KBDD", (), ["STARTD (execution-point): STARTD"]),
        (
            "DAEMON_LIST = MASTER, SCHEDD, STARTD, NEGOTIATOR, COLLECTOR",
            ("-listen", "127.0.0.1:1"),
            [
                "COLLECTOR (manager): COLLECTOR NEGOTIATOR",
                "SCHEDD (access-point): SCHEDD",
                "STARTD (execution-point): STARTD",
            ],
        ),
        (
            "use ROLE: CentralManager\nDAEMON_LIST = $(DAEMON_LIST) DEFRAG NEGOTIATOR_GPU",
            (),
            ["COLLECTOR (manager): COLLECTOR NEGOTIATOR DEFRAG NEGOTIATOR_GPU"],
        ),
        ("use ROLE: Execute", (), ["STARTD (execution-point): STARTD"]),
        (
            "use ROLE: Submit\nDAEMON_LIST = $(DAEMON_LIST) SCHEDD2\nSCHEDD2 = $(SCHEDD)",
            (),
            ["SCHEDD (access-point): SCHEDD", "SCHEDD2 (access-point): SCHEDD2"],
        ),
        ("DAEMON_LIST = MASTER FLAKY\nFLAKY = /bin/false", (), ["FLAKY (program): FLAKY"]),
        (
            "DAEMON_LIST = MASTER COLLECTOR VIEWSERV01\nVIEWSERV01 = $(COLLECTOR)\n"
            "VIEWSERV01_ARGS = -f -p 12345 -local-name VIEWSERV01",
            (),
            ["COLLECTOR (manager): COLLECTOR", "VIEWSERV01 (companion): VIEWSERV01"],
        ),
        (
            "use ROLE: Execute\nuse feature: METRICD",
            (),
            ["STARTD (execution-point): STARTD", "METRICD (companion): METRICD"],
        ),
    ],
)
def test_each_role_is_a_process(tmp_path: Path, text: str, options: tuple[str, ...], processes: list[str]) -> None:
    assert summary(machine_of(tmp_path, text, *options)) == processes


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("DAEMON_LIST = MASTER TRANSFERER", "TRANSFERER is not supported, and is not started"),
        ("DAEMON_LIST = MASTER CREDD", "To run a program of yours, set CREDD to its path"),
        ("use ROLE: Execute\nDAEMON_LIST = $(DAEMON_LIST) DEFRAG", "DEFRAG is a part of the manager"),
        ("use ROLE: Execute\nSTARTD_ARGS = -f -q", "STARTD_ARGS: -q has no effect"),
        ("DAEMON_LIST = CREDD\nCREDD = /bin/true\nDC_DAEMON_LIST = +CREDD", "(docs/coverage.md): DC_DAEMON_LIST"),
    ],
)
def test_what_is_not_supported_is_reported(tmp_path: Path, text: str, warning: str) -> None:
    machine = machine_of(tmp_path, text)
    assert warning in "\n".join(machine.listed.warnings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MASTER_BACKOFF_CONSTANT = 0", "MASTER_BACKOFF_CONSTANT: 0 is out of range; it must be at least 1"),
        ("MASTER_POOL_BACKOFF_FACTOR = -1", "MASTER_POOL_BACKOFF_FACTOR: -1.0 is out of range; it must be positive"),
        ("MASTER_NEW_BINARY_RESTART = LATER", "Later is unknown; use GRACEFUL, PEACEFUL, FAST or NEVER"),
        ("SHUTDOWN_GRACEFUL_TIMEOUT = 0", "must be at least 1"),
        ("DAEMON_LIST = MASTER COLLECTOR\nCOLLECTOR_ARGS = -p x", "'x' is not a port number"),
        ("DAEMON_LIST = A\nA = /bin/true\nA_ENVIRONMENT = x", "'x' is not an environment variable"),
    ],
)
def test_an_invalid_setting_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        machine_of(tmp_path, text)
    assert message in str(error.value)


def test_a_daemon_may_have_its_own_back_off(tmp_path: Path) -> None:
    text = "use ROLE: Execute\nMASTER_BACKOFF_CONSTANT = 5\nMASTER_STARTD_BACKOFF_CEILING = 60\n"
    policy = machine_of(tmp_path, text).policy
    assert policy.back_off_of("STARTD") == BackOff(5, 2.0, 60, 300)
    assert policy.back_off_of("SCHEDD") == BackOff(5, 2.0, 3600, 300)


def test_roles_have_logs_named_after_them_and_local_names(tmp_path: Path) -> None:
    text = (
        "CONDOR_HOST = cm.example.org\nDAEMON_LIST = MASTER SCHEDD SCHEDD2 STARTD\nSCHEDD2 = $(SCHEDD)\n"
        f"SCHEDD2_ARGS = -f -local-name NIGHT\nSEC_TOKEN_DIRECTORY = {tmp_path}\n"
        "SCHEDD2_ENVIRONMENT = A=1;B=2\n"
    )
    header = "eyJhbGciOiJIUzI1NiIsImtpZCI6IlBPT0wifQ"  # {"alg":"HS256","kid":"POOL"}
    (tmp_path / "token").write_text(f"{header}.e30.c2ln\n")
    machine = machine_of(tmp_path, text, "-users", "-lost")
    assert machine.commands.logs == {
        "SCHEDD": f"{tmp_path}/pool.db",
        "SCHEDD2": f"{tmp_path}/pool.access-point.night.db",
        "STARTD": f"{tmp_path}/pool.execution-point.db",
    }
    command = machine.commands.command("SCHEDD2")
    words = " ".join(command.arguments[3:])
    assert words.startswith(f"join https://cm.example.org:9618 {tmp_path} -role access-point -name NIGHT@")
    assert words.endswith("-lost -local-name NIGHT") and " -users " in words
    assert command.environment == {
        "A": "1", "B": "2", "_CONDOR_DAEMON_LIST": "MASTER", "_CONDOR_MASTER_LOG": ""
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "CONDOR_HOST is not set; set it to the host of the pool's manager"),
        ("CONDOR_HOST = cm\nSEC_TOKEN_DIRECTORY = /nowhere", "no token in"),
    ],
)
def test_a_role_that_cannot_join_names_what_is_missing(tmp_path: Path, text: str, message: str) -> None:
    machine = machine_of(tmp_path, f"DAEMON_LIST = MASTER STARTD\nSEC_TOKEN_SYSTEM_DIRECTORY = /nowhere\n{text}")
    with pytest.raises(CannotStart) as error:
        machine.commands.command("STARTD")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("hosts", "daemon", "words"),
    [
        (
            "cm1:9700, cm2",
            "STARTD",
            ["join", "https://cm1:9700,https://cm2:9618", "TOKENS", "-role", "execution-point"],
        ),
        ("cm1, localhost:9701", "COLLECTOR", ["-listen", ":9701", "-join", "https://cm1:9618", "-token", "TOKENS"]),
        ("localhost, cm2", "COLLECTOR", ["serve", "-role", "manager", "-listen", ":9618"]),
    ],
)
def test_a_role_joins_all_managers_and_a_manager_those_before_it(
    tmp_path: Path, hosts: str, daemon: str, words: list[str]
) -> None:
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    header, payload = (urlsafe_b64encode(text).decode().rstrip("=") for text in (b'{"alg":"HS256"}', b"{}"))
    (tokens / "pool").write_text(f"{header}.{payload}.x")
    settings = f"COLLECTOR_HOST = {hosts}\nSEC_TOKEN_SYSTEM_DIRECTORY = {tokens}\n"
    role = {"STARTD": "use ROLE: Execute\n", "COLLECTOR": "use ROLE: CentralManager\n"}[daemon]
    command = machine_of(tmp_path, role + settings).commands.command(daemon).arguments
    text = " ".join(command).replace(str(tokens), "TOKENS")
    assert " ".join(words) in text
    assert ("-join" in text) == ("-join" in words)
