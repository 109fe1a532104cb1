"""property: the settings of several managers are read as HTCondor reads them, and impossible ones are rejected."""

from __future__ import annotations

import pytest

from poolbook.adapters.runtime.configuration import load
from poolbook.domain.config.config_errors import ConfigError
from poolbook.domain.had.had_settings import configured_settings, hosts, policy_in_force
from poolbook.domain.master.master_settings import read_policy
from poolbook.domain.state_machines import HTCONDOR_25, MANUAL
from poolbook.domain.units import SECOND

HERE = "DAEMON_LIST = HAD REPLICATION\nHAD_LIST = <cm0.example.org:9618>, $(FULL_HOSTNAME):9618\n"


def test_entries_of_had_list_are_hosts_with_or_without_ports() -> None:
    assert hosts("<a.org:9618>, b.org:9618?sock=had c.org") == ("a.org", "b.org", "c.org")


@pytest.mark.parametrize(
    ("text", "manual", "htcondor"),
    [
        ("HAD_CONNECTION_TIMEOUT = 2", 16, 18),
        ("", 40, 42),
        ("HAD_CONNECTION_TIMEOUT = 0", 1, 2),
        ("HAD_STABILIZATION_PERIOD = 9", 3, 3),
        ("HAD_STABILIZATION_PERIOD = fast", 4 / 3, 4 / 3),
    ],
)
def test_the_interval_is_a_third_of_the_stabilization_period(text: str, manual: float, htcondor: float) -> None:
    settings = configured_settings(load(text=HERE + text))
    for dialect, seconds in ((MANUAL, manual), (HTCONDOR_25, htcondor)):
        policy = policy_in_force(settings, dialect)
        assert policy is not None and policy.interval == int(seconds * SECOND)
        assert (policy.index, policy.number, policy.is_primary) == (1, 0, False)


def test_a_manager_without_had_is_the_only_one() -> None:
    settings = configured_settings(load(text="HAD_LIST = cm0.example.org"))
    assert settings == {}
    assert policy_in_force(settings, MANUAL) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DAEMON_LIST = HAD\nHAD_LIST = cm0.example.org", "add this machine"),
        (f"{HERE}HAD_CONTROLLEE = COLLECTOR", "it runs at each manager"),
        (f"{HERE}HAD_CONTROLLEE = DEFRAG", "it runs at each manager"),
        (f"{HERE}HAD_STABILIZATION_PERIOD = soon", "give fast, or a number of seconds"),
        (f"{HERE}HAD_USE_REPLICATION = True", "REPLICATION_LIST"),
    ],
)
def test_impossible_settings_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configured_settings(load(text=text))


@pytest.mark.parametrize(
    ("text", "controlled"),
    [
        ("HAD_CONTROLLEE = SCHEDD", {"SCHEDD": "COLLECTOR"}),
        ("MASTER_SCHEDD_CONTROLLER = HAD", {"SCHEDD": "COLLECTOR"}),
        ("MASTER_NEGOTIATOR_CONTROLLER = HAD\nHAD_CONTROLLEE = NEGOTIATOR", {}),
        ("", {}),
    ],
)
def test_the_master_leaves_what_had_controls_to_had(text: str, controlled: dict[str, str]) -> None:
    assert read_policy(load(text=text), ("COLLECTOR", "SCHEDD"), False, ("COLLECTOR",)).controlled == controlled


def test_a_controlled_daemon_must_be_listed() -> None:
    with pytest.raises(ConfigError, match="SCHEDD2: add it to DAEMON_LIST"):
        read_policy(load(text="HAD_CONTROLLEE = SCHEDD2"), ("COLLECTOR",), False, ("COLLECTOR",))


def test_the_back_off_of_had_applies_to_the_manager() -> None:
    policy = read_policy(load(text="MASTER_HAD_BACKOFF_CONSTANT = 300"), ("COLLECTOR", "SCHEDD"), False, ("COLLECTOR",))
    assert [policy.back_off_of(name).constant for name in ("COLLECTOR", "SCHEDD")] == [300, 9]
