"""Golden: the schedd rounds numbers in jobs' ads like HTCondor 25.14, and keeps the exact ones."""

from __future__ import annotations

import pytest

from poolbook.domain.config import ConfigError, read
from poolbook.domain.ports.stimuli import ActivationEnded, ActivationMeasured, Submit
from poolbook.domain.schedd.policy_configuration import schedd_policy
from poolbook.domain.schedd.rounding import rounded
from poolbook.domain.state.pool_settings import SET_TO_EMPTY
from poolbook.domain.state.proc_ads import pack
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour

from ..domain.pools import JOB, TestPool
from ..together import together

RULES = {"SCHEDD_ROUND_ATTR_Size": "2", "SCHEDD_ROUND_ATTR_Share": "30%"}


@together(
    ("text", "rule", "expected"),
    [
        ("47", "25%", "47"),
        ("127", "25%", "150"),
        ("456", "25%", "475"),
        ("2600", "25%", "2750"),
        ("123456", "25%", "125000"),
        ("250", "30%", "270"),
        ("1234.5", "30%", "1500.0"),
        ("0", "30%", "0"),
        ("-1", "30%", "0"),
        ("7", "0%", "7"),
        ("250", "2", "300"),
        ("-250", "2", "-100"),
        ("250.5", "2", "300.0"),
        ("100", "2", "100"),
        ("-5", "2", "0"),
        ("3 + 4", "2", ""),
        ('"7"', "2", ""),
        ("true", "2", ""),
        ("9223372036854775807", "25%", "9223372036854775807"),
        ("1.7e308", "1000%", "1.7e308"),
    ],
)
def test_a_number_is_rounded_up(text: str, rule: str, expected: str) -> None:
    assert rounded(text, rule) == expected


def values(pool: TestPool, *names: str, proc: int = 0) -> list[str]:
    """Return attributes of the first cluster's job, after a check of the log."""
    assert examine(pool.log.read()).violations == []
    return [pool.state.clusters[1].value(proc, name) for name in names]


def test_the_numbers_of_submissions_and_edits_are_rounded() -> None:
    pool = TestPool(settings=RULES)
    pool.handle(Submit("s", "alice", 0, JOB | {"size": "250"}, 2, pack({"SHARE": ["250", "3 + 4"]})))
    assert values(pool, "size", "size_RAW", "SHARE", "SHARE_RAW") == ["300", "250", "270", "250"]
    assert values(pool, "SHARE", "SHARE_RAW", proc=1) == ["3 + 4", "undefined"]
    pool.edit("1.0", Size="1201")
    assert values(pool, "size", "size_RAW") == ["1300", "1201"]
    pool.edit("1.0", Size='"large"')
    assert values(pool, "size", "size_RAW") == ['"large"', "1201"]


def test_the_numbers_of_transforms_are_rounded() -> None:
    transform = {"JOB_TRANSFORM_NAMES": "Sizes", "JOB_TRANSFORM_Sizes": "SET Size 777\nCOPY Share Seen"}
    pool = TestPool(settings={**RULES, **transform})
    pool.submit(1, Size="250", Share="250")
    assert values(pool, "Size", "Size_RAW", "Share", "Share_RAW", "Seen") == ["800", "777", "270", "250", "270"]


def test_the_sizes_of_a_running_job_are_exact_and_are_rounded_when_the_run_ends() -> None:
    pool = TestPool(dialect="htcondor-25", behave=lambda launch: Behaviour(900))
    pool.machine(static=1)
    pool.submit(1, ImageSize="2600", NumCkpts="0", LeaveJobInQueue="true")
    pool.advance(4)
    names = ("ImageSize", "ImageSize_RAW", "ResidentSetSize", "ResidentSetSize_RAW", "DiskUsage", "DiskUsage_RAW")
    assert values(pool, *names) == ["2750", "2600", "", "", "", ""]
    assert values(pool, "NumCkpts", "NumCkpts_RAW") == ["0", "0"]
    (key,) = pool.state.activations
    pool.handle(ActivationMeasured("m", key, 5292, 3311, 63, 0, 0))
    assert values(pool, *names) == ["5292", "5292", "3311", "3311", "63", "63"]
    pool.handle(ActivationEnded("e", key, pool.world.clock, 0, resident=4000, disk=120))
    assert values(pool, *names) == ["7500", "5292", "4000", "4000", "125", "120"]
    assert values(pool, "JobStatus") == ["4"]


def test_a_pool_may_round_nothing() -> None:
    sizes = ("DiskUsage", "ExecutableSize", "ImageSize", "ProportionalSetSizeKb", "ResidentSetSize")
    for dialect, settings, expected in (
        ("manual", {}, ["2600", ""]),
        ("htcondor-25", {}, ["2750", "2600"]),
        ("htcondor-25", {f"SCHEDD_ROUND_ATTR_{name}": "0" for name in sizes}, ["2600", ""]),
        ("htcondor-25", {"SCHEDD_ROUND_ATTR_imagesize": SET_TO_EMPTY}, ["2600", ""]),
    ):
        pool = TestPool(dialect=dialect, settings=settings)
        pool.submit(1, ImageSize="2600")
        assert values(pool, "ImageSize", "ImageSize_RAW") == expected


def test_the_configuration_has_the_rules() -> None:
    text = (  # with HTCondor's default for ImageSize, which the dialect manual does not have
        "SCHEDD_ROUND_ATTR_Size = 2\nSCHEDD.schedd_round_attr_Share = 12.5%\nSCHEDD_ROUND_ATTR_DiskUsage =\n"
        "SCHEDD_ROUND_ATTR_ImageSize = 25%\n"
    )
    assert schedd_policy(read(text, subsystem="SCHEDD"), lambda _: None) == {
        "SCHEDD_ROUND_ATTR_ImageSize": "25%",
        "SCHEDD_ROUND_ATTR_Size": "2",
        "SCHEDD_ROUND_ATTR_Share": "12.5%",
        "SCHEDD_ROUND_ATTR_DiskUsage": SET_TO_EMPTY,
    }
    for rule in ("10", "1001%", "25 %", "-1", "many"):
        with pytest.raises(ConfigError, match="give a number of digits from 0 to 9, or a percentage"):
            schedd_policy(read(f"SCHEDD_ROUND_ATTR_Size = {rule}"), lambda _: None)
