"""differential: 400 generated configurations, and what the real condor_config_val said of them (see record.py)."""

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
TAKEN = [case for case in CASES if "settings" in case]
REFUSED = [case for case in CASES if "refused" in case]


def configured(case: dict[str, Any]) -> Configuration:
    return read(
        [("/etc/recorded.conf", case["text"])],
        environment={"_CONDOR_N9": "from $(N1) outside", "HOME": "/home/me"},
        subsystem=case["subsystem"],
        local_name="here" if case["subsystem"] == "SCHEDD" else "",
    )


def lines(text: str) -> list[str]:
    """The lines of a value; condor_config_val prints them without the blanks around them."""
    return [line.strip() for line in text.strip().split("\n")]


def test_the_reference_was_asked_for_enough() -> None:
    assert len(TAKEN) > 300
    assert len(REFUSED) > 30
    assert sum(len(case["settings"]) for case in TAKEN) > 3000


@together("case", TAKEN)
def test_every_setting_is_as_in_the_reference(case: dict[str, Any]) -> None:
    try:
        found = configured(case)
    except ConfigError as problem:
        # Refused as a whole: a policy that is no expression, and a condition that cannot be evaluated.
        assert "is no expression" in problem.message or "ERROR" in case["complaint"], case["text"]
        return
    for name, theirs in case["settings"].items():
        assert lines(found.raw(name) or "") == lines(theirs["raw"]), (name, case["text"])
        assert str(found.source(name)) == theirs["at"], (name, case["text"])
        try:
            value = found.get(name)
        except ConfigError:
            assert "ERROR" in case["complaint"], (name, case["text"])
            continue
        assert lines(value) == lines(theirs["expanded"]), (name, case["text"])


@together("case", REFUSED)
def test_what_the_reference_refuses_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refusal:
        configured(case)
    assert refusal.value.line > 0


def test_all_parts_of_a_path_are_as_in_the_reference() -> None:
    """``$F`` with up to three letters, for 15 paths. Asked to quote nothing, the reference prints one quote of the two,
    and it takes a quote for the start of a name: that alone is not copied."""
    recorded = json.loads(gzip.decompress((DATA / "paths.json.gz").read_bytes()))
    found = read(recorded["text"])
    others = [name for name, theirs in recorded["answers"].items() if found.get(name) != theirs]
    assert len(recorded["answers"]) > 1900
    assert len(others) < 120
    for name in others:
        path = found.raw(f"P{name.rpartition('_')[2]}")
        assert "q" in name and (found.get(name) in ('[""]', "['']") or path == ".bashrc"), name
