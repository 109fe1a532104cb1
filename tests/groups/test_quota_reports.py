"""Table: what commands report about jobs that wait for a quota, and about a pool's quotas."""

from __future__ import annotations

from pathlib import Path
from warnings import catch_warnings, simplefilter

import pytest

from poolbook import Pool
from poolbook.adapters.cli.main import main
from poolbook.domain import events as e
from poolbook.domain.config import ConfigError
from poolbook.replay.virtual_world import Behaviour

SLOTS = "use FEATURE : StaticSlots\nNUM_CPUS = 4\nNUM_SLOTS = 4\nMEMORY = 4096\n"
QUOTAS = "GROUP_NAMES = physics, physics.hep\nGROUP_QUOTA_physics = 2\nGROUP_QUOTA_DYNAMIC_physics.hep = 0.5\n"


def lasting(launch: object) -> Behaviour:
    return Behaviour(seconds=1000)


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Return the log of a pool of four slots, in which one of einstein's three jobs runs, and one of higgs' two."""
    path = str(tmp_path / "pool.db")
    with Pool.open(path, uid_domain="x", behave=lasting, config=SLOTS + QUOTAS) as pool:
        pool.add_machine("node")
        pool.submit({"executable": "/bin/sleep", "accounting_group": "Physics.HEP"}, user="higgs", count=2)
        pool.submit({"executable": "/bin/sleep", "accounting_group": "physics"}, user="einstein", count=3)
        pool.advance(5)
    return path


def running(pool: Pool) -> int:
    return len(pool.state.activations)


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_why_names_the_quota_that_a_job_waits_for(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = output_of(capsys, "why", "1.1", "-verbose", "-log", log)
    assert "the quota of the accounting group physics.hep was used up (1 of 1 core)" in sentence
    sentence = output_of(capsys, "why", "2.2", "-verbose", "-log", log)
    assert "the quota of the accounting group physics was used up (2 of 2 cores)" in sentence


def test_the_short_form_of_why_names_the_group_and_the_command_for_quotas(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = output_of(capsys, "why", "1.1", "-log", log)
    assert "The quota of physics.hep is used up: 1 of 1 core." in output and "`poolbook userprio -quotas`" in output


def test_userprio_shows_the_quotas_of_groups_without_jobs_too(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Their jobs are of 2027: otherwise only submitters with usage in the last day are shown."""
    output = output_of(capsys, "userprio", "-quotas", "-log", log)
    assert "<none> 2.00 0.00 yes 4.00 0" in output
    assert "physics 1.00 2.00 no 2.00 3" in output and "physics.hep 1.00 0.50 no 1.00 2" in output


def test_the_analysis_of_a_job_names_the_quota_too(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = output_of(capsys, "q", "-better-analyze", "1.1", "-log", log)
    assert "submitter limit exceeded: physics.hep has 1 of the 1 cores of its quota" in output


def test_the_decisions_of_a_pool_with_quotas_have_the_same_result_when_they_are_repeated(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = output_of(capsys, "verify", "-decisions", "-log", log)
    assert "cycle" in output and "differ" not in output.replace("none differs", "")


def test_the_log_has_the_quotas_in_a_line(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "(4 cores: <none> 2, physics 1, physics.hep 1)" in output_of(capsys, "log", "-log", log)


def test_a_dynamic_quota_above_one_is_rejected_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r":3: .*GROUP_QUOTA_DYNAMIC_.* = 1\.5: give a fraction of the cores"):
        Pool.open(config="GROUP_NAMES = a\nGROUP_QUOTA_a = 3\nGROUP_QUOTA_DYNAMIC_a = 1.5\n")


@pytest.mark.parametrize(
    ("config", "messages"),
    [
        ("GROUP_NAMES = a\nGROUP_QUOTA_a = 1\n", []),
        (
            "GROUP_NAMES = a\nGROUP_QUOTA_b = 1\nGROUP_ACCEPT_SURPLUS_c = true\n",
            [
                "GROUP_ACCEPT_SURPLUS_c has no effect: there is no accounting group c",
                "GROUP_QUOTA_b has no effect: there is no accounting group b",
            ],
        ),
        ("GROUP_QUOTA_a = 1\n", ["GROUP_QUOTA_a has no effect: there is no accounting group a"]),
        (
            "GROUP_NAMES = a, b.c\nGROUP_QUOTA_b.c = 1\n",
            [
                "GROUP_NAMES: b.c is not a valid accounting group: there is no group b",
                "GROUP_QUOTA_b.c has no effect: there is no accounting group b.c",
            ],
        ),
        ("GROUP_NAMES = a, A\n", ["GROUP_NAMES: A is not a valid accounting group: it is a again"]),
    ],
)
def test_settings_of_an_unknown_group_are_reported(config: str, messages: list[str]) -> None:
    with catch_warnings(record=True) as caught_warnings:
        simplefilter("always")
        Pool.open(config=config).close()
    messages_found = sorted(text for warning in caught_warnings if (text := str(warning.message)).startswith("GROUP_"))
    assert [message.partition(";")[0] for message in messages_found] == messages


def test_quotas_follow_the_configuration() -> None:
    with Pool.open(config=SLOTS + QUOTAS, uid_domain="x", behave=lasting) as pool:
        pool.add_machine("node")
        pool.submit({"executable": "/bin/sleep", "accounting_group": "physics"}, user="einstein", count=9)
        pool.advance(5)
        assert running(pool) == 2  # its parent has what hep leaves
        pool.configure(SLOTS + QUOTAS + "GROUP_ACCEPT_SURPLUS = true\n")
        pool.advance(70)
        assert running(pool) == 4
        pool.configure(SLOTS)
        pool.advance(70)
        assigned = [event for _, event in pool.events() if isinstance(event, e.QuotasAssigned)]
        assert [len(event.groups) for event in assigned] == [3, 0]
        assert pool.judge() == []
