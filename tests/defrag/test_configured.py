"""golden: which defragmentation settings a pool uses, and which values it rejects."""

from __future__ import annotations

import pytest

from poolbook.domain.config import ConfigError, read
from poolbook.domain.config.tables import defaults
from poolbook.domain.coverage.settings import DEFRAG as DAEMON
from poolbook.domain.defrag.defrag_settings import DefragPolicy, configured_settings, policy_in_force
from poolbook.domain.state.pool_settings import DEFRAG, complete_settings

from ..together import together

WITH_DEFRAG = "DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD, DEFRAG\n"
HOST = {"FULL_HOSTNAME": "cm.example.org", "HOSTNAME": "cm"}


def pool_settings(text: str) -> dict[str, str]:
    return configured_settings(read(text, detected=HOST, subsystem=DAEMON))


def policy(text: str) -> DefragPolicy:
    policy = policy_in_force(pool_settings(WITH_DEFRAG + text))
    assert policy is not None
    return policy


@together("text", ["", "DEFRAG_INTERVAL = 60", "DAEMON_LIST = MASTER, STARTD"])
def test_a_pool_defragments_only_with_defrag_in_its_daemon_list(text: str) -> None:
    assert pool_settings(text) == {}
    assert policy_in_force({}) is None


@together("text", ["DAEMON_LIST = master defrag", "DAEMON_LIST = DEFRAG,STARTD", "DAEMON_LIST = $(DAEMON_LIST) DEFRAG"])
def test_the_daemon_list_may_be_written_in_any_format(text: str) -> None:
    assert pool_settings(text) == {"DEFRAG_NAME": "DEFRAG@cm.example.org"}


def test_the_defaults_are_those_of_htcondor() -> None:
    known = defaults()
    for name, setting in DEFRAG.items():
        text = known[name.lower()].value.replace("$(DEFRAG_WHOLE_MACHINE_EXPR)", "Cpus == TotalSlotCpus")
        assert text == setting.default, name


@together(
    ("name", "expected"),
    [
        ("", "DEFRAG@cm.example.org"),
        ("cm", "cm.example.org"),
        ("CM.example.org", "cm.example.org"),
        ("blue", "blue@cm.example.org"),
        ("blue@elsewhere", "blue@elsewhere"),
    ],
)
def test_the_name_is_the_same_as_in_htcondor(name: str, expected: str) -> None:
    assert policy(f"DEFRAG_NAME = {name}").name == expected
    assert policy(f"DEFRAG_NAME = {name}").reason == f"Defrag {expected}"


def test_settings_equal_to_their_default_are_not_logged() -> None:
    assert pool_settings(WITH_DEFRAG + "DEFRAG_INTERVAL = 600\nDEFRAG_DRAINING_MACHINES_PER_HOUR = 0.0\n").keys() == {
        "DEFRAG_NAME"
    }
    logged = pool_settings(
        WITH_DEFRAG + "DEFRAG_INTERVAL = 60\nDEFRAG_RANK = Cpus\nDEFRAG_DRAINING_MACHINES_PER_HOUR = 1.5\n"
    )
    assert logged == {
        "DEFRAG_NAME": "DEFRAG@cm.example.org",
        "DEFRAG_INTERVAL": "60",
        "DEFRAG_RANK": "Cpus",
        "DEFRAG_DRAINING_MACHINES_PER_HOUR": "1.5",
    }
    assert complete_settings(logged).items() >= logged.items()


def test_cancel_requirements_default_to_the_whole_machine_expr() -> None:
    assert policy("DEFRAG_WHOLE_MACHINE_EXPR = Cpus >= 8").cancel == "Cpus >= 8"
    assert policy("DEFRAG_CANCEL_REQUIREMENTS =").cancel == ""
    assert policy("DEFRAG_CANCEL_REQUIREMENTS = Cpus >= 4").whole == "Cpus == TotalSlotCpus"


@together(
    ("text", "expected"),
    [
        ("", "Graceful"),
        ("DEFRAG_DRAINING_SCHEDULE = quick", "Quick"),  # HTCondor's name
        ("DEFRAG_SCHEDULE = Fast", "Fast"),  # the manual's name
        ("DEFRAG_SCHEDULE = fast\nDEFRAG_DRAINING_SCHEDULE = quick", "Quick"),
        ("DEFRAG_DRAINING_SCHEDULE =", "Graceful"),
    ],
)
def test_the_schedule_setting_has_two_names(text: str, expected: str) -> None:
    assert policy(text).schedule == expected


def test_a_setting_with_the_daemon_s_prefix_takes_precedence() -> None:
    assert policy("DEFRAG.DEFRAG_INTERVAL = 70\nDEFRAG_INTERVAL = 50").interval == 70


@together(
    ("line", "message"),
    [
        ("DEFRAG_INTERVAL = 1.5", "give a whole number"),
        ("DEFRAG_DRAINING_MACHINES_PER_HOUR = -1", "DEFRAG_DRAINING_MACHINES_PER_HOUR"),
        ("DEFRAG_MAX_WHOLE_MACHINES = -2", "DEFRAG_MAX_WHOLE_MACHINES"),
        ("DEFRAG_MAX_CONCURRENT_DRAINING = 2.5", "give a whole number of at least -1"),
        ("DEFRAG_RANK = Cpus +", "DEFRAG_RANK"),
        ("DEFRAG_REQUIREMENTS = (", "DEFRAG_REQUIREMENTS"),
        ("DEFRAG_WHOLE_MACHINE_EXPR =", "DEFRAG_WHOLE_MACHINE_EXPR is empty: give an expression"),
        ("DEFRAG_DRAINING_SCHEDULE = slow", "give graceful, quick or fast"),
        ("DEFRAG_SCHEDULE = slow", "give graceful, quick or fast"),
    ],
)
def test_an_invalid_value_is_rejected_with_its_line(line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        pool_settings(WITH_DEFRAG + line)
    assert error.value.line == 2


def test_settings_are_not_checked_without_defragmentation() -> None:
    assert pool_settings("DEFRAG_INTERVAL = 1.5") == {}
