"""differential: 400 generated configurations, compared with condor_config_val (see record.py)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from poolbook.domain.config import ConfigError, Configuration, read

from ..together import together

DATA = Path(__file__).parent.parent / "data" / "config"
CASES = json.loads(gzip.decompress((DATA / "recorded.json.gz").read_bytes()))
ACCEPTED = [case for case in CASES if "settings" in case]
REJECTED = [case for case in CASES if "refused" in case]


def read_case(case: dict[str, Any]) -> Configuration:
    return read(
        [("/etc/recorded.conf", case["text"])],
        environment={"_CONDOR_N9": "from $(N1) outside", "HOME": "/home/me"},
        subsystem=case["subsystem"],
        local_name="here" if case["subsystem"] == "SCHEDD" else "",
    )


def lines(text: str) -> list[str]:
    """Return the lines of a value without surrounding blanks, as condor_config_val prints them."""
    return [line.strip() for line in text.strip().split("\n")]


def test_the_recording_is_large_enough() -> None:
    assert len(ACCEPTED) > 300
    assert len(REJECTED) > 30
    assert sum(len(case["settings"]) for case in ACCEPTED) > 3000


@together("case", ACCEPTED)
def test_every_setting_is_the_same_as_in_htcondor(case: dict[str, Any]) -> None:
    try:
        configuration = read_case(case)
    except ConfigError as error:
        # Poolbook rejects a policy that is not an expression, and a condition that cannot be evaluated.
        assert "is not an expression" in error.message or "ERROR" in case["complaint"], case["text"]
        return
    for name, expected in case["settings"].items():
        assert lines(configuration.raw_value(name) or "") == lines(expected["raw"]), (name, case["text"])
        assert str(configuration.source(name)) == expected["at"], (name, case["text"])
        try:
            value = configuration.get(name)
        except ConfigError:
            assert "ERROR" in case["complaint"], (name, case["text"])
            continue
        assert lines(value) == lines(expected["expanded"]), (name, case["text"])


@together("case", REJECTED)
def test_a_configuration_that_htcondor_rejects_is_rejected(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as error_info:
        read_case(case)
    assert error_info.value.line > 0


def test_all_parts_of_a_path_are_the_same_as_in_htcondor() -> None:
    """``$F`` with up to three letters, for 15 paths. Two faults of HTCondor are not copied: for an empty result it
    prints only one of two quotes, and it treats a quote as the start of a name."""
    recorded = json.loads(gzip.decompress((DATA / "paths.json.gz").read_bytes()))
    configuration = read(recorded["text"])
    differing = [name for name, expected in recorded["answers"].items() if configuration.get(name) != expected]
    assert len(recorded["answers"]) > 1900
    assert len(differing) < 120
    for name in differing:
        path = configuration.raw_value(f"P{name.rpartition('_')[2]}")
        assert "q" in name and (configuration.get(name) in ('[""]', "['']") or path == ".bashrc"), name
